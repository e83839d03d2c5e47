"""What do the studies of the measured suite come to? Predictions with the judged source or device left out, and their scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from analysis.paths import DATA
from analysis.studies.intervals import cluster_bootstrap
from analysis.studies.suite.rows import PARTS, rows
from analysis.tables import write_csv
from analysis.training.step import BREAKDOWN

GAP = DATA / "frozen" / "composition_gap_measured"
PARTS_S = [f"{name}_s" for name in BREAKDOWN]
"""Columns of a predicted step's parts."""


def _interval(frame: pd.DataFrame, cluster: str, error: str) -> tuple[float, float]:
    if frame[cluster].nunique() < 2:
        return np.nan, np.nan
    found = cluster_bootstrap(lambda e: float(np.median(np.abs(e))), frame[cluster].to_numpy(), frame[error].to_numpy(), resamples=1000)
    return found.low, found.high


def scores(frame: pd.DataFrame, by: list[str], measured: str, cluster: str) -> pd.DataFrame:
    """Errors, coverage and sharpness of groups of rows, beside the baseline.

    Args:
        frame: predicted_s, lower_s, upper_s, baseline_s, and the columns named; by: what a group is; measured: column of the truth (s).
    """
    frame = frame.assign(
        error=frame["predicted_s"] / frame[measured] - 1,
        plain=frame["baseline_s"] / frame[measured] - 1,
        inside=(frame["lower_s"] <= frame[measured]) & (frame[measured] <= frame["upper_s"]),
        wide=frame["upper_s"] / frame["lower_s"],
    )
    out = []
    for key, group in frame.groupby(by, sort=False):
        low, high = _interval(group, cluster, "error")
        quantiles = {f"error_p{level}": float(group["error"].quantile(level / 100)) for level in (10, 25, 50, 75, 90)}
        out.append(
            dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True))
            | {"rows": len(group), "clusters": group[cluster].nunique()}
            | {"median_error": group["error"].abs().median(), "median_low": low, "median_high": high}
            | {"mean_error": group["error"].abs().mean(), "baseline_median_error": group["plain"].abs().median()}
            | {"covered": group["inside"].mean(), "median_width": group["wide"].median()}
            | quantiles
        )
    return pd.DataFrame(out)


def training(folder: Path, write_model: bool) -> None:
    """Training: shares and intervals with the source left out, with half of vTrain given, and with a mixture of experts left out."""
    from analysis.studies.training import gap, plan_choice, study

    prepared = study.prepare()
    fits, mixtures = study.fits_left_out(prepared), study.mixtures_left_out(prepared)
    if write_model:
        study.freeze(prepared, study.scores_left_out(prepared, fits, mixtures))
    found = gap.gaps(prepared, {name: learned.shares for name, learned in study.without(fits).items()})
    rounded = {name: 5 for name in found.columns if found[name].dtype == float and name != "kernels_s"}
    write_csv(found.round(rounded), GAP / "training_gap.csv")
    found = study.left_out(prepared, fits)
    kept = ["row_id", "predicted_s", "lower_s", "upper_s", "baseline_s", *PARTS_S]
    write_csv(found[kept], folder / "training_predictions.csv")
    write_csv(scores(found, ["source"], "measured_s", "model"), folder / "training_scores.csv")
    half = study.half_given(prepared)
    half["error"] = (half["predicted_s"] / half["measured_s"] - 1).abs()
    table = half.groupby(["source", "given"])["error"].agg(["size", "median", "mean"]).reset_index()
    write_csv(table.rename(columns={"size": "rows", "median": "median_error", "mean": "mean_error"}), folder / "training_half.csv")
    write_csv(plan_choice.choices(fits[frozenset(("ultrascale",))].shares), folder / "training_plan_choice.csv")
    errors = {model: np.exp(item.log_error(learned.shares)) - 1 for model, (item, learned) in mixtures.items()}
    each = pd.DataFrame({"model": np.repeat(list(errors), [*map(len, errors.values())]), "error": np.concatenate([*errors.values()])})
    write_csv(_of_models(each), folder / "training_mixtures.csv")


def _of_models(each: pd.DataFrame) -> pd.DataFrame:
    """Rows, median and mean absolute error and median error of each model, and of all."""
    together = pd.concat([each, each.assign(model="all")])
    size = together["error"].abs().groupby(together["model"]).agg(rows="size", median_error="median", mean_error="mean")
    return size.assign(error_p50=together.groupby("model")["error"].median()).reset_index()


def batch(folder: Path, write_model: bool) -> None:
    """Batches: shares and intervals with the device left out; order over batch and length within a device, framework and model."""
    from analysis.studies.serving import batch_study as study

    seen = study.runs()
    errors = study.errors_left_out(seen)
    found = study.left_out(seen, errors)
    write_csv(
        found[["row_id", "predicted_s", "lower_s", "upper_s", "baseline_s", "prefill_s", "decode_s"]], folder / "batch_predictions.csv"
    )
    table = scores(found, ["device", "framework"], "latency_s", "model")
    total = scores(found.assign(framework="all"), ["device", "framework"], "latency_s", "model")
    write_csv(pd.concat([total, table], ignore_index=True), folder / "batch_scores.csv")
    order = []
    for (device, framework, model, devices), group in found.groupby(["device", "framework", "model", "devices"], sort=False):
        if len(group) >= 6:
            tau = kendalltau(group["predicted_s"], group["latency_s"])[0]
            order.append({"device": device, "framework": framework, "model": model, "devices": devices, "rows": len(group), "tau": tau})
    write_csv(pd.DataFrame(order), folder / "batch_order.csv")
    if write_model:
        study.freeze(seen, errors)


def suite(folder: Path) -> None:
    """What the suite holds, by source and metric: rows, repeats and their spread, flags."""
    counts, flags = [], []
    for part in PARTS:
        table = rows(part)
        if part == "published":
            table = table.assign(source="published", metric="several")
        for (source, name), group in table.groupby(["source", "metric"], sort=False):
            repeated = group[group["repeats"] > 1]["repeat_noise"]
            counts.append(
                {"part": part, "source": source, "licence": group["licence"].iloc[0], "metric": name, "rows": len(group)}
                | {"clusters": group["cluster"].nunique(), "repeated": len(repeated)}
                | {
                    "noise_median": repeated.median() if len(repeated) else np.nan,
                    "noise_p90": repeated.quantile(0.9) if len(repeated) else np.nan,
                }
            )
        words = table[~((table["part"] == "serving") & (table["metric"] == "ttft"))]
        for flag, count in words["flags"].str.split().explode().value_counts().items():
            flags.append({"part": part, "flag": flag, "rows": int(count), "of": len(words)})
    write_csv(pd.DataFrame(counts), folder / "suite_counts.csv")
    write_csv(pd.DataFrame(flags), folder / "suite_flags.csv")
