"""Additive latency and transfer between kinds of kernels, on measured data, kept for builds without the datasets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.operators import kernel_sums, kernel_transfer
from analysis.operators.few_shot_spaces import load
from analysis.operators.frozen_origin import origin
from analysis.tables import write_csv

SPACES = ("nasbench201", "fbnet")


def write(folder: Path, seed: int = 0) -> pd.DataFrame:
    """Run both studies, keep their tables, and return rows for the log.

    Args:
        folder: where frozen tables go.
        seed: of the draws.
    Raises:
        DatasetMissing: HELP's or NeuSight's tables are not on this machine.
    """
    sums = pd.concat([kernel_sums.additive_accuracy(load(name), seed) for name in SPACES], ignore_index=True)
    transfer = kernel_transfer.study(seed)
    write_csv(sums, folder / "sums.csv")
    write_csv(transfer, folder / "transfer.csv")
    inputs = [f"help/{name}_latency_ms" for name in SPACES] + [f"neusight/{kind}_nvidia" for kind in kernel_transfer.KINDS]
    write_csv(origin(inputs), folder / "origin.csv")
    rows = [
        {
            "room": "operators",
            "experiment": "cnn_to_transformer",
            "attempt": number,
            "configuration": f"{row['method']}, trained on {row['trained_on']}",
            "fitted_on": f"{kernel_transfer.ROWS} {row['trained_on']} kernels of five GPUs",
            "selection_metric": "none",
            "selection_value": np.nan,
            "tested_on": f"{row['kernels']} other {row['tested_on']} kernels of the same GPUs",
            "test_metric": "MAPE (%)",
            "test_value": row["mape"],
            "test_max": np.nan,
            "chosen": False,
            "note": "nothing was tuned",
        }
        for number, row in enumerate(transfer.to_dict("records"), start=1)
    ]
    return pd.DataFrame(rows)
