"""Fits the committed parameters: a forest a cell for measured GPUs, a pooled forest for each architecture left out, and their intervals."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.operators.kernels import gpus, physics, splits, store, trees, work
from analysis.operators.kernels.gpus import ARCHITECTURES
from analysis.operators.kernels.physics import Features, Sustained
from analysis.operators.kernels.splits import Cell
from analysis.operators.kernels.work import Floats

MEASURED = {"trees": 100, "leaves": 31, "rate": 0.2}
POOLED = {"trees": 150, "leaves": 15, "rate": 0.08, "minimum": 40}
ROWS_OF_A_CELL = 30_000  # at most, drawn; fitting takes about 2 CPU-seconds a cell
POOLED_ROWS_OF_A_CELL = 2_000
BINS = 4  # of the first time, in which intervals are set apart


def features(cell: Cell, rows: NDArray[Any], sustained: Sustained) -> Features:
    """Features of some rows of a cell, those of one variant (number types, distribution) together."""
    gpu, s = gpus.load(cell.system), {k: v[rows] for k, v in cell.sizes.items()}
    variant, op = cell.variant[rows], cell.operator
    base: Floats = np.empty(len(variant))
    values: NDArray[np.int16] | None = None
    for one in np.unique(variant):
        at = variant == one
        z = {k: v[at] for k, v in s.items()}
        if op == "gemm":
            got = physics.gemm(z["m"], z["n"], z["k"], cell.dtype, cell.framework, gpu, sustained)
        elif op == "moe":
            got = physics.moe(
                z["num_tokens"], z["num_experts"], z["topk"], z["hidden_size"], z["inter_size"], z["moe_tp_size"], z["moe_ep_size"],
                cell.dtype, str(one), cell.framework, gpu, sustained,
            )  # fmt: skip
        else:
            dtype, kv = str(one).split("/")
            dtype = dtype if dtype in gpu.peak_flop_per_s else "bf16"
            latent = op.startswith("latent")
            b, h = z["batch_size"], z["num_heads"]
            g = h if latent else z["num_key_value_heads"]
            w = np.zeros(len(b)) if latent else z["window_size"]
            if op.endswith("prefill"):
                d, v = (work.QK_LATENT, work.V_LATENT) if latent else (z["head_dim"], z["head_dim"])
                got = physics.attention_prefill(b, h, g, d, v, z["isl"], z["isl"], w, dtype, kv, cell.framework, gpu, sustained, latent)
            else:
                d = work.LATENT + work.ROPE if latent else z["head_dim"]
                got = physics.attention_decode(b, h, g, d, z["step"] + 1, w, dtype, kv, cell.framework, gpu, sustained, latent)
        if values is None:
            values = np.empty((len(variant), got.values.shape[1]), dtype=np.int16)
        base[at], values[at] = got.base_s, got.values
    assert values is not None
    return Features(base, values)


def sustained_levels(gemm_cells: list[Cell], hidden: str) -> Sustained:
    """Levels of `Sustained` from GEMM cells: 99th percentiles of the rate reached; means over frameworks, then GPUs, then architectures."""
    exponent = Sustained({}).exponent
    found: dict[tuple[str, bool], dict[str, dict[str, list[float]]]] = {}
    for cell in gemm_cells:
        gpu = gpus.load(cell.system)
        if gpu.architecture == hidden or cell.dtype not in ("bf16", "fp8", "nvfp4", "int8"):
            continue
        fitted = splits.bucket(cell.sizes) > 1
        rate = (2 * cell.sizes["m"] * cell.sizes["n"] * cell.sizes["k"] / cell.seconds)[fitted]
        synchronous = gpu.architecture in physics.SYNCHRONOUS
        peak = gpu.peak_flop_per_s[cell.dtype]
        level = float(np.log(np.quantile(rate, 0.99) / peak) - exponent[int(synchronous)] * np.log(1e12 * gpu.tdp_w / peak))
        found.setdefault((cell.dtype, synchronous), {}).setdefault(gpu.architecture, {}).setdefault(cell.system, []).append(level)
    return Sustained({
        key: float(np.mean([np.mean([np.mean(v) for v in systems.values()]) for systems in by.values()])) for key, by in found.items()
    })  # fmt: skip


def spread(base: Floats, residual: Floats, edges: Floats) -> Floats:
    """Standard deviation of log latency in each bin of the first time, from the 90th percentile of the absolute residual."""
    place, out = np.digitize(base, edges), np.empty(len(edges) + 1)
    overall = np.quantile(np.abs(residual), 0.9)
    for i in range(len(out)):
        part = np.abs(residual[place == i])
        out[i] = (np.quantile(part, 0.9) if len(part) >= 40 else overall) / 1.6449
    return np.maximum(out, 0.004)


def fit_measured(cell: Cell, sustained: Sustained, seed: int = 0) -> store.Fitted:
    """One forest for one cell, on its fitted shapes; the interval from the shapes set apart for it."""
    place = splits.bucket(cell.sizes)
    rows = np.flatnonzero(place > 1)
    rows = np.random.default_rng(seed).permutation(rows)[:ROWS_OF_A_CELL]
    got = features(cell, rows, sustained)
    forest = trees.fit(got.values, np.log(cell.seconds[rows] / got.base_s), **MEASURED)  # type: ignore[arg-type]
    rest = np.flatnonzero(place == 1)
    held = features(cell, rest, sustained)
    edges = np.quantile(held.base_s, np.arange(1, BINS) / BINS)
    residual = np.log(cell.seconds[rest] / held.base_s) - trees.predict(forest, held.values)
    logs = np.log(np.maximum(np.stack([v[rows] for v in cell.sizes.values()]), 0.5))
    return store.Fitted(forest, edges, spread(held.base_s, residual, edges), np.stack([logs.min(1), logs.max(1)]), cell.version)


def fit_pooled(cells: list[Cell], levels: dict[str, Sustained], seed: int = 0) -> dict[str, store.Fitted]:
    """A forest for each number type and architecture left out, and of all (`none/<type>`); intervals from the others' residuals."""
    rng = np.random.default_rng(seed)
    out = {}
    for dtype in sorted({cell.dtype for cell in cells}):
        of_type = [cell for cell in cells if cell.dtype == dtype]
        chosen = {cell.key: rng.permutation(np.flatnonzero(splits.bucket(cell.sizes) > 0))[:POOLED_ROWS_OF_A_CELL] for cell in of_type}
        residuals: dict[str, tuple[Floats, Floats]] = {}
        forests: dict[str, trees.Forest] = {}
        for hidden in (*ARCHITECTURES, "none"):
            xs, ys, ws, xt, yt, bt = [], [], [], [], [], []
            for cell in of_type:
                got = features(cell, chosen[cell.key], levels[hidden])
                target = np.log(cell.seconds[chosen[cell.key]] / got.base_s)
                architecture = gpus.load(cell.system).architecture
                if architecture == hidden:
                    xt.append(got.values)
                    yt.append(target)
                    bt.append(got.base_s)
                else:
                    members = len({c.system for c in of_type if gpus.load(c.system).architecture == architecture})
                    xs.append(got.values)
                    ys.append(target)
                    ws.append(np.full(len(target), 1 / np.sqrt(members)))
            if not xs:
                continue
            forests[hidden] = trees.fit(np.concatenate(xs), np.concatenate(ys), weight=np.concatenate(ws), **POOLED)  # type: ignore[arg-type]
            if xt:
                residuals[hidden] = (np.concatenate(bt), np.concatenate(yt) - trees.predict(forests[hidden], np.concatenate(xt)))
        for hidden, forest in forests.items():
            others = [residuals[a] for a in residuals if a != hidden] or list(residuals.values())
            if others:
                base, residual = np.concatenate([o[0] for o in others]), np.concatenate([o[1] for o in others])
                edges = np.quantile(base, np.arange(1, BINS) / BINS)
                sd = spread(base, residual, edges)
            else:  # one architecture only: nothing says how far it carries
                edges, sd = np.array([1e-5, 1e-4, 1e-3]), np.full(BINS, 0.5)
            out[f"{hidden}/{dtype}"] = store.Fitted(forest, edges, sd, np.zeros((2, 0)), "")
    return out


