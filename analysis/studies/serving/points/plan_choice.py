"""Is the recommended plan as good as the best that was measured? Protocol: `plans` of data/evaluation/serving_split.yaml."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from analysis.kernels.library import KernelLibrary
from analysis.paths import DATA
from analysis.serving.points import cases as case_rows
from analysis.serving.points.answers import answer
from analysis.serving.points.cases import Case
from analysis.serving.points.constants import load
from analysis.serving.points.points import release
from analysis.studies.intervals import cluster_bootstrap
from analysis.studies.serving.sources.rows import served
from analysis.studies.suite.clean import as_run, at_its_best
from analysis.tables import read_csv

TARGETS = (10.0, 20.0, 30.0, 50.0, 100.0, np.inf)
"""Most milliseconds per output token; infinite: no target."""
LEAST_PLANS, LEAST_CLIENTS = 2, 3
NOISE = 1.5 * 0.02
"""By which a measured time may miss its target: 1.5 times the difference of repeats."""
REACHED = 0.9
SUITE = "InferenceX and vendor"
CELL = ["source", "family", "model", "device", "engine", "types", "input_tokens", "output_tokens"]
POINT = ["plan", "gpus", "all_clients"]


def _rates(frame: pd.DataFrame, ttft_ms: pd.Series, tpot_ms: pd.Series) -> pd.Series:
    """Output tokens a second and GPU of clients that go on asking (Little's law)."""
    mean = frame["mean_output"]
    return frame["all_clients"] * mean / (ttft_ms + tpot_ms * (mean - 1)) * 1e3 / frame["gpus"]


def _described(cases: list[Case | None]) -> pd.DataFrame:
    """What a cell and a point are told apart by, a row a case."""
    rows: list[dict[str, Any]] = []
    for case in cases:
        if case is None:
            rows.append({})
            continue
        p = case.plan
        rows.append({
            "family": case.model.family or case.model.name, "model": case.model.name, "device": case.device, "engine": case.engine,
            "types": case.types, "input_tokens": case.input_tokens, "output_tokens": case.output_tokens, "gpus": p.gpus,
            "plan": f"{p.tensor}x{p.attention_data}x{p.expert_tensor}x{p.expert}x{p.pipeline}", "all_clients": case.clients * p.ranks,
            "mean_output": case.mean_length * case.output_tokens, "aggregated": case.prefill is None,
            "release": release(case.engine, case.version),
        })  # fmt: skip
    return pd.DataFrame(rows)


def suite() -> pd.DataFrame:
    """Points of the measured suite with answers held out by model family, and the peer's."""
    held = read_csv(DATA / "frozen" / "predictor_serving" / "points.csv").query("split == 'family'").set_index("id")
    frame = read_csv(DATA / "measured_suite" / "serving_points.csv.gz", dtype=str, keep_default_na=False)
    frame = as_run(frame[frame["id"].isin(held.index)].reset_index(drop=True))
    peer = at_its_best(read_csv(DATA / "recorded" / "aiconfigurator" / "predictions.csv.gz")).set_index("id")
    found = _described(case_rows.read(frame)[0]).assign(source=SUITE)
    ids = frame["id"]
    for end in ("", "_upper"):
        for name in ("ttft", "tpot"):
            found[f"{name}{end}_ms"] = held[f"{name}{end}_ms"].reindex(ids).to_numpy()
    for name in ("ttft", "tpot"):
        found[f"measured_{name}_ms"] = 1e3 * held[f"{name}_s"].reindex(ids).to_numpy()
        found[f"peer_{name}_ms"] = peer[f"{name}_ms"].reindex(ids).to_numpy()
    found = found[found["aggregated"] == True].drop(columns="aggregated")  # noqa: E712
    for who in ("measured_", "peer_", ""):
        found[f"{who}rate"] = _rates(found, found[f"{who}ttft_ms"], found[f"{who}tpot_ms"])
    return found


def panel() -> pd.DataFrame:
    """Points of the panel, answered by the benchmark's constants alone."""
    frame, cases, number = served()
    table = answer(cases, load().model_copy(update={"elsewhere": {}}), KernelLibrary.load()).table
    found = _described(cases).assign(source=frame["source"], **{name: table[name] for name in ("tpot_ms", "tpot_upper_ms")})
    whole = number["out_tok_s"].fillna(frame["batch_size"].astype(float) * frame["output_tokens"].astype(float) / number["latency_s"])
    found["measured_tpot_ms"] = number["tpot_ms"]
    found["measured_rate"] = whole / found["gpus"]
    found["rate"] = table["output_tokens_per_s"] / found["gpus"]
    return found[(table["status"] == "").to_numpy() & found["rate"].notna() & found["measured_rate"].notna()].drop(columns="aggregated")


def best(points: pd.DataFrame, rate: str, time: str, target: float) -> int | None:
    """Place of the point with the greatest rate of those whose time meets the target; None: none does."""
    rates = points[rate].to_numpy(dtype=float)
    kept = ~np.isnan(rates) & ((points[time].to_numpy(dtype=float) <= target) | np.isinf(target))
    if not kept.any():
        return None
    near = np.flatnonzero(kept & (rates >= rates[kept].max() * (1 - 1e-3)))
    return int(near[np.lexsort((points["all_clients"].to_numpy()[near], points["gpus"].to_numpy()[near]))[0]])


def reached(cell: pd.DataFrame, place: int | None, target: float, top: float) -> float:
    """Measured rate of a chosen point over the best; 0 where none is chosen or it misses the target by more than `NOISE`."""
    if place is None:
        return 0.0
    missed = cell["measured_tpot_ms"].to_numpy(dtype=float)[place] > target * (1 + NOISE)
    return 0.0 if missed else min(1.0, float(cell["measured_rate"].to_numpy(dtype=float)[place]) / top)


def questions(points: pd.DataFrame) -> pd.DataFrame:
    """One row a cell and target: what the chosen point reaches of the best measured one (0 to 1), by each way to choose."""
    merged = points.groupby([*CELL, *POINT], dropna=False).median(numeric_only=True).reset_index()
    rows = []
    for key, cell in merged.groupby(CELL, dropna=False):
        cell = cell.reset_index(drop=True)
        at_once = cell["measured_tpot_ms"].isna().all()  # all requests at the start: the plan alone is chosen, without a target
        if cell["plan"].nunique() < LEAST_PLANS or (not at_once and cell["all_clients"].nunique() < LEAST_CLIENTS):
            continue
        for target in TARGETS[-1:] if at_once else TARGETS:
            measured = cell["measured_tpot_ms"]
            meets = measured.le(target) if np.isfinite(target) else cell["measured_rate"].notna()
            if not meets.any() or (np.isfinite(target) and meets.all()):
                continue
            top = float(cell.loc[meets, "measured_rate"].max())
            row = {**dict(zip(CELL, key, strict=True)), "target_ms": target, "points": len(cell), "meeting": int(meets.sum())}
            row["ours"] = reached(cell, best(cell, "rate", "tpot_ms", target), target, top)
            row["ours_sure"] = reached(cell, best(cell, "rate", "tpot_upper_ms", target), target, top)
            peers = "peer_rate" in cell and cell["peer_rate"].notna().all()
            row["aiconfigurator"] = reached(cell, best(cell, "peer_rate", "peer_tpot_ms", target), target, top) if peers else np.nan
            row["ours_there"] = row["ours"] if peers else np.nan
            row["drawn"] = float((cell.loc[meets, "measured_rate"] / top >= REACHED).mean())
            rows.append(row)
    return pd.DataFrame(rows)


def scores(asked: pd.DataFrame, draws: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Share of cells and of questions that reach 0.9, by source and way to choose; the interval resamples model families."""
    rows = []
    of_suite = asked["source"] == SUITE
    sound = asked[of_suite & ~asked["family"].str.startswith("DeepSeek")]  # its rows differ by half in one configuration
    for source, mine in [("all", asked), *asked.groupby("source"), (f"{SUITE} without DeepSeek", sound)]:
        for way in ("ours", "ours_sure", "ours_there", "aiconfigurator", "drawn"):
            kept = mine[mine[way].notna()]
            if kept.empty:
                continue
            good = kept[way] if way == "drawn" else (kept[way] >= REACHED).astype(float)
            cells = good.groupby([kept[name] for name in CELL], dropna=False).mean()
            families = cells.index.get_level_values("family").to_numpy()
            low = high = np.nan
            if len(set(families)) > 1:
                found = cluster_bootstrap(np.mean, families, cells.to_numpy(), resamples=draws, seed=seed)
                low, high = found.low, found.high
            rows.append({
                "source": source, "way": way, "cells": len(cells), "questions": len(kept), "cells_percent": 100 * cells.mean(),
                "cells_lower_percent": 100 * low, "cells_upper_percent": 100 * high, "questions_percent": 100 * good.mean(),
                "missed_percent": 100 * float((kept[way] == 0).mean()) if way != "drawn" else np.nan,
                "median_reached": float(kept[way].median()) if way != "drawn" else np.nan,
            })  # fmt: skip
    return pd.DataFrame(rows)
