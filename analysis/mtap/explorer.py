"""The interactive page: scores recomputed in the reader's browser as the weights move, without any network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.mtap.evidence import DIMENSIONS
from analysis.mtap.rubric import Rubric, Weights

TEMPLATE = Path(__file__).with_name("explorer.html")
MARK = "/*DATA*/null"


def explorer_html(scorings: Mapping[str, tuple[str, Mapping[str, Sequence[int]]]], rubric: Rubric, weights: Weights) -> str:
    """A fragment of HTML with five sliders and one table for each scoring.

    Args:
        scorings: id -> (name to show, tool -> grades of D1..D5).
        rubric: for the names of the dimensions.
        weights: the schemes offered as buttons; the first is where the sliders start.
    """
    data = {
        "dimensions": [{"id": d, "name": rubric.dimensions[d].name} for d in DIMENSIONS],
        "schemes": [{"name": name.replace("_", "-"), "weights": [s[d] for d in DIMENSIONS]} for name, s in weights.schemes.items()],
        "scorings": [
            {"id": key, "name": name, "grades": {tool: list(g) for tool, g in sorted(grades.items())}}
            for key, (name, grades) in scorings.items()
        ],
    }
    template = TEMPLATE.read_text(encoding="utf-8")
    if template.count(MARK) != 1:
        raise ValueError(f"{TEMPLATE.name} must hold {MARK} once")
    return template.replace(MARK, json.dumps(data, sort_keys=True).replace("</", "<\\/"))
