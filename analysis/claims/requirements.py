"""Is every requirement that is marked done backed by a page, a notebook and a test that exist?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from analysis.documents import is_file
from analysis.errors import InputError
from analysis.tables import read_csv

COLUMNS = ("number", "section", "tag", "requirement", "source", "page", "notebook", "test", "status", "note")
STATUSES = ("done", "partly", "later")
EVIDENCE = ("page", "notebook", "test")


@dataclass(frozen=True)
class Requirement:
    """One item of what an artifact must contain; page, notebook and test are paths, several separated by `;`."""

    number: int
    section: str
    tag: str
    requirement: str
    source: str
    page: str
    notebook: str
    test: str
    status: str
    note: str


def read_requirements(path: str | Path) -> list[Requirement]:
    """Read the table of requirements, numbered 1, 2, 3, ..."""
    frame = read_csv(path, required=COLUMNS, dtype=str, keep_default_na=False)
    items = []
    for index, row in enumerate(frame[list(COLUMNS)].itertuples(index=False), start=1):
        number, *rest = row
        if number != str(index):
            raise InputError(f"expected number {index}, got {number!r}", path=path, line=index + 1, key="number")
        item = Requirement(index, *rest)
        if item.status not in STATUSES:
            raise InputError(f"status {item.status!r} is none of {', '.join(STATUSES)}", path=path, line=index + 1, key="status")
        items.append(item)
    return items


def problems(items: list[Requirement], root: str | Path) -> list[str]:
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


def summary(items: list[Requirement]) -> str:
    """One line: how many requirements have which status."""
    tally = Counter(item.status for item in items)
    return f"{len(items)} requirements: " + ", ".join(f"{tally[status]} {status}" for status in STATUSES)
