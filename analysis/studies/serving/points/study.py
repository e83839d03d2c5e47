"""How right are the answers? Scores of every split of data/evaluation/serving_split.yaml, beside the peer and the trivial baselines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import kendalltau

from analysis.serving.points import cases as case_rows
from analysis.serving.points.answers import times
from analysis.serving.points.cases import Case
from analysis.serving.points.constants import Parameters, group
from analysis.serving.points.points import Points, features, points
from analysis.studies.intervals import cluster_bootstrap
from analysis.studies.serving.points.fit import fit_all
from analysis.studies.suite.clean import CONFIGURATION, TIMES, as_run, at_its_best
from analysis.tables import read_csv

Floats = NDArray[np.float64]
HOPPER = ("h100_sxm", "h200_sxm")
FITTED_ON = "clean rows of aiconfigurator-core 0.12.0 systems/silicon_sample.csv (without repeats and squared widths)"
TARGETS = ("ttft", "tpot")
SAME = 1e-3
"""Relative difference of both times below which two rows of one configuration are one measurement (100 rows from 0.0005 to 0.002)."""


@dataclass(frozen=True)
class Sample:
    """The measured sample with its flags and the peer's answers; `rows` and `cases` in the sample's order."""

    rows: pd.DataFrame
    cases: list[Case | None]


def read_sample(sample: str | Path, recorded: str | Path) -> Sample:
    """The measured sample.

    Args:
        sample: silicon_sample.csv of the wheel; recorded: folder with row_flags.csv.gz and predictions.csv.gz.
    """
    frame = as_run(read_csv(sample, dtype=str, keep_default_na=False))
    flags = read_csv(Path(recorded) / "row_flags.csv.gz")
    peer = read_csv(Path(recorded) / "predictions.csv.gz")
    cases, _ = case_rows.read(frame)
    rows = flags.merge(frame[["id", *CONFIGURATION, *TIMES]], on="id", validate="1:1")
    for target in TARGETS:
        rows[f"{target}_s"] = rows[f"silicon_{target}_ms"].astype(float) * 1e-3
    rows.loc[listed_twice(rows), ["clean", "clean_no_deepseek"]] = 0
    for name, mode in (("peer", "SILICON"), ("roofline", "SOL")):
        best = at_its_best(peer, mode).set_index("id")
        for target in TARGETS:
            rows[f"{name}_{target}_s"] = rows["id"].map(best[f"{target}_ms"]) * 1e-3
    return Sample(rows, cases)


def listed_twice(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Clean rows that are an earlier clean row with its two times rounded otherwise: the same configuration, both times within `SAME`."""
    times = np.log(rows[[f"{target}_s" for target in TARGETS]].to_numpy())
    found = np.zeros(len(rows), dtype=bool)
    clean = np.flatnonzero(rows["clean"] == 1)
    names = group(rows, CONFIGURATION).to_numpy()
    for members in pd.Series(clean).groupby(names[clean]).agg(list):
        kept: list[int] = []
        for i in members:
            found[i] = any(np.abs(times[i] - times[j]).max() <= SAME for j in kept)
            if not found[i]:
                kept.append(i)
    return found


def fitted_rows(sample: Sample, raw: Points) -> NDArray[np.bool_]:
    """Rows that constants may be fitted on."""
    simulated = np.isfinite(raw.result[:, 0])
    return np.asarray((sample.rows["clean"] == 1).to_numpy() & simulated & (sample.rows["model_family"] != "DeepSeek-R1/V3").to_numpy())


def fit_parameters(sample: Sample, raw: Points, keep: NDArray[np.bool_], note: str) -> Parameters:
    """Constants and intervals on the rows kept."""
    frame = features(sample.cases, raw)
    return fit_all(
        frame[keep].reset_index(drop=True),
        sample.rows["ttft_s"].to_numpy()[keep],
        sample.rows["tpot_s"].to_numpy()[keep],
        f"{FITTED_ON}; {note}",
    )


def held_out(sample: Sample, raw: Points, split: str, hidden: Points | None = None) -> pd.DataFrame:
    """Answers of every row from a fit without its family, GPU or architecture.

    Args:
        raw: points with all kernels known; hidden: with the GPU's own, or its architecture's, hidden (splits `device`, `architecture`).
    """
    if split == "family":
        which = sample.rows["model_family"]
    elif split in ("gpu", "device"):
        which = sample.rows["system"]
    else:
        which = sample.rows["system"].isin(HOPPER).map({True: "hopper", False: "blackwell"})
    judged = raw if hidden is None else hidden
    allowed = fitted_rows(sample, raw)
    out = pd.DataFrame(index=sample.rows.index)
    for value in sorted(set(which)):
        away = (which == value).to_numpy()
        parameters = fit_parameters(sample, raw, allowed & ~away, f"without {value}")
        table = times(sample.cases, parameters, judged)[0]
        for name in table.columns:
            out.loc[away, name] = table.loc[away, name]
        for target in TARGETS:
            for name, source in (("roofline", "roofline"), ("constant", "peer")):
                out.loc[away, f"{name}_{target}_ms"] = scaled(sample.rows, f"{source}_{target}_s", f"{target}_s", allowed & ~away, away)
    return out


