"""Decoding many requests at once: the rate rises for free until arithmetic or memory runs out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from analysis.artifact.explorers import drawing
from analysis.artifact.explorers.controls import Choice, Slider, remembered
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.serving.step_time.roofline import Roofline, kv_blocks, output_layer_s, tokens_s
from analysis.workloads import models

TITLE = "How many requests should decode together?"
MODELS = (
    ("llama-2-7b", "Llama 2 7B (every head has its keys)"),
    ("llama-3-8b", "Llama 3 8B (four heads share keys)"),
    ("llama-3-70b", "Llama 3 70B"),
    ("mixtral-8x7b", "Mixtral 8x7B (two of eight experts)"),
)
DEVICES = (("A100-SXM4-80GB", "A100 80 GB"), ("H100-SXM5-80GB", "H100 80 GB"), ("H200-SXM5-141GB", "H200 141 GB"), ("L40S", "L40S 48 GB"))
BATCHES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
CONTROLS = (
    Choice("model", "Model", MODELS, "llama-3-8b"),
    Choice("device", "GPU", DEVICES, "H100-SXM5-80GB"),
    Slider("gpus", "GPUs that share each layer", (1, 2, 4, 8), 1),
    Slider("context", "Tokens of context in each request", (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768), 2048),
    Slider("batch", "Requests decoded together", BATCHES, 32),
    Slider("share", "Share of the peaks that is reached", (40, 50, 60, 70, 80, 90, 100), 70, "%"),
)


def _setting(values: Mapping[str, Any]) -> Roofline:
    share = values["share"] / 100
    return Roofline(
        models.load(values["model"]),
        devices.load(values["device"]),
        tensor_parallel=int(values["gpus"]),
        dtype="bf16",
        compute_share=share,
        memory_share=share,
        link_share=share,
        fixed_s=0.0005,
        link_latency_s=3e-6,
    )


def steps_s(setting: Roofline, batches: Sequence[float], context: float) -> list[float]:
    """Decode steps (s): linear operators, reads of the cached keys and values, the output layer and a fixed half millisecond."""
    cached = context * setting.kv_bytes_per_token / setting.memory_bytes_per_s
    always = output_layer_s(setting) + setting.fixed_s
    linear = tokens_s(setting, np.asarray(batches, dtype=float))
    return [float(time) + batch * cached + always for time, batch in zip(linear, batches, strict=True)]


@remembered
def answer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Step time, rates, the largest batch that fits, and the curve over batches, by `analysis.serving.step_time.roofline`."""
    setting = _setting(values)
    batch, context = float(values["batch"]), float(values["context"])
    try:
        most = kv_blocks(setting) * 16 // int(context)
    except InputError:
        most = 0
    step, *curve = steps_s(setting, [batch, *map(float, BATCHES)], context)
    return {
        "step_s": step,
        "tokens_per_s": batch / step,
        "most": most,
        "fits": 1 if 0 < batch <= most else 0,
        "kv_bytes": batch * context * setting.kv_bytes_per_token,
        "weight_bytes": setting.model.parameters * setting.bytes_per_value,
        "memory_bytes": setting.device.memory_bytes * setting.tensor_parallel,
        "curve": [one / time for one, time in zip(BATCHES, curve, strict=True)],
    }


def draw(values: Mapping[str, Any], width: float) -> str:
    """Rate against batch, with the border of memory; below it the memory as a bar."""
    got = answer(values)
    left, right, top, bottom = 62.0, width - 20, 30.0, 270.0
    x = drawing.Scale(1, 1024, left, right, log=True)
    y = drawing.Scale(0, 1.15 * max(got["curve"]), bottom, top)
    names = [(float(2**p), str(2**p)) for p in range(0, 11, 2)]
    parts = drawing.axis_x(x, bottom, "requests decoded together", names, grid=bottom - top)
    parts += drawing.axis_y(y, left, "tokens a second, all requests", grid=right - left)
    border = x(max(1, min(got["most"], 1024)))
    if got["most"] < 1024:
        parts.append(drawing.rect(border, top, right - border, bottom - top, drawing.FAINT, extra='opacity="0.6"'))
        inside = border < left + 0.7 * (right - left)
        words = f"more than {got['most']:,} do not fit" if got["most"] else "the weights do not fit"
        parts.append(drawing.text(border + 6 if inside else border - 6, top + 16, words, "start" if inside else "end", size=12))
    points = [(x(one), y(rate)) for one, rate in zip(BATCHES, got["curve"], strict=True)]
    parts.append(drawing.path(points, drawing.BLUE, 2.5))
    at = (x(values["batch"]), y(got["tokens_per_s"]))
    parts.append(drawing.dot(*at, drawing.RED, 7))
    words = f"{drawing.short(got['tokens_per_s'])} tokens/s" + (f", {drawing.seconds(got['step_s'])} a token" if width >= 480 else "")
    side = -1 if at[0] + 12 + 7.6 * len(words) > width else 1
    parts.append(drawing.text(at[0] + 12 * side, at[1] + 24, words, "start" if side > 0 else "end", drawing.RED, bold=True))
    room = drawing.Scale(0, max(got["memory_bytes"], got["weight_bytes"] + got["kv_bytes"]), left, right)
    base = bottom + 62
    parts.append(drawing.text(0, base - 6, "memory", size=12))
    parts.append(drawing.rect(left, base, room(got["weight_bytes"]) - left, 22, drawing.GREY))
    parts.append(drawing.rect(room(got["weight_bytes"]), base, room(got["kv_bytes"]) - left, 22, drawing.GREEN))
    end = room(got["memory_bytes"])
    parts.append(drawing.line(end, base - 6, end, base + 28, drawing.INK, 2))
    gib = 2.0**30
    words = f"weights {got['weight_bytes'] / gib:.0f} GiB + cache {got['kv_bytes'] / gib:.0f} GiB of {got['memory_bytes'] / gib:.0f} GiB"
    parts.append(drawing.text(left, base + 40, words, size=12))
    return drawing.svg(width, base + 50, parts, tell(values))


def tell(values: Mapping[str, Any]) -> str:
    """The answer in a sentence."""
    got = answer(values)
    if not got["most"]:
        return "The weights and one request do not fit: take more GPUs, or larger ones."
    fit = "" if got["fits"] else f" But only {got['most']:,} such requests fit."
    return (
        f"{values['batch']:g} requests with {values['context']:g} tokens each: {drawing.seconds(got['step_s'])} for each token, "
        f"{drawing.short(got['tokens_per_s'])} tokens a second in all, {got['kv_bytes'] / 2**30:.3g} GiB of cache.{fit}"
    )
