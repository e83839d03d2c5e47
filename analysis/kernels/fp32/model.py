"""The kernel predictor that is shipped: a physical model times a learned correction for each vendor and operator group, as plain arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from analysis.errors import InputError
from analysis.kernels.fp32.cases import GROUP, OPS, Floats, KernelPrediction, Operators
from analysis.kernels.fp32.devices import Board, with_seen
from analysis.kernels.fp32.features import gemm_features, vector_features
from analysis.kernels.fp32.physics import Physics, bound_by, roofline
from analysis.kernels.trees import Forest, from_arrays, predict
from analysis.paths import DATA

FOLDER = DATA / "models" / "kernels"
LARGEST_CORRECTION = 4.0  # of the logarithm: a factor of 55 either way


def group_of(operators: Operators) -> NDArray[np.object_]:
    """Operator group of each case: bmm, linear, elem, softmax or ln."""
    return np.array([GROUP[op] for op in OPS], dtype=object)[operators.op]


@dataclass(frozen=True)
class Hybrid:
    """log latency = log roofline at the sustained rate + trees(features), for one operator group.

    Args:
        columns: indices of the feature columns used; None for all.
        seen: GPUs of the fit; of a GPU's relatives no other is known.
    """

    physics: Physics
    columns: tuple[int, ...] | None = None
    trees: Forest | None = None
    seen: frozenset[str] = frozenset()

    def features(self, operators: Operators, gpu: Board) -> Floats:
        """Feature matrix of one group on one GPU, shape (n, d)."""
        gemm = bool(len(operators)) and bool(operators.is_gemm[0])
        found = (gemm_features if gemm else vector_features)(operators, with_seen(gpu, self.seen), self.physics)
        return found if self.columns is None else found[:, list(self.columns)]

    def base_s(self, operators: Operators, gpu: Board) -> Floats:
        """What the correction multiplies (s)."""
        return roofline(operators, gpu, self.physics).latency_s

    def log_latency(self, operators: Operators, gpu: Board) -> Floats:
        """Natural logarithm of the predicted latency (s)."""
        if self.trees is None:
            raise ValueError("fit the predictor first")
        correction = np.clip(predict(self.trees, self.features(operators, gpu)), -LARGEST_CORRECTION, LARGEST_CORRECTION)
        return np.asarray(np.log(self.base_s(operators, gpu)) + correction)


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
        bound = bound_by(operators, device, self.members[0].physics)
        return KernelPrediction(np.exp(log), np.exp(log + self.band.lower), np.exp(log + self.band.upper), bound)


@dataclass(frozen=True)
class KernelModel:
    """Ensembles by vendor and operator group; where a vendor has none for a group, NVIDIA's answers."""

    parts: Mapping[tuple[str, str], Ensemble]

    def predict(self, operators: Operators, device: Board) -> KernelPrediction:
        """Predict each case on one device."""
        groups = group_of(operators)
        n = len(operators)
        latency, lower, upper, bound = np.empty(n), np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
        for group in sorted(set(groups)):
            ensemble = self.parts.get((device.device.vendor, group)) or self.parts.get(("NVIDIA", group))
            if ensemble is None:
                raise ValueError(f"the model was not fitted for {group}")
            rows = np.flatnonzero(groups == group)
            one = ensemble.predict(operators.take(rows), device)
            latency[rows], lower[rows], upper[rows], bound[rows] = one.latency_s, one.lower_s, one.upper_s, one.bound
        return KernelPrediction(latency, lower, upper, bound)


@cache
def load(folder: Path = FOLDER) -> KernelModel:
    """Read a model that was saved; nothing in the files is executed."""
    path = folder / "model.json"
    try:
        stated = json.loads(path.read_text(encoding="utf-8"))
        with np.load(folder / "arrays.npz", allow_pickle=False) as stored:
            arrays = dict(stored)
        parts = {}
        for entry in stated["ensembles"]:
            vendor, group, seen = entry["vendor"], entry["group"], frozenset(entry["seen"])
            members = []
            for number, raw in enumerate(entry["members"]):
                columns = tuple(raw["features"]) if raw["features"] else None
                members.append(Hybrid(Physics(**raw["physics"]), columns, from_arrays(arrays, f"{vendor}.{group}.{number}"), seen))
            parts[vendor, group] = Ensemble(tuple(members), entry["shift"], Band(entry["lower"], entry["upper"]), entry.get("floor_s", 0.0))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"is not a fitted kernel model: {error}", path=path) from None
    return KernelModel(parts)
