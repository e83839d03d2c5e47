"""The address of a cell in a page names what a claim's check of the same table, `where` and column names, or says why it names none."""

import hashlib
import json
import re

import pytest
import yaml

from analysis.artifact.claims.addresses import cell, read_address
from analysis.artifact.claims.check_files import read_checks
from analysis.artifact.claims.prose import numbers_of
from analysis.artifact.claims.results import Results
from analysis.errors import InputError
from analysis.paths import DATA
from tests.checks.typed import typed_numbers

TABLE = 'tool,scheme,score,share,note\nVIDUR,base,2.25,0.918,"a, b"\nVIDUR,wide,1234.5,0.02,\nnn-Meter,base,0.0,1.0,c\n'


@pytest.fixture
def results(tmp_path):
    """The table of the addresses below, with the manifest of the notebook that wrote it."""
    folder = tmp_path / "results" / "mtap"
    folder.mkdir(parents=True)
    (folder / "scores.csv").write_text(TABLE)
    about = {"files": {"scores.csv": hashlib.sha256(TABLE.encode()).hexdigest()}, "tables": {"scores": {"kind": "measured"}}}
    (folder / "manifest.json").write_text(json.dumps(about))
    return Results(tmp_path / "results")


def test_every_check_of_one_cell_reads_back_from_its_address():
    """Claims' own addressing: `data/claims/checks/*.yaml`."""
    sources = [check.check for check, _ in read_checks(DATA / "claims" / "checks").values() if check.check and check.check.table]
    ours = [one for one in sources if not any(isinstance(value, list) for value in [*one.where.values(), one.column])]
    assert len(ours) > 150
    for one in ours:
        where = yaml.safe_dump(one.where, default_flow_style=True, width=10**6, sort_keys=False).strip()[1:-1]
        assert read_address(f"{one.table}[{where}].{one.column}:.1f") == (one.model_copy(update={"reason": None}), ".1f")


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("mtap/scores[tool: VIDUR, scheme: base].score:.1f", "2.2"),
        ("mtap/scores[tool: VIDUR, scheme: wide].score:,.0f", "1,234"),
        ("mtap/scores[tool: VIDUR, scheme: base].share:.1%", "91.8 %"),
        ("mtap/scores[tool: VIDUR, scheme: base].score:.2f us", "2.25 µs"),
        ("mtap/scores[tool: VIDUR, scheme: base].score:.2f uJ", "2.25 µJ"),
        ("mtap/scores[score: 0].tool", "nn-Meter"),
        ('mtap/scores[note: "a, b"].scheme', "base"),
    ],
)
def test_a_cell_is_printed_in_its_format(results, address, text):
    found = cell(address, results)
    assert (found.text, found.notebook, found.table, found.kind) == (text, "mtap", "scores", "measured")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("mtap/gone[tool: VIDUR].score", "gone.csv: no such result; expected one of scores"),
        ("mtap/scores[tool: VIDUR].gone", "no column 'gone'; expected one of tool, scheme, score, share, note"),
        ("mtap/scores[gone: VIDUR].score", "no column 'gone'; expected one of tool"),
        ("mtap/scores[tool: TACOS].score", "expected one row where tool=TACOS, found 0"),
        ("mtap/scores[tool: VIDUR].score", "expected one row where tool=VIDUR, found 2"),
        ("mtap/scores.score", "expected one row where no condition, found 3"),
        ("mtap/scores[tool: [VIDUR, nn-Meter], scheme: base].score", "a list in `where` names several cells"),
        ("mtap/scores[tool: VIDUR, scheme: wide].note", "the cell is empty; expected a value"),
        ("mtap/scores[tool: nn-Meter].score:.1q", "'.1q' does not format 0.0; expected a format of Python's"),
        ("mtap/scores[tool: nn-Meter].tool:.1f", "'.1f' does not format 'nn-Meter'"),
        ("mtap/scores[tool VIDUR.score", "expected notebook/table[column: value, ...].column:format"),
        ("mtap/scores[tool: {].score", "expected notebook/table[column: value, ...].column:format"),
    ],
)
def test_what_names_no_cell_is_one_line_with_what_was_expected(results, address, expected):
    with pytest.raises(InputError, match=re.escape(expected)) as error:
        cell(address, results)
    assert str(error.value).startswith(f"{address}: ") and "\n" not in str(error.value)


def test_lines_of_a_page_and_of_a_notebook(tmp_path):
    name = 'mtap/scores[note: "a, b"].scheme'
    (tmp_path / "page.md").write_text(f"one\n{{num}}`{name}` and {{num}}`a.b`\n")
    (tmp_path / "nb.ipynb").write_text(json.dumps({"cells": [{"source": [f"{{num}}`{name}`"]}]}, indent=1))
    assert list(numbers_of(tmp_path / "page.md")) == [(2, name), (2, "a.b")]
    assert [used for _, used in numbers_of(tmp_path / "nb.ipynb")] == [name]


def test_a_cell_that_a_page_prints_may_not_be_typed_elsewhere(results, tmp_path):
    address = "mtap/scores[tool: VIDUR, scheme: base].share:.1%"
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "a.md").write_text(f"{{num}}`{address}`\n")
    (tmp_path / "book" / "b.md").write_text("# B\n\nIt is 91.8 % here.\n")
    (line,) = typed_numbers(tmp_path / "book", results.folder)
    assert line == f"book/b.md:3: 91.8 is typed by hand; write {{num}}`{address}`"
