"""What a command says of its answers: how far a file of cases is and how many were answered; a table, printed or written."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from analysis.case_files import Answer


def answer_cases(
    command: str, cases: Path, out: Path | None, model: Answer, scheduler: str = "", as_json: bool = False, **how: Any
) -> None:
    """`case_files.answer_file` with a bar, or lines, of the rows answered, and a last line that counts them; exit status 2 where none was.

    Args:
        command: as in `case_columns.COMMANDS`; out: None or `-`: standard output; as_json: print the answers as JSON, whether or not they
            are written; how: further arguments of `answer_file`.
    """
    from analysis.case_files import answer_file
    from analysis.errors import InputError
    from analysis.progress import Progress

    to_file = out is not None and str(out) != "-"
    if sys.stdout is None and not to_file:
        raise InputError("standard output, where the answers would go, is closed", key="--out")
    with nullcontext("") if to_file else TemporaryDirectory() as folder:
        target = out if out is not None and to_file else Path(folder) / "answers.csv"
        with Progress() as progress:
            done, not_done = answer_file(
                cases, target, model, scheduler, progress=lambda rows: progress(0, 0, f"{rows:,} rows answered"), command=command,
                tell_carried=_tell_carried, **how,
            )  # fmt: skip
        if as_json:
            _print_json(target)
        elif not to_file:
            with target.open("rb") as written:
                shutil.copyfileobj(written, sys.stdout.buffer)
            sys.stdout.flush()
    typer.echo(f"{done} cases answered, {not_done} not{f', in {out}' if to_file else ''}", err=as_json or not to_file)
    if not done:
        raise typer.Exit(2)


def asked_row(row: dict[str, str], pairs: list[str], command: str) -> dict[str, str]:
    """A row of a command's table with the cells of `--set COLUMN=VALUE`; a name that the command does not read is refused."""
    from analysis.case_columns import carried, read_as
    from analysis.errors import InputError

    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals and value) or value.strip().lower() in ("nan", "+nan", "-nan"):
            raise InputError(f"expected COLUMN=VALUE, got {pair!r}", key="--set")
        if row.get(name):
            raise InputError(f"{name} is given twice", key="--set")
        row = {**row, name: value}
    if unread := carried(row, command):
        raise InputError(f"no column of `{command}`", key=unread[0])
    called = read_as(row, command)
    return {called.get(name, name): value for name, value in row.items()}


def _print_json(written: Path) -> None:
    """Print a table of answers as a list of records; a cell without a value is null."""
    from analysis.case_files import read_answers

    frame = read_answers(written)
    records = [{key: None if cell != cell else cell for key, cell in row.items()} for row in frame.to_dict("records")]
    typer.echo(json.dumps(records, indent=1, default=str))


def check_header(command: str, path: Path) -> None:
    """Refuse a column of a table as `case_columns.carried` does, before it is read, and list those that are not read."""
    from analysis.case_columns import carried
    from analysis.tables import read_csv

    _tell_carried(carried(read_csv(path, dtype=str, nrows=0).columns, command, path))


def _tell_carried(names: list[str]) -> None:
    if names:
        typer.echo(f"carried through, not read: {', '.join(names)}", err=True)
