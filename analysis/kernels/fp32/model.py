"""The kernel predictor that is shipped: a hybrid for each vendor and operator group, kept as plain arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from analysis.errors import InputError
from analysis.kernels import trees
from analysis.kernels.fp32.cases import Floats, KernelPrediction, Operators
from analysis.kernels.fp32.devices import Board
from analysis.kernels.fp32.physics import Physics, bound_by
from analysis.kernels.fp32.residual import Hybrid, HybridSettings, group_of
from analysis.kernels.trees import Boosting
from analysis.paths import DATA

FOLDER = DATA / "models" / "kernels"
Key = tuple[str, str]


@dataclass(frozen=True)
class Band:
    """Interval of log(measured / predicted): the latency lies between predicted x exp(lower) and predicted x exp(upper)."""

    lower: float
    upper: float


@dataclass(frozen=True)
class Ensemble:
    """Geometric mean of hybrids, with a shift towards the least mean absolute percentage error and an interval."""

    members: tuple[Hybrid, ...]
    shift: float
    band: Band
    floor_s: float = 0.0

    def log_latency(self, operators: Operators, gpu: Board) -> Floats:
        """Natural logarithm of the predicted latency (s), not below that of the shortest kernel measured: a launch takes time, too."""
        log = np.mean([member.log_latency(operators, gpu) for member in self.members], axis=0) + self.shift
        return np.asarray(np.maximum(log, np.log(self.floor_s)) if self.floor_s > 0 else log)

    def predict(self, operators: Operators, device: Board) -> KernelPrediction:
        """Predict cases of one operator group on one device."""
        log = self.log_latency(operators, device)
        bound = bound_by(operators, device, self.members[0].settings.physics)
        return KernelPrediction(np.exp(log), np.exp(log + self.band.lower), np.exp(log + self.band.upper), bound)


@dataclass(frozen=True)
class KernelModel:
    """Ensembles by vendor and operator group; where a vendor has none for a group, NVIDIA's answers."""

    seed: int = 0
    parts: Mapping[Key, Ensemble] = field(default_factory=dict)

    def predict(self, operators: Operators, device: Board) -> KernelPrediction:
        """Predict each case on one device."""
        groups = group_of(operators)
        n = len(operators)
        latency, lower, upper, bound = np.empty(n), np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
        for group in sorted(set(groups)):
            ensemble = self.parts.get((device.device.vendor, group)) or self.parts.get(("NVIDIA", group))
            if ensemble is None:
                raise ValueError(f"the model was not fitted for {group}")
            index = np.flatnonzero(groups == group)
            for start in range(0, len(index), 100_000):  # small enough for the caches
                rows = index[start : start + 100_000]
                one = ensemble.predict(operators.take(rows), device)
                latency[rows], lower[rows], upper[rows], bound[rows] = one.latency_s, one.lower_s, one.upper_s, one.bound
        return KernelPrediction(latency, lower, upper, bound)


def load(folder: Path = FOLDER) -> KernelModel:
    """Read a model that `save` wrote; nothing in the files is executed."""
    return _load(folder)


@cache
def _load(folder: Path) -> KernelModel:
    path = folder / "model.json"
    try:
        stated = json.loads(path.read_text(encoding="utf-8"))
        with np.load(folder / "arrays.npz", allow_pickle=False) as stored:
            arrays = dict(stored)
        parts = {}
        for entry in stated["ensembles"]:
            vendor, group = entry["vendor"], entry["group"]
            members, seen = [], frozenset(entry["seen"])
            for number, raw in enumerate(entry["members"]):
                settings = HybridSettings(
                    Physics(**raw["physics"]),
                    tuple(raw["features"]) if raw["features"] else None,
                    Boosting(**raw["boosting"]),
                    raw["most_per_device"],
                )
                members.append(Hybrid(settings, stated["seed"], trees.from_arrays(arrays, f"{vendor}.{group}.{number}"), seen=seen))
            parts[vendor, group] = Ensemble(tuple(members), entry["shift"], Band(entry["lower"], entry["upper"]), entry.get("floor_s", 0.0))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"is not a fitted kernel model: {error}", path=path) from None
    return KernelModel(stated["seed"], parts)
