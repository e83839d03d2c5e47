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
        level: between 0 and 1.
    """
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weight[order])
    return float(values[order][min(np.searchsorted(cumulative, level * cumulative[-1]), len(values) - 1)])


def calibrate(residuals: dict[str, Floats], coverage: float = COVERAGE) -> Band:
    """Split-conformal interval with a device as the unit: every calibration device counts alike, whatever it has of cases.

    lower and upper are the (1 - c)/2 and (1 + c)/2 quantiles of log(measured / predicted) over calibration devices, each of which was
    left out of the fit
    that predicted it; as a new device is exchangeable with those, not its cases with theirs, the level is raised to c' = min(1, c (D + 1)
    / D).

    Args:
        residuals: log(predicted / measured) of each calibration device.
        coverage: c, share of cases that the interval should hold.
    """
    values = np.concatenate([-r for r in residuals.values()])
    weight = np.concatenate([np.full(len(r), 1 / len(r)) for r in residuals.values()])
    raised = min(1.0, coverage * (len(residuals) + 1) / len(residuals)) if len(residuals) > 1 else 1.0
    level = min(raised, (1 + coverage) / 2)
    return Band(weighted_quantile(values, weight, (1 - level) / 2), weighted_quantile(values, weight, (1 + level) / 2))


@dataclass(frozen=True)
class Coverage:
    """Share of cases inside their interval, by device and over all, and how wide the intervals are.

    Args:
        by_device: share of each device.
        mean: mean over devices.
        low, high: 95 % interval of the mean with devices as clusters.
        median_ratio: median of upper over lower.
    """

    by_device: dict[str, float]
    mean: float
    low: float
    high: float
    median_ratio: float


def clustered_interval(shares: Floats, level: float = 0.95) -> tuple[float, float]:
    """Exact bootstrap interval of the mean of cluster shares: percentiles over all D^D equally likely resamples of the D clusters.

    The distribution of the sum is found by convolution over the multinomial counts, so no random draw is made; shares are rounded to 1e-3.

    Args:
        shares: coverage of each cluster, shape (D,).
        level: of the interval.
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
        inside: whether each case of a device lies in its interval.
        ratio: upper / lower of all cases.
    """
    by_device = {device: float(values.mean()) for device, values in inside.items()}
    shares = np.array(list(by_device.values()))
    low, high = clustered_interval(shares)
    return Coverage(by_device, float(shares.mean()), low, high, float(np.median(ratio)))
