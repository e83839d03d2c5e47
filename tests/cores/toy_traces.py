"""Small random programs and a scoreboard, so that tests of the learning code need neither an emulator nor a core model."""

from __future__ import annotations

import numpy as np

from analysis.cores.riscv.trace import NO_REGISTER, OpClass, Trace
from analysis.studies.cores.trace_files import trace_of

DESIGNS = ("narrow", "wide")


def toy_trace(instructions: int, seed: int, length: int = 24) -> Trace:
    """A loop of loads, stores, arithmetic and branches that skip the instruction behind them at random."""
    draw = np.random.default_rng(seed)
    kinds = draw.choice([OpClass.INT_ALU, OpClass.INT_MULT, OpClass.MEM_READ, OpClass.MEM_WRITE, OpClass.BRANCH], length - 1)
    kinds = np.append(kinds, OpClass.BRANCH)
    sources = draw.integers(1, 20, (length, 3)).astype(np.uint8)
    sources[:, 2] = NO_REGISTER
    destination = np.where((kinds == OpClass.BRANCH) | (kinds == OpClass.MEM_WRITE), NO_REGISTER, draw.integers(1, 20, length))
    stride = draw.choice([8, 64, 0], length)
    spread = draw.choice([1 << 10, 1 << 18], length)
    memory = (kinds == OpClass.MEM_READ) | (kinds == OpClass.MEM_WRITE)
    row, rows, address, turn = 0, [], [], 0
    while len(rows) < instructions:
        rows.append(row)
        where = 0
        if memory[row]:
            where = 0x100000 + 0x100000 * row + int(stride[row] * turn if stride[row] else draw.integers(0, spread[row]) * 8)
        address.append(where)
        skip = kinds[row] == OpClass.BRANCH and row < length - 2 and draw.random() < 0.3
        turn += row == length - 1
        row = (row + (2 if skip else 1)) % length
    rows_array = np.array(rows)
    return trace_of(
        0x10000 + 4 * rows_array,
        kinds[rows_array],
        address,
        sources[rows_array],
        destination[rows_array],
        np.where(memory, 8, 0)[rows_array],
        np.full(instructions, 4),
        0x10000 + 4 * row,
    )


def toy_retire_cycles(trace: Trace, width: int, miss: int) -> np.ndarray:
    """In-order issue, `width` an issue cycle, a direct-mapped cache of 256 lines; in-order retirement."""
    opclass, address, sources, destination = trace.opclass, trace.address.astype(np.int64) >> 6, trace.sources, trace.destination
    ready, tags = np.zeros(256, np.int64), np.full(256, -1, np.int64)
    issue, issued, retired, result = 0, 0, 0, []
    for i in range(len(trace)):
        start = max([issue, *(int(ready[s]) for s in sources[i] if s < 64)])
        issued = issued + 1 if start == issue else 1
        issue = start
        latency = 3 if opclass[i] == OpClass.INT_MULT else 1
        if opclass[i] == OpClass.MEM_READ:
            hit = tags[address[i] & 255] == address[i]
            tags[address[i] & 255] = address[i]
            latency = 2 if hit else miss
        if destination[i] < 64:
            ready[destination[i]] = start + latency
        retired = max(retired, start + latency)
        if issued == width:
            issue, issued = issue + 1, 0
        result.append(retired)
    return np.array(result, dtype=np.int64)


def toy_retire(trace: Trace) -> np.ndarray:
    """Retire cycles on both toy designs, shape (n, 2)."""
    return np.stack([toy_retire_cycles(trace, 1, 20), toy_retire_cycles(trace, 4, 30)], axis=1)
