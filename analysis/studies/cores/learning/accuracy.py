"""How accurate are predicted retire latencies, and how accurate is a trivial baseline?"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.studies.statistics import mae, rae, rmse


@dataclass(frozen=True)
class Accuracy:
    """NeuroScalar's seven figures: errors in cycles, relative absolute error, and shares of the instructions.

    The shares compare rounded predictions: equal, within one, within two cycles, within 5 % of the truth. (In the paper's
    appendix rel5 is never below the exact share, so it too must be about rounded predictions.)
    """

    mae: float
    rmse: float
    rae: float
    exact: float
    within1: float
    within2: float
    rel5: float

    def as_dict(self) -> dict[str, float]:
        """Field by field."""
        return asdict(self)


def accuracy(truth: ArrayLike, predicted: ArrayLike, rounded: ArrayLike | None = None) -> Accuracy:
    """The seven figures.

    Args:
        truth: retire latencies (cycles), shape (n,).
        predicted: expected latencies (cycles), same shape: for MAE, RMSE and RAE.
        rounded: whole cycles, if the model gives a most likely latency apart from its mean; default `predicted`, rounded.
    Source: NeuroScalar, Table 1 and appendix.
    """
    y, p = np.asarray(truth, dtype=np.float64).ravel(), np.asarray(predicted, dtype=np.float64).ravel()
    whole = np.rint(p if rounded is None else np.asarray(rounded, dtype=np.float64).ravel())
    gap = np.abs(whole - y)
    return Accuracy(
        mae(y, p),
        rmse(y, p),
        rae(y, p) if np.ptp(y) > 0 else float("nan"),
        float(np.mean(gap == 0)),
        float(np.mean(gap <= 1)),
        float(np.mean(gap <= 2)),
        float(np.mean(gap <= 0.05 * y)),
    )


def majority(train: ArrayLike) -> int:
    """The most frequent latency of the training set (the smallest of those that tie)."""
    return int(np.argmax(np.bincount(np.asarray(train).ravel())))


@dataclass(frozen=True)
class PcTable:
    """A baseline that remembers: for every program counter of the training set its most frequent latency and its mean."""

    pcs: NDArray[np.int64]
    mode: NDArray[np.float64]
    mean: NDArray[np.float64]
    other_mode: float
    other_mean: float

    def __call__(self, pc: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Most frequent and mean latency of each program counter; those of the whole training set where it is new."""
        wanted = np.asarray(pc, dtype=np.int64)
        place = np.minimum(np.searchsorted(self.pcs, wanted), len(self.pcs) - 1)
        known = self.pcs[place] == wanted
        return np.where(known, self.mode[place], self.other_mode), np.where(known, self.mean[place], self.other_mean)


def fit_pc_table(pc: ArrayLike, latency: ArrayLike) -> PcTable:
    """The table of a training set.

    Args:
        pc, latency: shape (n,).
    """
    pcs, place = np.unique(np.asarray(pc, dtype=np.int64), return_inverse=True)
    values = np.asarray(latency, dtype=np.int64)
    mean = np.bincount(place, weights=values) / np.bincount(place)
    base = int(values.max()) + 1
    pairs, counts = np.unique(place * base + values, return_counts=True)
    order = np.lexsort((-(pairs % base), counts))  # the last of a program counter wins: most frequent, the smaller latency if tied
    mode = np.zeros(len(pcs))
    mode[pairs[order] // base] = pairs[order] % base
    return PcTable(pcs, mode, mean, float(majority(values)), float(values.mean()))
