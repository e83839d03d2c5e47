"""What a command says of its answers: how far a file of cases is and how many were answered; a table, printed or written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    import pandas as pd

    from analysis.composition.case_files import Answer


def answer_cases(cases: Path, out: Path, model: Answer, scheduler: str = "", beside: bool = True) -> tuple[int, int]:
    """`case_files.answer_file` with a bar, or lines, of the rows answered, and a last line that says how many; returns the two counts."""
    from analysis.composition.case_files import answer_file
    from analysis.progress import Progress

    with Progress() as progress:
        done, not_done = answer_file(cases, out, model, scheduler, beside, progress=lambda rows: progress(0, 0, f"{rows:,} rows answered"))
    typer.echo(f"{done} cases answered, {not_done} not, in {out}")
    return done, not_done


def tell_table(table: pd.DataFrame, out: Path | None) -> None:
    """Write a table as CSV and say how many rows it has; without a file print it, numbers to three digits."""
    from analysis.tables import write_csv

    if out:
        write_csv(table, out)
        typer.echo(f"{len(table)} rows in {out}")
    else:
        typer.echo(table.to_string(index=False, float_format=lambda value: f"{value:.3g}"))
