"""Which explorers there are, in the order in which a reader meets them."""

from __future__ import annotations

from typing import Any

NAMES = (
    "ask_predictor",
    "error_composition",
    "training_planner",
    "decode_knee",
    "all_reduce",
    "systolic_array",
    "roofline_achieved",
    "choose_tool",
)


def explorer(name: str) -> Any:
    """An explorer by name: a module with TITLE, CONTROLS, answer, draw and tell."""
    if name not in NAMES:
        raise KeyError(f"no explorer {name!r}; expected one of {', '.join(NAMES)}")
    return __import__(f"analysis.explorers.{name}", fromlist=["TITLE"])  # importlib would add half a megabyte to the page
