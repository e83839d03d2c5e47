"""What must a kernel do, and how long does that take on a GPU by its data sheet?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from analysis.hardware.roofline import DeviceTime, Rates, time_on_device
from analysis.kernels.fp32.cases import BOUNDS, CODE, OPS, Codes, Floats, Operators
from analysis.kernels.fp32.devices import Board
from analysis.kernels.work import Work

BYTES = 4.0  # fp32
FLOP_PER_ELEMENT = {"softmax": 5.0, "ln": 8.0, "pow": 10.0, "powu": 10.0, "gelu": 10.0, "tanh": 10.0}  # one of the others
LAUNCH_S = 5e-6  # a launch on a CUDA stream; the learned correction scales it


@dataclass(frozen=True)
class Physics:
    """What the physical model takes from a board beyond its peak rates.

    Args:
        power_gain: sustained share of the peak is min(1, power_gain * power headroom); infinity: no power limit.
        wide_sm: share of the peak that a multiprocessor of 128 lanes sustains (its shared memory is as wide as that of one with 64).
        shared_issue: share where address arithmetic takes fp32 slots (before Volta).
    """

    power_gain: float = 1.6
    wide_sm: float = 0.8
    shared_issue: float = 1.0

    def sustained_flop_per_s(self, gpu: Board, matrix: bool = True) -> float:
        """Rate that a long compute-bound kernel is expected to hold (FLOP/s)."""
        share = min(1.0, self.power_gain * gpu.power_headroom)
        if gpu.architecture.lanes_per_sm >= 128:
            share *= self.wide_sm
        if not gpu.architecture.separate_integer_pipe:
            share *= self.shared_issue
        return share * (gpu.device.peak_flop_per_s("fp32") if matrix else gpu.device.vector_flop_per_s("fp32"))


@lru_cache(maxsize=1)  # asked of the same kernels by all members of an ensemble
def work(operators: Operators) -> Work:
    """Operations and least traffic of fp32 kernels.

    bmm: 2 b m n k and 4 b (m n + n k + m k); linear adds the bias, 4 k. Element-wise: one operation an element, 4 bytes for each input
        and output.
    softmax: 5 operations an element, layer norm 8, both read and write each element once at least.
    """
    o = operators
    gemm = o.is_gemm
    bias = np.where(o.op == CODE["linear"], o.k, 0.0)
    each = np.array([FLOP_PER_ELEMENT.get(op, 1.0) for op in OPS])[o.op]
    flop = np.where(gemm, 2 * o.b * o.m * o.n * o.k, o.b * o.h * each)
    moved = np.where(gemm, o.b * (o.m * o.n + o.n * o.k + o.m * o.k) + bias, o.b * o.h * o.streams)
    return Work(flop, BYTES * moved)


def roofline(operators: Operators, gpu: Board, physics: Physics | None = None) -> DeviceTime[Floats]:
    """max(flop / rate, bytes / bandwidth), at the peak or, with `physics`, at the sustained rate."""
    todo = work(operators)
    matrix = physics.sustained_flop_per_s(gpu) if physics else gpu.device.peak_flop_per_s("fp32")
    vector = physics.sustained_flop_per_s(gpu, matrix=False) if physics else gpu.device.vector_flop_per_s("fp32")
    rates = Rates(np.where(operators.is_gemm, matrix, vector), gpu.device.memory_bandwidth_bytes_per_s)
    return time_on_device(todo.flop, todo.bytes, rates)


@dataclass(frozen=True)
class Tiling:
    """How a library is expected to cut a matrix product, shapes (n,).

    Args:
        columns, rows: of the output tile.
        tiles: output tiles of the case.
        waves: tiles over multiprocessors, not rounded.
    """

    columns: Floats
    rows: Floats
    tiles: Floats
    waves: Floats


def choose_tiles(operators: Operators, gpu: Board) -> Tiling:
    """The tile of the design's list with the least predicted time: rounded-up waves x tile area x (1 + 16/columns + 16/rows).

    The last factor is the work of loading a tile's operands, which is larger for small tiles. Vectors of a row-wise kernel are not cut
    (one tile a row).
    """
    best: Floats = np.full(len(operators), np.inf)
    columns, rows = np.ones(len(operators)), np.ones(len(operators))
    tiles = operators.b.copy()
    for op, choices in (("bmm", gpu.bmm_tiles), ("linear", gpu.linear_tiles)):
        which: NDArray[np.bool_] = operators.op == CODE[op]
        if not which.any():
            continue
        for c, r in choices:
            count = np.ceil(operators.m / r) * np.ceil(operators.k / c) * operators.b
            cost = np.ceil(count / gpu.sms) * c * r * (1 + 16 / c + 16 / r)
            better = which & (cost < best)
            best = np.where(better, cost, best)
            columns, rows, tiles = np.where(better, c, columns), np.where(better, r, rows), np.where(better, count, tiles)
    return Tiling(columns, rows, tiles, tiles / gpu.sms)


def bound_by(operators: Operators, gpu: Board, physics: Physics) -> Codes:
    """Which term of the physical model is largest: compute, memory or launch."""
    terms = roofline(operators, gpu, physics)
    compute, memory, launch = range(len(BOUNDS))
    return np.where(terms.latency_s < LAUNCH_S, launch, np.where(terms.is_compute_bound, compute, memory))
