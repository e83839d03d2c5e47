"""Is every requirement that is marked done backed by a page, a notebook and a test that exist?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from analysis.configs import Row, read_rows
from analysis.documents import is_file
from analysis.errors import InputError

EVIDENCE = ("page", "notebook", "test")


class Requirement(Row):
    """One item of what an artifact must contain; page, notebook and test are paths, several separated by `;`."""

    number: int
    section: str
    tag: str
    requirement: str
    source: str
    page: str
    notebook: str
    test: str
    status: Literal["done", "partly", "later"]
    note: str


def read_requirements(path: str | Path) -> tuple[Requirement, ...]:
    """Read the table of requirements, numbered 1, 2, 3, ..."""
    items = read_rows(path, Requirement)
    for number, item in enumerate(items, start=1):
        if item.number != number:
            raise InputError(f"expected number {number}, got '{item.number}'", path=path, line=number + 1, key="number")
    return items


def problems(items: Sequence[Requirement], root: str | Path) -> list[str]:
    """What is wrong with the table: one line a problem.

    An item marked done needs page, notebook and test; one that is partly done or left for later needs a note that says what is missing;
    every file named must exist.
    """
    found = []
    for item in items:
        for kind in EVIDENCE:
            named = [name.strip() for name in getattr(item, kind).split(";") if name.strip()]
            if item.status == "done" and not named:
                found.append(f"requirement {item.number}: marked done but names no {kind}")
            found += [f"requirement {item.number}: {kind} {name} does not exist" for name in named if not is_file(Path(root) / name)]
        if item.status != "done" and not item.note.strip():
            found.append(f"requirement {item.number}: marked {item.status} but does not say what is missing")
    return found
