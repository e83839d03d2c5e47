"""What are times on a source that calibrated nothing? Each source is answered with what the others tell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.intervals import cluster_bootstrap, interpolated_quantile
from analysis.serving.points.constants import (
    Elsewhere,
    Interval,
    Parameters,
    apply,
    bounds,
    elsewhere,
    engine_groups,
    slower_terms,
    unfamiliar,
)

TERMS = {"tpot": ("engine", "mixture", "amd"), "ttft": ("amd",)}
"""Terms of `slower_terms` whose factors are fitted: of first tokens one source tells, too little for the engine's and the mixture's."""
RIDGE = 0.3
"""Strength with which factors are held at none, in sources and the mean square of what they have to explain."""
FLOOR = 0.05
"""Errors (logarithm) smaller than this are as good as none."""
LIGHT = 8
"""Sources of fewer rows do not set an end of an interval by themselves."""


def answered(rows: pd.DataFrame, parameters: Parameters, target: str = "tpot") -> pd.DataFrame:
    """Rows of a source with the answer and interval (s) of the benchmark's fit: columns answer, lower, upper beside the rows' own.

    Args:
        rows: features with `source` and `measured_s`.
    """
    constants, interval = (parameters.tpot, parameters.tpot_interval) if target == "tpot" else (parameters.ttft, parameters.ttft_interval)
    answer = apply(rows, constants)
    low, high = bounds(rows, answer, interval)
    return rows.assign(measured=rows["measured_s"], answer=answer, lower=low, upper=high)


def _clusters(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a (source, model family, GPU, engine): median logarithm of measured over answer, its terms and its weight."""
    frame = slower_terms(rows).assign(
        error=np.log(rows["measured"] / rows["answer"]), source=rows["source"],
        cluster=rows["source"] + "|" + rows["family"] + "|" + rows["device"] + "|" + rows["engine"],
    )  # fmt: skip
    found = frame.groupby("cluster").agg({"error": "median", "source": "first", **dict.fromkeys(slower_terms(rows).columns, "mean")})
    light = np.minimum(1.0, found["source"].map(rows["source"].value_counts()) / LIGHT)
    return found.assign(weight=light / found["source"].map(found["source"].value_counts()))


def slower(rows: pd.DataFrame, terms: Sequence[str] = TERMS["tpot"]) -> dict[str, float]:
    """Logarithms of the factors of some terms, by least absolute error of the clusters' medians; sources weigh the same."""
    found = _clusters(rows)
    x, y, even = found[list(terms)].to_numpy(), found["error"].to_numpy(), found["weight"].to_numpy()
    solved, weight = np.zeros(len(terms)), even
    for _ in range(30):
        pull = RIDGE * float(np.average(y**2, weights=weight)) * np.eye(len(terms))
        solved = np.linalg.solve((x * weight[:, None]).T @ x + pull, (x * weight[:, None]).T @ y)
        error = np.maximum(np.abs(y - x @ solved), FLOOR)
        weight = even * np.median(error) / error
    return {name: float(value) for name, value in zip(terms, solved, strict=True)}


def residuals(rows: pd.DataFrame, terms: Sequence[str] = TERMS["tpot"]) -> pd.Series:
    """log(measured / answer), each source corrected by what the others tell."""
    out = pd.Series(np.nan, index=rows.index)
    for name in rows["source"].unique():
        own = rows["source"] == name
        told = slower(rows[~own], terms) if (~own).any() else {}
        shift = sum((told.get(str(term), 0.0) * value for term, value in slower_terms(rows[own]).items()), np.zeros(int(own.sum())))
        out[own] = np.log(rows.loc[own, "measured"] / rows.loc[own, "answer"]) - shift
    return out


def weights(rows: pd.DataFrame) -> np.ndarray:
    """Sources weigh the same, those of fewer than `LIGHT` rows less; within one every (model family, GPU)."""
    cluster = rows["source"] + "|" + rows["family"] + "|" + rows["device"]
    share = 1 / cluster.map(cluster.value_counts())
    count = rows["source"].map(rows["source"].value_counts())
    return np.asarray(share / rows["source"].map(share.groupby(rows["source"]).sum()) * np.minimum(1.0, count / LIGHT), dtype=np.float64)


def fit(rows: pd.DataFrame, interval: Interval, target: str = "tpot") -> Elsewhere:
    """Factors on all rows, and ends from each source as the others tell of it.

    Args:
        interval: the benchmark's, which knows the GPUs of its own rows.
    """
    count = rows["device"].value_counts()
    devices = tuple(sorted(count.index[count >= LIGHT]))
    left = residuals(rows, TERMS[target]).to_numpy() / unfamiliar(rows, interval, devices)
    ends: dict[str, tuple[float, float]] = {}
    for name in ("python", "trtllm", "other maker"):
        own = (engine_groups(rows) == name).to_numpy()
        if own.sum() < LIGHT and ends:  # nobody told: as the engines that Python drives
            ends[name] = ends["python"]
            continue
        own = own if own.any() else np.ones(len(rows), dtype=bool)
        low, high = (interpolated_quantile(left[own], weights(rows[own]), share) for share in (0.05, 0.95))
        ends[name] = (min(low, -0.05), max(high, 0.05))
    return Elsewhere(slower=slower(rows, TERMS[target]), devices=devices, ends=ends)


def scores(rows: pd.DataFrame, interval: Interval, target: str = "tpot") -> pd.DataFrame:
    """Each source with what the other sources tell, and as the benchmark's fit has it."""
    out = []
    for name, part in rows.groupby("source", sort=False):
        out.append({"source": name, **score(part, interval, fit(rows[rows["source"] != name], interval, target))})
    return pd.DataFrame(out)


def score(part: pd.DataFrame, interval: Interval, other: Elsewhere) -> dict[str, float]:
    """Error, coverage and width of one source's rows, as the benchmark's fit has them and as other sources' runs tell."""
    answer, lower, upper = elsewhere(part, part["answer"].to_numpy(), interval, other)
    measured = part["measured"].to_numpy()
    error, moved = 100 * np.abs(part["answer"].to_numpy() / measured - 1), 100 * np.abs(answer / measured - 1)
    found = {"rows": len(part), "median_percent": float(np.median(error))}
    if part["family"].nunique() > 1:
        ends = cluster_bootstrap(np.median, part["family"].tolist(), error, level=0.9)
        found |= {"median_low": ends.low, "median_high": ends.high}

    def bias(values: np.ndarray) -> float:
        return float(100 * (np.exp(np.median(np.log(values / measured))) - 1))

    return found | {
        "bias_percent": bias(part["answer"].to_numpy()),
        "coverage_percent": float(100 * part["measured"].between(part["lower"], part["upper"]).mean()),
        "width": float(np.median(part["upper"] / part["lower"])),
        "median_elsewhere_percent": float(np.median(moved)),
        "bias_elsewhere_percent": bias(answer),
        "coverage_elsewhere_percent": float(100 * ((measured >= lower) & (measured <= upper)).mean()),
        "width_elsewhere": float(np.median(upper / lower)),
    }
