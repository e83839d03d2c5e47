"""A training step laid out over GPUs: does it fit, how long is it, and what does the pipeline do task by task?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.composition.training import schedule
from analysis.explorers import drawing
from analysis.explorers.controls import Choice, Slider, remembered
from analysis.hardware import systems
from analysis.training.kernel_time import efficiencies_of
from analysis.training.memory import RESERVE_BYTES
from analysis.training.plan import Plan, Software, check
from analysis.training.step import predict
from analysis.workloads import models

TITLE = "How would you train it?"
MODELS = (
    ("llama-3-8b", "Llama 3 8B"),
    ("llama-2-13b", "Llama 2 13B"),
    ("llama-3-70b", "Llama 3 70B"),
    ("gpt3-175b", "GPT-3 175B"),
    ("llama-3-405b", "Llama 3 405B"),
    ("mixtral-8x7b", "Mixtral 8x7B"),
)
SYSTEMS = (("Selene", "A100 80 GB (Selene)"), ("HGX-H100", "H100 80 GB"), ("HGX-H200", "H200 141 GB"), ("HGX-B200", "B200 180 GB"))
CONTROLS = (
    Choice("model", "Model", MODELS, "llama-3-70b"),
    Choice("system", "GPUs in nodes of eight", SYSTEMS, "HGX-H100"),
    Slider("tensor", "Tensor parallel: GPUs that split each layer", (1, 2, 4, 8), 8),
    Slider("pipeline", "Pipeline stages", (1, 2, 4, 8, 16), 4),
    Slider("data", "Data parallel copies", (1, 2, 4, 8, 16, 32), 4),
    Slider("microbatches", "Microbatches of each copy", (1, 2, 4, 8, 16, 32, 64), 16),
    Slider("microbatch", "Sequences in a microbatch (4,096 tokens each)", (1, 2, 4), 1),
    Choice(
        "recompute", "Recompute activations", (("none", "never"), ("selective", "attention alone"), ("full", "whole blocks")), "selective"
    ),
    Choice("zero", "Shard over the copies", (("0", "nothing"), ("1", "optimizer state"), ("3", "weights too (no pipeline)")), "1"),
)
TIMES = (
    ("matrix", "matrix products", drawing.BLUE),
    ("memory", "memory-bound kernels", drawing.SKY),
    ("launch", "launches", drawing.PINK),
    ("recompute", "recomputation", drawing.GREEN),
    ("communication", "exposed communication", drawing.RED),
    ("bubble", "pipeline bubble", drawing.GREY),
    ("optimizer", "optimizer", drawing.GOLD),
)
PARTS = (
    ("weights", drawing.BLUE),
    ("gradients", drawing.SKY),
    ("optimizer", drawing.GOLD),
    ("activations", drawing.GREEN),
    ("working", drawing.PINK),
)


def _plan(values: Mapping[str, Any]) -> Plan:
    tensor, data, zero = int(values["tensor"]), int(values["data"]), int(values["zero"])
    return Plan(
        tensor_parallel=tensor,
        pipeline_parallel=int(values["pipeline"]),
        data_parallel=data,
        microbatch=int(values["microbatch"]),
        global_batch=data * int(values["microbatch"]) * int(values["microbatches"]),
        sequence_length=4096,
        sequence_parallel=tensor > 1,
        recompute=values["recompute"],
        zero=zero,
    )


@remembered
def answer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Time, memory and schedule, by `analysis.training`; or the rules that the plan breaks."""
    model, system, plan = models.load(values["model"]), systems.load(values["system"]), _plan(values)
    broken = check(model, plan, system)
    if broken:
        return {"runs": 0, "gpus": plan.gpus, "broken": broken}
    got = predict(model, plan, Software(), system, efficiencies_of(system.device))
    time = got.time.as_dict()
    stages = plan.pipeline_parallel
    tasks = schedule.simulate([got.forward_s] * stages, [got.backward_s] * stages, plan.microbatches)
    room = system.load_device().memory_bytes
    return {
        "runs": 1,
        "gpus": plan.gpus,
        "step_s": time["total"],
        "mfu": got.mfu,
        "tokens_per_s": got.tokens_per_s,
        "time": {key: time[key] for key in ("matrix", "memory", "launch", "recompute", "bubble", "optimizer")}
        | {"communication": time["tensor"] + time["expert"] + time["pipeline"] + time["data"]},
        "memory": got.memory.as_dict(),
        "room": room,
        "reserve": RESERVE_BYTES,
        "fits": 1 if got.memory.total + RESERVE_BYTES <= room else 0,
        "bubble_share": schedule.bubble_share(tasks),
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


def draw(values: Mapping[str, Any], width: float) -> str:
    """Memory of the fullest GPU, parts of the step, and the pipeline as boxes in time."""
    got = answer(values)
    left, right = 4.0, width - 8
    if not got["runs"]:
        words = [drawing.text(left, 24, "This plan cannot be laid out:", bold=True)]
        words += [drawing.text(left, 50 + 22 * place, reason, color=drawing.RED) for place, reason in enumerate(got["broken"])]
        return drawing.svg(width, 60 + 22 * len(got["broken"]), words, tell(values))
    gib = 2.0**30
    rows = [(name, got["memory"][name] / gib, color) for name, color in PARTS] + [("reserve", got["reserve"] / gib, drawing.FAINT)]
    used, room = sum(row[1] for row in rows), got["room"] / gib
    scale = drawing.Scale(0, 1.02 * max(used, room), left, right)
    title = f"Memory of the fullest GPU: {used:.0f} of {room:.0f} GiB" + ("" if got["fits"] else ": does not fit")
    parts = [drawing.text(left, 18, title, bold=True, color=drawing.INK if got["fits"] else drawing.RED)]
    parts += _stacked(rows, 28, scale, "{:.1f} GiB")
    parts.append(drawing.line(scale(room), 22, scale(room), 58, drawing.INK, 2.5))
    more, y = _legend(rows, left, right, 62, "{:.1f}")
    parts += more
    times = [(name, got["time"][key], color) for key, name, color in TIMES]
    y += 28
    parts.append(drawing.text(left, y, f"One step: {drawing.seconds(got['step_s'])}, {100 * got['mfu']:.0f} % of the peak", bold=True))
    parts += _stacked(times, y + 10, drawing.Scale(0, got["step_s"], left, right), "{:.3g} s")
    share = [(name, 100 * value / got["step_s"], color) for name, value, color in times]
    more, y = _legend(share, left, right, y + 44, "{:.0f} %")
    parts += more
    stages = int(values["pipeline"])
    y += 28
    parts.append(drawing.text(left, y, f"The pipeline: {100 * got['bubble_share']:.0f} % of its time is idle", bold=True))
    y += 10
    high = min(22.0, 150.0 / stages)
    end = max(task[4] for task in got["tasks"])
    when = drawing.Scale(0, end, left, right)
    for stage, microbatch, forward, begin, finish in got["tasks"]:
        wide = when(finish) - when(begin)
        color = drawing.BLUE if forward else drawing.GREEN
        top = y + stage * high
        parts.append(drawing.rect(when(begin), top, wide - min(1.0, 0.2 * wide), high - 2, color))
        if wide > 20 and high > 13:
            parts.append(drawing.text(when(begin) + wide / 2, top + high / 2 + 3, str(microbatch), "middle", drawing.PAPER, 11))
    y += stages * high + 16
    parts.append(drawing.text(left, y, "a row is a stage; blue: forward, green: backward", size=12))
    return drawing.svg(width, y + 10, parts, tell(values))


def tell(values: Mapping[str, Any]) -> str:
    """The answer in a sentence."""
    got = answer(values)
    if not got["runs"]:
        return f"{got['gpus']} GPUs: this plan cannot be laid out: {got['broken'][0]}."
    used = (got["memory"]["total"] + got["reserve"]) / 2**30
    fit = "fits" if got["fits"] else "does not fit"
    rate = f"{drawing.short(got['tokens_per_s'])} tokens a second, {100 * got['mfu']:.0f} % of the peak"
    return (
        f"{got['gpus']} GPUs: {drawing.seconds(got['step_s'])} a step, {rate}; it {fit} ({used:.0f} of {got['room'] / 2**30:.0f} GiB). "
        "Expect an error of some tens of percent where a program was not in the fit."
    )
