"""How long does one call take, and how far do repeated measurements spread?"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

CALLS = Callable[[int], None]
"""Runs the thing measured so many times and returns when all are done."""


@dataclass(frozen=True)
class Timing:
    """Statistics of repeated samples; each sample is the mean of `calls` calls in a row.

    Args:
        median_s, p10_s, p90_s, minimum_s: of the samples (s).
        samples: how many (count); calls: calls in each (count).
        mad_s: median absolute deviation from the median (s), not scaled to a standard deviation.
    """

    median_s: float
    mad_s: float
    p10_s: float
    p90_s: float
    minimum_s: float
    samples: int
    calls: int

    @property
    def spread(self) -> float:
        """Relative spread of the samples: (90th - 10th percentile) / median (1)."""
        return (self.p90_s - self.p10_s) / self.median_s

    def row(self) -> dict[str, float]:
        """As columns of a table, with `spread`."""
        return {**asdict(self), "spread": self.spread}


def summarise(samples_s: Sequence[float], calls: int = 1) -> Timing:
    """Median, median absolute deviation and percentiles (linear interpolation) of samples.

    Args:
        samples_s: seconds a call, one or more, above zero.
    """
    values = np.asarray(samples_s, float)
    if values.size == 0 or not np.all(values > 0):
        raise ValueError("expected at least one sample, all above zero")
    median = float(np.median(values))
    p10, p90 = np.percentile(values, [10, 90])
    return Timing(median, float(np.median(np.abs(values - median))), float(p10), float(p90), float(values.min()), values.size, calls)


def measure(
    run: CALLS,
    budget_s: float,
    clock: Callable[[], float] = time.perf_counter,
    shortest_sample_s: float = 3e-4,
    least: int = 5,
    most: int = 200,
) -> Timing:
    """Time calls until the budget is spent.

    The first call compiles and the second warms; its duration sets how many calls make a sample of at least `shortest_sample_s`, which
    keeps the clock's resolution out of the result. A tenth of the budget is warm-up and is thrown away.

    Args:
        budget_s: wall time for the samples (s); at least `least` samples are taken whatever they cost, at most `most`.
    """
    run(1)
    started = clock()
    run(1)
    single = max(clock() - started, 1e-9)
    calls = max(1, math.ceil(shortest_sample_s / single))
    warm_until = clock() + 0.1 * budget_s
    while clock() < warm_until:
        started = clock()
        run(calls)
        single = min(single, (clock() - started) / calls)
    calls = max(1, math.ceil(shortest_sample_s / max(single, 1e-9)))
    samples: list[float] = []
    collecting = gc.isenabled()
    gc.disable()
    try:
        end = clock() + budget_s
        while len(samples) < most and (len(samples) < least or clock() < end):
            started = clock()
            run(calls)
            samples.append((clock() - started) / calls)
    finally:
        if collecting:
            gc.enable()
    return summarise(samples, calls)


class Control:
    """A fixed kernel measured beside every row: when it changes, the machine changed, not the operator.

    Both halves are single-threaded in every runtime: arithmetic in the first-level cache, and a copy that exceeds the second-level one.
    """

    def __init__(self) -> None:
        self._small = np.linspace(0.5, 1.5, 2048, dtype=np.float32)
        self._result = np.empty_like(self._small)
        self._source = np.ones(2 << 20, np.float32)
        self._target = np.empty_like(self._source)

    def measure(self, repeats: int = 5) -> tuple[float, float]:
        """Seconds of the arithmetic and of the copy, the median of some repeats."""
        arithmetic, copy = [], []
        for _ in range(repeats):
            started = time.perf_counter()
            for _ in range(40):
                np.exp(self._small, out=self._result)
            arithmetic.append(time.perf_counter() - started)
            started = time.perf_counter()
            np.copyto(self._target, self._source)
            copy.append(time.perf_counter() - started)
        return float(np.median(arithmetic)), float(np.median(copy))
