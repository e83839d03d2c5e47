"""Which kind of predictor carries over to a GPU that was left out? Every predictor on the same left-out devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.kernels.fp32 import devices as kernel_devices
from analysis.kernels.fp32.cases import GEMMS, GROUPS, KernelPredictor, Measurements
from analysis.kernels.fp32.evaluation import accuracy, evaluate_frame, measured_frame
from analysis.kernels.fp32.physics import Decomposition, Physics
from analysis.kernels.fp32.residual import Hybrid, HybridSettings, draw
from analysis.kernels.fp32.selection import CASES, SMALL
from analysis.studies.freezing import Freeze
from analysis.studies.kernels.fp32.baselines import PhysicalModel, PlainTrees, WaveScaling
from analysis.tables import read_csv, write_csv

SOURCE = {"Tesla V100-PCIE-32GB": "Tesla T4"}  # Habitat's source GPU; others take the V100
TESTED = 2000
DECOMPOSITIONS: tuple[Decomposition, ...] = ("tiles", "waves", "kernel")


def predictors(group: str, target: str) -> dict[str, KernelPredictor]:
    """The predictors compared for one operator group, unfitted."""
    found: dict[str, KernelPredictor] = {
        "roofline": PhysicalModel("roofline"),
        "roofline x median": PhysicalModel("roofline", scaled=True),
        "wave scaling": WaveScaling(SOURCE.get(target, "Tesla V100-PCIE-32GB")),
        "boosting on shapes and data sheet": PlainTrees("boosting", ratio=False),
        "boosting of the ratio to the roofline": PlainTrees("boosting"),
        "random forest of the ratio": PlainTrees("forest"),
    }
    if group in GEMMS:
        found["tiles x median"] = PhysicalModel("tiles", scaled=True)
        found["tiles as printed x median"] = PhysicalModel("tiles as printed", scaled=True)
        found["whole kernel x median"] = PhysicalModel("kernel", scaled=True)
        for decomposition in DECOMPOSITIONS:
            settings = HybridSettings(Physics(), decomposition, "physical", boosting=SMALL, most_per_device=CASES)
            found[f"learned correction of {decomposition}"] = Hybrid(settings)
    return found


def compare(group: str, seed: int, say: Callable[[str], None]) -> Iterator[pd.DataFrame]:
    """Errors of each predictor with each NVIDIA device left out, on at most `TESTED` cases of a device drawn at random.

    Yields:
        one row: group, device, predictor, and the columns of `accuracy`; covered is the share of cases that got an answer.
    """
    measured = Measurements.from_frame(measured_frame((group,)))
    for name in sorted(set(measured.device)):
        train = measured.take(measured.device != name)
        test = measured.take(np.flatnonzero(measured.device == name))
        test = test.take(draw(test.device, TESTED, seed))
        gpu = kernel_devices.load(str(name))
        for label, predictor in predictors(group, str(name)).items():
            predicted = predictor.fit(train).predict(test.operators, gpu).latency_s
            ok = np.isfinite(predicted)
            if ok.sum() < 20:
                continue
            errors = accuracy(test.latency_s[ok], predicted[ok])
            yield pd.DataFrame([{"group": group, "device": name, "predictor": label, "covered": float(ok.mean()), **errors}])
        say(f"{group} without {name}: compared")


def run_comparisons(work: Path, seed: int, say: Callable[[str], None]) -> None:
    """`compare` for each group, into `<group>_comparison.csv` of a folder; a group that is there is not done again."""
    for group in GROUPS:
        if not (work / f"{group}_comparison.csv").exists():
            write_csv(pd.concat(compare(group, seed, say), ignore_index=True), work / f"{group}_comparison.csv")


def run_splits(work: Path, seed: int, say: Callable[[str], None]) -> None:
    """The hybrid on every split but leave-one-device-out, into `splits.csv` of a folder, if it is not there."""
    if (work / "splits.csv").exists():
        return
    parts = []
    frame = measured_frame()
    for split in ("old-to-new", "unseen-shapes", "new-operators", "random"):
        parts.append(evaluate_frame(frame, split, seed).assign(split=split))
        say(split)
    write_csv(pd.concat(parts, ignore_index=True), work / "splits.csv")


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
