"""What does SCALE-Sim's own memory model print when the bandwidth is given, faults included?

A reference for comparison, not a model of hardware (that is `analysis.studies.accelerators.systolic.memory`). As observed in the tool:
each read
buffer holds the operand in the order of first use, in sets of a hundredth of its size; half of it is active. A miss moves the
active window on by the other half and waits for a whole new half, whether or not what is wanted was fetched before. Version 2.0.2
adds the time left until that arrives to the delay even if it is negative; 3.0.0 adds it a second time if it is positive
(its issue 130). Address by address, so for small products.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from analysis.accelerators.systolic.array import OS, WS, dataflow_codes, spatial_dimensions

ACTIVE = 0.5  # part of each buffer that is in use
SETS = 100
READ_LATENCY = 1


@dataclass(frozen=True)
class ScaleSimMemory:
    """What the tool prints of one layer's memory.

    Args:
        stall_cycles: stalls (cycles).
        compute_cycles: index of the last demand row plus the stalls (cycles).
        ifmap_dram_reads, filter_dram_reads: words asked of DRAM, padding included (words).
        ofmap_dram_writes: words drained (words).
    """

    stall_cycles: int
    compute_cycles: int
    ifmap_dram_reads: int
    filter_dram_reads: int
    ofmap_dram_writes: int


@dataclass(frozen=True)
class _Product:
    m: int
    n: int
    k: int
    rows: int
    columns: int
    code: int

    def folds(self) -> Iterator[tuple[int, int, int, int]]:
        """First row and column of each fold, and how many of each it uses; rows innermost."""
        s_r, s_c, _ = (int(x) for x in spatial_dimensions(self.m, self.n, self.k, self.code))
        for left in range(0, s_c, self.columns):
            for top in range(0, s_r, self.rows):
                yield top, left, min(self.rows, s_r - top), min(self.columns, s_c - left)

    def demands(self) -> Iterator[tuple[list[int], list[int], list[int]]]:
        """Input, weight and output addresses of every demand row."""
        rows, columns, code = self.rows, self.columns, self.code
        time = int(spatial_dimensions(self.m, self.n, self.k, code)[2])
        for top, left, r, c in self.folds():
            for t in range(time + rows + columns - 2 if code == OS else time + 2 * rows + columns - 2):
                if code == OS:
                    inputs = [(top + i) * self.k + t - i for i in range(r) if 0 <= t - i < time]
                    weights = [(t - j) * self.n + left + j for j in range(c) if 0 <= t - j < time]
                    out = [(j, rows - 1 - (t - (time - 1) - j)) for j in range(c)]
                    yield inputs, weights, [(top + i) * self.n + left + j for j, i in out if 0 <= i < r]
                    continue
                # The stationary operand enters bottom row first; the moving one follows, skewed; sums leave at the bottom, skewed.
                held = rows - 1 - t
                stream = [(top + i, t - rows - i) for i in range(r) if 0 <= t - rows - i < time]
                leave = [(left + j, t - (2 * rows - 1) - j) for j in range(c) if 0 <= t - (2 * rows - 1) - j < time]
                across = [left + j for j in range(c)] if 0 <= held < r else []
                if code == WS:
                    weights = [(top + held) * self.n + column for column in across]
                    yield [s * self.k + row for row, s in stream], weights, [s * self.n + column for column, s in leave]
                else:
                    inputs = [column * self.k + top + held for column in across]
                    yield inputs, [row * self.n + s for row, s in stream], [column * self.n + s for column, s in leave]

    def fetch_order(self) -> tuple[list[int], list[int]]:
        """Input and weight addresses in the order in which the tool prefetches them; -1 where the array is not full."""
        if self.code == OS:
            a = [
                [row * self.k + t if row < self.m else -1 for row in range(top, top + self.rows)]
                for top in range(0, self.m, self.rows)
                for t in range(self.k)
            ]
            b = [
                [t * self.n + column if column < self.n else -1 for column in range(left, left + self.columns)]
                for left in range(0, self.n, self.columns)
                for t in range(self.k)
            ]
            return _diagonals(a), _diagonals(b)
        weights_stay = self.code == WS
        length, width = (self.m, self.n) if weights_stay else (self.n, self.m)
        moving = [
            [(s * self.k + row if weights_stay else row * self.n + s) if row < self.k else -1 for row in range(top, top + self.rows)]
            for top in range(0, self.k, self.rows)
            for s in range(length)
        ]
        held = [
            (row * self.n + column if weights_stay else column * self.k + row) if column < width else -1
            for left in range(0, width, self.columns)
            for row in range(self.k)
            for column in range(left, left + self.columns)
        ]
        return (_diagonals(moving), held) if weights_stay else (held, _diagonals(moving))


def _diagonals(matrix: list[list[int]]) -> list[int]:
    """Entries along the anti-diagonals, each from its lowest row up."""
    height, width = len(matrix), len(matrix[0])
    return [
        matrix[row][diagonal - row]
        for diagonal in range(height + width - 1)
        for row in range(min(diagonal, height - 1), max(0, diagonal - width + 1) - 1, -1)
    ]


class _ReadBuffer:
    """One operand's SRAM: which sets of the fetch order are active, and when the last transfer ends."""

    def __init__(self, order: list[int], size: int, bandwidth: int, twice: bool) -> None:
        active = math.ceil(size * ACTIVE)
        per_set = math.ceil(size / SETS)
        self.where: dict[int, list[int]] = {}
        current = filled = 0
        for address in order:
            if address >= 0:
                self.where.setdefault(address, []).append(current)
                filled += 1
                if filled == per_set:
                    current, filled = current + 1, 0
        self.sets = current + 1
        self.active = min(math.ceil(active / per_set), self.sets)
        self.spare = min(math.ceil((size - active) / per_set), self.sets - self.active)
        self.start = 0
        self.lines = math.ceil((size - active) / bandwidth)
        self.bandwidth, self.twice = bandwidth, twice
        self.fetched = min(math.ceil(active / bandwidth), math.ceil(len(order) / bandwidth)) * bandwidth
        self.ready = -1

    def delay(self, cycle: int, addresses: list[int]) -> int:
        """Cycles beyond a hit that a row of requests takes."""
        offset, start = 1, self.start
        where, sets, active = self.where, self.sets, self.active
        for address in addresses:
            for one in where[address]:
                if (one - start) % sets < active:
                    break
            else:
                while all((one - start) % sets >= active for one in where[address]):
                    start = (start + self.spare) % sets
                    self.fetched += self.lines * self.bandwidth
                    self.ready += self.lines + READ_LATENCY
                    wait = self.ready - (cycle + offset)
                    offset += wait
                    if self.twice and wait > 0:
                        offset += wait
        self.start = start
        return offset - 1


