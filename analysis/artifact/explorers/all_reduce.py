"""An all-reduce: chunks on their way round a ring, and the time that NCCL takes on measured machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.artifact.explorers import drawing
from analysis.artifact.explorers.controls import Choice, Slider, remembered
from analysis.artifact.explorers.records.measured_points import all_reduces
from analysis.hardware import devices, systems
from analysis.networks import collective_time
from analysis.networks.calibrated import form

TITLE = "How does an all-reduce move, and how long does it take?"
PLAYS = "step"
MACHINES = (
    ("A100-SXM4-80GB", "A100, NVLink"),
    ("H200-SXM5-141GB", "H200, NVLink"),
    ("B200-SXM-180GB", "B200, NVLink"),
    ("RTX-PRO-6000-Server", "RTX PRO 6000, PCIe"),
)
MEASURED_AS = {"A100-SXM4-80GB": "A100", "H200-SXM5-141GB": "H200", "B200-SXM-180GB": "B200", "RTX-PRO-6000-Server": "RTX-PRO-6000"}
"""Device -> name in the measured tables."""
POWERS = tuple(range(11, 35))
PROTOCOLS = {"simple": 1.0, "ll128": form.LL128_SHARE, "ll": form.LL_SHARE}
"""Protocol of NCCL -> share of the bytes on the wire that are data."""
CONTROLS = (
    Choice("machine", "Machine", MACHINES, "H200-SXM5-141GB"),
    Slider("gpus", "GPUs", (2, 4, 8), 8),
    Slider("power", "Bytes on each GPU (powers of two)", POWERS, 26, form="2^{:g}"),
    Slider("step", "Step of the ring", tuple(range(15)), 3),
)


def ring_counts(gpus: int, step: int) -> list[list[int]]:
    """How many GPUs' values each chunk of each GPU holds after a step of a ring all-reduce.

    In step s of the first n - 1 (reduce-scatter), GPU i passes chunk (i - s) mod n to GPU i + 1, which adds it to its own; in the next
    n - 1 (all-gather) finished chunks go round and replace what is there.

    Args:
        gpus: n; step: steps done, 0 to 2 (n - 1); later steps change nothing.
    Returns:
        rows of GPUs, columns of chunks (count); n everywhere at the end.
    """
    held = [[1] * gpus for _ in range(gpus)]
    for now in range(min(step, 2 * (gpus - 1))):
        moved = [(i, (i - now) % gpus if now < gpus - 1 else (i + 1 - (now - (gpus - 1))) % gpus) for i in range(gpus)]
        values = [held[i][chunk] for i, chunk in moved]
        for (i, chunk), value in zip(moved, values, strict=True):
            there = (i + 1) % gpus
            held[there][chunk] = value + held[there][chunk] if now < gpus - 1 else value
    return held


@remembered
def answer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Time, protocol and parts by `analysis.networks.collective_time`, the curve over sizes, and the state of the ring."""
    gpus, size = int(values["gpus"]), 2.0 ** values["power"]
    machine = systems.of_device(devices.load(values["machine"]))
    parts = collective_time.terms("all_reduce", gpus, machine, graph=False)
    time, moved, fill = map(float, form.protocols(parts.floor_s, parts.byte_s * size, parts.chunk_s, parts.line))
    protocol = min(PROTOCOLS, key=lambda name: abs(moved - parts.byte_s * size / PROTOCOLS[name]))
    factor = 2 * (gpus - 1) / gpus
    return {
        "time_s": time,
        "floor_s": parts.floor_s,
        "transfer_s": moved,
        "fill_s": fill,
        "protocol": protocol,
        "bus_bytes_per_s": factor * size / time,
        "link_bytes_per_s": machine.group(gpus).bandwidth_bytes_per_s,
        "curve": [
            factor * 2.0**power / collective_time.collective_s("all_reduce", 2.0**power, gpus, machine, graph=False) for power in POWERS
        ],
        "ring": ring_counts(gpus, int(values["step"])),
    }


