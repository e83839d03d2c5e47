"""MTAP's composite score of five tools as its weights move: which order survives?"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any

from analysis.artifact.explorers import drawing
from analysis.artifact.explorers.controls import Choice, Slider, remembered
from analysis.artifact.explorers.records.mtap_grades import dimensions, grades, schemes
from analysis.artifact.mtap.scoring import composite, order_text, ranks

TITLE = "Which tool comes first if you weigh the dimensions yourself?"
READINGS = (
    ("printed", "as the survey draft prints them"),
    ("stated", "by its rubric, on its own words"),
    ("evidence", "by its rubric, on the evidence"),
)
HUNDREDTHS = tuple(range(0, 101, 5))
CONTROLS = (
    Choice("reading", "Grades", READINGS, "evidence"),
    *(Slider(f"D{k + 1}", f"D{k + 1} {name}", HUNDREDTHS, schemes()["base"][k], "parts") for k, name in enumerate(dimensions())),
)


def shares(values: Mapping[str, Any]) -> list[Fraction]:
    """The weights of D1..D5, scaled to sum to one; equal where all are zero."""
    raw = [int(values[f"D{k}"]) for k in range(1, 6)]
    return [Fraction(one, sum(raw)) if sum(raw) else Fraction(1, 5) for one in raw]


def _points(halves: list[int]) -> list[Fraction]:
    return [Fraction(one, 2) for one in halves]


@cache
def _base(reading: str) -> dict[str, Fraction]:
    weights = [Fraction(one, 100) for one in schemes()["base"]]
    return {tool: composite(_points(vector), weights) for tool, vector in grades()[reading].items()}


@remembered
def answer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Scores and ranks by `analysis.artifact.mtap.scoring`, and the order; the same under the draft's base weights, to compare."""
    weights, given = shares(values), grades()[values["reading"]]
    scores = {tool: composite(_points(vector), weights) for tool, vector in given.items()}
    before = _base(values["reading"])
    return {
        "weights": [float(one) for one in weights],
        "scores": {tool: float(score) for tool, score in scores.items()},
        "parts": {tool: [float(w * d) for w, d in zip(weights, _points(vector), strict=True)] for tool, vector in given.items()},
        "ranks": ranks(scores),
        "base_ranks": ranks(before),
        "order": order_text(scores),
        "base_order": order_text(before),
    }


def draw(values: Mapping[str, Any], width: float) -> str:
    """A stacked bar for each tool, best first: what each dimension adds; its rank, and its rank under the base weights."""
    got = answer(values)
    narrow = width < 480
    left, right, top, step = 8.0 if narrow else 110.0, width - 64, 40.0, 52.0 if narrow else 36.0
    scale = drawing.Scale(0, 3, left, right)
    colors = (drawing.BLUE, drawing.GOLD, drawing.GREEN, drawing.PINK, drawing.SKY)
    order = sorted(got["scores"], key=lambda tool: (-got["scores"][tool], tool))
    bottom = top + step * len(order)
    parts = drawing.axis_x(scale, bottom, "composite score S (points of 3)", grid=bottom - top)
    for k, color in enumerate(colors):
        x = left + k * (right - left) / 5
        parts.append(drawing.rect(x, 8, 12, 12, color))
        parts.append(drawing.text(x + 16, 18, f"D{k + 1}" if narrow else f"D{k + 1} {got['weights'][k]:.2f}", size=12))
    for row, tool in enumerate(order):
        y, at = top + step * row + (18 if narrow else 4), left
        parts.append(drawing.text(left if narrow else left - 8, y - 4 if narrow else y + 15, tool, "start" if narrow else "end", bold=True))
        for k, part in enumerate(got["parts"][tool]):
            end = at + scale(part) - left
            parts.append(drawing.rect(at, y, end - at, 22, colors[k], f"{tool}, D{k + 1}: {part:.2f}"))
            at = end
        moved = got["base_ranks"][tool] - got["ranks"][tool]
        mark = f" ▲{moved:g}" if moved > 0 else f" ▼{-moved:g}" if moved < 0 else ""
        parts.append(drawing.text(at + 6, y + 16, f"{got['scores'][tool]:.2f}{mark}", bold=True))
    return drawing.svg(width, bottom + 42, parts, tell(values))


def tell(values: Mapping[str, Any]) -> str:
    """The answer in a sentence."""
    got = answer(values)
    same = "the same order" if got["order"] == got["base_order"] else f"not {got['base_order']}"
    equal = "" if any(int(values[f"D{k}"]) for k in range(1, 6)) else " All weights are zero, so they count alike."
    return f"Grades {dict(READINGS)[values['reading']]}: {got['order']}; with the draft's base weights {same}.{equal}"
