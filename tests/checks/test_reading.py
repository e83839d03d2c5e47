"""Pages are counted as readers meet them, the limits fail on hard ones, and each figure says what to see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analysis.paths import BOOK
from tests.checks import reading

PLAIN = "<article><p>A plain sentence has few words. It says one thing.</p></article>"
HARD = (
    "<article><p>"
    + " ".join(["word"] * 36)
    + " ends here. It was 1 and 2 and 3 and 4 in all. "
    + "The error (12 %) is small. The H100 with 70B in FP8 has no number.</p>"
    + "<ul><li>An item is text too.</li></ul>"
    + "<table><tr><td>some_key</td><td>Words in a cell 1 2 3 4.</td></tr></table>"
    + "<details><p>What is folded (1, 2, 3, 4) is not counted here.</p></details>"
    + "<pre>1 2 3 4 (5)</pre></article><p>Outside it is not counted.</p>"
)


def test_a_page_is_counted_by_hand() -> None:
    """Five sentences: 38, 11, 6, 9 and 5 words; the names hold no number, cells and folded parts are no sentences."""
    got = reading.read(HARD)
    assert (got.sentences, got.length, got.words) == (5, 38 + 11 + 6 + 9 + 5, 38 + 11 + 6 + 9 + 5)
    assert (got.long, got.four, got.bracketed, got.keys) == (1, 1, 1, 1)


def test_the_limits_fail_on_hard_pages_and_name_them(tmp_path: Path) -> None:
    (tmp_path / "plain.html").write_text(PLAIN)
    assert reading.book(tmp_path).beyond() == []
    (tmp_path / "hard.html").write_text(HARD.replace("<td>some_key</td>", "<td>some_key</td>" * 51))
    (tmp_path / "glossary.html").write_text(HARD)
    (tmp_path / "moved.html").write_text("<html><body><a>This page is now part of another.</a></body></html>")
    lines = reading.book(tmp_path).beyond()
    assert {line.split(":")[0] for line in lines} == {"long", "four", "bracketed", "keys"}
    assert all("worst: hard.html" in line for line in lines)
    for number in range(57):
        (tmp_path / f"{number}.html").write_text(PLAIN)
    assert "pages: 59.0, at most 58" in reading.book(tmp_path).beyond()


FIGURE = re.compile(r"^\s*`{3,}\{result-figure\} (\S+)\n(.*?)^\s*`{3,}\s*$", re.DOTALL | re.MULTILINE)
YEAR = re.compile(r"\b(?:19|20)\d\d\b")
CHAPTERS = sorted(path for path in BOOK.glob("*.md") if path.stem != "article")


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda path: path.stem)
def test_every_figure_has_a_title_that_says_what_to_see(page: Path) -> None:
    """A sentence of its own (with a verb it has five words and more), whose numbers come from results."""
    for name, title in FIGURE.findall(page.read_text(encoding="utf-8")):
        words = title.split()
        assert len(words) >= 5 and words[0][0] in "{" + words[0][0].upper() and not title.strip().endswith("."), name
        typed = re.sub(r"\{num\}`[^`]*`", "N", title)
        assert not re.search(r"\d", YEAR.sub("", reading.NAME.sub("N", typed))), (name, "write {num}`notebook.key`")
