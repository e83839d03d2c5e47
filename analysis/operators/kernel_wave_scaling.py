"""What does a kernel timed on one GPU take on another? Habitat's wave scaling, for shapes that a source GPU has measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pandas as pd

from analysis.operators import kernel_devices
from analysis.operators.kernel_cases import Floats, Measurements, Operators, Prediction
from analysis.operators.kernel_devices import Gpu
from analysis.operators.kernel_physics import Physics, bound_by, choose_tiles, work


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
    """Habitat with a fixed source GPU; NaN where the source has not measured the shape.

    Args:
        source: name of the GPU in the measurements.
    """

    source: str
    table: pd.Series[float] | None = None

    def fit(self, measurements: Measurements) -> Self:
        """Keep the source's measurements."""
        part = measurements.take(measurements.device == self.source)
        table = pd.Series(part.latency_s, index=_key(part.operators))
        return replace(self, table=table[~table.index.duplicated()])

    def predict(self, operators: Operators, device: Gpu) -> Prediction:
        """Scale the source's time of each shape to the device."""
        if self.table is None:
            raise ValueError("fit the predictor first")
        found: Floats = np.asarray(self.table.reindex(_key(operators)), dtype=np.float64)
        return Prediction.point(scale_s(operators, found, kernel_devices.load(self.source), device), bound_by(operators, device, Physics()))
