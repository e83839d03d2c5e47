"""How long does a systolic array wait for its memory, and how much does it fetch from DRAM?

Each operand has an SRAM of its own, half of it in use and half being filled (double buffering). A block that stays in its half
until it is needed again is fetched once; one that does not is fetched for every fold that needs it. Folds run column by column
of the array's work, rows innermost, as in SCALE-Sim.

Source: A. Samajdar et al., "SCALE-Sim" (arXiv:1811.02883), double-buffered SRAMs; observed on SCALE-Sim 3.0.0
(data/recorded/scale-sim/README.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.accelerators.systolic.array import IS, OS, dataflow_codes, spatial_dimensions


@dataclass(frozen=True)
class Memory:
    """SRAMs and the DRAM behind them.

    Args:
        ifmap_bytes, filter_bytes, ofmap_bytes: SRAM of inputs, weights and outputs (bytes); half of each holds live data.
        bandwidth_bytes_per_cycle: DRAM bandwidth, reads and writes together (bytes/cycle).
        word_bytes: size of an operand (bytes).
        partial_sum_bytes: size of an unfinished output (bytes).
    """

    ifmap_bytes: float
    filter_bytes: float
    ofmap_bytes: float
    bandwidth_bytes_per_cycle: float
    word_bytes: int = 1
    partial_sum_bytes: int = 4

    def __post_init__(self) -> None:
        if min(self.ifmap_bytes, self.filter_bytes, self.ofmap_bytes) < 0 or self.bandwidth_bytes_per_cycle <= 0:
            raise ValueError("SRAM sizes must not be negative and the bandwidth must be positive")
        if self.word_bytes < 1 or self.partial_sum_bytes < 1:
            raise ValueError("words and partial sums take at least one byte")


@dataclass(frozen=True)
class MemoryTiming:
    """Cycles of one product with its memory, and what crossed to DRAM.

    Args:
        compute_cycles: cycles without any wait (cycles).
        stall_cycles: waits for DRAM between folds, the first fill and the last drain included (cycles).
        total_cycles: both together (cycles).
        ifmap_reads, filter_reads, ofmap_writes: DRAM words of each operand (words).
        partial_sum_writes: unfinished outputs that did not fit (words).
        dram_bytes: all of it (bytes).
        bound: "compute" or "memory", whichever takes longer on its own.
    """

    compute_cycles: float
    stall_cycles: float
    total_cycles: float
    ifmap_reads: float
    filter_reads: float
    ofmap_writes: float
    partial_sum_writes: float
    dram_bytes: float
    bound: str


def _blocks(size: int, edge: int) -> NDArray[np.float64]:
    full, rest = divmod(size, edge)
    return np.array([edge] * full + [rest] * (rest > 0), np.float64)


def with_memory(
    m: int, n: int, k: int, rows: int, columns: int, dataflow: str, memory: Memory, unique_inputs: float | None = None
) -> MemoryTiming:
    """Time of a product whose operands come from DRAM through double-buffered SRAMs.

    With c_f the cycles of fold f, l_f the bytes to fetch before it and s_f the bytes to store after it,
        total = l_0 / B + sum_f max(c_f, (l_{f+1} + s_{f-1}) / B) + s_last / B
    (the transfers for the next fold hide behind this one). A tensor that is used again stays only if all of what is used in
    between fits half of its SRAM.

    Args:
        m, n, k: dimensions of the product (count).
        rows, columns: the array (count).
        dataflow: os, ws or is.
        memory: SRAM sizes and DRAM bandwidth.
        unique_inputs: distinct input words, for a convolution whose windows overlap; M K if not given (words).

    Raises:
        ValueError: an unknown dataflow.
    """
    code = int(dataflow_codes(dataflow))
    s_r, s_c, time = (int(x) for x in spatial_dimensions(m, n, k, code))
    inputs = float(m * k if unique_inputs is None else unique_inputs)
    used_rows, used_columns = _blocks(s_r, rows), _blocks(s_c, columns)
    r, c = np.tile(used_rows, len(used_columns)), np.repeat(used_columns, len(used_rows))
    first_row = np.tile(np.arange(len(used_rows)) == 0, len(used_columns))
    last_row = np.tile(np.arange(len(used_rows)) == len(used_rows) - 1, len(used_columns))
    first_column = np.repeat(np.arange(len(used_columns)) == 0, len(used_rows))
    half = {name: 0.5 * getattr(memory, name) for name in ("ifmap_bytes", "filter_bytes", "ofmap_bytes")}

    def fits(words: float, buffer: str, size: int) -> bool:
        return words * size <= half[buffer]

    word, partial = memory.word_bytes, memory.partial_sum_bytes
    nothing = np.zeros(len(r))
    spilled_out, spilled_in = nothing, nothing
    if code == OS:
        compute = time + r + c - 2
        again = first_column | (not fits(inputs, "ifmap_bytes", word))
        ifmap = np.where(again, inputs * r / m, 0)
        keeps = fits(k * float(used_columns[0]), "filter_bytes", word) or fits(float(n) * k, "filter_bytes", word)
        weights = np.where(first_row | (not keeps), k * c, 0)
        written = r * c
    else:
        compute = 2 * r + c + time - 2
        streamed, buffer = (float(n) * k, "filter_bytes") if code == IS else (inputs, "ifmap_bytes")
        again = first_column | (not fits(streamed, buffer, word))
        moving = np.where(again, streamed * r / s_r, 0)
        if code == IS:
            ifmap, weights = inputs * r * c / (float(m) * k), moving
        else:
            ifmap, weights = moving, r * c
        stays = len(used_rows) == 1 or fits(time * float(used_columns[0]), "ofmap_bytes", partial)
        written = np.where(last_row, time * c, 0)
        if not stays:
            spilled_out, spilled_in = np.where(last_row, 0, time * c), np.where(first_row, 0, time * c)

    fetched = word * (ifmap + weights) + partial * spilled_in
    stored = word * written + partial * spilled_out
    transfers = np.append(fetched[1:], 0) + np.append(0, stored[:-1])
    bandwidth = memory.bandwidth_bytes_per_cycle
    total = fetched[0] / bandwidth + np.maximum(compute, transfers / bandwidth).sum() + stored[-1] / bandwidth
    moved = float(fetched.sum() + stored.sum())
    return MemoryTiming(
        compute_cycles=float(compute.sum()),
        stall_cycles=float(total - compute.sum()),
        total_cycles=float(total),
        ifmap_reads=float(ifmap.sum()),
        filter_reads=float(weights.sum()),
        ofmap_writes=float(written.sum()),
        partial_sum_writes=float(spilled_out.sum()),
        dram_bytes=moved,
        bound="memory" if moved / bandwidth > compute.sum() else "compute",
    )


def with_memory_tiled(
    m: int, n: int, k: int, rows: int, columns: int, dataflow: str, memory: Memory, unique_inputs: float | None = None
) -> MemoryTiming:
    """As `with_memory`, with the product cut into equal parts so that what is used again fits, in the way that takes least time.

    Parts are cut from M (os, ws) or from N (is), into 1, 2, 4, ... of them; weights (inputs, for is) are fetched for each part again.
    One part is SCALE-Sim's order.
    """
    streams_weights = int(dataflow_codes(dataflow)) == IS
    length = n if streams_weights else m
    inputs = float(m * k if unique_inputs is None else unique_inputs)
    best: MemoryTiming | None = None
    parts = 1
    while parts <= length:
        size, longer = divmod(length, parts)
        sizes = [(size + 1, longer), (size, parts - longer)]
        timings = []
        for part, times in sizes:
            if times:
                if streams_weights:
                    one = with_memory(m, part, k, rows, columns, dataflow, memory, inputs)
                else:
                    one = with_memory(part, n, k, rows, columns, dataflow, memory, inputs * part / m)
                timings.append((one, times))
        total = _together(timings, memory.bandwidth_bytes_per_cycle)
        if best is None or total.total_cycles < best.total_cycles:
            best = total
        parts *= 2
    assert best is not None
    return best


def _together(timings: list[tuple[MemoryTiming, int]], bandwidth: float) -> MemoryTiming:
    """Several runs one after the other."""
    names = [name for name in MemoryTiming.__dataclass_fields__ if name != "bound"]
    sums = {name: float(sum(times * getattr(one, name) for one, times in timings)) for name in names}
    return MemoryTiming(**sums, bound="memory" if sums["dram_bytes"] / bandwidth > sums["compute_cycles"] else "compute")
