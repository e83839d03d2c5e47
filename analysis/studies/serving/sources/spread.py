"""What are times on a source that calibrated nothing? Each source is answered with what the others tell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.serving.points.constants import (
    Elsewhere,
    Interval,
    Parameters,
    apply,
    bounds,
    corrected,
    default_terms,
    elsewhere,
    engine_groups,
    spreading,
    unfamiliar,
)
from analysis.studies.intervals import cluster_bootstrap, interpolated_quantile

SLOWER = {"tpot": (), "ttft": ("amd",)}
EACH = {"tpot": ("engine", "untuned", "quantised", "serial"), "ttft": ()}
"""Terms of `default_terms` of which a factor, or seconds for each that they count, is fitted: decode steps lack time between their many
kernels; prompts multiply for longer than kernels take to start."""
RIDGE, UNIT_S = 0.0003, {"engine": 5e-6, "untuned": 5e-6, "quantised": 5e-6, "serial": 2e-5}
"""Strength with which factors and seconds are held at none, and of what size a time of an operator or a sequence would surprise."""
TAIL = 0.3
"""Errors (logarithm) beyond which a row's weight falls."""
LIGHT = 8
"""Sources and groups of fewer rows do not set an end of an interval by themselves."""
HELD = {"tpot": 1.0, "ttft": 0.0}
"""Strength with which the slope of an interval's width is held at none, in sources."""


def answered(rows: pd.DataFrame, parameters: Parameters, target: str = "tpot") -> pd.DataFrame:
    """Rows of a source with the answer and interval (s) of the benchmark's fit: columns answer, lower, upper beside the rows' own.

    Args:
        rows: features with `source` and `measured_s`.
    """
    constants, interval = (parameters.tpot, parameters.tpot_interval) if target == "tpot" else (parameters.ttft, parameters.ttft_interval)
    answer = apply(rows, constants)
    low, high = bounds(rows, answer, interval)
    return rows.assign(measured=rows["measured_s"], answer=answer, lower=low, upper=high)


def slower(rows: pd.DataFrame, families: Sequence[str], target: str = "tpot") -> tuple[dict[str, float], dict[str, float]]:
    """`slower` and `each_s` of `Elsewhere` by least errors (Huber's) of the rows' logarithms; sources weigh the same.

    Args:
        families: of the measured suite.
    """
    from scipy.optimize import least_squares

    factors, each = SLOWER[target], EACH[target]
    size, answer = np.sqrt(weights(rows) / weights(rows).sum()), rows["answer"].to_numpy()
    terms, measured = default_terms(rows, families), rows["measured"].to_numpy()

    def split(x: np.ndarray) -> tuple[dict[str, float], dict[str, float]]:
        values = [float(value) for value in x]
        more = zip(each, values[len(factors) :], strict=True)
        return dict(zip(factors, values, strict=False)), {name: UNIT_S[name] * value for name, value in more}

    def residual(x: np.ndarray) -> np.ndarray:
        error = np.log(measured / corrected(answer, terms, *split(x)))
        huber = np.sign(error) * np.sqrt(2 * TAIL * (np.hypot(TAIL, error) - TAIL))
        return np.concatenate([size * huber, np.sqrt(RIDGE) * x])

    return split(least_squares(residual, np.full(len(factors) + len(each), 0.1), bounds=(0.0, 12.0)).x)


def residuals(rows: pd.DataFrame, families: Sequence[str], target: str = "tpot") -> pd.Series:
    """log(measured / answer), each source corrected by what the others tell; other makers' devices, which one source has, by family."""
    out = pd.Series(np.nan, index=rows.index)
    alone = rows["source"].where(engine_groups(rows) != "other maker", rows["source"] + "|" + rows["family"])
    for name in alone.unique():
        own = alone == name
        told = slower(rows[~own], families, target) if (~own).any() else ({}, {})
        answer = corrected(rows.loc[own, "answer"].to_numpy(), default_terms(rows[own], families), *told)
        out[own] = np.log(rows.loc[own, "measured"] / answer)
    return out


def weights(rows: pd.DataFrame) -> np.ndarray:
    """Sources weigh the same, those of fewer than `LIGHT` rows less; within one every (model family, GPU)."""
    cluster = rows["source"] + "|" + rows["family"] + "|" + rows["device"]
    share = 1 / cluster.map(cluster.value_counts())
    count = rows["source"].map(rows["source"].value_counts())
    return np.asarray(share / rows["source"].map(share.groupby(rows["source"]).sum()) * np.minimum(1.0, count / LIGHT), dtype=np.float64)


def wider(error: np.ndarray, cause: np.ndarray, weight: np.ndarray, groups: pd.Series, held: float) -> float:
    """`wider` of `Elsewhere`: the most likely slope where errors of each group have a Laplace distribution of their own size.

    Args:
        error, cause: logarithms, and `spreading`, a row each; held: strength with which the slope is held at none, in sources.
    """
    from scipy.optimize import minimize_scalar

    def unlikely(slope: float) -> float:
        parts = pd.DataFrame({"size": weight * np.abs(error) * np.exp(-slope * cause), "weight": weight}).groupby(groups.to_numpy()).sum()
        return float(parts["weight"] @ np.log(parts["size"] / parts["weight"]) + slope * weight @ cause + held * slope**2)

    return float(minimize_scalar(unlikely, bounds=(0.0, 1.0), method="bounded").x)


def fit(rows: pd.DataFrame, interval: Interval, families: Sequence[str], target: str = "tpot") -> Elsewhere:
    """Factors on all rows, and ends from each source as the others tell of it; first tokens, which one engine told, spread alike.

    Args:
        interval: the benchmark's, which knows the GPUs of its own rows; families: of the measured suite.
    """
    count = rows["device"].value_counts()
    devices = tuple(sorted(count.index[count >= LIGHT]))
    groups = engine_groups(rows) if target == "tpot" else pd.Series("", index=rows.index)
    cause, error = spreading(rows, target), residuals(rows, families, target).to_numpy() / unfamiliar(rows, interval, devices)
    grows = wider(error, cause, weights(rows), groups, HELD[target])
    left, ends = error / np.exp(grows * cause), {}
    for name, own in {"": rows, **dict(list(rows.groupby(groups)))}.items():
        if len(own) >= LIGHT or not name:
            here = left[rows.index.get_indexer(own.index)]
            low, high = (interpolated_quantile(here, weights(own), share) for share in (0.05, 0.95))
            ends[name] = (min(low, -0.05), max(high, 0.05))
    factors, each = slower(rows, families, target)
    return Elsewhere(slower=factors, each_s=each, families=tuple(families), devices=devices, wider=grows, ends=ends)


def scores(rows: pd.DataFrame, interval: Interval, families: Sequence[str], target: str = "tpot") -> pd.DataFrame:
    """Each source with what the other sources tell, and as the benchmark's fit has it."""
    out = []
    for name, part in rows.groupby("source", sort=False):
        out.append({"source": name, **score(part, interval, fit(rows[rows["source"] != name], interval, families, target))})
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
