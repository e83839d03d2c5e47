"""Is Sarathi faster than vLLM by the margin printed in the survey's Table 7?"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from analysis.serving.metrics import summary
from analysis.serving.simulate import Result
from analysis.studies.intervals import Interval, cluster_bootstrap

METRICS = ("e2e_mean_s", "e2e_p99_s", "ttft_mean_s", "tpot_vidur_mean_s")
PRINTED = pd.DataFrame(
    [("vllm", 200, 0.177, 0.314, 0.027, 0.0093), ("sarathi", 50, 0.158, 0.262, 0.025, 0.0090)],
    columns=["scheduler", "requests", *METRICS],
)
"""The survey's Table 7, as printed. Source: the survey, section 7.6."""


def recorded_metrics(row: pd.Series) -> dict[str, float]:
    """`METRICS` of a row of VIDUR's summaries, in seconds."""
    names = ("e2e_avg", "e2e_p99", "ttft_avg", "tpot_vidur_avg")
    return {metric: float(row[name]) for metric, name in zip(METRICS, names, strict=True)}


def metrics(result: Result) -> dict[str, float]:
    """`METRICS` of a run of ours, in seconds."""
    values = summary(result)
    names = ("e2e_s_mean", "e2e_s_p99", "ttft_s_mean", "tpot_vidur_s_mean")
    return {metric: values[name] for metric, name in zip(METRICS, names, strict=True)}


def advantage(baseline: ArrayLike, other: ArrayLike, level: float = 0.95, seed: int = 0) -> Interval:
    """How much faster the other is, paired: mean of 1 - other / baseline, with an interval over resampled pairs (each a seed of its own).

    Args:
        baseline, other: latencies of the same runs (same seed, same requests), shape (n,), n >= 2.
        level: coverage.
        seed: of the resampling.
    """
    gains = 1.0 - np.asarray(other, dtype=float) / np.asarray(baseline, dtype=float)
    return cluster_bootstrap(np.mean, np.arange(gains.size), gains, level=level, resamples=10_000, seed=seed, together=True)
