"""Measured fp32 kernels, and the hybrid predictor fitted to those of one operator group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.kernels.fp32 import devices as kernel_devices
from analysis.kernels.fp32.cases import CODE, Codes, Floats, Operators
from analysis.kernels.fp32.devices import Board
from analysis.kernels.fp32.model import Hybrid
from analysis.kernels.fp32.physics import Physics
from analysis.studies.kernels.forests import Boosting, fit_boosting


def operators_of(frame: pd.DataFrame) -> Operators:
    """From a table with the columns of NeuSight's: op, and those of B, M, N, K, H that the operators use."""

    def column(name: str) -> Floats:
        values = frame[name].to_numpy(dtype=float) if name in frame else np.ones(len(frame))
        return np.where(np.isfinite(values), values, 1.0)

    op: Codes = np.asarray(frame["op"].map(CODE), dtype=np.int64)
    b = column("B")
    return Operators(op, np.where(op == CODE["linear"], 1.0, b), column("M"), column("N"), column("K"), column("H"))


@dataclass(frozen=True)
class Measurements:
    """Measured kernels.

    Args:
        operators: the shapes.
        device: name of the device of each, shape (n,).
        latency_s: measured mean latency (s).
    """

    operators: Operators
    device: NDArray[np.object_]
    latency_s: Floats

    def __len__(self) -> int:
        return len(self.device)

    def take(self, index: NDArray[np.bool_] | Codes) -> Measurements:
        """The measurements at an index."""
        return Measurements(self.operators.take(index), self.device[index], self.latency_s[index])

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> Measurements:
        """From a table with NeuSight's columns, latency in `latency_ms`."""
        return cls(operators_of(frame), frame["device"].to_numpy(dtype=object), frame["latency_ms"].to_numpy(dtype=float) / 1e3)


def draw(device: NDArray[np.object_], most: int, seed: int) -> Codes:
    """Indices of at most `most` cases of each device, in order."""
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(np.flatnonzero(device == name))[:most] for name in sorted(set(device))]
    return np.sort(np.concatenate(chosen))


def balance(device: NDArray[np.object_]) -> Floats:
    """Weights that let a device count with the square root of its cases, mean 1."""
    _, inverse, count = np.unique(device.astype(str), return_inverse=True, return_counts=True)
    weight = 1 / np.sqrt(count[inverse])
    return np.asarray(weight / weight.mean())


def per_device(operators: Operators, device: NDArray[np.object_], compute: Callable[[Operators, Board], Floats]) -> Floats:
    """Apply a function of (operators, gpu) device by device and put the rows back in order."""
    parts: list[tuple[Codes, Floats]] = []
    for name in sorted(set(device)):
        index = np.flatnonzero(device == name)
        parts.append((index, compute(operators.take(index), kernel_devices.load(str(name)))))
    out = np.empty((len(device), *parts[0][1].shape[1:]))
    for index, values in parts:
        out[index] = values
    return out


@dataclass(frozen=True)
class HybridSettings:
    """Everything that selection may choose.

    Args:
        physics: see `Physics`.
        features: indices of the feature columns used; None for all.
        most_per_device: measurements of each device that the trees see, drawn at random.
    """

    physics: Physics = field(default_factory=Physics)
    features: tuple[int, ...] | None = None
    boosting: Boosting = field(default_factory=Boosting)
    most_per_device: int = 2500


def fit(settings: HybridSettings, seed: int, measurements: Measurements) -> Hybrid:
    """Learn the correction from the measurements of one operator group."""
    part = measurements.take(draw(measurements.device, settings.most_per_device, seed))
    own = Hybrid(settings.physics, settings.features, seen=frozenset(str(name) for name in part.device))
    features = per_device(part.operators, part.device, own.features)
    base = per_device(part.operators, part.device, own.base_s)
    target = np.log(part.latency_s / base)
    return replace(own, trees=fit_boosting(features, target, balance(part.device), settings.boosting, seed))
