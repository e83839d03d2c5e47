"""A file of cases answered on the command line: how far it is, and how many were answered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from analysis.composition.case_files import Answer


def answer_cases(cases: Path, out: Path, model: Answer, scheduler: str = "", beside: bool = True) -> tuple[int, int]:
    """`case_files.answer_file` with a bar, or lines, of the rows answered, and a last line that says how many; returns the two counts."""
    from analysis.commands.common.progress import Progress
    from analysis.composition.case_files import answer_file

    with Progress() as progress:
        done, not_done = answer_file(cases, out, model, scheduler, beside, progress=lambda rows: progress(0, 0, f"{rows:,} rows answered"))
    typer.echo(f"{done} cases answered, {not_done} not, in {out}")
    return done, not_done
