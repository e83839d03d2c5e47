"""How long does a kernel take by physics alone? Data-sheet models, with at most one fitted number for an operator group."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np

from analysis.operators.kernel_cases import GROUPS, Floats, Measurements, Operators, Prediction
from analysis.operators.kernel_devices import Gpu
from analysis.operators.kernel_physics import LAUNCH_S, Physics, bound_by, choose_tiles, physical_latency_s, roofline, tile_time_s
from analysis.operators.kernel_residual import group_of, per_device

Form = Literal["roofline", "kernel", "waves", "tiles", "tiles as printed"]
PEAK = Physics(power_gain=float("inf"), wide_sm=1.0)


def tiles_as_printed_s(operators: Operators, gpu: Gpu, physics: Physics) -> Floats:
    """The survey's inverted sum for equal tiles: max over waves of the sum over a wave = min(tiles, multiprocessors) x tile time.

    Source: earlier survey draft, equation 8; `analysis.operators.tiles` has both readings for unequal tiles.
    """
    tiling, bound = choose_tiles(operators, gpu), roofline(operators, gpu, physics)
    compute = np.where(operators.is_gemm, np.minimum(tiling.tiles, gpu.sms) * tile_time_s(tiling, operators, gpu, physics), bound.compute_s)
    return np.maximum(compute, bound.memory_s) + LAUNCH_S


@dataclass(frozen=True)
class PhysicalModel:
    """latency = scale of the operator group x physical latency.

    Args:
        form: roofline; kernel, waves or tiles (see `physical_latency_s`); or tiles as the survey prints their sum.
        scaled: fit one factor an operator group, the median of measured over physical; otherwise 1.
        physics: rates; the data-sheet peak unless given.
    """

    form: Form = "roofline"
    scaled: bool = False
    physics: Physics = PEAK
    scale: dict[str, float] = field(default_factory=dict)

    def physical_s(self, operators: Operators, gpu: Gpu) -> Floats:
        """The unscaled latency (s)."""
        if self.form == "roofline":
            return roofline(operators, gpu, self.physics).latency_s
        if self.form == "tiles as printed":
            return tiles_as_printed_s(operators, gpu, self.physics)
        return physical_latency_s(operators, gpu, self.physics, self.form)

    def fit(self, measurements: Measurements) -> Self:
        """Fit the factor of each operator group, or nothing."""
        if not self.scaled:
            return self
        ratio = measurements.latency_s / per_device(measurements.operators, measurements.device, self.physical_s)
        groups = group_of(measurements.operators)
        return replace(self, scale={group: float(np.median(ratio[groups == group])) for group in GROUPS if (groups == group).any()})

    def predict(self, operators: Operators, device: Gpu) -> Prediction:
        """Predict each case on one device."""
        factor = np.array([self.scale.get(str(group), 1.0) for group in group_of(operators)])
        return Prediction.point(factor * self.physical_s(operators, device), bound_by(operators, device, self.physics))
