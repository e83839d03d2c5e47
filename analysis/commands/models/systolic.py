"""SCALE-Sim 3.0.0's cycles, utilisation and SRAM counts for a file of matrix products."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from analysis.commands.common.answers import answer_cases
from analysis.commands.common.options import Out, Records, Scheduler

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main(
    cases: Annotated[Path, typer.Argument(help="CSV with the columns M, N, K, array_rows, array_cols, dataflow (os, ws, is)")],
    out: Out = None,
    config: Annotated[Path | None, typer.Option(help="SCALE-Sim's .cfg; CASES is then its topology CSV, as it is")] = None,
    quirks: Annotated[bool, typer.Option(help="apply SCALE-Sim 3.0.0's departures; --no-quirks describes the array itself")] = True,
    scheduler: Scheduler = "",
    as_json: Records = False,
) -> None:
    """Count cycles (demand_rows) and SRAM accesses of each case; a case without an answer has empty results and a reason.

    compute_util_pct is SCALE-Sim's own utilisation, which charges the skew of ws and is twice; --no-quirks gives the array's:
    multiply-accumulates over PEs x cycles.
    """
    from functools import partial

    from analysis.accelerators.systolic.array import NO_QUIRKS, SCALE_SIM_3
    from analysis.accelerators.systolic.cases import predict_cases
    from analysis.accelerators.systolic.files import cases as scale_sim_cases
    from analysis.tables import check_output, write_csv

    switches = SCALE_SIM_3 if quirks else NO_QUIRKS
    if quirks:
        typer.echo("compute_util_pct as SCALE-Sim reports it; --no-quirks gives the array's own", err=True)
    model = partial(predict_cases, quirks=switches, path=cases)
    if config is None:
        answer_cases("systolic", cases, out, model, scheduler, as_json, beside=False)
        return
    typer.echo("cycles of the array alone: the configuration's memories, their bandwidths and mode are not counted", err=True)
    if out is not None and str(out) != "-":
        check_output(out, cases, config)
    with TemporaryDirectory() as folder:  # the tool's two files as one table of ours
        table = write_csv(scale_sim_cases(cases, config, switches), Path(folder) / "cases.csv")
        answer_cases("systolic", table, out, model, scheduler, as_json, beside=False)
