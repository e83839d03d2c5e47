"""A matrix product on sixteen lanes behind one buffer: tiles, loop orders and lanes chosen by hand, against the proven optimum."""

from __future__ import annotations

from collections.abc import Mapping as Values
from itertools import permutations
from typing import Any

from analysis.accelerators.loopnest.architecture import Architecture, Axis, Level
from analysis.accelerators.loopnest.evaluation import Evaluation, evaluate
from analysis.accelerators.loopnest.mapping import Loop, Mapping
from analysis.accelerators.loopnest.problem import Problem, matmul
from analysis.artifact.explorers import drawing
from analysis.artifact.explorers.controls import Choice, Slider, remembered
from analysis.artifact.explorers.records.best_mappings import best
from analysis.errors import InputError

TITLE = "Can you find the best mapping?"
LANES = 16
LAYERS = {"square": (64, 64, 64), "wide": (8, 256, 128), "deep": (128, 16, 256)}
BUFFERS = (256, 1024, 4096)
DIMENSIONS = {"M": "P", "N": "M", "K": "C"}
"""A product's dimensions in the names of `loopnest.problem.matmul`."""
ENERGIES_J = {"DRAM": 200e-12, "buffer": 6e-12, "register": 1e-12}
"""Of one word; assumed, about as far apart as in designs of the Eyeriss kind; a multiply-accumulate costs 1 pJ."""
TENSORS = {"Inputs": "A", "Weights": "B", "Outputs": "C"}
ORDERS = tuple(("".join(order), " over ".join(order)) for order in permutations("MNK"))
SPLITS = tuple((m, n, LANES // m // n) for m in (16, 8, 4, 2, 1) for n in (16, 8, 4, 2, 1) if m * n <= LANES)
TILES = tuple(2**power for power in range(9))


def _split_words(split: tuple[int, int, int]) -> str:
    return " x ".join(f"{count} of {name}" for name, count in zip("MNK", split, strict=True) if count > 1)


CONTROLS = (
    Choice("layer", "Product", tuple((name, "M {} x N {} x K {}".format(*size)) for name, size in LAYERS.items()), "square"),
    Choice("buffer", "Buffer", tuple((str(words), f"{words:,} words") for words in BUFFERS), "1024"),
    *(Slider(f"tile_{name}", f"Tile of {name} in the buffer", TILES, 8) for name in "MNK"),
    Choice("outer", "Loops between DRAM and buffer, outermost first", ORDERS, "MNK"),
    Choice("inner", "Loops between buffer and lanes, outermost first", ORDERS, "MNK"),
    Choice("lanes", "What the 16 lanes share out", tuple(("-".join(map(str, s)), _split_words(s)) for s in SPLITS), "16-1-1"),
)


def design(words: int) -> Architecture:
    """DRAM, a buffer of so many words, and sixteen lanes with one register for each operand."""
    keeps = tuple(TENSORS)
    levels = []
    for name, capacity, instances in (("DRAM", None, 1), ("buffer", words, 1), ("register", len(keeps), LANES)):
        price = ENERGIES_J[name]
        fanout = (Axis("spatial_lanes", LANES),) if name == "buffer" else ()
        levels.append(
            Level(
                name=name,
                keeps=keeps,
                instances=instances,
                capacity_words=capacity,
                fanout=fanout,
                read_energy_j=price,
                write_energy_j=price,
                update_energy_j=price,
            )
        )
    return Architecture("sixteen lanes", tuple(levels), LANES, 1e-12)


def problem(layer: str) -> Problem:
    """The matrix product of a name."""
    m, n, k = LAYERS[layer]
    return matmul(m=m, n=n, k=k)


def mapping(values: Values[str, Any]) -> Mapping:
    """The loops that the settings stand for; a tile is at most its dimension, and the lanes take at most the tile."""
    size = dict(zip("MNK", LAYERS[values["layer"]], strict=True))
    tile = {name: min(size[name], int(values[f"tile_{name}"])) for name in "MNK"}
    split = dict(zip("MNK", map(int, values["lanes"].split("-")), strict=True))
    used = {name: min(split[name], tile[name]) for name in "MNK"}
    return Mapping(
        (
            ("DRAM", tuple(Loop(DIMENSIONS[name], size[name] // tile[name]) for name in values["outer"])),
            ("buffer", tuple(Loop(DIMENSIONS[name], tile[name] // used[name]) for name in values["inner"])),
            ("spatial_lanes", tuple(Loop(DIMENSIONS[name], used[name]) for name in "KNM")),
        )
    )


def tile_words(values: Values[str, Any]) -> int:
    """Words of the three tiles in the buffer."""
    m, n, k = (min(one, int(values[f"tile_{name}"])) for name, one in zip("MNK", LAYERS[values["layer"]], strict=True))
    return m * k + k * n + m * n


@remembered
def answer(values: Values[str, Any]) -> dict[str, Any]:
    """Energy by level, cycles and words from DRAM by `analysis.accelerators.loopnest.evaluation`; the optimum proven by `...mapper`."""
    words = int(values["buffer"])
    optimum = best()[f"{values['layer']} {words}"]
    found: dict[str, Any] = {"tile_words": tile_words(values), "best_energy_j": optimum["energy_j"], "best_cycles": optimum["cycles"]}
    try:
        one: Evaluation = evaluate(problem(values["layer"]), design(words), mapping(values))
    except InputError:
        return {**found, "fits": 0}
    cost = one.energy_j * one.cycles
    return {
        **found,
        "fits": 1,
        "cycles": one.cycles,
        "energy_j": one.energy_j,
        "levels": one.energy_by_level(),
        "lanes": one.lanes_used,
        "dram_words": {a.tensor: a.total for a in one.accesses if a.level == "DRAM"},
        "times_best": cost / (optimum["energy_j"] * optimum["cycles"]),
    }


def _bar(at: float, y: float, levels: Values[str, float], scale: drawing.Scale) -> list[str]:
    colors = {"DRAM": drawing.RED, "buffer": drawing.GOLD, "register": drawing.SKY, "mac": drawing.GREY}
    parts = []
    for name, color in colors.items():
        wide = scale(levels[name]) - scale(0)
        parts.append(drawing.rect(at, y, wide, 26, color, f"{name}: {levels[name] * 1e6:.3g} µJ"))
        at += wide
    return parts


def draw(values: Values[str, Any], width: float) -> str:
    """The loop nest as text, how full the buffer is, and the energy by level beside the best there is."""
    got = answer(values)
    loops = dict(mapping(values).loops)
    names = {code: name for name, code in DIMENSIONS.items()}
    parts, y, depth = [], 18.0, 0
    for place, words in (("DRAM", "for each tile:"), ("buffer", "inside the buffer:"), ("spatial_lanes", "on the lanes, at once:")):
        here = [loop for loop in loops[place] if loop.bound > 1]
        parts.append(drawing.text(12 * depth, y, words, color=drawing.GREY, size=12))
        y += 18
        for loop in here:
            depth += 1
            parts.append(drawing.text(12 * depth, y, f"for {names[loop.dimension].lower()} in {loop.bound}", bold=True))
            y += 18
    y += 14
    room = drawing.Scale(0, max(int(values["buffer"]), got["tile_words"]), 0, width - 4)
    over = got["tile_words"] > int(values["buffer"])
    fill = f"tiles in the buffer: {got['tile_words']:,} of {int(values['buffer']):,} words"
    parts += [
        drawing.text(0, y, fill, size=12),
        drawing.rect(0, y + 6, room(got["tile_words"]), 14, drawing.RED if over else drawing.GREEN),
    ]
    end = room(int(values["buffer"]))
    parts.append(drawing.line(end, y + 2, end, y + 24, drawing.INK, 2))
    y += 50
    if not got["fits"]:
        parts.append(drawing.text(0, y, "The tiles do not fit: make one smaller.", color=drawing.RED, bold=True))
        return drawing.svg(width, y + 20, parts, tell(values))
    optimum = best()[f"{values['layer']} {values['buffer']}"]
    scale = drawing.Scale(0, max(got["energy_j"], optimum["energy_j"]), 0, width - 8)
    for label, levels, energy, cycles in (
        ("yours", got["levels"], got["energy_j"], got["cycles"]),
        ("best", optimum["levels"], optimum["energy_j"], optimum["cycles"]),
    ):
        words = f"{label}: {energy * 1e6:.3g} µJ, {cycles:,} cycles"
        parts += [drawing.text(0, y, words, bold=True), *_bar(0, y + 6, levels, scale)]
        y += 54
    colors = ((drawing.RED, "DRAM"), (drawing.GOLD, "buffer"), (drawing.SKY, "registers"), (drawing.GREY, "arithmetic"))
    for k, (color, name) in enumerate(colors):
        x = k * min(110.0, (width - 8) / 4)
        parts += [drawing.rect(x, y - 10, 11, 11, color), drawing.text(x + 15, y, name, size=12)]
    y += 26
    port = "DRAM words" if width < 480 else "words over the DRAM port"
    words = f"{port}: " + ", ".join(f"{TENSORS[name]} {count:,}" for name, count in got["dram_words"].items())
    parts.append(drawing.text(0, y, words, size=12))
    return drawing.svg(width, y + 14, parts, tell(values))


def tell(values: Values[str, Any]) -> str:
    """The answer in a sentence."""
    got = answer(values)
    if not got["fits"]:
        return f"The tiles need {got['tile_words']:,} words, the buffer has {int(values['buffer']):,}: make one smaller."
    if got["times_best"] < 1 + 1e-9:
        return f"The best there is, proven by search of the whole space: {got['energy_j'] * 1e6:.3g} µJ in {got['cycles']:,} cycles."
    return (
        f"{got['energy_j'] * 1e6:.3g} µJ in {got['cycles']:,} cycles on {got['lanes']} of {LANES} lanes: energy times delay is "
        f"{got['times_best']:.3g} times the proven best ({got['best_energy_j'] * 1e6:.3g} µJ in {got['best_cycles']:,} cycles)."
    )
