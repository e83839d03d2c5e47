"""Which settings of the hybrid predictor carry over to a GPU that was left out? Nested leave-one-device-out selection."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import numpy as np

from analysis.kernels.fp32 import devices as kernel_devices
from analysis.kernels.fp32.cases import GEMMS, Floats
from analysis.kernels.fp32.model import Ensemble, Hybrid
from analysis.kernels.fp32.physics import Physics
from analysis.studies.kernels.forests import Boosting
from analysis.studies.kernels.fp32.conformal import calibrate
from analysis.studies.kernels.fp32.fitting import HybridSettings, Measurements, draw, fit

SMALL = Boosting(trees=40, leaves=8, learning_rate=0.2, least_in_leaf=20)  # a matrix product: seven devices bear no more detail
FINE = Boosting(trees=60, leaves=15, learning_rate=0.15, least_in_leaf=15)  # a vector kernel: smooth in few features
CASES = 600  # of each device, for a fit: with more of them trees tell devices apart instead of shapes
BAGS = 4  # fits of the chosen settings on different draws, averaged
SHIFTS = np.linspace(-0.15, 0.05, 21)

GEMM = (
    *("log_physical", "compute_over_memory", "log_intensity", "traffic_over_l2", "operands_over_l2", "shared_issue"),
    *("log_waves", "wave_quantisation", "tile_padding", "log_tile_area", "tile_traffic_over_compute", "waves_over_roofline"),
)
"""Columns of `gemm_features`."""
VECTOR = (
    *("log_physical", "log_columns", "log_rows", "traffic_over_l2", "rows_per_sm", "resident_rows_over_l2"),
    *("bytes_over_issue", "streams", "op_cost", "delivered_class"),
)
"""Columns of `vector_features`."""


def candidates(group: str) -> dict[str, HybridSettings]:
    """The settings tried for an operator group, by name: what power allows, or which device features trees see."""
    found = {}
    if group in GEMMS:
        for gain in (1.6, 2.2):
            physics = Physics(power_gain=gain)
            found[f"power gain {gain}"] = HybridSettings(physics, boosting=SMALL, most_per_device=CASES)
        return found
    for issue, delivered in product((True, False), repeat=2):
        dropped = {name for name, kept in (("bytes_over_issue", issue), ("delivered_class", delivered)) if not kept}
        columns = tuple(i for i, name in enumerate(VECTOR) if name not in dropped)
        name = f"{'with' if issue else 'without'} bytes over issue, {'with' if delivered else 'without'} delivered-bandwidth class"
        found[name] = HybridSettings(features=columns, boosting=FINE, most_per_device=CASES)
    return found


def settings_of(group: str, member: Hybrid) -> HybridSettings:
    """The candidate that a fitted member is."""
    return next(each for each in candidates(group).values() if (each.physics, each.features) == (member.physics, member.columns))


@dataclass(frozen=True)
class Choice:
    """What selection came to.

    Args:
        name: of the candidate.
        shift: added to the logarithm of its predictions.
        residuals: log(predicted / measured) with the shift, on each device that was looked at, by a fit without it.
    """

    name: str
    shift: float
    residuals: dict[str, Floats]


@dataclass
class Selection:
    """Inner fits of one operator group, kept so that no fit is made twice."""

    measurements: Measurements
    group: str
    seed: int = 0
    fits: dict[tuple[str, frozenset[str]], dict[str, Floats]] = field(default_factory=dict)

    @property
    def devices(self) -> list[str]:
        """Devices with measurements."""
        return sorted({str(name) for name in self.measurements.device})

    def residuals(self, name: str, without: frozenset[str]) -> dict[str, Floats]:
        """log(predicted / measured) on each device of `without`, by the candidate fitted without all of them."""
        key = (name, without)
        if key not in self.fits:
            device = self.measurements.device
            hybrid = fit(candidates(self.group)[name], self.seed, self.measurements.take(~np.isin(device, list(without))))
            found = {}
            for left_out in sorted(without):
                test = self.measurements.take(np.flatnonzero(device == left_out))
                test = test.take(draw(test.device, CASES, self.seed + 1))
                found[left_out] = hybrid.log_latency(test.operators, kernel_devices.load(left_out)) - np.log(test.latency_s)
            self.fits[key] = found
        return self.fits[key]

    def inner(self, name: str, unseen: frozenset[str]) -> dict[str, Floats]:
        """Residuals on each device but the unseen ones, each left out in turn together with them."""
        rest = [device for device in self.devices if device not in unseen]
        return {device: self.residuals(name, unseen | {device})[device] for device in rest}

    def scores(self, unseen: frozenset[str]) -> dict[str, float]:
        """Inner error of each candidate: mean over devices of the mean absolute percentage error (%)."""
        return {name: error_of(self.inner(name, unseen)) for name in candidates(self.group)}

    def choose(self, unseen: frozenset[str] = frozenset()) -> Choice:
        """The candidate with the least inner error, the shift that lowers it most, and the inner residuals with that shift."""
        scores = self.scores(unseen)
        name = min(scores, key=lambda candidate: scores[candidate])
        inner = self.inner(name, unseen)
        shift = min(SHIFTS, key=lambda s: error_of({device: r + s for device, r in inner.items()}))
        return Choice(name, float(shift), {device: r + shift for device, r in inner.items()})

    def fit(self, unseen: frozenset[str] = frozenset()) -> Ensemble:
        """The chosen candidate, fitted on several draws of every device but the unseen ones."""
        choice = self.choose(unseen)
        part = self.measurements.take(~np.isin(self.measurements.device, list(unseen)))
        settings = candidates(self.group)[choice.name]
        members = tuple(fit(settings, self.seed + bag, part) for bag in range(BAGS))
        return Ensemble(members, choice.shift, calibrate(choice.residuals), float(part.latency_s.min()))


def error_of(residuals: dict[str, Floats]) -> float:
    """Mean over devices of the mean absolute percentage error, from log(predicted / measured) (%)."""
    return float(np.mean([100 * np.abs(np.expm1(r)).mean() for r in residuals.values()]))
