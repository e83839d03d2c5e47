"""Ask the predictor of served models: does it fit, how fast does it answer, how sure is that, and what is the time made of?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.artifact.explorers import drawing
from analysis.artifact.explorers.controls import Choice, Slider
from analysis.artifact.explorers.records.asked_answers import answers, parts, refusals, watts

TITLE = "How fast will a served model answer?"
OUTPUT_TOKENS = 1024
PRICE = Slider("price", "Price of a GPU hour", (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10), 2, "US$")
CONTROLS = (
    Choice(
        "model",
        "Model",
        (
            ("llama-3.1-8b", "Llama 3.1 8B"),
            ("qwen3-32b", "Qwen3 32B"),
            ("llama-3.1-70b", "Llama 3.1 70B"),
            ("qwen3-30b-a3b", "Qwen3 30B, 3B active"),
            ("gpt-oss-120b", "gpt-oss 120B, 5B active"),
            ("llama-3.1-405b", "Llama 3.1 405B"),
        ),
        "llama-3.1-70b",
    ),
    Choice(
        "device",
        "GPU",
        (
            ("a100_sxm", "A100 80 GB"),
            ("l40s", "L40S"),
            ("h100_sxm", "H100 80 GB"),
            ("h200_sxm", "H200 141 GB"),
            ("b200_sxm", "B200 180 GB"),
            ("H20", "H20 (kernels never measured)"),
        ),
        "h100_sxm",
    ),
    Slider("gpus", "GPUs that share each layer", (1, 2, 4, 8), 8),
    Slider("clients", "Clients, each with one request in flight", (1, 4, 16, 64, 256), 16),
    Choice("prompt", "Prompt", (("1024", "1,024 tokens"), ("8192", "8,192 tokens")), "1024"),
    PRICE,
)
COLORS = (
    drawing.BLUE, drawing.GREEN, drawing.PINK, drawing.RED, drawing.SKY, drawing.GREY, drawing.INK, drawing.GOLD, drawing.FAINT
)  # fmt: skip


def key(values: Mapping[str, Any]) -> str:
    """The question as the grid names it."""
    return f"{values['model']} {values['device']} {values['gpus']:g} {values['prompt']} {values['clients']:g}"


def answer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Both times with their 90 % bounds (ms), tokens a second and GPU, dollars of a million, joules of one (0: unknown),
    the parts of a token's time (ms); or why there is no answer."""
    asked = key(values)
    if asked not in answers():
        return {"refused": refusals().get(asked, "not in the grid of asked questions")}
    times, made = answers()[asked]
    request_s = 1e-3 * (times[0] + times[3] * 0.9 * OUTPUT_TOKENS)
    rate = values["clients"] * 0.9 * OUTPUT_TOKENS / request_s / values["gpus"]
    return {
        "ttft": times[:3],
        "tpot": times[3:],
        "rate": rate,
        "dollars": values["price"] * 1e6 / rate / 3600,
        "joules": watts()[asked] / rate,
        "parts": made,
    }


LEAST_MS, MOST_MS = 1.0, 100_000.0
"""Ends of the one scale of both times, which stays while a control moves."""


def _span(got: list[float], y: float, scale: drawing.Scale, name: str, color: str) -> list[str]:
    middle, low, high = got
    return [
        drawing.text(8, y - 12, f"{name} {_ms(middle)} ({_ms(low)} to {_ms(high)})", bold=True),
        drawing.span(scale, y, low, middle, high, color),
    ]


def _axis(scale: drawing.Scale, y: float) -> list[str]:
    """Names of the scale's ticks, a line up from each."""
    drawn = []
    for tick in scale.ticks():
        drawn += [
            drawing.line(scale(tick), 18, scale(tick), y),
            drawing.text(scale(tick), y + 15, _ms(tick).replace(".0", ""), "middle", size=12),
        ]
    return drawn


def _ms(value: float) -> str:
    return f"{value / 1000:.1f} s" if value >= 2000 else f"{value:.0f} ms" if value >= 100 else f"{value:.1f} ms"


def draw(values: Mapping[str, Any], width: float) -> str:
    """Both times with their intervals on one scale that stays, and what a token's time is made of, part by part."""
    got = answer(values)
    if "refused" in got:
        return drawing.svg(width, 60, [drawing.text(8, 34, "No answer: the sentence below says why.", bold=True)], tell(values))
    both = drawing.Scale(LEAST_MS, MOST_MS, 24, width - 24, log=True)
    parts_drawn = _axis(both, 104)
    for y, name, color, times in (
        (36.0, "output token", drawing.BLUE, got["tpot"]),
        (84.0, "first token", drawing.GREEN, got["ttft"]),
    ):
        parts_drawn += _span(times, y, both, name, color)
    shown = [(name, size, COLORS[k % len(COLORS)]) for k, (name, size) in enumerate(zip(parts(), got["parts"], strict=True)) if size]
    y = 164.0
    parts_drawn.append(drawing.text(8, y - 8, "what a token's time is made of", bold=True))
    starts, at = [], 0.0
    for _, size, _ in shown:
        starts.append((min(at, at + size), max(at, at + size)))
        at += size
    low, high = min(0.0, *(start for start, _ in starts)), max(end for _, end in starts)
    left = 8.0 if width < 480 else 250.0
    step = 34.0 if width < 480 else 22.0
    scale = drawing.Scale(low, high, left, width - 76)
    for (name, size, color), (start, end) in zip(shown, starts, strict=True):
        below = step - 20 if width < 480 else 0
        parts_drawn.append(drawing.text(8 if width < 480 else left - 8, y + 13, name, "start" if width < 480 else "end"))
        parts_drawn.append(
            drawing.rect(scale(start), y + below + 2, max(1.0, scale(end) - scale(start)), 14, color, f"{name}: {size:.2f} ms")
        )
        parts_drawn.append(drawing.text(scale(end) + 5, y + below + 13, f"{size:+.2f} ms", size=12))
        y += step
    return drawing.svg(width, y + 12, parts_drawn, tell(values))


def tell(values: Mapping[str, Any]) -> str:
    """The answer in a sentence."""
    got = answer(values)
    if "refused" in got:
        return f"No answer: {got['refused']}."
    blind = " This GPU's kernels were never measured: its times follow from its data sheet." if values["device"] == "H20" else ""
    energy = f", {got['joules']:.2g} J each (boards alone)" if got["joules"] else ""
    return (
        f"{values['clients']:g} clients wait {_ms(got['ttft'][0])} for the first token and {_ms(got['tpot'][0])} for each further one, "
        f"{got['rate']:.0f} output tokens per second from each GPU, ${got['dollars']:.2f} per million{energy}; "
        f"vLLM, weights in FP8 where the GPU has it.{blind}"
    )
