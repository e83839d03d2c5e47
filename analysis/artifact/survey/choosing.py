"""Which tools answer a question, and what is known of each: one record a tool, from the tables and files of the survey."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from analysis.artifact.survey import claimed
from analysis.artifact.survey.accuracy import Statement, headline, load_statements, own
from analysis.artifact.survey.cards import added_tools, load_cards
from analysis.artifact.survey.tools import METHODOLOGIES, Tool, load_tools
from analysis.paths import DATA
from analysis.studies.written_tables import read_rows
from analysis.tables import read_csv

HAVE = {"A": "sheet", "H": "sheet", "S": "program", "T": "trace", "M": "device", "": "unknown"}
"""What a method asks for: a data sheet, a program, a trace or measurements of the device (data/survey/tradeoffs_printed.csv)."""
NAMED_BY = {
    "serving": ("serving", "inference"),
    "compiler": ("compiler", "tuning"),
    "training": ("training",),
    "collective": ("collective",),
}
"""Words of a tool's domain that name a question."""


def questions_of(tool: Tool, measured: Sequence[claimed.Measured] = ()) -> list[str]:
    """The questions that a tool answers: those its domain names (its platform's, if none), and those on which it was measured."""
    domain = tool.domain.lower()
    found = [question for question, words in NAMED_BY.items() if any(word in domain for word in words)]
    found = found or [{"distributed": "training"}.get(tool.platform, tool.platform)]
    return list(dict.fromkeys([*found, *(row.question for row in measured)]))


def _said(statement: Statement | None) -> tuple[str, float | None]:
    """An error as its source prints it, and its upper end (%); nothing where the figure is no error."""
    if statement is None or not statement.is_error or statement.high is None:
        return "", None
    return statement.printed, statement.high


@cache
def records() -> list[dict[str, Any]]:
    """One record a tool, in alphabetical order.

    Returns:
        name, year, method, questions, have (what it asks for), slow (seconds of one answer, None where not stated), claimed (words),
        claimed_percent, measured (of each measurement: percent, on, by, question), runs (what our trial of it says), open (yes, no or
        unknown), licence, address.
    """
    tools = load_tools(DATA / "survey" / "tools.csv")
    cards = {card.tool: card for card in load_cards(DATA / "survey" / "tools", tools)}
    statements = load_statements(DATA / "survey" / "accuracy.csv", [tool.name for tool in tools])
    measured: dict[str, list[claimed.Measured]] = {}
    for row in read_rows(DATA / "survey" / "claimed_measured.csv", claimed.Measured):
        measured.setdefault(row.tool.lower(), []).append(row)
    trials = {str(row["tool"]): row for row in read_csv(DATA / "mtap" / "deployment_trials.csv").to_dict("records")}
    found = []
    for tool in (*tools, *added_tools(cards.values())):
        card = cards.get(tool.name)
        words, percent = _said(own(statements, tool.name) or headline(statements, tool.name))
        address = tool.source if tool.source.startswith("https") else ""
        mine = own(statements, tool.name)
        address = address or (mine.source if mine else "")
        if card is not None:
            address = card.address
            if card.accuracy.high_percent is not None:
                words, percent = card.accuracy.reported, card.accuracy.high_percent
        rows = measured.get(tool.name.lower(), [])
        if rows and rows[0].claimed is not None:
            words, percent = f"{claimed.percent(rows[0].claimed)} %", rows[0].claimed
        trial = trials.get(tool.name)
        runs = ""
        if trial is not None:
            minutes = trial["minutes_to_first_prediction"]
            answered = f"first answer after {minutes:g} minutes, {int(trial['source_patches'])} patches" if minutes == minutes else "fails"
            runs = answered if trial["outcome"] == "runs" else "does not run today"
        note = card.code.note if card else ""
        licence = next((name for name in ("Apache-2.0", "MIT", "BSD-3-Clause", "GPL-3.0", "LGPL") if name in note), "")
        is_open = card.code.found if card else "yes" if "github.com" in address or trial is not None else "unknown"
        found.append(
            {
                "name": tool.name,
                "year": tool.year,
                "method": METHODOLOGIES.get(tool.methodology, "method not stated"),
                "questions": questions_of(tool, rows),
                "have": HAVE[tool.methodology],
                "slow": tool.speed_s[1] if tool.speed_s else None,
                "claimed": words,
                "claimed_percent": percent,
                "measured": [
                    {"percent": row.measured, "on": row.setting, "by": row.measured_by, "question": row.question}
                    for row in sorted(rows, key=lambda row: row.measured)
                ],
                "runs": runs,
                "open": is_open,
                "licence": licence,
                "address": address,
            }
        )
    return sorted(found, key=lambda record: str(record["name"]).lower())
