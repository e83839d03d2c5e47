"""What is fitted: few constants of engines and clients, on measured serving points, pulled towards what all rows say.

Physics first: kernels, settings and the closed loop give TTFT and TPOT with nothing fitted (`raw`). Then
    log(measured / raw) = level + one offset a group (engine, engine x origin, ...) + slopes x features,
ridge regression with a stronger pull on finer groups, absolute errors (iterated weights). `FEATURES` lists the groups and slopes; which are in
was decided on the selection families of data/evaluation/serving_split.yaml.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.configs import Strict, read_yaml
from analysis.paths import DATA

Floats = NDArray[np.float64]
PATH = DATA / "models" / "serving_points.yaml"


class Terms(Strict):
    """Groups and slopes of one target, each with its pull (in rows: a group of so many rows is moved half way)."""

    groups: dict[str, float]
    slopes: dict[str, float]


class Fitted(Strict):
    """One fitted correction: level, offsets by group value, slopes."""

    level: float
    offsets: dict[str, float]
    slopes: dict[str, float]
    centres: dict[str, float]


class Interval(Strict):
    """Half-widths of log error for 90 %: pooled, and by group where there were enough calibration rows."""

    pooled: tuple[float, float]
    by_group: dict[str, tuple[float, float]]


class Parameters(Strict):
    """`data/models/serving_points.yaml`: what `predict serving` uses."""

    fitted_on: str
    rows: int
    ttft: Fitted
    tpot: Fitted
    ttft_interval: Interval
    tpot_interval: Interval


@dataclass(frozen=True)
class Design:
    """Columns of the regression for a table of features."""

    columns: list[str]
    values: Floats
    pulls: Floats


def keys(frame: pd.DataFrame, group: str) -> pd.Series:
    """Value of a group of one or more columns (joined with `+`), as text."""
    names = group.split("+")
    out = frame[names[0]].astype(str)
    for name in names[1:]:
        out = out + "|" + frame[name].astype(str)
    return group + "=" + out


def design(frame: pd.DataFrame, terms: Terms, centres: dict[str, float], known: list[str] | None = None) -> Design:
    """One column a group value (all in `frame`, or those `known`) and one a slope (centred; NaN counts as the centre)."""
    columns, blocks, pulls = ["level"], [np.ones(len(frame))], [0.0]
    for group, pull in terms.groups.items():
        names = keys(frame, group)
        values = sorted(set(names)) if known is None else [k for k in known if k.startswith(group + "=")]
        for value in values:
            columns.append(value)
            blocks.append((names == value).to_numpy(dtype=np.float64))
            pulls.append(pull)
    for slope, pull in terms.slopes.items():
        columns.append(slope)
        blocks.append(slope_values(frame, slope, centres[slope]))
        pulls.append(pull)
    return Design(columns, np.stack(blocks, axis=1), np.array(pulls))


def slope_values(frame: pd.DataFrame, slope: str, centre: float) -> Floats:
    """A feature minus its centre; `feature@column=value` only where the column has that value."""
    name, _, condition = slope.partition("@")
    values = frame[name].to_numpy(dtype=np.float64) - centre
    if condition:
        column, value = condition.split("=")
        values = np.where(frame[column].astype(str) == value, values, 0.0)
    return np.nan_to_num(values)


def fit(frame: pd.DataFrame, log_ratio: Floats, terms: Terms, weight: Floats | None = None, rounds: int = 12) -> Fitted:
    """Ridge regression of log(measured / raw) with absolute errors.

    Args:
        frame: features, one row a measurement; log_ratio: shape (rows,).
        weight: of each row (1 by default); rounds: of iterated weights 1 / max(|error|, 0.02).
    """
    centres = {slope: float(np.nanmean(frame[slope.partition("@")[0]])) for slope in terms.slopes}
    d = design(frame, terms, centres)
    base = np.ones(len(frame)) if weight is None else weight
    w, solution = base, np.zeros(d.values.shape[1])
    for _ in range(rounds):
        gram = (d.values * w[:, None]).T @ d.values + np.diag(d.pulls * w.mean() + 1e-9)
        solution = np.linalg.solve(gram, (d.values * w[:, None]).T @ log_ratio)
        error = np.abs(log_ratio - d.values @ solution)
        w = base / np.maximum(error, 0.02)
    found = dict(zip(d.columns, map(float, solution), strict=True))
    slopes = {slope: found[slope] for slope in terms.slopes}
    offsets = {name: value for name, value in found.items() if name != "level" and name not in slopes}
    return Fitted(level=found["level"], offsets=offsets, slopes=slopes, centres=centres)


def apply(frame: pd.DataFrame, fitted: Fitted, terms: Terms) -> Floats:
    """Log correction of each row; a group value never seen counts nothing."""
    out = np.full(len(frame), fitted.level)
    for group in terms.groups:
        out += keys(frame, group).map(fitted.offsets).fillna(0.0).to_numpy(dtype=np.float64)
    for slope in terms.slopes:
        out += fitted.slopes[slope] * slope_values(frame, slope, fitted.centres[slope])
    return out


def load(path: str | Path = PATH) -> Parameters:
    """The committed parameters."""
    return read_yaml(path, Parameters)
