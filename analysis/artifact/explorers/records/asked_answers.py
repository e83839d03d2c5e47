"""The predictor's answers to many questions; in the page, this file is replaced by what it returns here (see `bundle`)."""

from __future__ import annotations

from functools import cache

from analysis.paths import DATA
from analysis.tables import read_csv

KEYS = ("model", "device", "gpus", "input_tokens", "clients")
INTERVALS = ("ttft_ms", "ttft_lower_ms", "ttft_upper_ms", "tpot_ms", "tpot_lower_ms", "tpot_upper_ms")


@cache
def answers() -> dict[str, list[list[float]]]:
    """By model, device, GPUs, prompt and clients: both times with their bounds, then the `parts` of a token's time (ms)."""
    frame = read_csv(DATA / "frozen" / "ask_predictor" / "grid.csv")
    kinds = parts()
    found = {}
    for row in frame[frame["status"].isna()].to_dict("records"):
        key = " ".join(f"{row[name]}" for name in KEYS)
        found[key] = [[float(row[name]) for name in INTERVALS], [float(row[kind]) if row[kind] == row[kind] else 0.0 for kind in kinds]]
    return found


@cache
def refusals() -> dict[str, str]:
    """Why there is no answer, by the same key."""
    frame = read_csv(DATA / "frozen" / "ask_predictor" / "grid.csv")
    return {" ".join(f"{row[name]}" for name in KEYS): str(row["status"]) for row in frame[frame["status"].notna()].to_dict("records")}


@cache
def watts() -> dict[str, float]:
    """Power of one GPU (W) by the same key; 0 where the board's limit is not known."""
    frame = read_csv(DATA / "frozen" / "ask_predictor" / "grid.csv")
    frame = frame[frame["status"].isna()].fillna({"watts_per_gpu": 0.0})
    return {" ".join(f"{row[name]}" for name in KEYS): float(row["watts_per_gpu"]) for row in frame.to_dict("records")}


@cache
def parts() -> list[str]:
    """Names of the parts of a token's time, in the order in which they add up."""
    frame = read_csv(DATA / "frozen" / "ask_predictor" / "grid.csv")
    return [name for name in frame.columns if name not in (*KEYS, *INTERVALS, "watts_per_gpu", "output_tokens", "status")]
