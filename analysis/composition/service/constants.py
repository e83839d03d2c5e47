"""What is fitted: few constants of engines and clients, on measured serving points, each pulled towards what all rows say.

Physics first: kernels, settings and the closed loop give TTFT and TPOT with nothing fitted. Then, for each engine and origin of the row,
    measured = sum of c_j x term_j,  c_j >= 0,
with the terms of `TERMS`: the simulated time, a constant (front end, launch), the stream's delay, the steps a request waits for. Errors
are relative and absolute (iterated weights).
Coefficients are fitted for all rows, then for each engine, pulled towards those, and for the time to first token for each engine and
origin, pulled towards its engine's: a group of `PULL` rows is moved half way.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import nnls

from analysis.configs import Strict, read_yaml
from analysis.paths import DATA

Floats = NDArray[np.float64]
PATH = DATA / "models" / "serving_points.yaml"
TERMS = {"tpot": ("tpot_s",), "ttft": ("ttft_s", "one", "stream_s", "tpot_s")}
LEVELS = {"tpot": ((), ("engine",)), "ttft": ((), ("engine",), ("engine", "origin"))}
"""Groups with coefficients of their own, from coarse to fine; an origin decides how requests arrive, which moves the first token alone."""
PULL = {"tpot": 100.0, "ttft": 50.0}
CALIBRATED_BY = ("mode", "origin")
"""Groups with interval ends of their own: published settings bring answers closer than inferred ones, one worker closer than two kinds."""


class Constants(Strict):
    """Coefficients of one target: group (values joined by `|`, empty: all rows) -> one for each term."""

    terms: tuple[str, ...]
    coefficients: dict[str, tuple[float, ...]]


class Interval(Strict):
    """A conformal 90 % interval: answer x exp(end x difficulty), difficulty = sqrt(spread^2 + doubt^2).

    Attributes:
        spread: robust standard deviation of log(measured / answer) on rows that the answers were not fitted on.
        pooled, groups: 5th and 95th percentile of log(measured / answer) / difficulty, of all rows and of each `CALIBRATED_BY`.
    """

    spread: float
    pooled: tuple[float, float]
    groups: dict[str, tuple[float, float]]


class Parameters(Strict):
    """`data/models/serving_points.yaml`: what `predict serving` uses."""

    fitted_on: str
    rows: int
    tpot: Constants
    ttft: Constants
    tpot_interval: Interval
    ttft_interval: Interval


def group(frame: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    """Values of some columns joined by `|`."""
    if not columns:
        return pd.Series("", index=frame.index)
    out = frame[columns[0]].astype(str)
    for name in columns[1:]:
        out = out + "|" + frame[name].astype(str)
    return out


def _coefficients(x: Floats, y: Floats, prior: Floats | None, rows: float) -> Floats:
    """Non-negative coefficients of least absolute relative error, pulled towards a prior with the strength of so many rows."""
    weight, found = 1 / y, np.zeros(x.shape[1])
    size = np.median(x / y[:, None], axis=0) + 1e-12
    for _ in range(12):
        scale = np.sqrt((weight * y).mean() ** 2)
        a, b = x * weight[:, None], y * weight
        if prior is not None:
            pull = np.diag(np.sqrt(rows) * scale * size)
            a, b = np.vstack([a, pull]), np.concatenate([b, pull @ prior])
        found = nnls(a, b)[0]
        error = np.abs(1 - x @ found / y)
        weight = 1 / y / np.sqrt(np.maximum(error, 0.05))
    return np.asarray(found)


def fit(frame: pd.DataFrame, measured_s: Floats, target: str) -> Constants:
    """Coefficients from measured rows.

    Args:
        frame: features with the terms of the target, one row a measurement; rows with NaN are left out.
        measured_s: shape (rows,); target: `tpot` or `ttft`.
    """
    terms = TERMS[target]
    x = frame[list(terms)].to_numpy(dtype=np.float64)
    good = np.isfinite(x).all(axis=1) & (measured_s > 0)
    found: dict[str, tuple[float, ...]] = {}
    for level, columns in enumerate(LEVELS[target]):
        names = group(frame, columns)
        for name in sorted(set(names[good])):
            rows = good & (names == name).to_numpy()
            prior = None if level == 0 else np.array(found["|".join(name.split("|")[:-1])])
            found[name] = tuple(map(float, _coefficients(x[rows], measured_s[rows], prior, PULL[target])))
    return Constants(terms=terms, coefficients=found)


def apply(frame: pd.DataFrame, constants: Constants) -> Floats:
    """Answers (seconds): each row by the finest group that was fitted."""
    return np.asarray(parts(frame, constants).sum(axis=1))


def parts(frame: pd.DataFrame, constants: Constants) -> Floats:
    """Coefficient x term, shape (rows, terms)."""
    chosen = np.zeros((len(frame), len(constants.terms)))
    for columns in LEVELS["ttft"]:
        names = group(frame, columns)
        for name, values in constants.coefficients.items():
            if name.count("|") == max(0, len(columns) - 1) and bool(name) == bool(columns):
                chosen[(names == name).to_numpy()] = values
    return np.asarray(chosen * frame[list(constants.terms)].to_numpy(dtype=np.float64))


def interval(frame: pd.DataFrame, log_error: Floats) -> Interval:
    """Quantiles of log(measured / answer) / difficulty; every cluster (model family, GPU) weighs the same.

    A group's quantiles are those of its own clusters and, with the weight of one cluster, of all others': a group of few clusters leans on
    them, a group of many does not.

    Args:
        frame: features with `family`, `device`, `doubt`; log_error: of answers that the row was not fitted on, shape (rows,).
    """
    good = np.isfinite(log_error)
    error, frame = log_error[good], frame[good]
    spread = float(1.4826 * np.median(np.abs(error - np.median(error))))
    score = error / np.hypot(spread, frame["doubt"].to_numpy(dtype=np.float64))
    cluster = group(frame, ("family", "device"))
    even = 1 / cluster.map(cluster.value_counts()).to_numpy(dtype=np.float64)
    order = np.argsort(score)

    def ends(weight: Floats) -> tuple[float, float]:
        share = np.cumsum(weight[order]) - 0.5 * weight[order]
        low, high = np.interp((0.05, 0.95), share / weight.sum(), score[order])
        return float(min(low, -0.05)), float(max(high, 0.05))

    names, groups = group(frame, CALIBRATED_BY), {}
    for name in sorted(set(names)):
        own = (names == name).to_numpy()
        rest = even[~own].sum()
        groups[name] = ends(np.where(own, even, even / rest if rest else 0.0))
    return Interval(spread=spread, pooled=ends(even), groups=groups)


def bounds(frame: pd.DataFrame, answer_s: Floats, found: Interval) -> tuple[Floats, Floats]:
    """Ends of the interval around answers; a row of no known group has those of all rows."""
    ends = np.array([found.groups.get(name, found.pooled) for name in group(frame, CALIBRATED_BY)]).reshape(-1, 2)
    difficulty = np.hypot(found.spread, frame["doubt"].to_numpy(dtype=np.float64))
    return answer_s * np.exp(ends[:, 0] * difficulty), answer_s * np.exp(ends[:, 1] * difficulty)


def fit_all(frame: pd.DataFrame, ttft_s: Floats, tpot_s: Floats, fitted_on: str) -> Parameters:
    """Constants on all rows, intervals from leaving each model family out.

    Args:
        frame: features with `family`; ttft_s, tpot_s: measured, shape (rows,).
        fitted_on: a sentence that says which rows.
    """
    out: dict[str, Constants | Interval] = {}
    for target, measured in (("ttft", ttft_s), ("tpot", tpot_s)):
        out[target] = fit(frame, measured, target)
        error = np.full(len(frame), np.nan)
        for family in sorted(set(frame["family"])):
            away = (frame["family"] == family).to_numpy()
            if away.all():
                continue
            answer = apply(frame[away], fit(frame[~away], measured[~away], target))
            with np.errstate(divide="ignore", invalid="ignore"):
                error[away] = np.log(measured[away] / answer)
        out[target + "_interval"] = interval(frame, error)
    return Parameters(fitted_on=fitted_on, rows=len(frame), **out)  # type: ignore[arg-type]


def load(path: str | Path = PATH) -> Parameters:
    """The committed parameters."""
    return read_yaml(path, Parameters)
