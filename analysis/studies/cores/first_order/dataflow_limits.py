"""When could an instruction finish at the earliest: limits set by the program's dependences alone?

No width, port, register file, reorder buffer, cache or predictor of any design enters. As in studies of the limits of parallelism,
an abstract machine starts every instruction once its operands are there; three such machines differ in what else they wait for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.compiled import outer

# Generic latencies by operation class (analysis.cores.riscv.trace.OpClass), cycles: short for integers, longer for multiplication, long
# for division and roots. Loads have their own, by reuse distance.
CLASS_LATENCY = np.array([1, 3, 16, 3, 2, 3, 4, 4, 12, 2, 20, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0], np.int64)
FIRST_LOAD_LATENCY = 4
COLD_LATENCY = 128
WINDOWS = (0, 128, 256)
WAITS_FOR_SURPRISES = (False, False, True)
NAMES = ("dataflow", "window", "window_and_surprises")


def load_latencies(distance: NDArray[np.int32]) -> NDArray[np.int64]:
    """A smooth memory mountain in place of cache levels: 4 + 8 log2(distance / 64), at least 4, at most 128 cycles.

    Args:
        distance: stack distance in lines, below 0 if never touched.
    """
    far = FIRST_LOAD_LATENCY + 8 * np.log2(np.maximum(distance, 64) / 64.0)
    return np.where(distance < 0, COLD_LATENCY, np.minimum(far, COLD_LATENCY)).astype(np.int64)


@outer
def limits(
    latency: NDArray[np.int64],
    sources: NDArray[np.uint8],
    destination: NDArray[np.uint8],
    store_before: NDArray[np.int64],
    surprise: NDArray[np.uint8],
    window: int,
    wait_for_surprises: bool,
) -> NDArray[np.int32]:
    """In-order finish of each instruction on one abstract machine.

    start_i = max(finish of the producers, retire_(i - window), finish of the last surprising branch),
    finish_i = start_i + latency_i, retire_i = max(retire_(i-1), finish_i).

    Args:
        latency: of each instruction (cycles), shape (n,).
        sources, destination: registers, 64 and above: none; shapes (n, 3) and (n,).
        store_before: instruction of the last store to the same word, -1 without one, shape (n,).
        surprise: 1 for a branch that an ideal predictor gets wrong, shape (n,).
        window: instructions in flight, 0 for any number.
        wait_for_surprises: whether nothing behind a surprising branch starts before it is done.
    Returns:
        shape (n, 2): cycles by which the frontier moves (retire_i - retire_(i-1)), and slack (retire_i - finish_i).
    Source: the method of Wall, Limits of instruction-level parallelism, 1991.
    """
    n = len(latency)
    result = np.empty((n, 2), np.int32)
    ready = np.zeros(256, np.int64)
    finish = np.empty(n, np.int64)
    retire = np.empty(n, np.int64)
    frontier = np.int64(0)
    barrier = np.int64(0)
    for i in range(n):
        start = barrier
        if window > 0 and i >= window:
            start = max(start, retire[i - window])
        for k in range(3):
            register = sources[i, k]
            if register < 64:
                start = max(start, ready[register])
        if store_before[i] >= 0:
            start = max(start, finish[store_before[i]])
        done = start + latency[i]
        finish[i] = done
        if destination[i] < 64:
            ready[destination[i]] = done
        if wait_for_surprises and surprise[i]:
            barrier = max(barrier, done)
        moved = max(frontier, done)
        result[i, 0] = moved - frontier
        result[i, 1] = moved - done
        frontier = moved
        retire[i] = moved
    return result
