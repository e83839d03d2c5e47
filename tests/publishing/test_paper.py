"""The article and the artifact appendix: at most 11 and 2 pages, and no number that is not a result's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analysis.artifact.publishing import paper
from analysis.errors import InputError
from analysis.paths import BOOK, RESULTS
from analysis.tables import read_csv

typst = pytest.importorskip("typst", reason="Typst is not installed: pip install -r requirements.txt")
built = pytest.mark.skipif(not (RESULTS / "claims" / "numbers.json").exists(), reason="no results yet: make book")


@built
@pytest.mark.parametrize("name", paper.DOCUMENTS)
def test_a_document_is_set_within_its_pages(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MICRO's limit is 11 pages without references (plan, milestone 9); an artifact appendix has two."""
    monkeypatch.setattr(paper, "BUILD", tmp_path)
    target = paper.write(name)
    assert target.read_bytes().startswith(b"%PDF")
    numbers = read_csv(tmp_path / f"{name}_numbers.csv")
    roles = set(re.findall(r"\{num\}`([^`]+)`", (BOOK / f"{name}.md").read_text(encoding="utf-8")))
    assert set(numbers["number"]) == roles and len(roles) > 40


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{num}`claims.no_such_number`", "unknown number claims.no_such_number"),
        ("{unknown}`x`", "role unknown"),
        ("```{result-figure} claims/no_such_figure\n```", "unknown figure"),
        ("```{explorer} decode_knee\n```", "directive {explorer}"),
    ],
)
def test_what_cannot_be_set_is_refused(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(why)):
        paper._markdown(text, paper.Document(tmp_path / "x.md", tmp_path))


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [("a #1 $x_y$ @k [b]", "a #1 $x_y$ @k [b]"), ("1 -- 2 http://a", "1 -- 2 http://a"), ('`a"\\b`', 'a"\\b'), ("- one\n- *two*", "one")],
)
def test_signs_of_typst_are_text(markdown: str, shown: str, tmp_path: Path) -> None:
    """What Typst would read as markup comes out as written (compared through Typst's own reading)."""
    document = paper.Document(tmp_path / "x.md", tmp_path)
    (tmp_path / "x.typ").write_text("#metadata[" + paper._markdown(markdown, document) + "] <it>", encoding="utf-8")
    found = str(typst.query(str(tmp_path / "x.typ"), "<it>", field="value", root=str(tmp_path)))
    assert re.sub(r"[^\w#$@]", "", shown) in re.sub(r"[^\w#$@]", "", "".join(re.findall(r'"text": ?"((?:[^"\\]|\\.)*)"', found)))
