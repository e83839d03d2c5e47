"""Is every requirement that is marked done backed by a page, a notebook and a test, and by a table, figure or test that shows it?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from analysis.documents import is_file
from analysis.errors import InputError
from analysis.studies.written_tables import Row, read_rows

EVIDENCE = ("page", "notebook", "test")


class Requirement(Row):
    """One item of what an artifact must contain; page, notebook and test are paths, several separated by `;`.

    Attributes:
        shown_by: what shows it, several separated by `;`: `table notebook/name`, `figure notebook/name` or `tests/file.py::test_name`.
    """

    number: int
    section: str
    tag: str
    requirement: str
    source: str
    page: str
    notebook: str
    test: str
    shown_by: str
    status: Literal["done", "partly", "later"]
    note: str


def read_requirements(path: str | Path) -> tuple[Requirement, ...]:
    """Read the table of requirements, numbered 1, 2, 3, ..."""
    items = read_rows(path, Requirement)
    for number, item in enumerate(items, start=1):
        if item.number != number:
            raise InputError(f"expected number {number}, got '{item.number}'", path=path, line=number + 1, key="number")
    return items


def not_shown(shown_by: str, root: Path) -> list[str]:
    """What of `shown_by` is not there: a table or figure that its notebook did not write, a test that is not defined.

    Tables and figures are looked for in `data/results`, where that has been built; `make test` runs the tests.
    """
    missing = []
    for one in (part.strip() for part in shown_by.split(";") if part.strip()):
        kind, _, name = one.partition(" ")
        file, _, test = one.partition("::")
        if kind in ("table", "figure"):
            notebook, _, key = name.partition("/")
            manifest = root / "data" / "results" / notebook / "manifest.json"
            if is_file(manifest):
                if key not in json.loads(manifest.read_text(encoding="utf-8")).get(f"{kind}s", {}):
                    missing.append(f"{one} is not among what the notebook writes")
            elif not is_file(root / "notebooks" / f"{notebook}.ipynb"):
                missing.append(f"{one}: no such notebook")
        elif not test:
            missing.append(f"{one}: expected `table notebook/name`, `figure notebook/name` or `tests/file.py::test_name`")
        elif not is_file(root / file) or f"def {test}(" not in (root / file).read_text(encoding="utf-8"):
            missing.append(f"{one} is not defined")
    return missing


def problems(items: Sequence[Requirement], root: str | Path) -> list[str]:
    """What is wrong with the table: one line a problem.

    An item marked done needs page, notebook and test, and something that shows it; one that is partly done or left for later needs a note
    that says what is missing; every file named must exist.
    """
    found = []
    for item in items:
        for kind in EVIDENCE:
            named = [name.strip() for name in getattr(item, kind).split(";") if name.strip()]
            if item.status == "done" and not named:
                found.append(f"requirement {item.number}: marked done but names no {kind}")
            found += [f"requirement {item.number}: {kind} {name} does not exist" for name in named if not is_file(Path(root) / name)]
        if item.status == "done" and not item.shown_by.strip():
            found.append(f"requirement {item.number}: marked done but nothing shows it")
        found += [f"requirement {item.number}: {line}" for line in not_shown(item.shown_by, Path(root))]
        if item.status != "done" and not item.note.strip():
            found.append(f"requirement {item.number}: marked {item.status} but does not say what is missing")
    return found
