"""Figures that a reader can touch: each runs this project's own models, in the page, without a network.

The pages carry Brython, a Python interpreter written in JavaScript, and the source files of the models as they stand here. An explorer
is one file with the same four names, and knows nothing of browsers:

    CONTROLS                 what a reader can set (`controls`)
    answer(values)           plain numbers from the models, the same in CPython and in the page
    draw(values, width)      the picture as SVG or HTML text (`drawing`)
    tell(values)             the answer in one sentence, for screen readers and print

- `NAMES`: which explorers there are, in the order in which a reader meets them; `explorer(name)` is one of them.
- `bundle`: at build time, the script that carries the models into the pages, the explorer as first drawn, by CPython,
  and live cells: Python in a chapter that a reader can change and run.
- `records`: what they show besides models: measurements, grades, answers computed in advance.
- `stand_ins`: what runs in the page alone: `page` ties native controls, address bar and drawing together; the others replace numpy,
  compilation, pydantic and files as far as these models need them.

One that has PLAYS, the name of a slider, gets a button that moves it.
"""

from __future__ import annotations

from typing import Any

NAMES = (
    "ask_predictor",
    "serving_fronts",
    "own_model",
    "error_composition",
    "training_planner",
    "serving_player",
    "decode_knee",
    "all_reduce",
    "systolic_array",
    "roofline_achieved",
    "choose_tool",
    "who_is_right",
)


def explorer(name: str) -> Any:
    """An explorer by name: a module with TITLE, CONTROLS, answer, draw and tell."""
    if name not in NAMES:
        raise KeyError(f"no explorer {name!r}; expected one of {', '.join(NAMES)}")
    return __import__(f"analysis.artifact.explorers.{name}", fromlist=["TITLE"])  # importlib would add half a megabyte to the page