class _WriteBuffer:
    """The outputs' SRAM: lines of words that fill one half and drain from the other."""

    def __init__(self, size: int, bandwidth: int) -> None:
        self.size, self.bandwidth = size, bandwidth
        self.drain_size = size - math.ceil(size * ACTIVE)
        self.free, self.drained_until, self.written = size, 0, 0
        self.lines: list[int] = []
        self.partial, self.next_line = 0, 0

    def _drain(self, cycle: int) -> None:
        end = min(self.next_line + math.ceil(self.drain_size / self.bandwidth), len(self.lines))
        count = end - self.next_line
        words = count * self.bandwidth - (self.bandwidth - self.lines[end - 1])
        self.written += words
        self.free += words
        self.drained_until = cycle + count - 1
        self.next_line = end

    def _flush(self) -> None:
        if self.partial:
            self.lines.append(self.partial)
            self.partial = 0

    def delay(self, cycle: int, words: int) -> int:
        """Cycles that a row of writes waits."""
        now = cycle
        for _ in range(words):
            self.partial += 1
            self.free -= 1
            if self.partial == self.bandwidth:
                self._flush()
            if now < self.drained_until:
                if self.free <= 0:
                    now = self.drained_until
            elif self.free < self.size - self.drain_size:
                self._flush()
                self._drain(now)
        return now - cycle

    def finish(self, cycle: int) -> None:
        """Drain what is left."""
        self._flush()
        while self.next_line < len(self.lines):
            self._drain(cycle)
            cycle = self.drained_until + 1


def scale_sim_memory(
    m: int, n: int, k: int, rows: int, columns: int, dataflow: str, sram_bytes: int, bandwidth: int, version: str = "3.0.0"
) -> ScaleSimMemory:
    """Stalls and DRAM counts of a product in SCALE-Sim's USER mode.

    In every demand row the array waits for the slowest of the three buffers: stalls = sum of max(input, weight, output delay).

    Args:
        m, n, k: dimensions of the product (count).
        rows, columns: the array (count).
        sram_bytes: of each operand; words are bytes (bytes).
        bandwidth: of each operand (words/cycle).
        version: 3.0.0 or 2.0.2.
    Raises:
        ValueError: an unknown dataflow or version.
    """
    if version not in ("3.0.0", "2.0.2"):
        raise ValueError(f"unknown version {version!r}, expected 3.0.0 or 2.0.2")
    product = _Product(m, n, k, rows, columns, int(dataflow_codes(dataflow)))
    inputs, weights = (_ReadBuffer(order, sram_bytes, bandwidth, version == "3.0.0") for order in product.fetch_order())
    outputs = _WriteBuffer(sram_bytes, bandwidth)
    stalls = row = last = 0
    for row, (read, also, written) in enumerate(product.demands()):
        cycle = row + stalls
        delays = inputs.delay(cycle, read), weights.delay(cycle, also), outputs.delay(cycle, len(written))
        last = cycle + delays[2]
        stalls += max(delays)
    outputs.finish(last)
    return ScaleSimMemory(stalls, row + stalls, inputs.fetched, weights.fetched, outputs.written)


def scale_sim_drained(m: int, n: int, k: int, rows: int, columns: int, dataflow: str, sram_bytes: int) -> int:
    """DRAM writes of a product in SCALE-Sim's CALC mode: the output buffer alone, one array row of words a cycle, never waiting (words).

    Args:
        m, n, k: dimensions of the product (count).
        rows, columns: the array (count).
        sram_bytes: of the outputs; words are bytes (bytes).
    Raises:
        ValueError: an unknown dataflow.
    """
    outputs = _WriteBuffer(sram_bytes, columns)
    stalls = row = last = 0
    for row, (_, _, written) in enumerate(_Product(m, n, k, rows, columns, int(dataflow_codes(dataflow))).demands()):
        delay = outputs.delay(row + stalls, len(written))
        last = row + stalls + delay
        stalls += delay
    outputs.finish(last)
    return outputs.written
