"""Cycles of the collectives in a file, as ASTRA-sim's analytical network backends count them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main(
    cases: Annotated[Path, typer.Argument(help="CSV with the columns of data/recorded/astra-sim/collectives.csv")],
    out: Annotated[Path, typer.Option(help="CSV to write: the cases with cycles_max and reason added")],
) -> None:
    """Answer each case; one outside the model has an empty cycles_max and its reason."""
    from analysis.networks.case_table import answer_cases
    from analysis.tables import read_csv, write_csv

    frame = read_csv(cases, dtype=str, keep_default_na=False)
    result = answer_cases(frame, cases)
    write_csv(result, out)
    unanswered = int(result["cycles_max"].isna().sum())
    typer.echo(f"{len(result) - unanswered} cases answered, {unanswered} not, in {out}")
