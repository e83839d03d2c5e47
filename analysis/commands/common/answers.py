"""What a command says of its answers: how far a file of cases is and how many were answered; a table, printed or written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import pandas as pd

    from analysis.composition.case_files import Answer


def answer_cases(command: str, cases: Path, out: Path, model: Answer, scheduler: str = "", **how: Any) -> None:
    """`case_files.answer_file` with a bar, or lines, of the rows answered, and a last line that counts them; exit status 2 where none was.

    Args:
        command: as in `case_columns.COMMANDS`; how: further arguments of `answer_file`.
    """
    from analysis.composition.case_files import answer_file
    from analysis.progress import Progress

    with Progress() as progress:
        done, not_done = answer_file(
            cases, out, model, scheduler, progress=lambda rows: progress(0, 0, f"{rows:,} rows answered"), command=command,
            tell_carried=_tell_carried, **how,
        )  # fmt: skip
    typer.echo(f"{done} cases answered, {not_done} not, in {out}")
    if not done:
        raise typer.Exit(2)


def check_header(command: str, path: Path) -> None:
    """Refuse a column of a table as `case_columns.carried` does, before it is read, and list those that are not read."""
    from analysis.case_columns import carried
    from analysis.tables import read_csv

    _tell_carried(carried(read_csv(path, dtype=str, nrows=0).columns, command, path))


def _tell_carried(names: list[str]) -> None:
    if names:
        typer.echo(f"carried through, not read: {', '.join(names)}", err=True)


def tell_table(table: pd.DataFrame, out: Path | None) -> None:
    """Write a table as CSV and say how many rows it has; without a file print it, numbers to three digits."""
    from analysis.tables import write_csv

    if out:
        write_csv(table, out)
        typer.echo(f"{len(table)} rows in {out}")
    else:
        typer.echo(table.to_string(index=False, float_format=lambda value: f"{value:.3g}"))
