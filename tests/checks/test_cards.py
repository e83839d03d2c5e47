"""Cards: one file a tool, from its own text; adding a tool takes one file."""

from __future__ import annotations

import datetime
import subprocess

import pytest
import yaml

from analysis.artifact.survey.bibliography import load_bibliography
from analysis.artifact.survey.cards import added_tools, frame, load_cards, slug, stale
from analysis.artifact.survey.taxonomy import coverage
from analysis.artifact.survey.tools import load_tools
from analysis.errors import InputError
from analysis.paths import DATA, ROOT
from analysis.tables import read_csv
from tests.checks.changes import COLUMNS, history

SURVEY = DATA / "survey"
NEW = {
    "tool": "A New Tool",
    "added": datetime.date(2026, 11, 22),
    "classification": {
        "platform": "edge",
        "methodology": "H",
        "year": 2026,
        "venue": "arXiv",
        "target": "latency",
        "levels": ["kernel"],
        "domain": "edge inference",
        "section": "edge devices",
    },
    "method": "Adds up the kernels of a network.",
    "accuracy": {"reported": "6 %", "kind": "mean error", "against": "a phone", "high_percent": 6, "source": "https://example.org/paper"},
    "speed": {"none": "not stated"},
    "workloads": {"none": "not stated"},
    "code": {"found": "no", "note": "the paper names none"},
    "data": {"found": "no", "note": "the paper names none"},
    "address": "https://example.org/paper",
    "text_read": "paper",
    "looked_at": datetime.date(2026, 11, 22),
}


@pytest.fixture(scope="module")
def tools():
    return load_tools(SURVEY / "tools.csv")


def write(folder, **changes):
    card = {**NEW, **changes}
    path = folder / f"{slug(card['tool'])}.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in card.items() if v is not None}), encoding="utf-8")
    return path


def test_cards_of_the_repository(tools):
    """Every card is valid, every row of the table is whole: no empty cell but the optional ones."""
    cards = load_cards(SURVEY / "tools", tools, [r.key for r in load_bibliography(ROOT / "bib" / "references.bib")])
    table = frame(cards, tools).drop(columns=["error_low_percent", "error_high_percent", "remark"])
    assert (table.astype(str).apply(lambda column: column.str.strip()) != "").all().all()
    assert table["address"].str.startswith("https://").all() and table["tool"].is_unique


def test_every_added_tool_has_a_record_in_the_bibliography(tools):
    works = {work.key: work for work in load_bibliography(ROOT / "bib" / "references.bib")}
    for card in load_cards(SURVEY / "tools", tools, works):
        if card.added is not None:
            assert card.key in works, card.tool
            assert works[card.key].url or works[card.key].doi or works[card.key].arxiv, card.tool


def test_adding_a_tool_takes_one_file(tmp_path, tools):
    """A hybrid for edge devices fills a cell that no document fills (survey draft: no hybrid for the edge)."""
    write(tmp_path)
    cards = load_cards(tmp_path, tools)
    assert frame(cards, tools).loc[0, "tool"] == "A New Tool"
    assert coverage(tools).loc["H", "edge"] == 0
    assert coverage((*tools, *added_tools(cards))).loc["H", "edge"] == 1


def test_stale_after_a_year(tmp_path, tools):
    write(tmp_path)
    cards = load_cards(tmp_path, tools)
    assert stale(cards, datetime.date(2027, 11, 22)) == ()
    assert stale(cards, datetime.date(2027, 11, 23)) == ("A New Tool",)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"tool": "Timeloop"}, "added"),
        ({"added": None}, ""),
        ({"speed": {}}, "speed"),
        ({"speed": {"reported": "1 ms"}}, "speed"),
        ({"accuracy": {"reported": "6 %", "source": "https://example.org/paper"}}, "accuracy"),
        ({"code": {"found": "yes"}}, "code"),
        ({"code": {"found": "no"}}, "code"),
        ({"address": "a book"}, "address"),
        ({"classification": {**NEW["classification"], "platform": "toaster"}}, "classification"),
        ({"classification": {**NEW["classification"], "levels": ["town"]}}, "classification"),
        ({"accuracy": {**NEW["accuracy"], "low_percent": 7.0}}, "accuracy"),
    ],
)
def test_bad_cards_are_refused(tmp_path, tools, changes, key):
    write(tmp_path, **changes)
    with pytest.raises(InputError) as caught:
        load_cards(tmp_path, tools)
    assert (caught.value.key or "").startswith(key)


def test_a_card_in_another_file_is_refused(tmp_path, tools):
    write(tmp_path).rename(tmp_path / "other.yaml")
    with pytest.raises(InputError, match=r"belongs in a-new-tool\.yaml"):
        load_cards(tmp_path, tools)


CHECK = """
s000.one:
  check: {{table: a/b, column: c}}
  verdict: {first}
s000.two:
  check: {{table: a/b, column: c}}
  verdict: cited (verified)
"""


def test_changes_are_read_off_the_history(tmp_path):
    """Three commits: a tool and two claims come, a verdict changes, the tool's card changes; a claim that only came is no change."""

    def commit(message: str, files: dict[str, str]) -> None:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        for arguments in (["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", message]):
            subprocess.run(["git", *arguments], cwd=tmp_path, check=True)

    with pytest.raises(InputError, match="needs a git clone"):
        history(tmp_path)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    commit("first", {"data/survey/tools/a-b.yaml": "tool: A b\n", "data/claims/checks/x.yaml": CHECK.format(first="differs")})
    commit("judged again", {"data/claims/checks/x.yaml": CHECK.format(first="consistent")})
    commit("read again", {"data/survey/tools/a-b.yaml": "tool: A b\nkey: x\n"})
    assert sorted(history(tmp_path)[["kind", "what", "change", "why"]].to_numpy().tolist()) == [
        ["claim", "s000.one", "differs -> consistent", "judged again"],
        ["tool", "A b", "added", "first"],
        ["tool", "A b", "changed", "read again"],
    ]
    frozen = read_csv(DATA / "survey" / "changes.csv", required=COLUMNS)
    assert set(frozen["kind"]) == {"tool", "claim", "evidence for a score"} and frozen["date"].is_monotonic_increasing
