"""SCALE-Sim 3.0.0's cycles, utilisation and SRAM counts for a file of matrix products."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main(
    cases: Annotated[Path, typer.Argument(help="CSV with the columns M, N, K, array_rows, array_cols, dataflow (os, ws, is)")],
    out: Annotated[Path, typer.Option(help="CSV to write: the cases and their counts")],
    config: Annotated[Path | None, typer.Option(help="SCALE-Sim's .cfg; CASES is then its topology CSV, as it is")] = None,
    quirks: Annotated[bool, typer.Option(help="apply SCALE-Sim 3.0.0's departures; --no-quirks describes the array itself")] = True,
) -> None:
    """Count cycles and SRAM accesses of each case; a case without an answer has empty results and a reason."""
    from analysis.accelerators.systolic.array import NO_QUIRKS, SCALE_SIM_3
    from analysis.accelerators.systolic.cases import INPUTS, predict_cases
    from analysis.accelerators.systolic.files import cases as scale_sim_cases
    from analysis.tables import read_csv, write_csv

    switches = SCALE_SIM_3 if quirks else NO_QUIRKS
    if config is not None:
        frame = scale_sim_cases(cases, config, switches)
    else:
        frame = read_csv(cases, required=[*INPUTS, "dataflow"], dtype=str, keep_default_na=False)
    result = predict_cases(frame, switches)
    write_csv(result, out)
    unanswered = int((result["reason"] != "").sum())
    typer.echo(f"{len(result) - unanswered} cases answered, {unanswered} not, in {out}")
