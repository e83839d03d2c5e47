"""How long does a step of a profiled model take? Kernel times of one GPU, measured by LLMServingSim's profiler, as tables for a step.

A step is its layers in turn (embedding, then per layer: two norms, projections, attention, feed-forward or experts, then the last norm,
the vocabulary and the sampler), each from the profile; all-reduces come from the link. Attention of a mixed step is that of its decodes
plus what each prompt chunk adds; uneven cache lengths cost t = t_mean + alpha (t_max - t_mean), alpha the median of the profile's skew
measurements of equal prompt chunk, decodes and (t_max - t_mean) / t_mean (profiler/core/fit_alpha.py of that project, axes of 2026): with
each length left out it errs by 5.0 % on the six profiles' own measurements; least squares by share of long sequences, as before, by 5.6 %.
Source: casys-kaist/LLMServingSim (MIT), profiler/perf; the layer order is in its serving/README.md.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.documents import is_file
from analysis.errors import InputError
from analysis.serving.step_time.gpu_profile import SKEW_LEVERS, Profile
from analysis.tables import numbers, read_csv
from analysis.workloads.models import Model

Floats = NDArray[np.float64]
ONCE = ("embedding", "final_layernorm")
TWICE = ("layernorm",)
SHORTEST, LARGEST = 1e-9, 1e9
"""Of a time (us) in a profile, and of a size."""


def _read(prefix: str | Path, kind: str, required: list[str]) -> pd.DataFrame:
    """A table of a profile; without columns where there is no skew table."""
    for ending in (".csv.gz", ".csv"):
        path = Path(f"{prefix}_{kind}{ending}")
        if is_file(path):
            return _checked(read_csv(path, required=required), path, [name for name in required if name != "layer"])
    if kind == "skew":
        return pd.DataFrame()
    raise InputError(f"there is no {prefix}_{kind}.csv.gz", key="profile")


def _checked(table: pd.DataFrame, path: Path, columns: list[str]) -> pd.DataFrame:
    """The table, its columns as numbers: times above zero, sizes not below; one that spans nothing is refused."""
    if table.empty:
        raise InputError("has no rows", path=path, line=2)
    for name in columns:
        table[name] = numbers(table, name, "a time or size of a kernel", path, SHORTEST if name.endswith("_us") else 0.0, LARGEST)
    for name in ("prefill_chunk", "activated_experts", "tokens"):
        if name in columns and table[name].nunique() < 2:
            raise InputError("has one value; at least two are needed", path=path, key=name)
    return table


def captured(tokens: Floats, largest: int) -> Floats:
    """Tokens that a CUDA graph is replayed with: 1, 2, 4, multiples of 8, above 256 of 16; beyond the largest, the tokens themselves.

    Source: vLLM's CompilationConfig, default cudagraph_capture_sizes (read in LLMServingSim's serving/core/cudagraph.py).
    """
    small = np.where(tokens <= 2, tokens, np.where(tokens <= 4, 4, np.ceil(tokens / 8) * 8))
    padded = np.where(small > 256, np.ceil(tokens / 16) * 16, small)
    return np.asarray(np.where(padded <= largest, padded, tokens))


def all_reduce_s(size_bytes: Floats, devices: int, bandwidth_bytes_per_s: float, latency_s: float) -> Floats:
    """Ring all-reduce: 2 (n - 1) steps of latency + size / n / bandwidth."""
    return np.asarray(2 * (devices - 1) * (latency_s + size_bytes / devices / bandwidth_bytes_per_s))


def read_profile(
    prefix: str | Path,
    model: Model,
    tensor: int,
    data: int,
    most_tokens: int,
    most_sequences: int,
    bandwidth_bytes_per_s: float,
    latency_s: float,
) -> Profile:
    """The tables of one profile.

    Args:
        prefix: the files are PREFIX_dense.csv.gz, PREFIX_per_sequence.csv.gz, PREFIX_attention.csv.gz and, if there, _moe and _skew.
        data: data-parallel replicas (experts are shared by all of them).
        bandwidth_bytes_per_s, latency_s: of the link between GPUs.
    """
    dense = _read(prefix, "dense", ["layer", "tokens", "time_us"])
    heads = _read(prefix, "per_sequence", ["layer", "sequences", "time_us"])
    counts = np.arange(most_tokens + 1, dtype=np.float64)
    replayed = captured(counts, min(2 * most_sequences, 512))
    total = np.zeros_like(counts)
    for layer, rows in dense.groupby("layer"):
        times = 1 if layer in ONCE else 2 * model.layers if layer in TWICE else model.layers
        total += times * 1e-6 * _along(rows["tokens"], rows["time_us"], replayed)
    if tensor > 1:
        total += 2 * model.layers * all_reduce_s(2 * replayed * model.hidden, tensor, bandwidth_bytes_per_s, latency_s)
    if model.experts is not None and data > 1:
        # Tokens of all replicas are gathered before the experts and their sums scattered after.
        step = latency_s + 2 * replayed * model.hidden / bandwidth_bytes_per_s
        total += 2 * model.layers * (data - 1) * step
    total[0] = 0.0
    ends = np.arange(most_sequences + 1, dtype=np.float64)
    sampled = np.zeros_like(ends)
    for _, rows in heads.groupby("layer"):
        sampled += 1e-6 * _along(rows["sequences"], rows["time_us"], ends)
    sampled[0] = 0.0
    pieces = (total, sampled, *_attention(prefix, model.layers), *_alpha(prefix), *_experts(prefix, model, tensor, data))
    if model.experts is None:
        return Profile(*pieces)
    return Profile(*pieces, float(model.experts.count), float(model.experts.per_token), float(tensor * data))


def _along(x: pd.Series, y: pd.Series, at: Floats) -> Floats:
    """Linear between the points, continued beyond the last along the last half."""
    order = np.argsort(x.to_numpy())
    xs, ys = x.to_numpy(dtype=np.float64)[order], y.to_numpy(dtype=np.float64)[order]
    out = np.interp(at, xs, ys)
    beyond = at > xs[-1]
    if beyond.any() and xs.size > 1:
        half = xs.size // 2
        slope = max(0.0, (ys[-1] - ys[half]) / max(1.0, xs[-1] - xs[half]))
        out[beyond] = ys[-1] + slope * (at[beyond] - xs[-1])
    return np.asarray(out)


def _attention(prefix: str | Path, layers: int) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    table = _read(prefix, "attention", ["prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"])
    chunks, decodes = (np.unique(table[name]).astype(np.float64) for name in ("prefill_chunk", "n_decode"))
    before = np.unique(table["kv_prefill"]).astype(np.float64)
    cached = np.unique(table["kv_decode"]).astype(np.float64)
    out = np.zeros((chunks.size, before.size, decodes.size, cached.size))
    groups: Any = table.groupby(["prefill_chunk", "n_decode"])
    for (chunk, count), rows in groups:
        pivot = rows.pivot_table(index="kv_prefill", columns="kv_decode", values="time_us").sort_index().sort_index(axis=1)
        values = pivot.interpolate(axis=1, limit_direction="both").interpolate(axis=0, limit_direction="both").to_numpy(dtype=np.float64)
        wide = np.stack([_lengthen(pivot.columns.to_numpy(dtype=np.float64), line, cached) for line in values])
        full = np.stack([_lengthen(pivot.index.to_numpy(dtype=np.float64), line, before) for line in wide.T]).T
        out[np.searchsorted(chunks, chunk), :, np.searchsorted(decodes, count), :] = full
    return 1e-6 * layers * out, chunks, before, decodes, cached


def _lengthen(x: Floats, y: Floats, at: Floats) -> Floats:
    """Linear between points and beyond both ends (never below a quarter of the nearest value)."""
    if x.size == 1:
        return np.full(at.size, y[0])
    out = np.interp(at, x, y)
    low, high = at < x[0], at > x[-1]
    out[low] = y[0] + (at[low] - x[0]) * (y[1] - y[0]) / (x[1] - x[0])
    out[high] = y[-1] + (at[high] - x[-1]) * (y[-1] - y[-2]) / (x[-1] - x[-2])
    return np.maximum(out, 0.25 * y.min())


def _alpha(prefix: str | Path) -> tuple[Floats, Floats, Floats]:
    table = _read(prefix, "skew", ["n", "pc", "kvs", "kv_big", "kv_mean", "t_mean_us", "t_max_us", "t_skew_us"])
    if table.empty:
        return np.zeros((0, 0, 0)), np.zeros(0), np.zeros(0)
    table = table[table["t_max_us"] > table["t_mean_us"]]
    wide = table["t_max_us"] - table["t_mean_us"]
    table = table.assign(
        alpha=(table["t_skew_us"] - table["t_mean_us"]) / wide, group=np.searchsorted(SKEW_LEVERS, wide / table["t_mean_us"])
    )
    chunks, decodes = np.unique(table["pc"]).astype(np.float64), np.unique(table["n"]).astype(np.float64)
    out = np.full((chunks.size, decodes.size, len(SKEW_LEVERS) + 1), table["alpha"].median())
    groups: Any = table.groupby(["pc", "n", "group"])["alpha"]
    for (chunk, count, group), alpha in groups:
        out[np.searchsorted(chunks, chunk), np.searchsorted(decodes, count), group] = alpha.median()
    return np.clip(out, 0.0, 1.0), chunks, decodes


def _experts(prefix: str | Path, model: Model, tensor: int, data: int) -> tuple[Floats, Floats, Floats]:
    """Seconds of all expert layers by tokens and active experts.

    On several GPUs a rank has 1 / (tensor x data) of the experts' work, whether whole experts or slices of each: so many of the pairs of
    token and expert, and so much of the weights to read.
    """
    if model.experts is None:
        return np.zeros((0, 0)), np.zeros(0), np.zeros(0)
    # Experts are profiled on one GPU only; what a rank of several does is derived from that (see above).
    alone = re.sub(r"_tp\d+$", "_tp1", str(prefix))
    table = _read(alone, "moe", ["tokens", "activated_experts", "time_us"])
    tokens, active = (np.unique(table[name]).astype(np.float64) for name in ("tokens", "activated_experts"))
    out = np.zeros((tokens.size, active.size))
    groups: Any = table.sort_values("activated_experts").groupby("tokens")
    for count, rows in groups:
        sizes, times = (rows[name].to_numpy(dtype=np.float64) for name in ("activated_experts", "time_us"))
        out[np.searchsorted(tokens, count)] = _lengthen(sizes, times, active)
    return 1e-6 * model.expert_layers * out, tokens, active
