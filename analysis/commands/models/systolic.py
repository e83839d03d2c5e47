"""SCALE-Sim 3.0.0's cycles, utilisation and SRAM counts for a file of matrix products."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.commands.common.answers import answer_cases
from analysis.commands.common.options import Scheduler

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main(
    cases: Annotated[Path, typer.Argument(help="CSV with the columns M, N, K, array_rows, array_cols, dataflow (os, ws, is)")],
    out: Annotated[Path, typer.Option(help="CSV to write: the cases and their counts; demand_rows are the cycles")],
    config: Annotated[Path | None, typer.Option(help="SCALE-Sim's .cfg; CASES is then its topology CSV, as it is")] = None,
    quirks: Annotated[bool, typer.Option(help="apply SCALE-Sim 3.0.0's departures; --no-quirks describes the array itself")] = True,
    scheduler: Scheduler = "",
) -> None:
    """Count cycles and SRAM accesses of each case; a case without an answer has empty results and a reason."""
    from functools import partial

    from analysis.accelerators.systolic.array import NO_QUIRKS, SCALE_SIM_3
    from analysis.accelerators.systolic.cases import predict_cases
    from analysis.accelerators.systolic.files import cases as scale_sim_cases
    from analysis.tables import check_output, write_csv

    switches = SCALE_SIM_3 if quirks else NO_QUIRKS
    if config is None:
        answer_cases("systolic", cases, out, partial(predict_cases, quirks=switches, path=cases), scheduler, beside=False)
        return
    check_output(out, cases, config)
    result = predict_cases(scale_sim_cases(cases, config, switches), switches)
    write_csv(result, out)
    done = int((result["reason"] == "").sum())
    typer.echo(f"{done} cases answered, {len(result) - done} not, in {out}")
    if not done:
        raise typer.Exit(2)
