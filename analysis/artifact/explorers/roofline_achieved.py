"""Achieved against attainable: the roofline of a device's data sheet, and what was really measured under it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.artifact.explorers import drawing
from analysis.artifact.explorers.controls import Choice, Slider, log_spaced, remembered
from analysis.artifact.explorers.records.measured_points import cpu_operators, gpu_products
from analysis.hardware import devices

TITLE = "How far below its roofline does a device stay?"
CPU = "cpu-epyc-25-17-1t"
DEVICES = (
    (CPU, "one CPU core (400 operators timed by us)"),
    ("A100-SXM4-80GB", "A100 SXM"),
    ("H100-SXM5-80GB", "H100 SXM"),
    ("L40S", "L40S"),
    ("MI210", "MI210"),
    ("V100-SXM2-32GB", "V100"),
)
CONTROLS = (
    Choice("device", "Device", DEVICES, CPU),
    Slider("intensity", "Your kernel: FLOP for each byte moved", log_spaced(0.1, 5000), 10, form="{:g}"),
    Slider("share", "and the share of the roof that it reaches", (5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100), 60, "%"),
)
COLORS = (drawing.BLUE, drawing.RED, drawing.GREEN, drawing.PINK, drawing.GOLD, drawing.SKY, drawing.GREY)


def _points(name: str) -> dict[str, list[tuple[float, float]]]:
    if name == CPU:
        return dict(cpu_operators())
    found = [(intensity, rate) for device, _, intensity, rate in gpu_products() if device == name]
    return {"fastest product published": found}


def _dtype(name: str) -> str:
    return "fp32" if name == CPU else "fp16" if name.startswith("V100") else "bf16"


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


@remembered
def answer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Roof, attainable and achieved rates; shares of the roof that measured kernels reach, in the median of each kind."""
    device = devices.load(values["device"])
    peak, bandwidth = device.peak_flop_per_s(_dtype(values["device"])), device.memory_bandwidth_bytes_per_s
    roof = min(peak, values["intensity"] * bandwidth)
    reached = {
        kind: _median([rate / min(peak, intensity * bandwidth) for intensity, rate in found])
        for kind, found in _points(values["device"]).items()
    }
    return {
        "peak": peak,
        "bandwidth": bandwidth,
        "ridge": peak / bandwidth,
        "attainable": roof,
        "achieved": roof * values["share"] / 100,
        "bound": "memory" if values["intensity"] < peak / bandwidth else "arithmetic",
        "median_share": reached,
    }


def draw(values: Mapping[str, Any], width: float) -> str:
    """The roof on logarithmic axes, the measured points under it, the reader's kernel as a ring."""
    got = answer(values)
    height, left, right = 380.0, 62.0, width - 14
    x = drawing.Scale(0.05, 5000, left, right, log=True)
    low = got["peak"] / 1e5 if values["device"] == CPU else got["peak"] / 1e3
    y = drawing.Scale(low, got["peak"] * 2.5, height - 46, 30, log=True)
    ridge = got["ridge"]
    parts = drawing.axis_x(x, height - 46, "FLOP for each byte moved", grid=height - 76)
    parts += drawing.axis_y(y, left, "FLOP/s", grid=right - left)
    start = max(0.05, low / got["bandwidth"])
    roof = [(x(start), y(start * got["bandwidth"])), (x(ridge), y(got["peak"])), (right, y(got["peak"]))]
    parts.append(drawing.path(roof, drawing.INK, 2.5))
    parts.append(drawing.text(right - 4, y(got["peak"]) - 6, f"peak {drawing.short(got['peak'])}FLOP/s", "end", size=12))
    for place, (kind, found) in enumerate(_points(values["device"]).items()):
        color = COLORS[place % len(COLORS)]
        parts += [
            drawing.dot(x(i), y(r), color, 3 if values["device"] == CPU else 6, f"{kind}: {drawing.short(r)}FLOP/s") for i, r in found
        ]
        row, column = divmod(place, 2 if width < 480 else 4)
        share = f"{kind} {100 * got['median_share'][kind]:.0f} %"
        at = left + 8 + column * (right - left) / (2 if width < 480 else 4)
        parts.append(drawing.dot(at, height + 10 + 20 * row, color, 5))
        parts.append(drawing.text(at + 9, height + 14 + 20 * row, share, size=12))
    mine = (x(values["intensity"]), y(got["achieved"]))
    parts.append(drawing.line(mine[0], y(got["attainable"]), *mine, drawing.RED, 1.5, "3 3"))
    parts.append(f'<circle cx="{mine[0]:.1f}" cy="{mine[1]:.1f}" r="7" fill="none" stroke="{drawing.RED}" stroke-width="3"/>')
    parts.append(drawing.rect(mine[0] + 9, mine[1] - 8, 86, 17, drawing.PAPER, extra='fill-opacity="0.8"'))  # readable over the points
    parts.append(drawing.text(mine[0] + 11, mine[1] + 4, "your kernel", color=drawing.RED, bold=True))
    rows = -(-len(got["median_share"]) // (2 if width < 480 else 4))
    return drawing.svg(width, height + 10 + 20 * rows, parts, tell(values))


def tell(values: Mapping[str, Any]) -> str:
    """The answer in a sentence."""
    got = answer(values)
    words = ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in got["median_share"].items())
    return (
        f"At {values['intensity']:g} FLOP for each byte the roof is {drawing.short(got['attainable'])}FLOP/s, set by {got['bound']} "
        f"(the ridge is at {got['ridge']:.3g}); {values['share']:g} % of it is {drawing.short(got['achieved'])}FLOP/s. "
        f"Median share of the roof that measured kernels reach here: {words}."
    )
