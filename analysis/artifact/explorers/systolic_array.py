"""A matrix product streaming through a systolic array: which elements work in a cycle, and what share of them over the whole product."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.accelerators.systolic.array import DATAFLOWS, count, spatial_dimensions
from analysis.artifact.explorers import drawing
from analysis.artifact.explorers.controls import Choice, Slider, remembered

TITLE = "What keeps a systolic array busy?"
PLAYS = "moment"
SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 4096)
CONTROLS = (
    Choice("dataflow", "What stays in the array", (("os", "partial sums"), ("ws", "weights"), ("is", "inputs")), "ws"),
    Slider("array", "Rows and columns of the array", (4, 8, 12, 16, 24, 32), 16),
    Slider("m", "M: rows of the input", SIZES, 64),
    Slider("n", "N: columns of the weights", SIZES, 24),
    Slider("k", "K: common dimension", SIZES, 48),
    Slider("moment", "Moment of the first fold", tuple(range(0, 101, 2)), 60, "%"),
)


@remembered
def answer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Cycles and shares, by `analysis.accelerators.systolic.array`."""
    m, n, k, side = (int(values[name]) for name in ("m", "n", "k", "array"))
    counts = count(m, n, k, side, side, values["dataflow"])
    rows, columns, time = (int(size) for size in spatial_dimensions(m, n, k, values["dataflow"]))
    used_rows, used_columns = min(rows, side), min(columns, side)
    load = 0 if values["dataflow"] == DATAFLOWS[0] else used_rows
    fold = load + used_rows + used_columns + time - 2
    return {
        "cycles": int(counts.compute_cycles),
        "folds": int(counts.row_folds) * int(counts.column_folds),
        "utilization": float(counts.compute_utilization),
        "mapping": float(counts.mapping_efficiency),
        "sram_words": int(counts.ifmap_sram_reads) + int(counts.filter_sram_reads) + int(counts.ofmap_sram_writes),
        "rows": used_rows,
        "columns": used_columns,
        "load": load,
        "time": time,
        "fold": fold,
        "cycle": round(values["moment"] / 100 * (fold - 1)),
    }


def working(got: Mapping[str, float], row: int, column: int) -> str:
    """What an element does in the shown cycle of the first fold: idle, loading, working or unused (outside the fold)."""
    if row >= got["rows"] or column >= got["columns"]:
        return "unused"
    if got["cycle"] < got["load"]:
        return "loading" if row <= got["cycle"] else "idle"
    reached = got["cycle"] - got["load"] - row - column
    return "working" if 0 <= reached < got["time"] else "idle"


def draw(values: Mapping[str, Any], width: float) -> str:
    """The array in one cycle, and the shares as bars."""
    got = answer(values)
    side = int(values["array"])
    colors = {"working": drawing.BLUE, "loading": drawing.GOLD, "idle": drawing.FAINT, "unused": "none"}
    board = min(width - 8, 300.0)
    cell = board / side
    parts = []
    counted = {"working": 0, "loading": 0, "idle": 0, "unused": 0}
    for row in range(side):
        for column in range(side):
            state = working(got, row, column)
            counted[state] += 1
            edge = f'stroke="{drawing.FAINT}" stroke-width="0.5"'
            parts.append(drawing.rect(4 + column * cell, 4 + row * cell, cell - 1, cell - 1, colors[state], extra=edge))
    beside = width >= 560
    left, top = (board + 32, 18.0) if beside else (4.0, board + 30)
    right = width - 60
    shares = (
        ("elements at work now", counted["working"] / side**2, drawing.BLUE),
        ("array covered by the folds, mean", got["mapping"], drawing.SKY),
        ("utilisation of the whole product", got["utilization"], drawing.RED),
    )
    for place, (name, share, color) in enumerate(shares):
        y = top + 52 * place
        parts.append(drawing.text(left, y, name))
        parts.append(drawing.rect(left, y + 8, right - left, 18, drawing.FAINT))
        parts.append(drawing.rect(left, y + 8, (right - left) * share, 18, color))
        parts.append(drawing.text(right + 6, y + 22, f"{100 * share:.0f} %", bold=place == 2))
    y = top + 176
    facts = (
        f"cycle {got['cycle'] + 1:,} of {got['fold']:,} of the first fold",
        f"{got['folds']:,} folds, {got['cycles']:,} cycles in all",
        f"{got['sram_words']:,} words between SRAM and array",
    )
    parts += [drawing.text(left, y + 22 * place, words) for place, words in enumerate(facts)]
    legend = (("working", drawing.BLUE), ("loading", drawing.GOLD), ("waiting", drawing.FAINT))
    for place, (name, color) in enumerate(legend):
        parts.append(drawing.rect(left + 88 * place, y + 66, 13, 13, color))
        parts.append(drawing.text(left + 88 * place + 18, y + 77, name, size=12))
    return drawing.svg(width, max(board + 10, y + 92), parts, tell(values))


def tell(values: Mapping[str, Any]) -> str:
    """The answer in a sentence."""
    got = answer(values)
    side = int(values["array"])
    shares = f"{100 * got['utilization']:.0f} % of them work on average, {100 * got['mapping']:.0f} % are covered"
    return (
        f"A {values['m']:g} x {values['k']:g} by {values['k']:g} x {values['n']:g} product takes {got['cycles']:,} cycles "
        f"in {got['folds']:,} folds on {side} x {side} elements: {shares}."
    )
