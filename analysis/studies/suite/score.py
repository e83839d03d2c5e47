"""How right are somebody's predictions of the measured suite? Errors with cluster intervals, coverage, sharpness, baselines, ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.case_columns import Columns
from analysis.errors import DatasetMissing, InputError
from analysis.paths import DATA
from analysis.studies.intervals import cluster_bootstrap
from analysis.studies.suite.rows import PARTS, rows
from analysis.tables import numeric, read_csv

READS = Columns(names=("row_id", "predicted", "lower", "upper"), required=("row_id", "predicted"))
LEAST = 5
FROZEN = tuple(DATA / "frozen" / "measured_suite" / f"{part}_predictions.csv" for part in ("training", "batch"))


def measured(ids: pd.Series) -> pd.DataFrame:
    """The suite's rows that predictions name, whichever part they are in."""
    wanted = set(ids)
    found, missing = [], []
    for part in PARTS:
        try:
            table = rows(part)
        except DatasetMissing as error:
            missing.append(f"{part}: {error}")
            continue
        chosen = table[table["row_id"].isin(wanted)]
        if len(chosen):
            found.append(chosen)
            wanted -= set(chosen["row_id"])
        if not wanted:
            break
    if wanted:
        first = min(wanted)
        unread = f" (not here: {missing[0]})" if missing else ""
        raise InputError(f"{len(wanted)} ids are unknown, such as {first!r}{unread}", key="row_id")
    return pd.concat(found, ignore_index=True)


def _median_error(error: NDArray[np.float64]) -> float:
    return float(np.median(np.abs(error)))


def grade(predictions: pd.DataFrame) -> pd.DataFrame:
    """Scores by source and metric.

    Columns of the answer: rows, answered; median and mean absolute percentage error (%), its 95 % cluster interval; bias
    (median signed error, %); covered (share in [lower, upper]) and width (median upper over lower) where bounds are given;
    the same rows' median error of this project's predictor with the source or device left out, and of the trivial baseline; noise: median
    and 90th percentile of what repeats differ by (%).

    Args:
        predictions: row_id, predicted, and lower and upper where there are any; an empty `predicted` is no answer.
    """
    table = measured(predictions["row_id"]).merge(predictions, on="row_id", how="inner", validate="one_to_one")
    ours = _ours()
    if ours is not None:
        table = table.merge(ours, on="row_id", how="left")
    out = []
    for (source, metric), group in table.groupby(["source", "metric"], sort=True):
        answered = group[numeric(group["predicted"]).notna() & (group["value"] > 0)]
        error = (answered["predicted"].astype(float) / answered["value"] - 1).to_numpy()
        line: dict[str, object] = {"source": source, "metric": metric, "rows": len(group), "answered": len(answered)}
        if len(answered):
            line |= {"median_error_percent": 100 * _median_error(error), "mean_error_percent": 100 * float(np.mean(np.abs(error)))}
            line |= {"bias_percent": 100 * float(np.median(error)), "clusters": answered["cluster"].nunique()}
            if answered["cluster"].nunique() >= LEAST:
                interval = cluster_bootstrap(_median_error, answered["cluster"].to_numpy(), error)
                line |= {"median_low_percent": 100 * interval.low, "median_high_percent": 100 * interval.high}
            if {"lower", "upper"} <= set(answered):
                bounded = answered.dropna(subset=["lower", "upper"])
                if len(bounded):
                    inside = (bounded["lower"] <= bounded["value"]) & (bounded["value"] <= bounded["upper"])
                    line |= {"covered": float(inside.mean()), "width": float((bounded["upper"] / bounded["lower"]).median())}
            for name in ("ours", "baseline"):
                if name in answered and answered[name].notna().any():
                    line[f"{name}_median_error_percent"] = 100 * float((answered[name] / answered["value"] - 1).abs().median())
            repeated = answered[answered["repeats"] > 1]
            if len(repeated):
                line |= {"noise_median_percent": 100 * float(repeated["repeat_noise"].median())}
                line |= {"noise_90_percent": 100 * float(repeated["repeat_noise"].quantile(0.9))}
        out.append(line)
    return pd.DataFrame(out)


def _ours() -> pd.DataFrame | None:
    tables = [read_csv(path)[["row_id", "predicted_s", "baseline_s"]] for path in FROZEN if path.exists()]
    if not tables:
        return None
    return pd.concat(tables, ignore_index=True).rename(columns={"predicted_s": "ours", "baseline_s": "baseline"})


def grade_file(path: str | Path) -> pd.DataFrame:
    """`grade` of a CSV."""
    frame = read_csv(path, required=["row_id", "predicted"], dtype={"row_id": str})
    twice = frame["row_id"].duplicated()
    if twice.any():
        line = int(np.flatnonzero(twice)[0]) + 2
        raise InputError(f"row_id {frame['row_id'][twice].iloc[0]!r} is given twice", path=path, line=line, key="row_id")
    for name in ("predicted", "lower", "upper"):
        if name in frame:
            values = numeric(frame[name])
            wrong = (values.isna() & frame[name].notna()) | (values <= 0) | np.isinf(values)
            if wrong.any():
                line = int(np.flatnonzero(wrong)[0]) + 2
                raise InputError(f"'{frame[name][wrong].iloc[0]}' is not a positive number", path=path, line=line, key=name)
            frame[name] = values
    if frame.empty:
        raise InputError("has no rows", path=path, line=2)
    return grade(frame)
