"""The same systolic array as a loop nest: what do two kinds of model agree on, and what does only one of them see?

A loop nest counts accesses and the product of its temporal loops; it has no notion of operands that arrive one cycle later in each row.
Its SRAM counts equal the systolic formulas; its cycles lack the loading and the skew of every fold.
"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.accelerators.loopnest.architecture import Architecture, Axis, Level
from analysis.accelerators.loopnest.evaluation import evaluate
from analysis.accelerators.loopnest.mapping import Loop, Mapping
from analysis.accelerators.loopnest.problem import matmul

# Dataflow: tensor that stays, loops over the rows, the columns and in time (a product's rows are on P, its columns on M, the sum on C).
LAYOUT = {"os": ("Outputs", "P", "M", "C"), "ws": ("Weights", "C", "M", "P"), "is": ("Inputs", "C", "P", "M")}


@dataclass(frozen=True)
class LoopNestCounts:
    """What the loop nest says of a product on a systolic array.

    Args:
        cycles: product of the temporal loops (cycles).
        missing_cycles: loading and skew of the folds, which only the systolic model charges (cycles).
        ifmap_sram_reads, filter_sram_reads, ofmap_sram_writes: words between SRAM and array (words).
    """

    cycles: int
    missing_cycles: int
    ifmap_sram_reads: int
    filter_sram_reads: int
    ofmap_sram_writes: int


def as_loop_nest(m: int, n: int, k: int, rows: int, columns: int, dataflow: str) -> LoopNestCounts:
    """Evaluate a product on a systolic array by `analysis.accelerators.loopnest.evaluation`.

    cycles = folds x T; missing = folds x (R + C - 2) for os, folds x (2 R + C - 2) for ws and is. The two dimensions in space are
    rounded up to whole folds, since a loop nest has whole factors.

    Args:
        m, n, k: dimensions of the product (count).
        rows, columns: the array (count).
    """
    if dataflow not in LAYOUT:
        raise ValueError(f"unknown dataflow {dataflow!r}, expected one of {', '.join(LAYOUT)}")
    stays, down, across, time = LAYOUT[dataflow]
    size = {"P": m, "M": n, "C": k}
    down_folds, across_folds = -(-size[down] // rows), -(-size[across] // columns)
    size[down], size[across] = down_folds * rows, across_folds * columns
    design = Architecture(
        name=f"{rows} x {columns} {dataflow}",
        levels=(
            Level("sram", keeps=("Weights", "Inputs", "Outputs"), fanout=(Axis("rows", rows), Axis("columns", columns))),
            Level("pe", keeps=(stays,), instances=rows * columns),
        ),
        mac_count=rows * columns,
        mac_energy_j=0.0,
    )
    mapping = Mapping(
        (
            ("sram", (Loop(across, across_folds), Loop(down, down_folds))),
            ("rows", (Loop(down, rows),)),
            ("columns", (Loop(across, columns),)),
            ("pe", (Loop(time, size[time]),)),
        )
    )
    answer = evaluate(matmul(m=size["P"], n=size["M"], k=size["C"]), design, mapping, links=False)
    at = {access.tensor: access for access in answer.accesses if access.level == "sram"}
    folds = down_folds * across_folds
    return LoopNestCounts(
        cycles=answer.compute_cycles,
        missing_cycles=folds * ((1 if dataflow == "os" else 2) * rows + columns - 2),
        ifmap_sram_reads=at["Inputs"].reads,
        filter_sram_reads=at["Weights"].reads,
        ofmap_sram_writes=at["Outputs"].updates,
    )
