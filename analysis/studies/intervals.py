"""How sure is a number? Resampling of what is independent, Student's t where few groups were seen, quantiles of calibrated intervals.

The only place with such code; the caller says which rows are independent of each other (devices, sources, programs).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
MAX_EXACT_BOOTSTRAP_N = 6


@dataclass(frozen=True)
class Interval:
    """A statistic with the percentile interval of its resamples.

    `clusters` (or observations, where these are drawn) is their number; `undefined` the share of resamples without a value.
    """

    value: float
    low: float
    high: float
    clusters: int
    undefined: float

    @property
    def contains_zero(self) -> bool:
        """Whether the data leave the sign open."""
        return self.low <= 0 <= self.high


def _interval(value: float, values: Floats, clusters: int, tail: float) -> Interval:
    """From the statistic on each resample (NaN: undefined), leaving out the share `tail` at each end."""
    kept = values[~np.isnan(values)]
    if 2 * kept.size < values.size:
        raise ValueError("the statistic is undefined on most resamples")
    low, high = np.quantile(kept, [tail, 1 - tail])
    return Interval(float(value), float(low), float(high), clusters, 1 - kept.size / values.size)


def exact_bootstrap(statistic: Callable[..., float], *samples: ArrayLike, level: float = 0.95) -> Interval:
    """Percentile interval over all n^n resamples of a few paired observations: no draw is made, so no seed is needed.

    Args:
        statistic: takes the samples, gives one number; NaN where it is undefined (such resamples are counted, then left out).
        samples: of one length n, from 2 to 6; level: coverage, 0..1.
    """
    arrays = [np.asarray(sample, dtype=float) for sample in samples]
    if not arrays or arrays[0].shape[0] < 2 or any(a.shape[0] != arrays[0].shape[0] for a in arrays):
        raise ValueError("expected samples of one length, at least 2")
    n = arrays[0].shape[0]
    if n > MAX_EXACT_BOOTSTRAP_N:
        raise ValueError(f"{n}^{n} resamples are too many to enumerate; expected n at most {MAX_EXACT_BOOTSTRAP_N}")
    draws = np.array(list(itertools.product(range(n), repeat=n)))
    values = np.array([statistic(*(a[draw] for a in arrays)) for draw in draws], dtype=float)
    return _interval(statistic(*arrays), values, n, (1 - level) / 2)


def student_quantile(freedom: int, probability: float) -> float:
    """Quantile of Student's t with a whole number of degrees of freedom, without scipy, which no answer may need.

    P(|T| <= t) is a finite sum of powers of cos(atan(t / sqrt(freedom))); it is inverted by bisection to the last digit.

    Args:
        freedom: at least 1; probability: from 1/2 to below 1.
    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """

    def within(t: float) -> float:
        angle = math.atan(t / math.sqrt(freedom))
        term = math.cos(angle) if freedom % 2 else 1.0
        total = 0.0 if freedom == 1 else term
        for power in range(3 if freedom % 2 else 2, freedom - 1, 2):
            term *= math.cos(angle) ** 2 * (power - 1) / power
            total += term
        return 2 / math.pi * (angle + math.sin(angle) * total) if freedom % 2 else math.sin(angle) * total

    low, high = 0.0, 1.0
    while within(high) < 2 * probability - 1:
        high *= 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if within(middle) < 2 * probability - 1 else (low, middle)
    return high


def cluster_tail(clusters: int, level: float) -> float:
    """Share of resamples to leave out at each end: Phi(-sqrt(G / (G - 1)) t), t Student's quantile of G - 1 degrees of freedom.

    Percentiles of few clusters make too narrow an interval: of five they hold 81 % where 95 % is meant.

    Args:
        clusters: G, at least 2; level: coverage, 0..1.
    Source: the expanded percentile interval of Hesterberg, The American Statistician 69, 2015
        (https://pmc.ncbi.nlm.nih.gov/articles/PMC4784504), applied to clusters.
    """
    if clusters < 2:
        raise ValueError("an interval needs at least 2 clusters")
    return NormalDist().cdf(-math.sqrt(clusters / (clusters - 1)) * student_quantile(clusters - 1, (1 + level) / 2))


def cluster_bootstrap(
    statistic: Callable[..., float],
    clusters: Sequence[object] | NDArray[np.generic],
    *samples: ArrayLike,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    together: bool = False,
) -> Interval:
    """Interval of a statistic of observations that share a device, source or program: whole clusters are drawn with replacement.

    The ends are the percentiles at `cluster_tail`, which widens the interval where clusters are few.

    Args:
        statistic: takes the samples (the rows of the clusters drawn, one after the other) and gives one number; NaN where undefined.
        clusters: what each observation shares with others (its device, source or program), shape (n,).
        level: coverage, 0..1.
        resamples: how many; seed: of the draws.
        together: the statistic takes `axis` as numpy's do, and clusters are of one observation: all resamples are worked out at once.
    """
    arrays = [np.asarray(sample) for sample in samples]
    names, label = np.unique(np.asarray(clusters).astype(str), return_inverse=True)
    if not arrays or any(len(array) != len(label) for array in arrays):
        raise ValueError("expected a cluster for each observation")
    count = len(names)
    tail = cluster_tail(count, level)
    draws = np.random.default_rng(seed).integers(count, size=(resamples, count))
    if count == len(label):  # one observation a cluster
        rows: Iterable[NDArray[np.int64]] = np.argsort(label)[draws]
    else:
        members = [np.flatnonzero(label == k) for k in range(count)]
        rows = (np.concatenate([members[k] for k in draw]) for draw in draws)
    if together and count == len(label):
        values = np.asarray(statistic(*(array[np.argsort(label)[draws]] for array in arrays), axis=1), dtype=float)
    else:
        values = np.array([statistic(*(array[index] for array in arrays)) for index in rows], dtype=float)
    return _interval(statistic(*arrays), values, count, tail)


def student_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Mean of independent values and its interval by Student's t.

    Args:
        values: shape (n,), n at least 2; level: coverage, 0..1.
    """
    found = np.asarray(values, dtype=float)
    half = next_group(len(found), level) * found.std(ddof=1) / math.sqrt(len(found) + 1)
    return Interval(float(found.mean()), float(found.mean() - half), float(found.mean() + half), len(found), 0.0)


def next_group(count: int, level: float) -> float:
    """Half width of the interval for one more group, in standard deviations between `count` groups: t sqrt(1 + 1 / count).

    Args:
        count: groups seen (devices, sources, architectures), at least 2; level: coverage, 0..1.
    """
    if count < 2:
        raise ValueError("an interval for a new group needs at least 2 groups")
    return student_quantile(count - 1, (1 + level) / 2) * math.sqrt(1 + 1 / count)


def weighted_quantile(values: Floats, weight: Floats, level: float) -> float:
    """Least value whose cumulative weight reaches `level` of the total: the conformal quantile, never an interpolated one.

    Args:
        values, weight: shape (n,), weights above zero.
    """
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weight[order])
    return float(values[order][min(np.searchsorted(cumulative, level * cumulative[-1]), len(values) - 1)])


def interpolated_quantile(values: Floats, weight: Floats, level: float) -> float:
    """Weighted quantile, linear between the values at the middle of their weights.

    Args:
        values, weight: shape (n,), weights above zero.
    """
    order = np.argsort(values)
    below = (np.cumsum(weight[order]) - 0.5 * weight[order]) / weight.sum()
    return float(np.interp(level, below, values[order]))
