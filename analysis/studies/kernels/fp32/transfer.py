"""From convolutions to transformers: a predictor trained on one kind of operator, asked about another, on measured GPU kernels."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from analysis import datasets
from analysis.hardware.roofline import Rates, time_on_device
from analysis.studies.statistics import absolute_percentage_errors, spearman

Floats = NDArray[np.float64]

ROWS = 4000
"""Kernels of each kind that are drawn for a fit, and as many for a test."""
KINDS = ("conv", "linear", "bmm")


def work_and_traffic(kind: str, table: pd.DataFrame) -> tuple[Floats, Floats]:
    """Multiply-adds, and numbers read and written once, of each kernel.

    conv: B C_out S^2 C_in K^2 with S the output size; linear and bmm: B M N K.
    """
    number = {name: table[name].to_numpy(dtype=float) for name in table.columns if pd.api.types.is_numeric_dtype(table[name])}
    if kind == "conv":
        window, before = number["Kernel_Szie"], number["Input_Size"]
        size = np.floor((before + 2 * number["Padding"] - window) / number["Stride"]) + 1
        batch, into, onto = number["B"], number["Input_Channel"], number["Output_Channel"]
        return batch * onto * size**2 * into * window**2, batch * (into * before**2 + onto * size**2) + onto * into * window**2
    b, m, n, k = (number[name] for name in "BMNK")
    return b * m * n * k, b * (m * n + n * k + m * k)


def features(kind: str, table: pd.DataFrame, devices: pd.DataFrame) -> tuple[Floats, Floats]:
    """Physical features that every kind of operator has, and the roofline (s).

    Args:
        devices: data sheets by device: SingleFLOPs (Gflop/s) and Mem_Bw (GB/s).
    Returns:
        shape (n, 5), and shape (n,).
    """
    work, moved = work_and_traffic(kind, table)
    flops = table["device"].map(devices["SingleFLOPs"]).to_numpy(dtype=float) * 1e9
    bandwidth = table["device"].map(devices["Mem_Bw"]).to_numpy(dtype=float) * 1e9
    time = time_on_device(2 * work, 4 * moved, Rates(flops, bandwidth))
    physical = [time.compute_s, time.memory_s, work, moved, time.compute_s / time.memory_s]
    return np.log(np.column_stack(physical)), time.latency_s


def study(seed: int = 0, rows: int = ROWS) -> pd.DataFrame:
    """Train on each kind, test on each, kernels of the fit never in the test; one row a pair, with the scaled roofline beside.

    Raises:
        DatasetMissing: NeuSight's tables are not on this machine.
    """
    described = datasets.load("neusight/devices").drop_duplicates("Device", keep="first").set_index("Device")
    rng = np.random.default_rng(seed)
    parts = {}
    for kind in KINDS:
        table = datasets.load(f"neusight/{kind}_nvidia")
        table = table[(table["split"] == "train") & table["device"].isin(described.index)]
        table = table.iloc[rng.permutation(len(table))[: 2 * rows]].reset_index(drop=True)
        x, roofline = features(kind, table, described)
        good = np.isfinite(x).all(axis=1)
        parts[kind] = (x[good], roofline[good], table["latency_ms"].to_numpy(dtype=float)[good] / 1e3)
    found = []
    for source in KINDS:
        x, roofline, measured = (values[:rows] for values in parts[source])
        model = HistGradientBoostingRegressor(max_iter=300, learning_rate=0.05, random_state=seed)
        factor = float(np.median(measured / roofline))
        with threadpool_limits(1):
            model.fit(x, np.log(measured / roofline))
            for target in KINDS:
                wanted, bound, truth = (values[rows:] for values in parts[target])
                for method, predicted_s in (("boosting", bound * np.exp(model.predict(wanted))), ("scaled roofline", bound * factor)):
                    errors = absolute_percentage_errors(truth, predicted_s)
                    found.append(
                        {
                            "trained_on": source,
                            "tested_on": target,
                            "method": method,
                            "kernels": len(truth),
                            "mape": float(errors.mean()),
                            "median_error": float(np.median(errors)),
                            "spearman": spearman(truth, predicted_s),
                        }
                    )
    return pd.DataFrame(found)
