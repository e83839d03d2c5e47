"""What was built is what its notebooks wrote, is described, keeps to the limits of plain English, and prints numbers that results give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.artifact.claims.prose import numbers_of
from analysis.artifact.publishing import package, plan
from analysis.artifact.publishing.pages import number
from analysis.errors import InputError
from analysis.paths import BOOK, BUILD, NOTEBOOKS, RESULTS, ROOT
from tests.checks import reading
from tests.checks.typed import typed_numbers

MANIFESTS = sorted(RESULTS.glob("*/manifest.json"))


def test_every_notebook_has_run() -> None:
    missing = [name for name in plan.notebooks("book") if not (RESULTS / name / "manifest.json").exists()]
    assert missing == [], "no results of these; run make book"


def test_results_are_what_their_notebooks_wrote() -> None:
    altered = [
        f"data/results/{path.parent.name}/{name}"
        for path in MANIFESTS
        for name, known in json.loads(path.read_text(encoding="utf-8"))["files"].items()
        if plan.digest(path.parent / name) != known
    ]
    assert altered == [], "missing, or not what the notebook wrote; make book restores them"


def test_each_column_is_described_once() -> None:
    """No name of `data/columns.yaml` that no table has, no description in a notebook that only repeats it."""
    known = package.glossary()
    unused, again = set(known), []
    for path in MANIFESTS:
        for table, about in json.loads(path.read_text(encoding="utf-8"))["tables"].items():
            unused -= set(package.header(path.parent / f"{table}.csv"))
            again += [f"{path.parent.name}/{table}: {column}" for column, words in about["columns"].items() if known.get(column) == words]
    assert (sorted(unused), again) == ([], [])


@pytest.mark.parametrize(("what", "frozen", "of"), [("tables", 92, 363), ("numbers", 745, 1862)])
def test_the_share_of_precomputed_results_does_not_rise(what: str, frozen: int, of: int) -> None:
    """At commit 173d896 (24 November 2026) so many tables and numbers were read from `data/frozen`, where a build computes the others."""
    kinds = [one["kind"] for path in MANIFESTS for one in json.loads(path.read_text(encoding="utf-8"))[what].values()]
    assert round(100 * kinds.count("frozen") / len(kinds)) <= round(100 * frozen / of), (
        f"{kinds.count('frozen')} of {len(kinds)} {what} are frozen"
    )


def test_the_data_package_describes_what_is_there() -> None:
    assert package.differences() == []


def test_results_give_every_number_that_prose_asks_for() -> None:
    lines = []
    for path in [*sorted(BOOK.glob("*.md")), *sorted(NOTEBOOKS.glob("*.ipynb"))]:
        for line, name in numbers_of(path):
            try:
                number(name)
            except InputError as error:
                lines.append(f"{path.relative_to(ROOT)}:{line}: {error}")
    assert lines == []


def test_no_number_is_typed_that_a_result_gives() -> None:
    assert [str(line) for line in typed_numbers(BOOK, RESULTS)] == []


def test_pages_are_in_plain_english() -> None:
    pages = BUILD / "html"
    assert (pages / "index.html").exists(), "there are no pages to read; make book builds them"
    counted = reading.book(pages)
    assert counted.beyond() == [], ", ".join(f"{name} {value:,.1f}" for name, value in counted.figures().items())


@pytest.mark.browser
def test_every_page_of_a_notebook_works_without_the_network(built_book: Path, chromium: Any) -> None:
    from tests.publishing.test_pages import work_without_the_network

    work_without_the_network(built_book, chromium, sorted((built_book / "notebooks").glob("*.html")))
