"""The page on what was tried shows the whole log."""

from __future__ import annotations

from pathlib import Path

from analysis import attempts
from analysis.paths import RESULTS
from analysis.tables import read_csv


def test_every_try_is_on_the_page(built_book: Path) -> None:
    log = attempts.read()
    shown = read_csv(RESULTS / "evaluation_log" / "attempts.csv")
    assert len(shown) == len(log) and set(shown["experiment"]) == set(log["experiment"])
    text = (built_book / "evaluation_log.html").read_text(encoding="utf-8").replace("<wbr>", "")
    assert all(experiment in text for experiment in set(log["experiment"]))
