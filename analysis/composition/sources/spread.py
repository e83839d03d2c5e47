"""How much wider must an interval be on a source that calibrated nothing? Each source is scored with the spread that the others tell."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.composition.service.constants import NORMAL_90, Parameters, apply, bounds, widened
from analysis.intervals import cluster_bootstrap, weighted_quantile

HELD = 0.9


def answered(rows: pd.DataFrame, parameters: Parameters) -> pd.DataFrame:
    """Rows of a source with our answer and its benchmark interval (s): columns source, family, device, measured, answer, lower, upper."""
    answer = apply(rows, parameters.tpot)
    low, high = bounds(rows, answer, parameters.tpot_interval)
    return rows[["source", "family", "device"]].assign(measured=rows["measured_s"], answer=answer, lower=low, upper=high)


def spread(rows: pd.DataFrame) -> float:
    """Least spread with which `HELD` of the measurements are below the widened upper end.

    Sources weigh the same, and within one every (model family, GPU). Others are slower than a tuned public benchmark, seldom faster: the
    lower end stays.
    """
    cluster = rows["source"] + "|" + rows["family"] + "|" + rows["device"]
    share = 1 / cluster.map(cluster.value_counts())
    weight = np.asarray(share / rows["source"].map(share.groupby(rows["source"]).sum()), dtype=np.float64)
    error, said = (np.log((rows[name] / rows["answer"]).to_numpy(dtype=np.float64)) for name in ("measured", "upper"))
    needed = np.sqrt(np.maximum(0.0, np.maximum(0.0, error) ** 2 - said**2)) / NORMAL_90
    return weighted_quantile(needed, weight, HELD)


def scores(rows: pd.DataFrame) -> pd.DataFrame:
    """Each source with the spread that the other sources tell, and with the benchmark's interval alone."""
    out = []
    for name, part in rows.groupby("source", sort=False):
        tau = spread(rows[rows["source"] != name])
        out.append({"source": name, **score(part, tau)})
    return pd.DataFrame(out)


def score(part: pd.DataFrame, tau: float) -> dict[str, float]:
    """Error, coverage and width of one source's rows with a spread between sources."""
    high = widened(part["answer"].to_numpy(), part["upper"].to_numpy(), tau)
    ratio = (part["answer"] / part["measured"]).to_numpy()
    error = 100 * np.abs(ratio - 1)
    measured = part["measured"].to_numpy()
    found = {"rows": len(part), "median_percent": float(np.median(error))}
    if part["family"].nunique() > 1:
        ends = cluster_bootstrap(np.median, part["family"].tolist(), error, level=0.9)
        found |= {"median_low": ends.low, "median_high": ends.high}
    return found | {
        "bias_percent": float(100 * (np.exp(np.median(np.log(ratio))) - 1)),
        "coverage_percent": float(100 * part["measured"].between(part["lower"], part["upper"]).mean()),
        "width": float(np.median(part["upper"] / part["lower"])),
        "spread": tau,
        "coverage_elsewhere_percent": float(100 * ((measured >= part["lower"]) & (measured <= high)).mean()),
        "width_elsewhere": float(np.median(high / part["lower"])),
    }
