"""How sure is a prediction for a GPU nobody measured? Intervals calibrated on other GPUs, each left out of the fit in turn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.kernels.fp32.model import Band
from analysis.studies.intervals import next_group, weighted_quantile

Floats = NDArray[np.float64]
COVERAGE = 0.9


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
    medians = np.array([-np.median(r) for r in residuals.values()])
    devices = len(medians)
    if devices < 2:
        raise ValueError("an interval for a new device needs two devices or more to be calibrated on")
    between = medians.std(ddof=1) * next_group(devices, coverage)
    distance = np.concatenate([np.abs(r - np.median(r)) for r in residuals.values()])
    weight = np.concatenate([np.full(len(r), 1 / len(r)) for r in residuals.values()])
    half = float(np.hypot(between, weighted_quantile(distance, weight, coverage)))
    return Band(float(medians.mean()) - half, float(medians.mean()) + half)
