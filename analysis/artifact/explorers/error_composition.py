"""Errors of kernels on their way to the error of a model: how much is averaged away, how much is shared, how much was left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.artifact.explorers import drawing
from analysis.artifact.explorers.controls import Slider, log_spaced, remembered
from analysis.studies.composition.errors import claimed_model_error, error_budget, model_error

TITLE = "What becomes of kernel errors in a whole model?"
STEPS = tuple(k / 20 for k in range(21))
CONTROLS = (
    Slider("kernels", "Kernels in the model", log_spaced(1, 10000), 50),
    Slider("error", "Error of each kernel", (0.5, 1, 1.5, 2, 2.3, 3, 4, 5, 7.5, 10, 15, 20, 30), 2.3, "%"),
    Slider("correlation", "How alike the errors are (0: independent, 1: all the same)", STEPS, 0.2, form="{:.2f}"),
    Slider("kernel_us", "Mean time of a kernel", log_spaced(5, 1000), 50, "µs"),
    Slider("overhead_us", "Left out after each kernel (launch, gaps)", (0, 0.5, 1, 2, 3, 5, 7.5, 10, 20), 3, "µs", "{:g}"),
)


@remembered
def answer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Errors in percent, by `analysis.studies.composition.errors`."""
    kernels, error = int(values["kernels"]), values["error"] / 100
    budget = error_budget(error, kernels, values["correlation"], values["kernel_us"] * 1e-6, values["overhead_us"] * 1e-6)
    return {
        "independent": 100 * model_error(error, kernels),
        "random": 100 * budget.random,
        "bias": 100 * budget.bias,
        "total": 100 * budget.total,
        "claimed": 100 * claimed_model_error(error, kernels),
    }


def draw(values: Mapping[str, Any], width: float) -> str:
    """Four bars: one kernel, what averaging leaves, what was left out, the total; the survey's claim as a mark."""
    got = answer(values)
    rows = (
        ("one kernel", values["error"], drawing.GREY),
        ("if errors were independent", got["independent"], drawing.SKY),
        ("random part, as correlated", got["random"], drawing.BLUE),
        ("left out (always too fast)", -got["bias"], drawing.GOLD),
        ("total error of the model", got["total"], drawing.RED),
    )
    narrow = width < 480
    left, top, step = (8.0, 26.0, 44.0) if narrow else (190.0, 14.0, 34.0)
    right = width - 64
    most = max(5.0, 1.15 * max(row[1] for row in rows))
    scale = drawing.Scale(0, most, left, right)
    bottom = top + step * len(rows)
    parts = drawing.axis_x(scale, bottom, "error of the prediction (%)", grid=bottom - top)
    for place, (name, value, color) in enumerate(rows):
        y = top + step * place + (16 if narrow else 4)
        parts.append(drawing.text(left if narrow else left - 8, y - 5 if narrow else y + 15, name, "start" if narrow else "end"))
        parts.append(drawing.rect(left, y, scale(value) - left, 20, color))
        parts.append(drawing.text(scale(value) + 6, y + 15, f"{value:.2g} %", bold=place == 4))
    if got["claimed"] <= most:
        x = scale(got["claimed"])
        parts.append(drawing.line(x, top - 8, x, bottom, drawing.INK, 1.5, "4 3"))
        parts.append(drawing.text(x, top - 10, f"the survey's law: {got['claimed']:.2g} %", "middle", size=12))
    return drawing.svg(width, bottom + 42, parts, tell(values))


def tell(values: Mapping[str, Any]) -> str:
    """The answer in a sentence."""
    got = answer(values)
    parts = f"{got['random']:.2g} % at random and {-got['bias']:.2g} % left out, added as squares"
    return (
        f"{values['kernels']:g} kernels, each {values['error']:g} % off, make a model that is {got['total']:.2g} % off: {parts}. "
        f"The survey's law would say {got['claimed']:.3g} %."
    )
