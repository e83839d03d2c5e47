"""How many cycles does a systolic array need for a matrix product, and how often does it touch its SRAMs?

A product of an M x K input with a K x N weight matrix runs on R x C processing elements (PEs). Two of its
three dimensions lie in space, cut into folds of R x C; the third streams through each fold in time:

| dataflow | rows S_r | columns S_c | time T | stays in the PEs |
|---|---|---|---|---|
| os, output stationary | M | N | K | partial sums |
| ws, weight stationary | K | N | M | weights |
| is, input stationary  | K | M | N | inputs |

All functions take numbers or arrays that broadcast against each other, so a million shapes cost one call.

Source: A. Samajdar et al., "SCALE-Sim" (arXiv:1811.02883), section II; the rules behind the switches in
`Quirks` were observed on SCALE-Sim 3.0.0 (data/recorded/scale-sim/README.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

DATAFLOWS = ("os", "ws", "is")
OS, WS, IS = range(3)

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Quirks:
    """What SCALE-Sim 3.0.0 does and a systolic array does not; all off describes the array.

    Args:
        full_edge_folds: a fold that uses r < R rows or c < C columns is charged the cycles of a full one.
        last_cycle_index: the number printed as "compute cycles" is the index of the last cycle, one too small.
        output_write_edges: output stationary adds R + C to the output writes of each fold.
        skew_twice: the utilisation of ws and is divides by C - 1 cycles a fold more than are charged.
        convolution_rounding: a convolution whose window does not divide its input gets one output row and column too many.
    """

    full_edge_folds: bool = False
    last_cycle_index: bool = False
    output_write_edges: bool = False
    skew_twice: bool = False
    convolution_rounding: bool = False


NO_QUIRKS = Quirks()
SCALE_SIM_3 = Quirks(True, True, True, True, True)


@dataclass(frozen=True)
class SystolicCounts:
    """Cycles and accesses of matrix products on systolic arrays; every field is an array of the broadcast shape.

    Args:
        row_folds, column_folds: ceil(S_r / R) and ceil(S_c / C) (count).
        demand_rows: cycles in which the array takes operands or gives results, folds one after the other (cycles).
        compute_cycles: demand_rows, or one less with `Quirks.last_cycle_index` (cycles).
        mapping_efficiency: mean over the folds of used PEs / (R C) (1).
        compute_utilization: MACs / (R C cycles) (1).
        ifmap_sram_reads, filter_sram_reads, ofmap_sram_writes: words between SRAM and array, no reuse between folds (words).
    """

    row_folds: Counts
    column_folds: Counts
    macs: Counts
    demand_rows: Counts
    compute_cycles: Counts
    mapping_efficiency: NDArray[np.float64]
    compute_utilization: NDArray[np.float64]
    ifmap_sram_reads: Counts
    filter_sram_reads: Counts
    ofmap_sram_writes: Counts


def dataflow_codes(dataflow: ArrayLike) -> NDArray[np.int8]:
    """Dataflow names as codes: 0 for os, 1 for ws, 2 for is (codes pass through)."""
    names = np.asarray(dataflow)
    if names.dtype.kind in "iu":
        if names.size and not (names.min() >= 0 and names.max() <= 2):
            raise ValueError("dataflow codes are 0 (os), 1 (ws) and 2 (is)")
        return names.astype(np.int8)
    codes = np.full(names.shape, -1, np.int8)
    for code, name in enumerate(DATAFLOWS):
        codes[names == name] = code
    if (codes < 0).any():
        raise ValueError(f"unknown dataflow {np.atleast_1d(names)[np.atleast_1d(codes) < 0][0]!r}, expected one of os, ws, is")
    return codes


def spatial_dimensions(m: ArrayLike, n: ArrayLike, k: ArrayLike, dataflow: ArrayLike) -> tuple[Counts, Counts, Counts]:
    """Rows S_r, columns S_c and time T of a product under a dataflow."""
    code = dataflow_codes(dataflow)
    m, n, k = (np.asarray(x, np.int64) for x in (m, n, k))
    if code.ndim == 0:
        rows, columns, time = ((m, n, k), (k, n, m), (k, m, n))[int(code)]
        return rows, columns, time
    return np.where(code == OS, m, k), np.where(code == IS, m, n), np.where(code == OS, k, np.where(code == WS, m, n))


def count(
    m: ArrayLike, n: ArrayLike, k: ArrayLike, rows: ArrayLike, columns: ArrayLike, dataflow: ArrayLike, quirks: Quirks = NO_QUIRKS
) -> SystolicCounts:
    """Cycles, utilisation and SRAM accesses of C = A B with A: m x k and B: k x n.

    With r and c the rows and columns a fold uses, its cycles are
        os: T + r + c - 2          (operands enter skewed; a sum leaves its PE when it is done)
        ws, is: 2 r + c + T - 2    (r to load the stationary operand, then skew in, stream T, skew out)
    and the folds run one after the other. SRAM words:
        os: inputs M K ceil(N/C), weights K N ceil(M/R), outputs M N
        ws: inputs M K ceil(N/C), weights K N,           outputs M N ceil(K/R)
        is: inputs M K,           weights K N ceil(M/C), outputs M N ceil(K/R)

    Args:
        m, n, k: dimensions of the product (count, >= 1).
        rows, columns: the array, R x C PEs (count, >= 1).
        dataflow: os, ws or is, or the codes of `dataflow_codes`.
        quirks: which of SCALE-Sim's departures to apply.

    Raises:
        ValueError: a dimension below 1, an unknown dataflow, or counts that do not fit 63 bits.
    """
    m, n, k, rows, columns = (np.asarray(x, np.int64) for x in (m, n, k, rows, columns))
    for name, value in (("m", m), ("n", n), ("k", k), ("rows", rows), ("columns", columns)):
        if value.size and value.min() < 1:
            raise ValueError(f"{name} must be at least 1, got {value.min()}")
    code = dataflow_codes(dataflow)
    s_r, s_c, time = spatial_dimensions(m, n, k, code)
    if not np.all(fits(m, n, k, rows, columns)):
        raise ValueError("the counts of this product exceed 63 bits")

    row_folds = -(-s_r // rows)
    column_folds = -(-s_c // columns)
    folds = row_folds * column_folds
    # A fold costs `streaming` plus its rows (once or twice) plus its columns.
    row_weight = np.where(code == OS, 1, 2).astype(np.int64)
    if quirks.full_edge_folds:
        demand_rows = folds * (time - 2 + row_weight * rows + columns)
    else:
        demand_rows = folds * (time - 2) + column_folds * row_weight * s_r + row_folds * s_c
    macs = m * n * k
    pes = rows * columns
    charged = demand_rows + np.where(code == OS, 0, folds * (columns - 1)) if quirks.skew_twice else demand_rows

    written = m * n
    inputs, weights, outputs = m * k, n * k, np.where(code == OS, written, written * row_folds)
    if quirks.output_write_edges:
        outputs = outputs + np.where(code == OS, folds * (rows + columns), 0)
    return SystolicCounts(
        row_folds=row_folds,
        column_folds=column_folds,
        macs=macs,
        demand_rows=demand_rows,
        compute_cycles=demand_rows - 1 if quirks.last_cycle_index else demand_rows,
        mapping_efficiency=(s_r * s_c) / (folds * pes),
        compute_utilization=macs / (charged * pes.astype(np.float64)),
        ifmap_sram_reads=np.where(code == IS, inputs, inputs * column_folds),
        filter_sram_reads=weights * np.where(code == OS, row_folds, np.where(code == IS, column_folds, 1)),
        ofmap_sram_writes=outputs,
    )


def kept(k: ArrayLike, left: ArrayLike, of: ArrayLike) -> Counts:
    """Rows of K weights that a sparsity leaves: floor(K / M) N + min(K mod M, N). The array runs the product of that depth.

    SCALE-Sim 3.0.0 keeps the first N rows of every M and drops the inputs that meet none.
    """
    k, left, of = (np.asarray(x, np.int64) for x in (k, left, of))
    return k // of * left + np.minimum(k % of, left)


def fits(m: ArrayLike, n: ArrayLike, k: ArrayLike, rows: ArrayLike, columns: ArrayLike) -> NDArray[np.bool_]:
    """Whether every count of `count` surely fits 63 bits: 4 (M + R + C)(N + R + C)(K + R + C) < 2^63."""
    m, n, k, rows, columns = (np.asarray(x, np.float64) for x in (m, n, k, rows, columns))
    edge = rows + columns
    return np.asarray(4.0 * (m + edge) * (n + edge) * (k + edge) < 2.0**63)


def convolution_output(size: ArrayLike, window: ArrayLike, stride: ArrayLike, quirks: Quirks = NO_QUIRKS) -> Counts:
    """Output size of a convolution along one axis: floor((size - window) / stride) + 1.

    With `Quirks.convolution_rounding` it is ceil((size - window + stride) / stride): one more whenever the stride does not
    divide size - window (ResNet-50's conv1, padded to 230 x 230, gets 113 x 113 and not 112 x 112).
    """
    size, window, stride = (np.asarray(x, np.int64) for x in (size, window, stride))
    if (stride < 1).any() or (window < 1).any() or (size < window).any():
        raise ValueError("a convolution needs 1 <= window <= input size and a stride of at least 1")
    if quirks.convolution_rounding:
        return -(-(size - window + stride) // stride)
    return (size - window) // stride + 1


def pipelined_cycles(m: int, n: int, k: int, rows: int, columns: int) -> int:
    """Weight-stationary cycles when the next weights load while this fold streams.

    R_0 + sum over folds of max(M, rows of the next fold) + R_last + C_last - 2: waves of consecutive folds follow each other
    without a gap, so that skew is paid once. Never more than the sum of separate folds.
    """
    row_folds, column_folds = -(-k // rows), -(-n // columns)
    last = k - (row_folds - 1) * rows
    first = min(rows, k)
    # Loads hidden behind a stream: every fold's but the first; the last stream hides none.
    full_loads = column_folds * (row_folds - 1) - (1 if row_folds > 1 else 0)
    last_loads = column_folds - (1 if row_folds == 1 else 0)
    streaming = full_loads * max(m, rows) + last_loads * max(m, last) + m
    return first + streaming + last + (n - (column_folds - 1) * columns) - 2
