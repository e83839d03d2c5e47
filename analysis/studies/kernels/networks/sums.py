"""How far are networks sums of their parts? Additive latency on HELP's measured devices, scored as nn-Meter scores itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.studies.freezing import origin
from analysis.studies.kernels.networks.few_shot import ridge
from analysis.studies.kernels.networks.few_shot_spaces import Space, load
from analysis.studies.statistics import spearman
from analysis.tables import write_csv

MEASURED = 900
SPACES = ("nasbench201", "fbnet")


def additive_accuracy(space: Space, seed: int = 0, measured: int = MEASURED) -> pd.DataFrame:
    """Each device by itself: one cost an operator and place, fitted on some networks, summed for the others.

    Returns:
        one row a device: share of networks within 10 % (nn-Meter's accuracy), mean and median error (%), rank correlation.
    """
    order = np.random.default_rng(seed).permutation(len(space.features))
    fitted, rest = order[:measured], order[measured:]
    rows = []
    for device, latency in space.latency_ms.items():
        unit = float(np.median(latency[fitted]))
        weights, bias = ridge(space.features[fitted], latency[fitted] / unit, 1e-2)
        predicted_ms, mean = unit * (space.features[rest] @ weights + bias), float(latency[fitted].mean())
        errors, trivial = np.abs(predicted_ms / latency[rest] - 1), np.abs(mean / latency[rest] - 1)
        rows.append(
            {
                "space": space.name,
                "device": device,
                "within_10": float(np.mean(errors <= 0.1)),
                "within_10_mean": float(np.mean(trivial <= 0.1)),
                "median_error": 100 * float(np.median(errors)),
                "mape": 100 * float(errors.mean()),
                "spearman": spearman(latency[rest], predicted_ms),
            }
        )
    return pd.DataFrame(rows)


def write(folder: Path, seed: int = 0) -> None:
    """Run the study and keep its table, for builds without the dataset."""
    write_csv(pd.concat([additive_accuracy(load(name), seed) for name in SPACES], ignore_index=True), folder / "sums.csv")
    write_csv(origin([f"help/{name}_latency_ms" for name in SPACES]), folder / "origin.csv")
