"""The kernel predictor that is shipped: a hybrid for each vendor and operator group, kept as plain arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from analysis.errors import InputError
from analysis.kernels import trees
from analysis.kernels.fp32 import devices as kernel_devices
from analysis.kernels.fp32.cases import GROUPS, KernelPrediction, Measurements, Operators
from analysis.kernels.fp32.conformal import Band
from analysis.kernels.fp32.devices import Gpu
from analysis.kernels.fp32.physics import Physics
from analysis.kernels.fp32.residual import Hybrid, HybridSettings, group_of
from analysis.kernels.fp32.selection import Ensemble, Selection
from analysis.kernels.trees import Boosting
from analysis.paths import DATA
from analysis.tables import write_atomic

FOLDER = DATA / "models" / "kernels"
Key = tuple[str, str]


def vendors(measurements: Measurements) -> NDArray[np.str_]:
    """Vendor of the device of each measurement."""
    names = {name: kernel_devices.load(str(name)).vendor for name in set(measurements.device)}
    return np.array([names[name] for name in measurements.device])


@dataclass(frozen=True)
class KernelModel:
    """Ensembles by vendor and operator group; where a vendor has none for a group, NVIDIA's answers."""

    seed: int = 0
    parts: Mapping[Key, Ensemble] = field(default_factory=dict)

    def fit(self, measurements: Measurements) -> Self:
        """Select and fit each vendor's and group's ensemble; a vendor with one device takes the intervals of NVIDIA's group."""
        groups, vendor = group_of(measurements.operators), vendors(measurements)
        found: dict[Key, Ensemble] = {}
        for group in GROUPS:
            for name in sorted(set(vendor), reverse=True):
                part = measurements.take((groups == group) & (vendor == name))
                if not len(part):
                    continue
                devices = set(part.device)
                if len(devices) > 1:
                    found[name, group] = Selection(part, group, self.seed).fit()
                elif ("NVIDIA", group) in found:
                    other = found["NVIDIA", group]
                    members = tuple(Hybrid(member.settings, self.seed).fit(part) for member in other.members)
                    found[name, group] = Ensemble(members, 0.0, other.band, float(part.latency_s.min()))
                else:
                    raise ValueError(f"{group}: one device is too few to learn from")
        return replace(self, parts=found)

    def predict(self, operators: Operators, device: Gpu) -> KernelPrediction:
        """Predict each case on one device.

        Raises:
            ValueError: an operator group that the model was not fitted for.
        """
        groups = group_of(operators)
        n = len(operators)
        latency, lower, upper, bound = np.empty(n), np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
        for group in sorted(set(groups)):
            ensemble = self.parts.get((device.vendor, group)) or self.parts.get(("NVIDIA", group))
            if ensemble is None:
                raise ValueError(f"the model was not fitted for {group}")
            index = np.flatnonzero(groups == group)
            for start in range(0, len(index), 100_000):  # small enough for the caches
                rows = index[start : start + 100_000]
                one = ensemble.predict(operators.take(rows), device)
                latency[rows], lower[rows], upper[rows], bound[rows] = one.latency_s, one.lower_s, one.upper_s, one.bound
        return KernelPrediction(latency, lower, upper, bound)


def save(model: KernelModel, folder: Path, about: dict[str, Any]) -> None:
    """Write `arrays.npz` (trees) and `model.json` (settings, intervals, and what the fit was made on)."""
    arrays: dict[str, NDArray[np.generic]] = {}
    ensembles = []
    for (vendor, group), ensemble in model.parts.items():
        settings = []
        for number, member in enumerate(ensemble.members):
            assert member.trees is not None
            arrays |= trees.arrays(member.trees, f"{vendor}.{group}.{number}")
            settings.append(asdict(member.settings))
        ensembles.append(
            {
                "vendor": vendor,
                "group": group,
                "shift": ensemble.shift,
                "floor_s": ensemble.floor_s,
                "seen": sorted(ensemble.members[0].seen),
                **asdict(ensemble.band),
                "members": settings,
            }
        )
    from io import BytesIO

    stream = BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)  # type: ignore[arg-type]
    write_atomic(folder / "arrays.npz", stream.getvalue())
    write_atomic(
        folder / "model.json", (json.dumps({"about": about, "seed": model.seed, "ensembles": ensembles}, indent=1) + "\n").encode()
    )


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
