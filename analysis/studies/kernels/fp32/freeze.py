"""Everything about kernel predictors that needs the measured kernels, as tables to keep: the full tier's work, resumable."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.kernels.fp32 import devices as kernel_devices
from analysis.kernels.fp32.cases import GROUP, GROUPS
from analysis.kernels.fp32.devices import Board
from analysis.kernels.fp32.model import FOLDER, Band, Ensemble, KernelModel
from analysis.studies import datasets
from analysis.studies.freezing import Freeze, commit, digests
from analysis.studies.kernels import forests
from analysis.studies.kernels.fp32.conformal import calibrate
from analysis.studies.kernels.fp32.evaluation import TABLES, measured_frame
from analysis.studies.kernels.fp32.fitting import Measurements, fit, operators_of
from analysis.studies.kernels.fp32.selection import Selection, error_of, settings_of
from analysis.studies.kernels.networks.kernel_lists import NETWORKS, operators
from analysis.tables import read_csv, write_atomic

E2E = "neusight/model_e2e_measured_vs_pred"
Say = Callable[[str], None]


def table_device(name: str) -> str:
    """Name of a device in the kernel tables, from its name in the whole-model table."""
    return {"NVIDIA_A100-PCIE-40GB": "NVIDIA A100-PCIE-40GB"}.get(name, name.replace("_", " "))


def one_die(gpu: Board) -> Board:
    """Half of an MI250: a program sees each of its two dies as a device of its own, and so do the measured times."""
    if gpu.architecture.name != "cdna2" or gpu.sms <= 110:
        return gpu
    half = lambda figure: figure.model_copy(update={"value": figure.value / 2})  # noqa: E731
    sheet = gpu.device
    rates: dict[str, Any] = {name: {dtype: half(rate) for dtype, rate in getattr(sheet, name).items()} for name in ("peak", "vector")}
    rates |= {name: half(getattr(sheet, name)) for name in ("memory_bandwidth", "l2", "sms", "tdp")}
    return replace(gpu, device=sheet.model_copy(update=rates))


def network_cases() -> pd.DataFrame:
    """Measured whole networks on one device without fusion, with NeuSight's predictions (needs the dataset)."""
    frame = datasets.load(E2E)
    return frame[frame["option"].isna()].reset_index(drop=True)


def network_kernels(cases: pd.DataFrame) -> pd.DataFrame:
    """Kernels of every case whose architecture is known: columns case, device, op, B, M, N, K, H, count."""
    parts = []
    for number, row in enumerate(cases.to_dict("records")):
        if row["model_name"] in NETWORKS:
            one = operators(NETWORKS[row["model_name"]], int(row["batch"]), int(row["seqlen"]), row["mode"] == "train")
            parts.append(one.assign(case=number, device=table_device(row["device"])))
    return pd.concat(parts, ignore_index=True)


@dataclass(frozen=True)
class Piece:
    """What leaving out each device in turn gives for one operator group of one vendor."""

    kernels: pd.DataFrame
    networks: pd.DataFrame
    attempts: pd.DataFrame
    residuals: pd.DataFrame
    ensemble: Ensemble


def _predict(ensemble: Ensemble, frame: pd.DataFrame, gpu: Board) -> pd.DataFrame:
    one = ensemble.predict(operators_of(frame), gpu)
    return frame.assign(predicted_s=one.latency_s, lower_s=one.lower_s, upper_s=one.upper_s, bound=one.bound)


def leave_out(group: str, seed: int, kernels: pd.DataFrame, say: Say) -> Piece:
    """Leave out each NVIDIA device in turn; a measured AMD device is predicted by NVIDIA's, another AMD device by the measured ones."""
    frame = measured_frame((group,))
    measured = Measurements.from_frame(frame)
    selection = Selection(measured, group, seed)
    wanted = kernels[kernels["op"].map(GROUP) == group]
    kept, inside, attempts, residuals = [], [], [], []
    for name in selection.devices:
        gpu = kernel_devices.load(name)
        scores = selection.scores(frozenset({name}))
        choice = selection.choose(frozenset({name}))
        residuals += [(group, name, seen, r) for seen, values in choice.residuals.items() for r in values]
        ensemble = selection.fit(frozenset({name}))
        part = frame[frame["device"] == name]
        kept.append(_predict(ensemble, part, gpu))
        of_network = wanted[wanted["device"] == name]
        if len(of_network):
            inside.append(_predict(ensemble, of_network, gpu))
        for candidate, score in scores.items():
            own = error_of(selection.residuals(candidate, frozenset({name})))
            attempts.append((group, name, candidate, score, own, candidate == choice.name))
        say(f"{group} without {name}: {100 * (kept[-1]['predicted_s'] * 1e3 / part['latency_ms'] - 1).abs().mean():.1f} %")
    ensemble = selection.fit()
    residuals += [(group, "", seen, r) for seen, values in selection.choose().residuals.items() for r in values]
    unmeasured = wanted[~wanted["device"].isin(selection.devices)]
    amd_tables = datasets.available(f"neusight/{group}_amd")
    measured_amd = set(datasets.load(f"neusight/{group}_amd")["device"]) if amd_tables else set()
    for other, rows in unmeasured.groupby("device"):  # an AMD device without kernels here is predicted by those of the others
        chosen = (
            amd_members(group, ensemble, seed) if amd_tables and str(other).startswith("AMD") and other not in measured_amd else ensemble
        )
        inside.append(_predict(chosen, rows, one_die(kernel_devices.load(str(other)))))
    amd = _amd(group, ensemble)
    if len(amd):
        kept.append(amd)
    columns = ["group", "device", "candidate", "inner_mape", "left_out_mape", "chosen"]
    return Piece(
        pd.concat(kept, ignore_index=True),
        pd.concat(inside, ignore_index=True) if inside else wanted.iloc[:0],
        pd.DataFrame(attempts, columns=columns),
        pd.DataFrame(residuals, columns=["group", "unseen", "device", "residual"]),
        ensemble,
    )


