"""How does it work, in one picture? Drawn mechanisms for the chapters on approaches, all in one style."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis.artifact.survey.diagrams import arrow, box
from analysis.theme import COLORS

INK = "#222222"
BLUE, RED, GREEN, PINK, GOLD, SKY = COLORS[:6]


def _canvas(width: float, height: float) -> tuple[Figure, Axes]:
    fig, ax = plt.subplots(figsize=(7.0, 7.0 * height / width))
    ax.set_xlim(0, width)
    ax.set_ylim(height, 0)
    ax.axis("off")
    return fig, ax


def _box(ax: Axes, x: float, y: float, width: float, height: float, words: str, color: str, size: float = 9) -> None:
    box(ax, (x + width / 2, y + height / 2), words, width, height, color, size)


def _arrow(ax: Axes, x1: float, y1: float, x2: float, y2: float, words: str = "", bend: float = 0.0) -> None:
    arrow(ax, (x1, y1), (x2, y2), INK, bend=bend)
    ax.text((x1 + x2) / 2, (y1 + y2) / 2 - 0.4, words, ha="center", va="bottom", fontsize=8, color="#555555")


def _row(ax: Axes, x: float, y: float, cells: Sequence[str], colors: Sequence[str], width: float = 3.0, height: float = 2.4) -> None:
    for k, (words, color) in enumerate(zip(cells, colors, strict=True)):
        ax.add_patch(Rectangle((x + k * width, y), width, height, facecolor=color, edgecolor="white", linewidth=1.2))
        ax.text(x + (k + 0.5) * width, y + height / 2, words, ha="center", va="center", fontsize=8, color="white")


def system() -> Figure:
    """The two paths of this project: from a printed claim to a verdict, and from a kernel to a service; both end at measured systems."""
    fig, ax = _canvas(100, 46)
    claims = (
        "claim\nas printed",
        "check\na model, a run,\narithmetic",
        "value\nwith tolerance",
        "verdict\nrecomputed ... differs",
    )
    levels = (
        "kernel\ncount, estimate,\ncorrect",
        "step\nkernels, host",
        "system\ncollectives, plans,\nschedulers",
        "answer\nwith 90 % interval",
    )
    for row, (words, color) in enumerate(((claims, GOLD), (levels, BLUE))):
        y = 3 + 29 * row
        for place, text in enumerate(words):
            _box(ax, 1 + 26 * place, y, 20, 11, text, color)
            if place:
                _arrow(ax, 26 * place - 5, y + 5.5, 1 + 26 * place, y + 5.5)
    _box(ax, 20, 19, 60, 8, "measured systems, tools re-run, the noise of repeats", GREEN)
    _arrow(ax, 40, 19, 37, 14)
    _arrow(ax, 60, 19, 63, 14)
    _arrow(ax, 40, 27, 37, 32)
    _arrow(ax, 60, 27, 89, 32)
    return fig


def one_tool() -> Figure:
    """From a program to an answer: what each level hands to the next."""
    fig, ax = _canvas(100, 44)
    _box(ax, 1, 2, 25, 9, "program\n(JAX, any StableHLO)", GREEN)
    _box(ax, 37, 2, 26, 9, "operator graph,\nsplit over devices", GREEN)
    _box(ax, 74, 2, 25, 9, "data/hardware:\npeaks, memory, links", GOLD)
    _box(ax, 8, 19, 40, 10, "operators and kernels\nroofline, tiles, trees, arrays, loop nests", BLUE)
    _box(ax, 54, 19, 40, 10, "exchanges and collectives\na topology's cycles, or calibrated", BLUE)
    _box(ax, 20, 35, 60, 8, "system: a training step, a batch, a service, a plan", RED, 10)
    _arrow(ax, 26, 6.5, 37, 6.5, "count")
    _arrow(ax, 45, 11, 34, 19)
    _arrow(ax, 55, 11, 66, 19)
    _arrow(ax, 86, 11, 80, 19)
    _arrow(ax, 78, 11, 42, 19)
    _arrow(ax, 31, 29, 40, 35)
    _arrow(ax, 71, 29, 62, 35)
    ax.text(31, 32.8, "time on one device", ha="right", fontsize=8, color="#555555")
    ax.text(71, 32.8, "time on the links", ha="left", fontsize=8, color="#555555")
    return fig


def loop_nest() -> Figure:
    """A tile moves inward and is used again: how often each memory is read follows from the loops alone."""
    fig, ax = _canvas(100, 34)
    for x, words, loops, color in (
        (1, "DRAM", "for k1\n  for c1", GREEN),
        (36, "shared buffer", "for p1\n  for q1", BLUE),
        (71, "PE array", "parallel k0, c0\n  for r, s", RED),
    ):
        _box(ax, x, 5, 28, 12, words, color, 10)
        ax.text(x + 14, 20, loops, ha="center", va="top", fontsize=9, family="DejaVu Sans Mono", color=INK)
    _arrow(ax, 29, 11, 36, 11, "tile")
    _arrow(ax, 64, 11, 71, 11, "tile")
    ax.text(
        50, 32.5, "reads of a memory = tile size x how often the loops outside change it; time = the slowest level", ha="center", fontsize=9
    )
    return fig


def waves() -> Figure:
    """A kernel's tiles run in waves over the multiprocessors; the last wave may be nearly empty and takes as long."""
    fig, ax = _canvas(100, 32)
    machines, tiles = 8, 20
    for k in range(tiles):
        wave, place = divmod(k, machines)
        ax.add_patch(Rectangle((16 + wave * 24, 3 + place * 2.6), 22, 2.2, facecolor=BLUE, edgecolor="white"))
        ax.text(27 + wave * 24, 4.1 + place * 2.6, f"tile {k + 1}", ha="center", va="center", fontsize=7.5, color="white")
    for place in range(machines):
        ax.text(14.5, 4.1 + place * 2.6, f"SM {place + 1}", ha="right", va="center", fontsize=8)
        if place >= tiles % machines:
            ax.add_patch(Rectangle((64, 3 + place * 2.6), 22, 2.2, facecolor="#eeeeee", edgecolor="white"))
    ax.text(75, 4.1 + 5.6 * 2.6, "waits", ha="center", va="center", fontsize=8.5, color="#666666")
    for wave in range(3):
        ax.text(27 + wave * 24, 26, f"wave {wave + 1}", ha="center", fontsize=9)
    _arrow(ax, 16, 28.4, 88, 28.4)
    ax.text(89, 28.4, "time", va="center", fontsize=9)
    return fig


