"""How right are predicted time and joules of a token on rows that nothing was fitted on? Scores of data/evaluation/energy_split.yaml."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.kernels import gpus
from analysis.serving.points.answers import times
from analysis.serving.points.constants import load
from analysis.serving.points.points import points
from analysis.serving.points.power import BoardPower, work
from analysis.studies.intervals import cluster_bootstrap
from analysis.studies.serving.energy_per_token.published import PROMPT_TOKENS, as_benchmark, case
from analysis.studies.serving.power import fit
from analysis.workloads.models import Model

Floats = NDArray[np.float64]


def predicted(
    rows: pd.DataFrame, library: Any, prompt_tokens: float = PROMPT_TOKENS, answers: Literal["even", "exponential"] = "exponential"
) -> pd.DataFrame:
    """The rows with our time per output token and its interval, the roofline's, and the work of a step.

    Args:
        rows: as of `published.rows`; library: a `KernelLibrary`; prompt_tokens: mean length of a prompt; answers: as of `Case`.
    """
    records = [{str(k): v for k, v in record.items()} for record in rows.to_dict("records")]
    cases = [case(record, prompt_tokens, answers) for record in records]
    raw = points(list(cases), library)
    table = times([as_benchmark(one) for one in cases], load(), raw)[0]
    done = [work(one, r["batch"], prompt_tokens, r["output_tokens"]) for one, r in zip(cases, records, strict=True)]
    return rows.assign(
        tpot_ms=table["tpot_ms"].to_numpy(),
        tpot_lower_ms=table["tpot_lower_ms"].to_numpy(),
        tpot_upper_ms=table["tpot_upper_ms"].to_numpy(),
        status=raw.status,
        roofline_ms=[1e3 * one.latency_s for one in done],
        memory_ms=[1e3 * one.memory_s for one in done],
        compute_ms=[1e3 * one.compute_s for one in done],
        limit_w=[gpus.load(one.device).tdp_w for one in cases],
        active_parameters=[multiplied(one.model) for one in cases],
    )


def multiplied(model: Model) -> float:
    """Weights that one token multiplies with: of routed experts the chosen ones, of the vocabulary the output layer alone (count)."""
    found = model.matrices
    chosen = model.experts_per_token / model.expert_count
    return found["attention"] + found["dense"] + chosen * found["experts"] + model.hidden * model.vocabulary


def _power_share(rows: pd.DataFrame) -> Floats:
    return np.asarray(rows["power_w"] / (rows["gpus"] * rows["limit_w"]), dtype=float)


def fit_power(rows: pd.DataFrame, fitted_on: str = "") -> BoardPower:
    """The power model on some rows with their measured times."""
    return fit(_power_share(rows), rows["memory_ms"] / rows["mean_gap_ms"], rows["compute_ms"] / rows["mean_gap_ms"], fitted_on)


def joules(rows: pd.DataFrame, power: BoardPower, time: str) -> Floats:
    """Joules per output token by the power model.

    Args:
        time: column with the time of a token: `mean_gap_ms` (measured) or `tpot_ms` (ours).
    """
    share = power.share(rows["memory_ms"] / rows[time], rows["compute_ms"] / rows[time])
    return np.asarray(rows["gpus"] * rows["limit_w"] * share * 1e-3 * rows[time] / rows["batch"], dtype=float)


def held_out(rows: pd.DataFrame, split: str) -> pd.DataFrame:
    """The rows with joules per token (ours and of the baselines), constants fitted without the row's `family` or `gpu`.

    Columns: power_j (power model, measured time), ours_j (all ours), and of each baseline its name with `_j`, with measured time.
    """
    out = []
    for name in sorted(set(rows[split])):
        away, rest = rows[rows[split] == name], rows[rows[split] != name]
        power = fit_power(rest)
        full = away["gpus"] * away["limit_w"] * 1e-3 * away["mean_gap_ms"] / away["batch"]
        out.append(
            away.assign(
                power_j=joules(away, power, "mean_gap_ms"),
                ours_j=joules(away, power, "tpot_ms"),
                limit_j=full,
                share_j=full * np.median(_power_share(rest)),
                parameters_j=away["active_parameters"] * np.median(rest["output_token_j"] / rest["active_parameters"]),
                base=power.base,
                memory=power.memory,
                compute=power.compute,
            )
        )
    return pd.concat(out).sort_index()


def ends(rows: pd.DataFrame) -> dict[str, float]:
    """`lower` and `upper` of the power model: percentiles of measured over answered joules with the GPU left out."""
    held = held_out(rows, "gpu")
    low, high = np.quantile(held["output_token_j"] / held["power_j"], (0.05, 0.95))
    return {"lower": float(low), "upper": float(high)}


def errors(rows: pd.DataFrame, answered: str, measured: str) -> dict[str, float]:
    """Median, mean and signed median error (percent)."""
    ratio = (rows[answered] / rows[measured]).to_numpy(dtype=float)
    error = 100 * np.abs(ratio - 1)
    out = {"rows": len(rows), "median_percent": float(np.median(error)), "mean_percent": float(error.mean())}
    out["bias_percent"] = float(100 * (np.exp(np.median(np.log(ratio))) - 1))
    return out


def score(rows: pd.DataFrame, answered: str, measured: str) -> dict[str, float]:
    """The errors, with the 90 % interval of their median over model families."""
    out = errors(rows, answered, measured)
    if rows["family"].nunique() > 1:
        error = 100 * (rows[answered] / rows[measured] - 1).abs().to_numpy(dtype=float)
        found = cluster_bootstrap(np.median, rows["family"].tolist(), error, level=0.9)
        out |= {"median_low": found.low, "median_high": found.high}
    return out


def coverage(rows: pd.DataFrame, measured: str) -> float:
    """Share of rows whose measured time lies in our 90 % interval (percent)."""
    return float(100 * rows[measured].between(rows["tpot_lower_ms"], rows["tpot_upper_ms"]).mean())
