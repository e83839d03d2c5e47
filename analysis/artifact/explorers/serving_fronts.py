"""What does a faster answer cost? Tokens a second of a GPU against those of a user, for the plans that no other plan beats in both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.artifact.explorers import ask_predictor, drawing
from analysis.artifact.explorers.controls import Slider, remembered
from analysis.artifact.explorers.records.pareto_fronts import fronts

TITLE = "What does a faster answer cost?"
MODEL, DEVICE, *_, PROMPT = ask_predictor.CONTROLS[:5]
CONTROLS = (
    MODEL,
    DEVICE,
    PROMPT,
    Slider("user", "Least tokens per second of each user", (1, 2, 5, 10, 20, 30, 40, 50, 75, 100, 150, 200, 300), 30),
    ask_predictor.PRICE,
)
USER, GPU = (1.0, 500.0), (1.0, 20_000.0)
"""Ends of both scales, which stay while a control moves (tokens/s)."""


@remembered
def answer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Each device's front (tokens/s of a user and of a GPU), and on the chosen device the plan of most tokens that is fast enough."""
    lines = {}
    for device, _ in DEVICE.options:
        plans = fronts().get(f"{values['model']} {values['prompt']} {device}", [])
        lines[device] = [[plan[8], plan[11]] for plan in plans]
        if device == values["device"]:
            fast = [plan for plan in plans if plan[8] >= values["user"]]
            chosen = max(fast, key=lambda plan: plan[11]) if fast else None
    if chosen is None:
        return {"lines": lines, "plan": None}
    return {"lines": lines, "plan": chosen, "price": values["price"] * chosen[14]}


def draw(values: Mapping[str, Any], width: float) -> str:
    """The fronts on two logarithmic scales; the chosen device's is bold, its plan marked with the 90 % interval of the tokens of a GPU."""
    got = answer(values)
    left, right, top, bottom = 52.0, width - 12, 30.0, 300.0
    x = drawing.Scale(*USER, left, right, log=True)
    y = drawing.Scale(*GPU, bottom, top, log=True)
    parts = drawing.axis_x(x, bottom, "tokens per second of a user", grid=bottom - top)
    parts += drawing.axis_y(y, left, "output tokens per second of a GPU", grid=right - left)
    parts.append(drawing.line(x(values["user"]), top, x(values["user"]), bottom, drawing.INK, 1, "3 3"))
    colors = (drawing.BLUE, drawing.GREEN, drawing.PINK, drawing.GOLD, drawing.SKY, drawing.GREY)
    bold = ""
    for k, ((device, name), color) in enumerate(zip(DEVICE.options, colors, strict=True)):
        points = [(x(user), y(gpu)) for user, gpu in got["lines"][device]]
        chosen = device == values["device"]
        if points:
            drawn = drawing.path(points, drawing.RED if chosen else color, 3.5 if chosen else 1.5)
            bold = drawn if chosen else bold
            parts.append("" if chosen else drawn)
        row, column = divmod(k, 2 if width < 480 else 3)
        at, below = left + column * (right - left) / (2 if width < 480 else 3), bottom + 56 + 18 * row
        none = "" if points else ": does not fit"
        parts.append(drawing.rect(at, below - 6, 18, 4, drawing.RED if chosen else color))
        parts.append(drawing.text(at + 24, below, name.split(" (")[0] + none, size=12, bold=chosen))
    stays = [bold]
    if got["plan"]:
        plan = got["plan"]
        stays.append(drawing.line(x(plan[8]), y(plan[12]), x(plan[8]), y(plan[13]), drawing.INK, 3))
        stays.append(drawing.dot(x(plan[8]), y(plan[11]), drawing.INK, 6))
    parts.append(drawing.stays(stays))
    return drawing.svg(width, bottom + (112 if width < 480 else 84), parts, tell(values))


def tell(values: Mapping[str, Any]) -> str:
    """The answer in a sentence."""
    got, plan = answer(values), answer(values)["plan"]
    name = dict(DEVICE.options)[values["device"]].split(" (")[0]
    if plan is None:
        some = got["lines"][values["device"]]
        most = f"the fastest plan gives {some[-1][0]:.0f}" if some else "the model does not fit on eight of them"
        return f"{name}: no plan gives each user {values['user']:g} tokens per second; {most}."
    gpus, tensor, pipeline, ranks, experts, clients, precision = plan[:7]
    ways = [f"tensor parallel {tensor:g}"] + [
        f"{words} {count:g}"
        for words, count in (("pipeline", pipeline), ("data-parallel attention", ranks), ("expert parallel", experts))
        if count > 1
    ]
    energy = f", {plan[15]:.2g} J each (boards alone)" if plan[15] else ""
    return (
        f"{gpus:g} x {name}, {', '.join(ways)}, {precision.upper()} weights, {clients:g} clients: "
        f"{plan[8]:.0f} tokens per second for each user and {plan[11]:,.0f} from each GPU "
        f"(90 %: {plan[12]:,.0f} to {plan[13]:,.0f}), ${got['price']:.2f} per million output tokens{energy}."
    )