def fit_all(wheel: Path, operators: tuple[str, ...] = tuple(splits.SIZES), folder: Path | None = None, pooled_only: bool = False) -> None:
    """Fit every operator and write `measured_<operator>.npz`, `pooled_<operator>.npz` and `sustained.json`."""
    gemm = list(splits.cells(wheel, "gemm"))
    levels = {hidden: sustained_levels(gemm, hidden) for hidden in ("none", *ARCHITECTURES)}
    store.write_sustained(levels, folder)
    for operator in operators:
        began = time.process_time()
        found = gemm if operator == "gemm" else list(splits.cells(wheel, operator))
        print(operator, len(found), "cells", round(time.process_time() - began, 1), "CPU-s to read", file=sys.stderr, flush=True)
        store.write(f"pooled_{operator}", fit_pooled(found, levels), folder)
        if not pooled_only:
            store.write(f"measured_{operator}", {cell.key: fit_measured(cell, levels["none"]) for cell in found}, folder)
        print(operator, round(time.process_time() - began, 1), "CPU-s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    from analysis.operators.kernels import wheel as wheel_reader

    arguments = [a for a in sys.argv[1:] if a != "--pooled-only"]
    fit_all(wheel_reader.find(), tuple(arguments) or tuple(splits.SIZES), pooled_only="--pooled-only" in sys.argv)
