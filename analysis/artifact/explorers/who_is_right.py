"""Who is right about what: each tool's error on the same measured rows, by question, source and tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from analysis.artifact.explorers import drawing
from analysis.artifact.explorers.controls import Choice
from analysis.artifact.explorers.records.panel import rows

TITLE = "Who is nearest, and who is furthest off?"


def _options(words: Iterable[str], every: str = "") -> tuple[tuple[str, str], ...]:
    """Keys that an address can hold, with their words."""
    keys = {"".join(sign if sign.isalnum() else "-" for sign in word): word for word in words}
    return ((("all", every),) if every else ()) + tuple(keys.items())


QUESTIONS = _options(row[0] for row in rows())
SOURCES = _options(sorted(row[1] for row in rows()), "all sources")
TOOLS = _options(sorted(tool for row in rows() for tool, _ in row[3]), "none")
CONTROLS = (
    Choice("question", "Question", QUESTIONS, next(key for key, word in QUESTIONS if word == "training step")),
    Choice("source", "Measured by", SOURCES, "all"),
    Choice("tool", "Follow a tool", TOOLS, "all"),
)


def answer(values: Mapping[str, Any]) -> dict[str, Any]:
    """The chosen sources, each with its rows (count) and tools from the nearest on (%), and the place of the followed tool (0: none)."""
    question, source = dict(QUESTIONS)[values["question"]], dict(SOURCES)[values["source"]]
    tool, found = dict(TOOLS)[values["tool"]], []
    for asked, of, count, errors in rows():
        if asked == question and (values["source"] == "all" or of == source):
            place = next((k + 1 for k, (name, _) in enumerate(errors) if name == tool), 0)
            found.append({"source": of, "rows": count, "errors": errors, "place": place})
    return {"question": question, "tool": "" if values["tool"] == "all" else tool, "sources": found}


def _percent(error: float) -> str:
    return f"{error:.1f} %" if error < 9.95 else f"{error:,.0f} %"


def draw(values: Mapping[str, Any], width: float) -> str:
    """A line for each source: every tool at its error, the nearest blue, the one furthest off red, the followed one gold."""
    got = answer(values)
    scale = drawing.Scale(1, 1000, 6, width - 14, log=True)
    parts, y = [], 18.0
    for one in got["sources"]:
        (best, least), (worst, most) = one["errors"][0], one["errors"][-1]
        said = [f"nearest {best}, {_percent(least)}"] + [f"furthest off {worst}, {_percent(most)}"] * (len(one["errors"]) > 1)
        said += [f"{got['tool']} is number {one['place']} of {len(one['errors'])}"] * bool(one["place"])
        parts.append(drawing.text(0, y, f"{one['source']} ({one['rows']} rows)", bold=True))
        for words in said if width < 480 else ["; ".join(said)]:
            y += 16
            parts.append(drawing.text(0, y, words, size=12))
        y -= 16
        parts.append(drawing.line(scale.start, y + 32, scale.end, y + 32))
        for k, (tool, error) in reversed(list(enumerate(one["errors"], 1))):
            ends = {len(one["errors"]): drawing.RED, 1: drawing.BLUE, one["place"]: drawing.GOLD}
            parts.append(drawing.dot(scale(error), y + 32, ends.get(k, drawing.GREY), 6 if k in ends else 4, f"{tool}: {_percent(error)}"))
        y += 62
    parts += drawing.axis_x(scale, y - 12, "median absolute error (%)") if got["sources"] else [drawing.text(0, y, "no rows")]
    return drawing.svg(width, y + 26, parts, tell(values))


def tell(values: Mapping[str, Any]) -> str:
    """The answer in a sentence."""
    got = answer(values)
    compared = [one for one in got["sources"] if len(one["errors"]) > 1]
    nearest = [one["errors"][0][0] for one in compared]
    counts = sorted({(-nearest.count(name), name) for name in nearest})
    words = ", ".join(f"{name} on {-count}" for count, name in counts) or "nobody"
    followed = [one for one in compared if one["place"]]
    first, last = (sum(one["place"] == end(one) for one in followed) for end in (lambda _: 1, lambda one: len(one["errors"])))
    also = f" {got['tool']} answers {len(followed)}: nearest on {first}, furthest off on {last}." if got["tool"] else ""
    seen = " Some counts of our memory model were set with a source's peaks in view." if got["question"].startswith("memory") else ""
    of = "one source" if len(compared) == 1 else f"{len(compared)} sources"
    return f"{got['question']}, {of} with answers of two tools or more. Nearest: {words}.{also}{seen}"
