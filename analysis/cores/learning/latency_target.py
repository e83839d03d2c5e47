"""What is predicted: retire latencies, as a capped logarithm or as classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

CAP = 1000.0
LONG_FROM = 10.0


def retire_latencies(retire_cycles: ArrayLike) -> NDArray[np.int64]:
    """Cycles since the previous instruction retired: c_i = r_i - r_(i-1), c_0 = r_0. Their sum is the cycles of the whole run.

    Args:
        retire_cycles: cycle in which each instruction retires, never falling, shape (n,).
    Raises:
        ValueError: a cycle before the one in front of it.
    Source: NeuroScalar, section 4.4.
    """
    cycles = np.asarray(retire_cycles, dtype=np.int64)
    latencies = np.diff(cycles, prepend=np.int64(0))
    if (latencies < 0).any():
        raise ValueError(f"instruction {int(np.argmax(latencies < 0))} retires before the one in front of it")
    return latencies


def log_target(latency: ArrayLike, cap: float = CAP) -> NDArray[np.float32]:
    """ln(1 + min(c, cap)), float32 (NeuroScalar, equation 2; the cap is that of its Figure 2)."""
    return np.log1p(np.minimum(np.asarray(latency, dtype=np.float64), cap)).astype(np.float32)


def from_log_target(target: ArrayLike) -> NDArray[np.float64]:
    """Cycles from the logarithm: exp(y) - 1, not below zero."""
    return np.maximum(np.expm1(np.asarray(target, dtype=np.float64)), 0.0)


def is_long(latency: ArrayLike, threshold: float = LONG_FROM) -> NDArray[np.int32]:
    """1 where the latency is above the threshold, else 0 (NeuroScalar, equation 3 and section 3.3.2: 10 cycles)."""
    return (np.asarray(latency) > threshold).astype(np.int32)


@dataclass(frozen=True)
class LatencyClasses:
    """Latencies as classes: 0, 1, ... `singles` - 1 one cycle each, then ranges that grow by `growth`.

    The most likely class of a predicted distribution is the predicted latency.
    """

    singles: int = 10
    growth: float = 1.5
    largest: int = 1000

    @property
    def edges(self) -> NDArray[np.int64]:
        """First latency of each class, rising."""
        edges = list(range(self.singles))
        while edges[-1] < self.largest:
            edges.append(max(edges[-1] + 1, int(np.ceil(edges[-1] * self.growth))))
        return np.array(edges[:-1], dtype=np.int64)

    @property
    def count(self) -> int:
        """Number of classes."""
        return len(self.edges)

    def of(self, latency: ArrayLike) -> NDArray[np.int32]:
        """Class of each latency: the last one whose first latency is not above it."""
        return (np.searchsorted(self.edges, np.asarray(latency), side="right") - 1).astype(np.int32)

    def means(self, latency: ArrayLike) -> NDArray[np.float32]:
        """Mean latency of each class on a training set; the first latency of the class where the set has none.

        Args:
            latency: shape (n,).
        """
        values = np.asarray(latency, dtype=np.float64).ravel()
        classes = self.of(values)
        total = np.bincount(classes, weights=values, minlength=self.count)
        seen = np.bincount(classes, minlength=self.count)
        return np.where(seen > 0, total / np.maximum(seen, 1), self.edges).astype(np.float32)
