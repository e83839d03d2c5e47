"""Do data sheets say how serving time moves from one GPU to another? Checked on published measurements.

Without the lengths of the requests (`studies_lengths` uses them): prefill time moves with the reached arithmetic, decode time is weights
over bandwidth. From one GPU to another

    prefill(g) = prefill(reference) x (t x peak)(reference) / (t x peak)(g)
    decode(g)  = (weights + cache) / (memory share x t x bandwidth(g)) + fixed

where cache, memory share and fixed are found on the reference GPU alone: `cache` from the prompt tokens that the prefill time of the
reference implies, the rest by least squares of relative errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from analysis.hardware import devices
from analysis.workloads import models

METHODS = ("pipeweave", "neusight", "habitat", "linear", "roofline")
KEYS = {"Hardware": "hardware", "TP": "devices", "Model": "model", "Workload": "workload"}
"""Columns that name a case of a published comparison, and what they are called in ours."""
SHARE = 0.6
"""Reached share of the reference's peak in prefill, assumed where prompt tokens are inferred; it only enters through the cache's size."""


@dataclass(frozen=True)
class DecodeLaw:
    """decode = (weights + cache) / (memory_share x bandwidth) + fixed_s."""

    memory_share: float
    fixed_s: float


def with_hardware(cases: pd.DataFrame) -> pd.DataFrame:
    """The cases with what data sheets say: `flop_per_s` and `bytes_per_s` of all devices, `weights` and `kv_per_token` (bytes).

    Args:
        cases: columns Hardware, TP, Model of the published comparison.
    """
    out = cases.copy()
    found = [devices.load(name.replace("_", " ")) for name in cases["Hardware"]]
    shapes = [models.load(name.replace("3.1", "3").lower()) for name in cases["Model"]]
    parallel = cases["TP"].to_numpy(dtype=np.float64)
    out["flop_per_s"] = parallel * [device.peak_flop_per_s("bf16") for device in found]
    out["bytes_per_s"] = parallel * [device.memory_bandwidth_bytes_per_s for device in found]
    # The input embedding is looked up, not read.
    out["weights"] = [2.0 * (model.parameters - model.hidden * model.vocabulary) for model in shapes]
    out["kv_per_token"] = [model.kv_bytes_per_token(2) for model in shapes]
    out["flop_per_token"] = [2.0 * model.active_parameters for model in shapes]
    return out


def transfer(cases: pd.DataFrame, reference: str) -> tuple[pd.DataFrame, DecodeLaw]:
    """Predict every case of another GPU whose model and workload the reference GPU has run too.

    Args:
        cases: of `with_hardware`, with `real_prefill_ms` and `real_decode_ms`.
        reference: name of the GPU that everything is fitted on.
    Returns: (cases of the other GPUs with `pred_prefill_ms`, `pred_decode_ms`; the decode law).
    """
    known = cases[cases["Hardware"] == reference].set_index(["Model", "Workload"])
    tokens = 1e-3 * known["real_prefill_ms"] * SHARE * known["flop_per_s"] / known["flop_per_token"]
    read = (known["weights"] + tokens * known["kv_per_token"]) / known["bytes_per_s"]
    seconds = 1e-3 * known["real_decode_ms"].to_numpy(dtype=np.float64)
    terms = np.column_stack([read.to_numpy(dtype=np.float64), np.ones(len(read))])
    slope, fixed = nnls(terms / seconds[:, None], np.ones(len(seconds)))[0]
    law = DecodeLaw(memory_share=1.0 / float(slope), fixed_s=float(fixed))
    others = cases[cases["Hardware"] != reference].join(
        pd.DataFrame({"tokens": tokens, "work": known["real_prefill_ms"] * known["flop_per_s"]}), on=["Model", "Workload"]
    )
    others = others.dropna(subset=["tokens"])
    others["pred_prefill_ms"] = others["work"] / others["flop_per_s"]
    size = others["weights"] + others["tokens"] * others["kv_per_token"]
    others["pred_decode_ms"] = 1e3 * (size / (law.memory_share * others["bytes_per_s"]) + law.fixed_s)
    return others.drop(columns="work"), law


def errors(tables: dict[str, pd.DataFrame], reference: str = "A100") -> pd.DataFrame:
    """Errors of our transfer, of keeping the reference's time (trivial), and of the published predictors, on the same cases.

    Args:
        tables: the published comparison of each of `METHODS`.
        reference: the GPU that ours is fitted on, and trivial copies.
    Returns: hardware, devices, model, workload, method, prefill_percent, decode_percent (signed errors).
    """
    cases = with_hardware(tables["pipeweave"])
    ours, _ = transfer(cases, reference)
    kept = cases[cases["Hardware"] == reference].set_index(["Model", "Workload"])[["real_prefill_ms", "real_decode_ms"]]
    kept.columns = ["pred_prefill_ms", "pred_decode_ms"]
    trivial = ours[[*KEYS, "real_prefill_ms", "real_decode_ms"]].join(kept, on=["Model", "Workload"])
    mine = [ours.assign(method="data sheets, from one GPU"), trivial.assign(method="same as the other GPU")]
    return signed_errors(mine, tables, ("prefill", "decode"))


def signed_errors(mine: list[pd.DataFrame], tables: Mapping[str, pd.DataFrame], parts: tuple[str, ...]) -> pd.DataFrame:
    """Signed errors (percent) of our methods and of the published predictors, on the cases of our first.

    Args:
        mine: cases of each of our methods, with `method`, and `pred_PART_ms` and `real_PART_ms` for every part of the time.
        tables: the published comparison of each of `METHODS`.
    """
    published = (tables[name].merge(mine[0][[*KEYS]], on=[*KEYS]).assign(method=name) for name in METHODS)
    rows = pd.concat([*mine, *published], ignore_index=True)
    for part in parts:
        rows[f"{part}_percent"] = 100 * (rows[f"pred_{part}_ms"] / rows[f"real_{part}_ms"] - 1)
    return rows.rename(columns=KEYS)[[*KEYS.values(), "method", *(f"{part}_percent" for part in parts)]]
