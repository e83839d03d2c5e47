"""What do the peers and baselines answer? Physics alone, trees on shapes and data sheets, and Habitat's wave scaling.

Each has `fit(measurements)` and `predict(operators, gpu)`, as the hybrid predictor has.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np
import pandas as pd

from analysis.kernels.fp32 import devices as kernel_devices
from analysis.kernels.fp32.cases import GROUPS, Floats, KernelPrediction, Measurements, Operators
from analysis.kernels.fp32.devices import Gpu
from analysis.kernels.fp32.features import plain_features
from analysis.kernels.fp32.physics import LAUNCH_S, Physics, bound_by, choose_tiles, physical_latency_s, roofline, tile_time_s, work
from analysis.kernels.fp32.residual import balance, draw, group_of, per_device
from analysis.kernels.trees import Boosting, Forest, fit_boosting, fit_forest, predict

Form = Literal["roofline", "kernel", "waves", "tiles", "tiles as printed"]
PEAK = Physics(power_gain=float("inf"), wide_sm=1.0)


def tiles_as_printed_s(operators: Operators, gpu: Gpu, physics: Physics) -> Floats:
    """The survey's inverted sum for equal tiles: max over waves of the sum over a wave = min(tiles, multiprocessors) x tile time.

    Source: earlier survey draft, equation 8; `analysis.studies.kernels.tiles` has both readings for unequal tiles.
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
    seen: frozenset[str] = frozenset()

    def physical_s(self, operators: Operators, gpu: Gpu) -> Floats:
        """The unscaled latency (s)."""
        gpu = kernel_devices.with_seen(gpu, self.seen)
        if self.form == "roofline":
            return roofline(operators, gpu, self.physics).latency_s
        if self.form == "tiles as printed":
            return tiles_as_printed_s(operators, gpu, self.physics)
        return physical_latency_s(operators, gpu, self.physics, self.form)

    def fit(self, measurements: Measurements) -> Self:
        """Fit the factor of each operator group, or nothing."""
        if not self.scaled and "tiles" not in self.form:
            return self
        own = replace(self, seen=frozenset(str(name) for name in measurements.device))
        if not self.scaled:
            return own
        ratio = measurements.latency_s / per_device(measurements.operators, measurements.device, own.physical_s)
        groups = group_of(measurements.operators)
        return replace(own, scale={group: float(np.median(ratio[groups == group])) for group in GROUPS if (groups == group).any()})

    def predict(self, operators: Operators, device: Gpu) -> KernelPrediction:
        """Predict each case on one device."""
        factor = np.array([self.scale.get(str(group), 1.0) for group in group_of(operators)])
        return KernelPrediction.point(factor * self.physical_s(operators, device), bound_by(operators, device, self.physics))


@dataclass(frozen=True)
class PlainTrees:
    """log latency = trees(shape, work, data sheet), or log(latency / roofline) with `ratio`.

    Args:
        kind: boosting or forest.
        ratio: whether the target is relative to the roofline.
        boosting: settings, for boosting.
    """

    kind: Literal["boosting", "forest"] = "boosting"
    ratio: bool = True
    boosting: Boosting = field(default_factory=lambda: Boosting(trees=120, leaves=31, learning_rate=0.1, loss="squared_error"))
    most_per_device: int = 2000
    seed: int = 0
    trees: Forest | None = None

    def fit(self, measurements: Measurements) -> Self:
        """Learn from measurements."""
        part = measurements.take(draw(measurements.device, self.most_per_device, self.seed))
        features = per_device(part.operators, part.device, plain_features)
        target = np.log(part.latency_s)
        if self.ratio:
            target = target - np.log(per_device(part.operators, part.device, lambda o, gpu: roofline(o, gpu).latency_s))
        weight = balance(part.device)
        if self.kind == "forest":
            return replace(self, trees=fit_forest(features, target, weight, seed=self.seed))
        return replace(self, trees=fit_boosting(features, target, weight, self.boosting, self.seed))

    def predict(self, operators: Operators, device: Gpu) -> KernelPrediction:
        """Predict each case on one device."""
        if self.trees is None:
            raise ValueError("fit the predictor first")
        log = predict(self.trees, plain_features(operators, device))
        if self.ratio:
            log = log + np.log(roofline(operators, device).latency_s)
        return KernelPrediction.point(np.exp(log), bound_by(operators, device, Physics()))


def scale_s(operators: Operators, latency_s: Floats, source: Gpu, target: Gpu) -> Floats:
    """Scale measured latencies from a source to a target GPU, wave by wave.

    T_t = T_s (B_s / B_t)^g (W_s / W_t)^(1 - g) (C_s / C_t)^(1 - g), with B the bandwidth, W the tiles of a full wave (multiprocessors
    here, one tile each),
    C the clock, all waves alike, and g = min(0.5 I_ridge / I, 1) if the intensity I is above the ridge of the source, else 1 - 0.5 I /
    I_ridge.

    Args:
        operators: shapes; latency_s: measured on the source, shape (n,).
    Source: Yu et al., Habitat, USENIX ATC 2021, equation 2 and section 4.2 (its g from the roofline); bandwidth for D_i, multiprocessors
        for W_i.
    """
    todo = work(operators)
    intensity = todo.flop / todo.bytes_moved
    ridge = np.where(operators.is_gemm, source.matrix_flop_per_s, source.vector_flop_per_s) / source.bandwidth_bytes_per_s
    memory = np.where(intensity < ridge, 1 - 0.5 * intensity / ridge, 0.5 * ridge / intensity)
    waves_source, waves_target = np.ceil(choose_tiles(operators, source).waves), np.ceil(choose_tiles(operators, target).waves)
    lanes = source.architecture.lanes_per_sm / target.architecture.lanes_per_sm
    compute = waves_target / waves_source * source.clock_hz / target.clock_hz * lanes
    return latency_s * (source.bandwidth_bytes_per_s / target.bandwidth_bytes_per_s) ** memory * compute ** (1 - memory)


def _key(operators: Operators) -> pd.MultiIndex:
    return pd.MultiIndex.from_arrays([operators.op, operators.b, operators.m, operators.n, operators.k, operators.h])


@dataclass(frozen=True)
class WaveScaling:
    """Habitat with a fixed source GPU; NaN where the source has not measured the shape."""

    source: str
    table: pd.Series[float] | None = None
    seen: frozenset[str] = frozenset()

    def fit(self, measurements: Measurements) -> Self:
        """Keep the source's measurements."""
        part = measurements.take(measurements.device == self.source)
        table = pd.Series(part.latency_s, index=_key(part.operators))
        seen = frozenset(str(name) for name in measurements.device)
        return replace(self, table=table[~table.index.duplicated()], seen=seen)

    def predict(self, operators: Operators, device: Gpu) -> KernelPrediction:
        """Scale the source's time of each shape to the device."""
        if self.table is None:
            raise ValueError("fit the predictor first")
        found: Floats = np.asarray(self.table.reindex(_key(operators)), dtype=np.float64)
        source, target = (kernel_devices.with_seen(gpu, self.seen) for gpu in (kernel_devices.load(self.source), device))
        return KernelPrediction.point(scale_s(operators, found, source, target), bound_by(operators, device, Physics()))