def scaled(rows: pd.DataFrame, source: str, measured: str, fitted: NDArray[np.bool_], asked: NDArray[np.bool_]) -> Floats:
    """A trivial baseline (ms): someone's answer times the median ratio of each engine's rows that may be fitted on."""
    ratio = (rows[measured] / rows[source])[fitted]
    by_engine = ratio.groupby(rows["backend"][fitted]).median()
    factor = rows["backend"][asked].map(by_engine).fillna(ratio.median())
    return np.asarray(1e3 * factor * rows[source][asked])


def summary(rows: pd.DataFrame, table: pd.DataFrame, target: str) -> dict[str, float]:
    """Scores of one target on some rows: error of ours and the peer's, tau within a model, GPU and framework, coverage and width."""
    measured = rows[f"{target}_s"].to_numpy() * 1e3
    ours, low, high = (table[f"{target}{name}_ms"].to_numpy(dtype=float) for name in ("", "_lower", "_upper"))
    error = 100 * np.abs(ours / measured - 1)
    peer = 100 * np.abs(rows[f"peer_{target}_s"].to_numpy() * 1e3 / measured - 1)
    inside = (measured >= low) & (measured <= high)
    by_group = pd.Series(inside).groupby((rows["backend"] + "|" + rows["model_family"]).to_numpy()).agg(["mean", "size"])
    large = by_group[by_group["size"] >= 20]
    return {
        "rows": len(rows),
        "median_percent": float(np.nanmedian(error)),
        "mean_percent": float(np.nanmean(error)),
        "p90_percent": float(np.nanquantile(error, 0.9)),
        "bias_percent": float(100 * (np.exp(np.nanmedian(np.log(ours / measured))) - 1)),
        "peer_median_percent": float(np.nanmedian(peer)),
        "peer_mean_percent": float(np.nanmean(peer)),
        "roofline_median_percent": float(100 * np.nanmedian(np.abs(table[f"roofline_{target}_ms"].to_numpy(dtype=float) / measured - 1))),
        "constant_median_percent": float(100 * np.nanmedian(np.abs(table[f"constant_{target}_ms"].to_numpy(dtype=float) / measured - 1))),
        "tau": rank_agreement(rows, ours, measured),
        "peer_tau": rank_agreement(rows, rows[f"peer_{target}_s"].to_numpy(), measured),
        "coverage_percent": float(100 * np.nanmean(inside)),
        "worst_coverage_percent": float(100 * large["mean"].min()) if len(large) else np.nan,
        "width": float(np.nanmedian(high / low)),
    }


def rank_agreement(rows: pd.DataFrame, answers: Floats, measured: Floats) -> float:
    """Kendall's tau within a model, GPU and framework, weighted by pairs; groups of at least 5."""
    names = (rows["model_family"] + "|" + rows["system"] + "|" + rows["backend"]).to_numpy()
    total = weight = 0.0
    for name in set(names):
        here = (names == name) & np.isfinite(answers)
        n = int(here.sum())
        if n >= 5:
            total += float(kendalltau(answers[here], measured[here]).statistic) * n
            weight += n
    return total / weight if weight else np.nan


def rank_ceiling(rows: pd.DataFrame, target: str, same: Sequence[str], draws: int = 10, seed: int = 0) -> float:
    """Rank agreement of a predictor that knew each row's value without its noise: the noise is what repeats say.

    Args:
        same: columns that two rows share to count as repeats; the deviations of their logarithms from the mean are drawn anew for each row.
    """
    times = np.log(rows[f"{target}_s"])
    names = group(rows, same)
    count = names.map(names.value_counts())
    noise = ((times - times.groupby(names).transform("mean")) * np.sqrt(count / (count - 1).clip(lower=1)))[count > 1].to_numpy()
    if not noise.size:
        return np.nan
    measured = rows[f"{target}_s"].to_numpy()
    generator = np.random.default_rng(seed)
    return float(np.mean([rank_agreement(rows, measured * np.exp(generator.choice(noise, len(rows))), measured) for _ in range(draws)]))


def gain(rows: pd.DataFrame, table: pd.DataFrame, target: str) -> dict[str, float]:
    """Gain over the peer in median and mean error (points), with 90 % intervals over (model family, GPU) clusters."""
    measured = rows[f"{target}_s"].to_numpy() * 1e3
    ours = 100 * np.abs(table[f"{target}_ms"].to_numpy(dtype=float) / measured - 1)
    peer = 100 * np.abs(rows[f"peer_{target}_s"].to_numpy() * 1e3 / measured - 1)
    names = (rows["model_family"] + "|" + rows["system"]).to_numpy()
    line: dict[str, float] = {"clusters": len(set(names))}
    for name, centre in (("median", np.median), ("mean", np.mean)):
        found = cluster_bootstrap(lambda a, b, centre=centre: float(centre(b) - centre(a)), names, ours, peer, level=0.9)
        line |= {f"{name}_gain_points": found.value, f"{name}_gain_lower": found.low, f"{name}_gain_upper": found.high}
    return line


def simulate_sample(sample: Sample, library: Any, hide: str = "none") -> Points:
    """Every row with nothing fitted."""
    return points(sample.cases, library, hide)