def _amd(group: str, ensemble: Ensemble) -> pd.DataFrame:
    if not datasets.available(f"neusight/{group}_amd"):
        return pd.DataFrame()
    frame = datasets.load(f"neusight/{group}_amd")
    return pd.concat(
        [_predict(ensemble, part, kernel_devices.load(str(name))) for name, part in frame.groupby("device")], ignore_index=True
    )


def amd_members(group: str, ensemble: Ensemble, seed: int) -> Ensemble:
    """The same settings fitted on AMD's measured kernels, for AMD devices; the interval stays the one between NVIDIA devices."""
    measured = Measurements.from_frame(datasets.load(f"neusight/{group}_amd"))
    return Ensemble(tuple(fit(settings_of(group, m), seed + bag, measured) for bag, m in enumerate(ensemble.members)), 0.0, ensemble.band)


def hashes() -> dict[str, str]:
    """SHA-256 of each measured table that the fit reads."""
    names = [f"neusight/{table}_{vendor}" for table in TABLES for vendor in ("nvidia", "amd")]
    return digests({name: datasets.find(name) for name in names if datasets.available(name)})


def save(model: KernelModel, folder: Path, about: dict[str, Any], seed: int) -> None:
    """Write `arrays.npz` (trees) and `model.json` (settings, intervals, and what the fit was made on)."""
    arrays: dict[str, NDArray[np.generic]] = {}
    ensembles = []
    for (vendor, group), ensemble in model.parts.items():
        settings = []
        for number, member in enumerate(ensemble.members):
            assert member.trees is not None
            arrays |= forests.arrays(member.trees, f"{vendor}.{group}.{number}")
            settings.append(asdict(settings_of(group, member)))
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
    stream = BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)  # type: ignore[arg-type]
    write_atomic(folder / "arrays.npz", stream.getvalue())
    write_atomic(folder / "model.json", (json.dumps({"about": about, "seed": seed, "ensembles": ensembles}, indent=1) + "\n").encode())


KEPT = ["op", "B", "M", "N", "K", "H", "device", "split", "latency_ms", "predicted_s", "lower_s", "upper_s", "bound"]


def run_groups(work: Path, seed: int, say: Say) -> None:
    """Leave-one-device-out for each group, into `work`; a group that is there is not done again."""
    kernels = network_kernels(network_cases())

    def run(group: str) -> dict[str, pd.DataFrame]:
        piece = leave_out(group, seed, kernels, say)
        parts = {("NVIDIA", group): piece.ensemble}
        if datasets.available(f"neusight/{group}_amd"):
            parts["AMD", group] = amd_members(group, piece.ensemble, seed)
        save(KernelModel(parts), work / group, {}, seed)
        tables = {"residuals": piece.residuals, "networks": piece.networks, "attempts": piece.attempts}
        return {"kernels": piece.kernels.reindex(columns=KEPT), **tables}

    Freeze(work).run({group: partial(run, group) for group in GROUPS})


def band_without(residuals: pd.DataFrame, device: str = "") -> Band:
    """The interval for a device, from the residuals of the fits that saw nothing of it; of those on all devices, where it has none."""
    own = residuals[residuals["unseen"] == (device if (residuals["unseen"] == device).any() else "")]
    return calibrate({str(name): part["residual"].to_numpy() for name, part in own.groupby("device")})


def collect_model(work: Path, seed: int) -> None:
    """Join the groups' fitted ensembles into the shipped model."""
    from analysis.kernels.fp32.model import load

    parts: dict[tuple[str, str], Ensemble] = {}
    for group in GROUPS:
        band = band_without(Freeze(work).read(group, "residuals"))
        for (vendor, name), ensemble in load(work / group).parts.items():
            shortest = datasets.load(f"neusight/{group}_{vendor.lower()}")["latency_ms"].min() / 1e3
            parts[vendor, name] = replace(ensemble, band=band, floor_s=float(shortest))
    about = {
        "fitted_on": "all NeuSight kernels but those of NVIDIA L4 and AMD Instinct MI210; settings chosen by leave-one-device-out",
        "sha256": hashes(),
        "commit": commit(),
    }
    save(KernelModel(parts), FOLDER, about, seed)


def attempts_rows(work: Path) -> pd.DataFrame:
    """Every candidate that selection saw, as rows of the log of attempts."""
    found = pd.concat([read_csv(Freeze(work).path(group, "attempts")) for group in GROUPS], ignore_index=True)
    return pd.DataFrame(
        {
            "room": "operators",
            "experiment": "kernels_" + found["group"],
            "attempt": found.groupby("group").cumcount() + 1,
            "configuration": found["candidate"],
            "fitted_on": "NeuSight's " + found["group"] + " kernels without " + found["device"],
            "selection_metric": "mean absolute percentage error (%), mean over the other devices, each left out in turn",
            "selection_value": found["inner_mape"],
            "tested_on": found["device"],
            "test_metric": "mean absolute percentage error of a single fit on at most 600 kernels (%)",
            "test_value": found["left_out_mape"],
            "test_max": float("nan"),
            "chosen": found["chosen"],
            "note": "",
        }
    )
