"""A number retyped into a chapter is found, with the role to write instead."""

import json
import re

import pytest

from analysis.artifact.claims.prose import quotations
from analysis.paths import BOOK, RESULTS
from analysis.studies import attempts
from analysis.tables import read_csv
from tests.checks.typed import telling, typed_numbers


@pytest.fixture
def place(tmp_path):
    numbers = {
        "rho": {"value": 0.9747, "text": "0.975", "kind": "computed"},
        "match": {"value": 91.096, "text": "91.10 %", "kind": "computed"},
        "parameters": {"value": 1073348, "text": "1,073,348", "kind": "computed"},
        "quoted": {"value": 23.6, "text": "23.6 %", "kind": "cited"},
        "small": {"value": 22, "text": "22", "kind": "computed"},
    }
    (tmp_path / "results" / "notebook").mkdir(parents=True)
    (tmp_path / "results" / "notebook" / "numbers.json").write_text(json.dumps(numbers))
    (tmp_path / "book").mkdir()
    return tmp_path


def check(place, text):
    (place / "book" / "chapter.md").write_text(text)
    return typed_numbers(place / "book", place / "results")


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("# Title\n\nIts size is 0.975 here.", "notebook.rho"),
        ("a\nb\nthe mean of 91.10 %", "notebook.match"),
        ("| a | b |\n|---|---|\n| 1,073,348 | 1 |", "notebook.parameters"),
        ("x\ny\n1073348 of them", "notebook.parameters"),
        ("x\ny\nfrom 0.975, to 1", "notebook.rho"),
        ("x\ny\na mean of $91.10$ %", "notebook.match"),
        ("x\ny\nfrom $a + 1$ to $0.975$, or $b$", "notebook.rho"),
    ],
)
def test_a_retyped_number_is_found(place, text, role):
    (line,) = check(place, text)
    assert line.startswith("book/chapter.md:3: ") and line.endswith(f"is typed by hand; write {{num}}`{role}`")


@pytest.mark.parametrize(
    "text",
    [
        "{num}`notebook.rho` and `0.975` and $\\rho = 0.975$",
        "```python\nx = 0.975\n```\n",
        "$$\n0.975\n$$",
        "[a link](page-0.975.html) and https://example.org/0.975",
        "22 tools, 23.6 % as quoted, in 2023, 10.975 and 0.9751",
        "version 1.0.975",
    ],
)
def test_code_maths_links_quotations_and_small_numbers_are_left_alone(place, text):
    assert check(place, text) == []


@pytest.mark.parametrize(
    ("text", "long"),
    [("0.975", True), ("91.10", True), ("1,073,348", True), ("2023", False), ("22", False), ("2.3", False), ("75000", False)],
)
def test_only_telling_numbers_count(text, long):
    assert telling(text) == long


def test_no_chapter_of_this_book_has_a_retyped_number():
    if not any(RESULTS.glob("*/numbers.json")):
        pytest.skip("no results to compare with; `make book` writes them")
    assert typed_numbers(BOOK, RESULTS) == []


def test_quotations_are_used_and_stand_where_they_say():
    """A quoted row of the log has the value that the chapter prints, and every quotation is in a chapter."""
    pages = "".join(path.read_text(encoding="utf-8") for path in BOOK.glob("*.md"))
    log = read_csv(attempts.PATH)
    for key, one in quotations().items():
        assert f"{{quoted}}`{key}`" in pages, key
        if one.column is None:
            assert "attempts.csv" not in one.of
            continue
        rows = log[(log.experiment == one.experiment) & (log.attempt == one.attempt)]
        (value,) = rows.loc[rows.tested_on == one.tested_on if one.tested_on else rows.index, one.column]
        assert one.text in (f"{value:.1f} %", f"{100 * value:.1f} %"), key
    assert set(re.findall(r"\{quoted\}`([^`]*)`", pages)) == set(quotations())
