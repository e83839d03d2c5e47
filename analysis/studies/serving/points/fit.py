"""How the constants of `analysis.serving.points.constants` are fitted: on measured serving points, each pulled towards what all rows say.

Errors are relative and absolute (iterated weights). Coefficients are fitted for all rows, then for each engine, pulled towards those, and
for the time to first token for each engine and origin, and for each GPU of those that two families share (its hosts and network), each
pulled towards the coarser one's: a group of `PULL` rows is moved half way.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.serving.points.constants import (
    CALIBRATED_BY,
    DOUBT_OF,
    KNOWN,
    LEVELS,
    Constants,
    Interval,
    Parameters,
    apply,
    difficulty_terms,
    group,
    ranked,
    regressed,
)
from analysis.studies.intervals import interpolated_quantile

Floats = NDArray[np.float64]
TERMS = {"tpot": ("tpot_s", "host_s"), "ttft": ("ttft_s", "one", "stream_s", "tpot_s")}
FAMILIES = 2
"""Model families that a group of one GPU needs: of one alone, what is the GPU's and what is the family's cannot be told apart."""
PULL = {"tpot": 100.0, "ttft": 50.0}
RIDGE = {"tpot": 1.0, "ttft": 2.0}
"""Strength with which the coefficients of the difficulty are held at none, in clusters."""


def _coefficients(x: Floats, y: Floats, prior: Floats | None, rows: float) -> Floats:
    """Non-negative coefficients of least absolute relative error, pulled towards a prior with the strength of so many rows."""
    from scipy.optimize import nnls

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
    """Coefficients from measured rows."""
    terms = TERMS[target]
    x = frame[list(terms)].to_numpy(dtype=np.float64)
    good = np.isfinite(x).all(axis=1) & (measured_s > 0)
    found: dict[str, tuple[float, ...]] = {}
    for level, columns in enumerate(LEVELS[target]):
        names = group(frame, columns)
        for name in sorted(set(names[good])):
            rows = good & (names == name).to_numpy()
            if "device" in columns and frame.loc[rows, "family"].nunique() < FAMILIES:
                continue
            prior = None if level == 0 else np.array(found["|".join(name.split("|")[:-1])])
            found[name] = tuple(map(float, _coefficients(x[rows], measured_s[rows], prior, PULL[target])))
    return Constants(terms=terms, coefficients=found)


DIFFICULTY = {"tpot": ("vendor", "sglang", "trtllm", "apart", "crowded", "clients", "mixture"), "ttft": ()}
DIFFICULTY["ttft"] = (*DIFFICULTY["tpot"][:5], "many", "trtllm_long")


def _evenly(frame: pd.DataFrame) -> Floats:
    """Weights by which every cluster (model family, GPU) weighs the same."""
    cluster = group(frame, ("family", "device"))
    return np.asarray(1 / cluster.map(cluster.value_counts()).to_numpy(dtype=np.float64))


def interval(frame: pd.DataFrame, log_error: Floats, target: str) -> Interval:
    """Difficulty and quantiles of log(measured / answer) / difficulty; every cluster (model family, GPU) weighs the same.

    The difficulty is a ridge regression of the logarithm of the error's size. A group's quantiles are those of its own clusters and, with
    the weight of one cluster, of all others': a group of few clusters leans on them, a group of many does not. Of the time to first token
    (one kind of workers) they are taken of the error's size: which way a family is off, the few others do not tell.

    Args:
        frame: features with `family`, `device`, `doubt`; log_error: of answers that the row was not fitted on, shape (rows,).
        target: `tpot` or `ttft`.
    """
    good = np.isfinite(log_error)
    error, frame = log_error[good], frame[good]
    even = _evenly(frame)
    terms = DIFFICULTY[target]
    x = difficulty_terms(frame)[list(terms)].to_numpy()
    size = np.log(np.hypot(error, 0.05))
    centre, level = np.average(x, axis=0, weights=even), np.average(size, weights=even)
    scale = np.sqrt(np.average((x - centre) ** 2, axis=0, weights=even)) + 1e-9
    z = (x - centre) / scale
    slope = np.linalg.solve((z * even[:, None]).T @ z + RIDGE[target] * np.eye(len(terms)), (z * even[:, None]).T @ (size - level))
    found = Interval(
        terms=terms,
        centre=tuple(map(float, centre)),
        scale=tuple(map(float, scale)),
        slope=tuple(map(float, slope)),
        level=float(level),
        doubt_of=DOUBT_OF[target],
        doubt_seen=float(np.quantile(frame[DOUBT_OF[target]].to_numpy(dtype=np.float64), 0.95)),
        seen=tuple(sorted(set(ranked(frame)))),
        devices=tuple(sorted(set(frame["device"]))),
        pooled=(-1.0, 1.0),
        groups={},
    )
    score = error / regressed(frame, found)

    def ends(weight: Floats, symmetric: bool) -> tuple[float, float]:
        high = interpolated_quantile(np.abs(score), weight, 0.9) if symmetric else interpolated_quantile(score, weight, 0.95)
        low = -high if symmetric else interpolated_quantile(score, weight, 0.05)
        return min(low, -0.05), max(high, 0.05)

    names, groups = group(frame, CALIBRATED_BY), {}
    for name in sorted(set(names)):
        own = (names == name).to_numpy()
        rest = even[~own].sum()
        groups[name] = ends(np.where(own, even, even / rest if rest else 0.0), target == "ttft" and name.startswith("agg"))
    return found.model_copy(update={"pooled": ends(even, target == "ttft"), "groups": groups})


def fit_all(frame: pd.DataFrame, ttft_s: Floats, tpot_s: Floats, fitted_on: str) -> Parameters:
    """Constants on all rows, intervals from leaving each model family out."""
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
        out[target + "_interval"] = interval(frame, error, target)
    known = {key: tuple(sorted(set(frame[key]) - {""})) for key in KNOWN}
    return Parameters(fitted_on=fitted_on, rows=len(frame), known=known, **out)  # type: ignore[arg-type]