def draw(values: Mapping[str, Any], width: float) -> str:
    """Bus bandwidth against size, model and measurements; below it the chunks of every GPU after the chosen step."""
    got = answer(values)
    gpus = int(values["gpus"])
    left, right, top, bottom = 56.0, width - 12, 30.0, 250.0
    x = drawing.Scale(2.0**11, 2.0**34, left, right, log=True)
    y = drawing.Scale(0, 1.12 * max(got["link_bytes_per_s"], *got["curve"]), bottom, top)
    names = [(2.0**p, words) for p, words in ((12, "4 KiB"), (20, "1 MiB"), (26, "64 MiB"), (30, "1 GiB"), (34, "16 GiB"))]
    parts = drawing.axis_x(x, bottom, "bytes on each GPU", names[:: 2 if width < 480 else 1], grid=bottom - top)
    parts += drawing.axis_y(y, left, "bus bandwidth (bytes/s)", grid=right - left)
    parts.append(drawing.line(left, y(got["link_bytes_per_s"]), right, y(got["link_bytes_per_s"]), drawing.GREY, 1.5, "5 4"))
    parts.append(drawing.text(left + 6, y(got["link_bytes_per_s"]) - 5, "one-way bandwidth of the link", color=drawing.GREY, size=12))
    parts.append(drawing.path([(x(2.0**p), y(rate)) for p, rate in zip(POWERS, got["curve"], strict=True)], drawing.BLUE, 2.5))
    found = [
        (size, 2 * (gpus - 1) / gpus * size / time)
        for count, size, time in all_reduces().get(MEASURED_AS[values["machine"]], [])
        if count == gpus
    ]
    parts += [drawing.dot(x(size), y(rate), drawing.RED, 3.5, f"measured: {drawing.short(rate)}B/s") for size, rate in found]
    at = (x(2.0 ** values["power"]), y(got["bus_bytes_per_s"]))
    parts.append(f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="8" fill="none" stroke="{drawing.INK}" stroke-width="2.5"/>')
    narrow = width < 480
    words = f"blue: model; red: {len(found)} measurements" if found else "blue: model (this group was not measured)"
    parts.append(drawing.text(0 if narrow else left, bottom + 56, words, size=12))
    begin = bottom + 84
    done = min(int(values["step"]), 2 * (gpus - 1))
    title = (
        f"After step {done} of {2 * (gpus - 1)}: sums in each chunk"
        if narrow
        else f"A ring after step {done} of {2 * (gpus - 1)}: sums that each chunk holds"
    )
    parts.append(drawing.text(0, begin, title, bold=True))
    cell = min(44.0, (width - 70) / gpus)
    for i, row in enumerate(got["ring"]):
        parts.append(drawing.text(0, begin + 24 + 24 * i, f"GPU {i}", size=12))
        for chunk, held in enumerate(row):
            color = drawing.GREEN if held == gpus else drawing.BLUE
            strong = 0.15 + 0.85 * (held - 1) / max(1, gpus - 1)
            box = drawing.rect(56 + chunk * cell, begin + 10 + 24 * i, cell - 2, 21, color, extra=f'fill-opacity="{strong:.2f}"')
            parts.append(box)
            ink = drawing.INK if strong < 0.5 else drawing.PAPER
            parts.append(drawing.text(56 + chunk * cell + cell / 2 - 1, begin + 25 + 24 * i, str(held), "middle", ink, 12))
    return drawing.svg(width, begin + 24 * gpus + 20, parts, tell(values))


def tell(values: Mapping[str, Any]) -> str:
    """The answer in a sentence."""
    got = answer(values)
    power = int(values["power"])
    unit = ("bytes", "KiB", "MiB", "GiB")[power // 10]
    size = f"{2 ** (power % 10)} {unit}"
    return (
        f"{size} on each of {values['gpus']:g} GPUs: {drawing.seconds(got['time_s'])} by protocol {got['protocol'].upper()} "
        f"({100 * got['floor_s'] / got['time_s']:.0f} % launch and hops, {100 * got['transfer_s'] / got['time_s']:.0f} % transfer, "
        f"{100 * got['fill_s'] / got['time_s']:.0f} % filling the pipeline); {drawing.short(got['bus_bytes_per_s'])}B/s on the bus."
    )
