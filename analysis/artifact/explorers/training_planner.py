"""A training step laid out over GPUs: does it fit, how long is it, and what does the pipeline do task by task?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.artifact.explorers import ask_predictor, drawing
from analysis.artifact.explorers.controls import Choice, Slider, remembered
from analysis.artifact.explorers.records.planned_steps import capacities, choices, models, steps, words
from analysis.studies.training import schedule

TITLE = "How would you train it?"
SYSTEMS = {"Selene": "A100 80 GB", "HGX-H100": "H100 80 GB", "HGX-H200": "H200 141 GB", "HGX-B200": "B200 180 GB"}
TOKENS = 4 * 2**20
SET = choices()
CONTROLS = (
    Choice("model", "Model", tuple((name, title) for name, title, _ in models()), "llama-3-70b"),
    Choice("system", "GPUs in nodes of eight", tuple(SYSTEMS.items()), "HGX-H100"),
    Slider("gpus", "GPUs in all", tuple(SET["gpus"]), 64),
    Slider("tensor", "Tensor parallel: GPUs that split each layer", tuple(SET["tensor"]), 8),
    Slider("pipeline", "Pipeline stages", tuple(SET["pipeline"]), 4),
    Slider("microbatch", "Sequences in a microbatch", tuple(SET["microbatch"]), 1),
    Choice("recompute", "Recompute activations", (("none", "never"), ("full", "whole blocks")), "none"),
    Choice("zero", "Shard over the copies", (("1", "optimizer state"), ("3", "weights too (no pipeline)")), "1"),
    ask_predictor.PRICE,
)
TIMES = (
    ("matrix products", ("products",), drawing.BLUE),
    ("attention", ("attention",), drawing.PINK),
    ("memory-bound kernels", ("memory_bound",), drawing.SKY),
    ("recomputation", ("recompute",), drawing.GREEN),
    ("output layer", ("output_layer",), drawing.INK),
    ("exposed communication", ("communication", "reduce"), drawing.RED),
    ("pipeline bubble", ("bubble",), drawing.GREY),
    ("host and optimizer", ("host", "optimizer"), drawing.GOLD),
)
COLORS = (drawing.BLUE, drawing.GREEN, drawing.PINK, drawing.FAINT)
STEP_S = (0.1, 10_000.0)
"""Ends of the scale of a step, which stays while a control moves (s)."""


@remembered
def answer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Memory (GiB); of a plan that fits also step and interval (s), as `predict training` has them, dollars, schedule; or why not."""
    place = 0
    for name, options in SET.items():
        place = place * len(options) + options.index(values[name])
    said = steps()[place]
    if not said:
        ways = f"{values['tensor']:g} x {values['pipeline']:g}"
        many = values["tensor"] * values["pipeline"] > values["gpus"]
        return {"broken": f"{ways} GPUs hold one copy of the model" if many else "weights can be sharded only without a pipeline"}
    found = [float(number) for number in said.split()]
    count = 3 + len(words()["memory"])
    total, lower, upper = found[:3]
    room = capacities()[values["system"]]
    got: dict[str, Any] = {"memory": total, "ends": [lower, upper], "room": room, "parts": found[3:count]}
    got["fits"] = "yes" if upper <= room else "tight" if lower <= room else "no"
    if len(found) == count:
        return got
    times = dict(zip(words()["parts"], found[count + 3 : -1], strict=True))
    stages = int(values["pipeline"])
    sequence = {name: tokens for name, _, tokens in models()}[values["model"]]
    copies = int(values["gpus"]) // int(values["tensor"]) // stages
    microbatches = max(1, TOKENS // sequence // copies // int(values["microbatch"]))
    drawn = min(microbatches, max(stages, 64))
    once = times["bubble"] + times["reduce"] + times["optimizer"]
    last = (found[count] - once) / microbatches
    passes = [last - times["output_layer"] / microbatches] * (stages - 1) + [last]
    tasks = schedule.simulate([found[-1] * each for each in passes], [(1 - found[-1]) * each for each in passes], drawn)
    return {
        **got,
        "step": found[count : count + 3],
        "dollars": values["price"] * values["gpus"] * found[count] / 3600 / (TOKENS / 1e9),
        "microbatches": [drawn, microbatches],
        "time": [sum(times[name] for name in names) for _, names, _ in TIMES],
        "idle": times["bubble"] / (found[count] - times["reduce"] - times["optimizer"]),
        "tasks": [[task.stage, task.microbatch, 1 if task.phase == "forward" else 0, task.start_s, task.end_s] for task in tasks],
    }


def _stacked(rows: list[tuple[str, float, str]], y: float, scale: drawing.Scale, unit: str) -> list[str]:
    parts, begin = [], scale.start
    for name, value, color in rows:
        wide = scale(value) - scale.start
        parts.append(drawing.rect(begin, y, wide, 24, color, f"{name}: {unit.format(value)}"))
        begin += wide
    return parts


def _legend(rows: list[tuple[str, float, str]], left: float, right: float, y: float, form: str) -> tuple[list[str], float]:
    columns = max(1, int((right - left) // 205))
    parts = []
    for place, (name, value, color) in enumerate(rows):
        line, column = divmod(place, columns)
        x = left + column * (right - left) / columns
        parts.append(drawing.rect(x, y + 20 * line, 12, 12, color))
        parts.append(drawing.text(x + 17, y + 11 + 20 * line, f"{name} {form.format(value)}", size=12))
    return parts, y + 20 * ((len(rows) + columns - 1) // columns)


def _pipeline(got: Mapping[str, Any], stages: int, left: float, right: float, y: float) -> tuple[list[str], float]:
    """The tasks as boxes in time, a row a stage."""
    drawn, microbatches = got["microbatches"]
    first = "" if drawn == microbatches else f" ({drawn} of {microbatches} microbatches)"
    parts = [drawing.text(left, y, f"Pipeline: {100 * got['idle']:.0f} % idle{first}", bold=True)]
    y += 10
    high = min(22.0, 150.0 / stages)
    when = drawing.Scale(0, max(task[4] for task in got["tasks"]), left, right)
    for stage, microbatch, forward, begin, finish in got["tasks"]:
        wide = when(finish) - when(begin)
        top = y + stage * high
        color = drawing.BLUE if forward else drawing.GREEN
        parts.append(drawing.rect(when(begin), top, wide - min(1.0, 0.2 * wide), high - 2, color))
        if wide > 20 and high > 13:
            parts.append(drawing.text(when(begin) + wide / 2, top + high / 2 + 3, str(microbatch), "middle", drawing.PAPER, 11))
    y += stages * high + 16
    return [*parts, drawing.text(left, y, "a row is a stage; blue: forward, green: backward", size=12)], y


def draw(values: Mapping[str, Any], width: float) -> str:
    """Memory of the fullest GPU; of a plan that fits also the parts of the step and the pipeline as boxes in time."""
    got = answer(values)
    left, right = 4.0, width - 8
    if "broken" in got:
        said = [
            drawing.text(left, 24, "This plan cannot be laid out:", bold=True),
            drawing.text(left, 50, got["broken"], color=drawing.RED),
        ]
        return drawing.svg(width, 66, said, tell(values))
    rows = list(zip(words()["memory"], got["parts"], COLORS, strict=True))
    scale = drawing.Scale(0, 1.02 * max(got["memory"], got["room"]), left, right)
    verdict = {"yes": "", "tight": ": tight", "no": ": does not fit"}[got["fits"]]
    title = f"Memory of the fullest GPU: {got['memory']:,.0f} of {got['room']:.0f} GiB{verdict}"
    parts = [drawing.text(left, 18, title, bold=True, color=drawing.RED if got["fits"] == "no" else drawing.INK)]
    parts += _stacked(rows, 28, scale, "{:.1f} GiB")
    parts.append(drawing.line(scale(got["room"]), 22, scale(got["room"]), 58, drawing.INK, 2.5))
    more, y = _legend(rows, left, right, 62, "{:.1f}")
    parts += more
    if "step" not in got:
        return drawing.svg(width, y + 10, parts, tell(values))
    step, lower, upper = got["step"]
    times = [(name, value, color) for (name, _, color), value in zip(TIMES, got["time"], strict=True)]
    y += 28
    ends = f"{drawing.seconds(lower)} to {drawing.seconds(upper)}"
    parts.append(drawing.text(left, y, f"One step: {drawing.seconds(step)} ({ends})", bold=True))
    clock = drawing.Scale(*STEP_S, left + 12, right - 12, log=True)
    for tick in clock.ticks(6 if width >= 480 else 3):
        parts.append(drawing.line(clock(tick), y + 6, clock(tick), y + 26))
        parts.append(drawing.text(clock(tick), y + 40, f"{tick:,g} s", "end" if tick == STEP_S[1] else "middle", size=12))
    parts.append(drawing.span(clock, y + 16, lower, step, upper, drawing.BLUE))
    share = [(name, 100 * value / step, color) for name, value, color in times]
    parts += _stacked(share, y + 50, drawing.Scale(0, sum(part for _, part, _ in share), left, right), "{:.0f} %")
    more, y = _legend(share, left, right, y + 82, "{:.0f} %")
    more_pipeline, y = _pipeline(got, int(values["pipeline"]), left, right, y + 28)
    return drawing.svg(width, y + 10, [*parts, *more, *more_pipeline], tell(values))


def tell(values: Mapping[str, Any]) -> str:
    """The answer in a sentence."""
    got = answer(values)
    if "broken" in got:
        return f"{values['gpus']:g} GPUs: this plan cannot be laid out: {got['broken']}."
    held = f"{got['memory']:,.0f} GiB of {got['room']:.0f} (estimate {got['ends'][0]:,.0f} to {got['ends'][1]:,.0f})"
    if "step" not in got:
        return f"{values['gpus']:g} GPUs: it does not fit: {held}."
    step, lower, upper = got["step"]
    fit = "fits" if got["fits"] == "yes" else "may fit"
    return (
        f"{values['gpus']:g} GPUs: {drawing.seconds(step)} a step of 4 million tokens (90 %: {drawing.seconds(lower)} to "
        f"{drawing.seconds(upper)}), {drawing.short(TOKENS / step)} tokens a second, ${got['dollars']:.0f} per billion; it {fit}: {held}."
    )
