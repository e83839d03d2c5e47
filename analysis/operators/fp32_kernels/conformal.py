"""How sure is a prediction for a GPU nobody measured? Intervals calibrated on other GPUs, each left out of the fit in turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
COVERAGE = 0.9


@dataclass(frozen=True)
class Band:
    """Interval of log(measured / predicted): the latency lies between predicted x exp(lower) and predicted x exp(upper)."""

    lower: float
    upper: float


def weighted_quantile(values: Floats, weight: Floats, level: float) -> float:
    """Least value whose cumulative weight reaches `level` of the total.

    Args:
        values, weight: shape (n,), weights above zero.
    """
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weight[order])
    return float(values[order][min(np.searchsorted(cumulative, level * cumulative[-1]), len(values) - 1)])


def calibrate(residuals: dict[str, Floats], coverage: float = COVERAGE) -> Band:
    """Interval for a new device, a device being the unit: how devices differ from each other and how kernels differ on one device.

    With D calibration devices, each left out of the fit that predicted it, m_d the median of log(measured / predicted) on device d and w
    the conformal quantile at level c of the distance from m_d (every device counting alike):
    mean(m) -/+ sqrt((t(c, D - 1) s(m) sqrt(1 + 1/D))^2 + w^2). The first term is Student's prediction interval for the next device's
    median, the second the split-conformal band inside a device; they add as independent errors do.

    Args:
        residuals: log(predicted / measured) of each calibration device, two devices at least.
        coverage: c, share of cases that the interval should hold.
    """
    from scipy.stats import t

    medians = np.array([-np.median(r) for r in residuals.values()])
    devices = len(medians)
    if devices < 2:
        raise ValueError("an interval for a new device needs two devices or more to be calibrated on")
    between = medians.std(ddof=1) * np.sqrt(1 + 1 / devices) * t.ppf((1 + coverage) / 2, devices - 1)
    distance = np.concatenate([np.abs(r - np.median(r)) for r in residuals.values()])
    weight = np.concatenate([np.full(len(r), 1 / len(r)) for r in residuals.values()])
    half = float(np.hypot(between, weighted_quantile(distance, weight, coverage)))
    return Band(float(medians.mean()) - half, float(medians.mean()) + half)


@dataclass(frozen=True)
class Coverage:
    """Share of cases inside their interval, mean over devices, and how wide the intervals are.

    Args:
        low, high: 95 % interval of the mean with devices as clusters.
        median_ratio: median of upper over lower.
    """

    mean: float
    low: float
    high: float
    median_ratio: float


def clustered_interval(shares: Floats, level: float = 0.95) -> tuple[float, float]:
    """Exact bootstrap interval of the mean of cluster shares: percentiles over all D^D equally likely resamples of the D clusters.

    The distribution of the sum is found by convolution over the multinomial counts, so no random draw is made; shares are rounded to 1e-3.

    Args:
        shares: coverage of each cluster, shape (D,).
    """
    units = np.round(np.asarray(shares) * 1_000).astype(int)
    single = np.zeros(1_001)
    np.add.at(single, units, 1 / len(units))
    total = np.array([1.0])
    for _ in units:
        total = np.convolve(total, single)
    cumulative = np.cumsum(total)
    tail = (1 - level) / 2
    low, high = int(np.searchsorted(cumulative, tail)), int(np.searchsorted(cumulative, 1 - tail))
    return low / 1_000 / len(units), high / 1_000 / len(units)


def coverage_of(inside: dict[str, NDArray[np.bool_]], ratio: Floats) -> Coverage:
    """Coverage clustered by device.

    Args:
        ratio: upper / lower of all cases.
    """
    shares = np.array([float(values.mean()) for values in inside.values()])
    low, high = clustered_interval(shares)
    return Coverage(float(shares.mean()), low, high, float(np.median(ratio)))
