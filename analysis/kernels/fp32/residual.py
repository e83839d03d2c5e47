"""A physical model of a kernel times a learned correction: the hybrid predictor, one operator group at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analysis.kernels.fp32 import devices as kernel_devices
from analysis.kernels.fp32.cases import GROUP, OPS, Floats, KernelPrediction, Operators
from analysis.kernels.fp32.devices import Board
from analysis.kernels.fp32.features import gemm_features, vector_features
from analysis.kernels.fp32.physics import Physics, bound_by, roofline
from analysis.kernels.trees import Boosting, Forest, predict

LARGEST_CORRECTION = 4.0  # of the logarithm: a factor of 55 either way


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


def group_of(operators: Operators) -> NDArray[np.object_]:
    """Operator group of each case: bmm, linear, elem, softmax or ln."""
    return np.array([GROUP[op] for op in OPS], dtype=object)[operators.op]


@dataclass(frozen=True)
class Hybrid:
    """log latency = log roofline at the sustained rate + trees(features), for one operator group."""

    settings: HybridSettings = field(default_factory=HybridSettings)
    seed: int = 0
    trees: Forest | None = None
    shift: float = 0.0
    seen: frozenset[str] = frozenset()

    def features(self, operators: Operators, gpu: Board) -> Floats:
        """Feature matrix of one group on one GPU, shape (n, d); of the GPU's relatives only what was seen in the fit is known."""
        s, gpu = self.settings, kernel_devices.with_seen(gpu, self.seen)
        gemm = bool(len(operators)) and bool(operators.is_gemm[0])
        found = gemm_features(operators, gpu, s.physics) if gemm else vector_features(operators, gpu, s.physics)
        return found if s.features is None else found[:, list(s.features)]

    def base_s(self, operators: Operators, gpu: Board) -> Floats:
        """What the correction multiplies (s)."""
        return roofline(operators, kernel_devices.with_seen(gpu, self.seen), self.settings.physics).latency_s

    def log_latency(self, operators: Operators, gpu: Board) -> Floats:
        """Natural logarithm of the predicted latency (s)."""
        if self.trees is None:
            raise ValueError("fit the predictor first")
        correction = np.clip(predict(self.trees, self.features(operators, gpu)) + self.shift, -LARGEST_CORRECTION, LARGEST_CORRECTION)
        return np.asarray(np.log(self.base_s(operators, gpu)) + correction)

    def predict(self, operators: Operators, device: Board) -> KernelPrediction:
        """Predict each case on one device."""
        return KernelPrediction.point(np.exp(self.log_latency(operators, device)), bound_by(operators, device, self.settings.physics))