def batching() -> Figure:
    """Requests join and leave a running batch: a step's time depends on who is in it."""
    fig, ax = _canvas(100, 32)
    rows = [
        ("A", 0, 2, 9),
        ("B", 1, 1, 6),
        ("C", 3, 3, 6),
        ("D", 7, 2, 4),
    ]
    for place, (name, start, prompt, tokens) in enumerate(rows):
        y = 3 + 5 * place
        ax.text(9, y + 1.7, f"request {name}", ha="right", va="center", fontsize=9)
        x = 11 + 6.4 * start
        ax.add_patch(Rectangle((x, y), 6.4 * prompt - 0.3, 3.4, facecolor=RED))
        ax.text(x + 3.2 * prompt, y + 1.7, "prompt", ha="center", va="center", fontsize=7.5, color="white")
        for token in range(tokens):
            ax.add_patch(Rectangle((x + 6.4 * (prompt + token), y), 6.1, 3.4, facecolor=BLUE))
    for step in range(14):
        ax.plot([11 + 6.4 * step] * 2, [2, 23], color="#cccccc", linewidth=0.7, zorder=0)
    ax.text(11, 25.4, "time to first token: waiting + prompt", fontsize=9, color=RED)
    ax.text(55, 25.4, "time per output token: length of the steps", fontsize=9, color=BLUE)
    ax.text(50, 30.5, "one column is one step of the engine; all requests in it share its time", ha="center", fontsize=9)
    return fig


def ports() -> Figure:
    """A loop body on a core: the busiest port is the bound, whatever the others do."""
    fig, ax = _canvas(100, 32)
    loads = ((("mul", 3),), (("add", 2), ("mul", 1)), (("load", 2),), (("load", 2), ("store", 1)), (("add", 5),))
    colors = {"mul": RED, "add": BLUE, "load": GREEN, "store": GOLD}
    for place, port in enumerate(loads):
        y, at = 3 + 4.2 * place, 18.0
        ax.text(16, y + 1.5, f"port {place}", ha="right", va="center", fontsize=9)
        for name, cycles in port:
            for _ in range(cycles):
                _row(ax, at, y, [name], [colors[name]], width=11, height=3)
                at += 11
    ax.plot([73, 73], [2, 25], color=INK, linestyle="--", linewidth=1.2)
    ax.text(74, 5, "at least 5 cycles:\nport 4 is the limit", fontsize=9, va="top")
    ax.text(
        50,
        30,
        "a block takes at least as long as its busiest port, here 5 cycles",
        ha="center",
        fontsize=9,
    )
    return fig


