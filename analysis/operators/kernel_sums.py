"""How far networks are sums of their parts: additive latency on HELP's measured devices, scored as nn-Meter scores itself."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.operators.few_shot import ridge
from analysis.operators.few_shot_spaces import Space
from analysis.statistics import spearman

MEASURED = 900


def additive_accuracy(space: Space, seed: int = 0, measured: int = MEASURED) -> pd.DataFrame:
    """Each device by itself: one cost an operator and place, fitted on some networks, summed for the others.

    Args:
        space: search space.
        seed: of the draw.
        measured: networks fitted on.
    Returns:
        one row a device: share of networks within 10 % (nn-Meter's accuracy), mean and median error (%), rank correlation.
    """
    order = np.random.default_rng(seed).permutation(len(space.features))
    fitted, rest = order[:measured], order[measured:]
    rows = []
    for device, latency in space.latency_ms.items():
        unit = float(np.median(latency[fitted]))
        weights, bias = ridge(space.features[fitted], latency[fitted] / unit, 1e-2)
        guess, mean = unit * (space.features[rest] @ weights + bias), float(latency[fitted].mean())
        errors, trivial = np.abs(guess / latency[rest] - 1), np.abs(mean / latency[rest] - 1)
        rows.append(
            {
                "space": space.name,
                "device": device,
                "within_10": float(np.mean(errors <= 0.1)),
                "within_10_mean": float(np.mean(trivial <= 0.1)),
                "median_error": 100 * float(np.median(errors)),
                "mape": 100 * float(errors.mean()),
                "spearman": spearman(latency[rest], guess),
            }
        )
    return pd.DataFrame(rows)
