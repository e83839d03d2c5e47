"""Does data that really moves through the PEs, cycle by cycle, take as long as the formulas say?

The reference for `analysis.accelerators.systolic.array`: registers, skewed operands, partial sums that travel. Slow on purpose and
free of formulas, so that it can disagree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.int64]


@dataclass(frozen=True)
class SystolicRun:
    """What was seen while a product went through the array.

    Args:
        product: A B as the array computed it, shape (M, N).
        cycles: cycles from the first operand in to the last result out, all folds (cycles).
        folds: folds run (count).
        macs_per_cycle: PEs busy with a multiply-accumulate in each cycle, shape (cycles,).
        ifmap_reads, filter_reads, ofmap_writes: words that crossed the edge of the array (words).
    """

    product: Matrix
    cycles: int
    folds: int
    macs_per_cycle: NDArray[np.int64]
    ifmap_reads: int
    filter_reads: int
    ofmap_writes: int


@dataclass(frozen=True)
class _Fold:
    result: Matrix
    macs_per_cycle: list[int]
    streamed: int  # words entering from the left
    loaded: int  # words entering from the top
    written: int


def run(a: Matrix, b: Matrix, rows: int, columns: int, dataflow: str) -> SystolicRun:
    """Push A (M x K) and B (K x N) through a rows x columns array, fold by fold, and count what happens.

    Args:
        a, b: integer operands, shapes (M, K) and (K, N).
        rows, columns: the array (count).
    """
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"operands do not meet: {a.shape} and {b.shape}")
    if dataflow in ("os", "ws"):
        return _folds(a, b, rows, columns, dataflow)
    if dataflow == "is":
        # A is the stationary operand of the transposed product.
        turned = _folds(b.T, a.T, rows, columns, "ws")
        return SystolicRun(
            turned.product.T,
            turned.cycles,
            turned.folds,
            turned.macs_per_cycle,
            turned.filter_reads,
            turned.ifmap_reads,
            turned.ofmap_writes,
        )
    raise ValueError(f"unknown dataflow {dataflow!r}, expected one of os, ws, is")


def _folds(a: Matrix, b: Matrix, rows: int, columns: int, dataflow: str) -> SystolicRun:
    """Fold by fold, column by column of the array's work: os cuts rows of A, ws the summed dimension."""
    product = np.zeros((a.shape[0], b.shape[1]), np.int64)
    folds: list[_Fold] = []
    for left in range(0, b.shape[1], columns):
        across = slice(left, left + columns)
        for top in range(0, a.shape[0] if dataflow == "os" else a.shape[1], rows):
            down = slice(top, top + rows)
            if dataflow == "os":
                folds.append(_output_stationary_fold(a[down], b[:, across]))
                product[down, across] = folds[-1].result
            else:
                folds.append(_stationary_fold(a[:, down], b[down, across]))
                product[:, across] += folds[-1].result
    return _join(product, folds)


def _output_stationary_fold(a: Matrix, b: Matrix) -> _Fold:
    r, length = a.shape
    c = b.shape[1]
    from_left, left_full = np.zeros((r, c), np.int64), np.zeros((r, c), bool)
    from_top, top_full = np.zeros((r, c), np.int64), np.zeros((r, c), bool)
    sums, done = np.zeros((r, c), np.int64), np.zeros((r, c), np.int64)
    macs, streamed, loaded, written, cycle = [], 0, 0, 0, 0
    while written < r * c:
        from_left[:, 1:], left_full[:, 1:] = from_left[:, :-1].copy(), left_full[:, :-1].copy()
        from_top[1:], top_full[1:] = from_top[:-1].copy(), top_full[:-1].copy()
        for i in range(r):
            left_full[i, 0] = 0 <= cycle - i < length
            if left_full[i, 0]:
                from_left[i, 0] = a[i, cycle - i]
                streamed += 1
        for j in range(c):
            top_full[0, j] = 0 <= cycle - j < length
            if top_full[0, j]:
                from_top[0, j] = b[cycle - j, j]
                loaded += 1
        busy = left_full & top_full
        sums += np.where(busy, from_left * from_top, 0)
        done += busy
        macs.append(int(busy.sum()))
        written += int((busy & (done == length)).sum())
        cycle += 1
    return _Fold(sums, macs, streamed, loaded, written)


def _stationary_fold(a: Matrix, b: Matrix) -> _Fold:
    length, r = a.shape
    c = b.shape[1]
    weights = np.zeros((r, c), np.int64)
    macs, streamed, loaded, written, cycle = [], 0, 0, 0, 0
    for step in range(r):  # the bottom row goes in first and is pushed down
        weights[1:] = weights[:-1].copy()
        weights[0] = b[r - 1 - step]
        loaded += c
        macs.append(0)
        cycle += 1
    inputs, full = np.zeros((r, c), np.int64), np.zeros((r, c), bool)
    sums, result = np.zeros((r, c), np.int64), np.zeros((length, c), np.int64)
    taken = np.zeros(c, np.int64)
    start = cycle
    while written < length * c:
        inputs[:, 1:], full[:, 1:] = inputs[:, :-1].copy(), full[:, :-1].copy()
        for i in range(r):
            sample = cycle - start - i
            full[i, 0] = 0 <= sample < length
            if full[i, 0]:
                inputs[i, 0] = a[sample, i]
                streamed += 1
        above = np.vstack([np.zeros((1, c), np.int64), sums[:-1]])
        sums = np.where(full, above + inputs * weights, 0)
        macs.append(int(full.sum()))
        for j in np.flatnonzero(full[-1]):
            result[taken[j], j] = sums[-1, j]
            taken[j] += 1
            written += 1
        cycle += 1
    return _Fold(result, macs, streamed, loaded, written)


def _join(product: Matrix, folds: list[_Fold]) -> SystolicRun:
    macs = np.array([busy for fold in folds for busy in fold.macs_per_cycle], np.int64)
    return SystolicRun(
        product=product,
        cycles=len(macs),
        folds=len(folds),
        macs_per_cycle=macs,
        ifmap_reads=sum(fold.streamed for fold in folds),
        filter_reads=sum(fold.loaded for fold in folds),
        ofmap_writes=sum(fold.written for fold in folds),
    )