def paged_cache() -> Figure:
    """The KV cache in blocks: a request holds whole blocks, in any order, and loses half a block on average."""
    fig, ax = _canvas(100, 32)
    owners = "AABCABBCC-A--C"
    colors = {"A": BLUE, "B": RED, "C": GREEN, "-": "#dddddd"}
    for k, owner in enumerate(owners):
        x = 2 + 6.9 * k
        ax.add_patch(Rectangle((x, 15), 6.3, 6, facecolor=colors[owner]))
        ax.text(
            x + 3.15, 18, owner if owner != "-" else "free", ha="center", va="center", fontsize=9, color="white" if owner != "-" else INK
        )
    for name, y, blocks in (("A", 3, (0, 1, 4, 10)), ("B", 3, (2, 5, 6)), ("C", 3, (3, 7, 8, 13))):
        x = {"A": 6, "B": 40, "C": 70}[name]
        _box(ax, x, y, 24, 6, f"request {name}: blocks {', '.join(map(str, blocks))}", colors[name], 8)
        for block in blocks:
            ax.plot([x + 12, 5.15 + 6.9 * block], [y + 6, 15], color=colors[name], linewidth=0.9)
    ax.text(50, 25.5, "bytes of a token = 2 x layers x key-value heads x head size x bytes a number", ha="center", fontsize=9)
    ax.text(
        50, 30, "no free block left: a request is stopped, its blocks are freed, and it computes its prompt again", ha="center", fontsize=9
    )
    return fig


def tuning() -> Figure:
    """A compiler's search: many schedules, a model that ranks them, a few that are timed, and the model learns from these."""
    fig, ax = _canvas(100, 34)
    _box(ax, 1, 8, 20, 10, "operator\nand shape", GREEN)
    _box(ax, 29, 8, 20, 10, "thousands of\nschedules", BLUE)
    _box(ax, 57, 8, 18, 10, "cost model\nranks them", RED)
    _box(ax, 83, 8, 16, 10, "time the\nfirst few", GOLD)
    for start, end in ((21, 29), (49, 57), (75, 83)):
        _arrow(ax, start, 13, end, 13)
    _arrow(ax, 91, 18, 66, 18, bend=-0.45)
    ax.text(78.5, 26, "learn from what was timed", ha="center", fontsize=9)
    ax.text(50, 32, "only the order matters: an error that all schedules share costs nothing", ha="center", fontsize=9)
    return fig


def error_levels() -> Figure:
    """Where an error is made on the way from a kernel to a service, and what adds to it."""
    fig, ax = _canvas(100, 30)
    for x, words, color in ((1, "kernel", GREEN), (36, "model", BLUE), (71, "system", RED)):
        _box(ax, x, 4, 28, 9, words, color, 11)
    _arrow(ax, 29, 8.5, 36, 8.5)
    _arrow(ax, 64, 8.5, 71, 8.5)
    for x, words in (
        (15, "shape, type, tiles,\nclock, cache"),
        (50, "what a sum leaves out:\nlaunches, fusion, moves"),
        (85, "who shares a step:\nscheduling, exchange, waits"),
    ):
        ax.text(x, 15, words, ha="center", va="top", fontsize=9)
    ax.text(50, 28.5, "independent errors shrink on the way up; shared ones stay; what nobody modelled is added", ha="center", fontsize=9)
    return fig


def stablehlo_paths() -> Figure:
    """One program, many compilers: frameworks write StableHLO, and XLA, IREE and this project's reader take it from there."""
    fig, ax = _canvas(100, 47)
    for x, words in ((1, "JAX"), (26, "PyTorch\n(torch.export)"), (51, "TensorFlow"), (76, "a model's code\nand its shapes")):
        _box(ax, x, 1, 22, 7, words, GREEN)
        _arrow(ax, x + 11, 8, 38 + x / 4, 14)
    _box(ax, 25, 14, 50, 7, "StableHLO: operators, shapes, types, split", GOLD, 10)
    for x, words in ((1, "XLA"), (36, "IREE"), (71, "this project's reader")):
        _box(ax, x, 27, 28, 6, words, BLUE)
        _arrow(ax, 42 + x / 6, 21, x + 14, 27)
    for x, words in (
        (1, "runs on GPU and TPU:\nthe measured time"),
        (36, "kernels for a GPU simulator\n(Accel-Sim): not run here"),
        (71, "roofline, shares, kernel tables,\narrays, loop nests, Chakra"),
    ):
        _box(ax, x, 39, 28, 7, words, RED, 8)
        _arrow(ax, x + 14, 33, x + 14, 39)
    return fig


