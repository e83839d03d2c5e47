"""How far off is a predictor on kernels that it has not seen? The measured kernels, and errors by group and device."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.kernels.fp32.cases import Floats
from analysis.studies import datasets
from analysis.studies.intervals import cluster_bootstrap
from analysis.studies.statistics import absolute_percentage_errors, spearman

TABLES = ("bmm", "linear", "elem", "softmax", "ln")


def accuracy(measured_s: Floats, predicted_s: Floats, lower_s: Floats | None = None, upper_s: Floats | None = None) -> dict[str, float]:
    """Errors of one set of rows: percentage errors, bias, rank correlation, and coverage and width of the intervals."""
    errors = absolute_percentage_errors(measured_s, predicted_s)
    found = {
        "cases": float(len(errors)),
        "mape": float(errors.mean()),
        "median_ape": float(np.median(errors)),
        "p90_ape": float(np.quantile(errors, 0.9)),
        "max_ape": float(errors.max()),
        "bias": float(100 * np.expm1(np.median(np.log(predicted_s / measured_s)))),
        "spearman": spearman(measured_s, predicted_s) if len(errors) > 2 else float("nan"),
    }
    if lower_s is not None and upper_s is not None:
        found["coverage"] = float(np.mean((measured_s >= lower_s) & (measured_s <= upper_s)))
        found["upper_over_lower"] = float(np.median(upper_s / lower_s))
    return found


def measured_frame(tables: tuple[str, ...] = TABLES, vendor: str = "nvidia") -> pd.DataFrame:
    """NeuSight's measured kernels of one vendor, one row each (needs the dataset)."""
    return pd.concat([datasets.load(f"neusight/{table}_{vendor}") for table in tables], ignore_index=True)


def summarise(table: pd.DataFrame, group: str) -> pd.DataFrame:
    """Accuracy by device and, in the row `mean over devices`, its mean over them.

    Args:
        table: columns device, measured_s, predicted_s and, if there are any, lower_s and upper_s.
    """
    has_band = "lower_s" in table and bool(table["lower_s"].notna().all())
    rows = []
    for device, part in table.groupby("device", sort=True):
        band = (part["lower_s"].to_numpy(), part["upper_s"].to_numpy()) if has_band else (None, None)
        rows.append({"group": group, "device": device, **accuracy(part["measured_s"].to_numpy(), part["predicted_s"].to_numpy(), *band)})
    found = pd.DataFrame(rows)
    numbers = found.drop(columns=["group", "device"])
    mean = numbers.mean().to_dict() | {"cases": numbers["cases"].sum(), "max_ape": numbers["max_ape"].max()}
    found = pd.concat([found, pd.DataFrame([{"group": group, "device": "mean over devices", **mean}])], ignore_index=True)
    if has_band:
        found["coverage_low"], found["coverage_high"] = np.nan, np.nan
        found.loc[found.index[-1], "upper_over_lower"] = float((table["upper_s"] / table["lower_s"]).median())
        if len(found) > 2:
            spread = cluster_bootstrap(np.mean, found["device"][:-1].to_numpy(), found["coverage"][:-1], together=True)
            found.loc[found.index[-1], ["coverage_low", "coverage_high"]] = [spread.low, spread.high]
    return found