def tpu_v3_8() -> Figure:
    """A TPU v3-8: four chips in a ring of links, two cores a chip, each with two systolic arrays; numbers are those of the data sheet."""
    from analysis.hardware import devices, systems
    from analysis.predict.program.systolic_device import ARRAYS

    chip, arrays = devices.load("TPU-v3"), ARRAYS["TPU-v3"]
    link = systems.load("TPU-v3-8").group(4).bandwidth_bytes_per_s
    memory = f"{chip.memory_bytes / 2**30:.0f} GiB, {chip.memory_bandwidth_bytes_per_s / 1e9:.0f} GB/s"
    fig, ax = _canvas(100, 46)
    for k, (x, y) in enumerate(((4, 2), (56, 2), (56, 26), (4, 26))):
        ax.add_patch(Rectangle((x, y), 40, 17, facecolor="#eeeeee", edgecolor=INK))
        ax.text(x + 20, y + 1.2, f"chip {k + 1}", ha="center", va="top", fontsize=9)
        for core in range(2):
            _box(ax, x + 1.5 + 19 * core, y + 5, 18, 6, f"core: 2 arrays of\n{arrays.rows} x {arrays.columns}", BLUE, 8)
        _box(ax, x + 1.5, y + 12, 37, 4, memory, GREEN, 8)
    for x1, y1, x2, y2 in ((44, 10, 56, 10), (76, 19, 76, 26), (56, 34, 44, 34), (24, 26, 24, 19)):
        _arrow(ax, x1, y1, x2, y2)
    peak = chip.peak["bf16"].value / 1e12
    words = f"{peak:.0f} TFLOP/s a chip in bf16\n{link / 1e9:.0f} GB/s a chip into the links"
    ax.text(50, 22.5, words, ha="center", va="center", fontsize=9)
    return fig


def neuroscalar_network() -> Figure:
    """The paper's network and ours: what each reads of an instruction, and what it answers."""
    fig, ax = _canvas(100, 40)
    for y, name, reads, middle, answers in (
        (
            3,
            "the paper's",
            "13 numbers an instruction:\naddresses, class, registers",
            "two LSTM layers of 256,\nwindow of 256 instructions",
            "class of latency,\ntwo regressions",
        ),
        (
            23,
            "ours",
            "history: reuse, strides, producers\n+ cycles of a first-order model",
            "a GRU of 64 along the trace,\none head a design",
            "distribution of the\nretire latency",
        ),
    ):
        ax.text(1, y - 0.6, name, fontsize=9, va="bottom")
        _box(ax, 1, y, 32, 9, reads, GREEN)
        _box(ax, 40, y, 28, 9, middle, BLUE)
        _box(ax, 75, y, 24, 9, answers, RED)
        _arrow(ax, 33, y + 4.5, 40, y + 4.5)
        _arrow(ax, 68, y + 4.5, 75, y + 4.5)
    return fig


def neuroscalar_soc() -> Figure:
    """How traces leave a chip: a collector behind retirement, sampling, a seal, and whoever forecasts."""
    fig, ax = _canvas(100, 36)
    for x, words, color in (
        (1, "core:\ninstructions retire", GREEN),
        (27, "collector: a FIFO,\nfull means wait", BLUE),
        (53, "sampling: some\nepochs of a program", BLUE),
        (79, "seal: encrypted\nwith a key", GOLD),
    ):
        _box(ax, x, 4, 20, 9, words, color)
    for x in (21, 47, 73):
        _arrow(ax, x, 8.5, x + 6, 8.5)
    _box(ax, 53, 23, 20, 9, "forecaster: cycles\non a design to come", RED)
    _box(ax, 79, 23, 20, 9, "partner: ranks\ndesigns for programs", RED)
    _arrow(ax, 89, 13, 89, 23)
    _arrow(ax, 87, 13, 65, 23)
    return fig


PICTURES = {
    "neuroscalar_network": neuroscalar_network,
    "neuroscalar_soc": neuroscalar_soc,
    "stablehlo_paths": stablehlo_paths,
    "tpu_v3_8": tpu_v3_8,
    "system": system,
    "one_tool": one_tool,
    "loop_nest": loop_nest,
    "waves": waves,
    "batching": batching,
    "ports": ports,
    "paged_cache": paged_cache,
    "tuning": tuning,
    "error_levels": error_levels,
}
"""Every picture, by the name of its file."""
