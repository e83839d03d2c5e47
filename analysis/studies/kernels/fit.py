"""Fits the committed parameters: a forest a cell for measured GPUs, a pooled forest for each architecture left out, and their intervals."""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.kernels import gpus, laws, physics, trees, work
from analysis.kernels.gpus import ARCHITECTURES
from analysis.kernels.physics import Features, Sustained
from analysis.kernels.work import Floats
from analysis.studies.intervals import next_group
from analysis.studies.kernels import law_fits, splits
from analysis.studies.kernels import wheel as wheel_reader
from analysis.studies.kernels.forests import Loss, scaled
from analysis.studies.kernels.forests import fit as fit_forest
from analysis.studies.kernels.splits import Cell
from analysis.tables import write_atomic, write_csv

MEASURED: dict[str, Any] = {"trees": 100, "leaves": 31, "rate": 0.2}
MEASURED_GEMM = MEASURED | {"leaves": 47, "loss": "absolute_error"}  # one timing in some is far off: a leaf's median does not see it
POOLED = {"trees": 200, "leaves": 31, "rate": 0.1, "minimum": 40}  # on a law
POOLED_PLAIN = {"trees": 300, "leaves": 31, "rate": 0.08, "minimum": 40}  # on the first time of `physics`
POOLED_LATENT = {"trees": 150, "leaves": 15, "rate": 0.08, "minimum": 40}  # a twentieth of the rows
ABSOLUTE = ("gemm", "moe", "attention_decode")  # operators whose pooled forests are fitted on absolute errors
LAW_ROWS = 400  # of a cell and variant, to fit its law
ROWS_OF_A_CELL = 30_000  # at most, drawn; fitting takes about 2 CPU-seconds a cell
POOLED_ROWS_OF_A_CELL = 2_000  # half as many with a law, and where kernels are apart
DRAWN = ("gemm", "latent_prefill", "latent_decode")  # operators whose pooled intervals draw architectures (`spread_elsewhere`)
BINS = 4  # of the first time, in which intervals are set apart


def features(cell: Cell, rows: NDArray[Any], sustained: Sustained) -> Features:
    """Features of some rows of a cell, those of one variant (number types, distribution) together."""
    gpu, s = gpus.load(cell.system), {k: v[rows] for k, v in cell.sizes.items()}
    variant, op = cell.variant[rows], cell.operator
    base: Floats = np.empty(len(variant))
    values: NDArray[np.int16] | None = None
    parts: Floats | None = None
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
        if values is None or parts is None:
            values = np.empty((len(variant), got.values.shape[1]), dtype=np.int16)
            parts = np.empty((len(got.parts), len(variant)))
        base[at], values[at], parts[:, at] = got.base_s, got.values, got.parts
    assert values is not None and parts is not None
    return Features(base, values, parts)


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


def fit_measured(cell: Cell, sustained: Sustained, seed: int = 0) -> trees.Fitted:
    """One forest for one cell, on its fitted shapes; the interval from the shapes set apart for it."""
    place = splits.bucket(cell.sizes)
    rows = np.flatnonzero(place > 1)
    rows = np.random.default_rng(seed).permutation(rows)[:ROWS_OF_A_CELL]
    got = features(cell, rows, sustained)
    settings = MEASURED_GEMM if cell.operator == "gemm" else MEASURED
    forest = fit_forest(got.values, np.log(cell.seconds[rows] / got.base_s), **settings)
    rest = np.flatnonzero(place == 1)
    held = features(cell, rest, sustained)
    edges = np.quantile(held.base_s, np.arange(1, BINS) / BINS)
    residual = np.log(cell.seconds[rest] / held.base_s) - trees.predict(forest, held.values)
    logs = np.log(np.maximum(np.stack([v[rows] for v in cell.sizes.values()]), 0.5))
    return trees.Fitted(forest, edges, spread(held.base_s, residual, edges), np.stack([logs.min(1), logs.max(1)]), cell.version)


def spread_elsewhere(residuals: list[tuple[Floats, Floats]], edges: Floats) -> Floats:
    """Standard deviation of log latency on an architecture that was not seen, by bin of the first time: architectures are what is drawn.

    Within: the mean over architectures of the spread about their medians. Between: the variance of these medians, ``1 + 1 / n`` times,
    with Student's quantile of n - 1 degrees of freedom in place of the normal one.
    """
    out = np.empty(len(edges) + 1)
    for i in range(len(out)):
        parts = [residual[np.digitize(base, edges) == i] for base, residual in residuals]
        parts = [part if len(part) >= 40 else residual for part, (_, residual) in zip(parts, residuals, strict=True)]
        medians = np.array([np.median(part) for part in parts])
        within = np.mean([np.quantile(np.abs(part - m), 0.9) / 1.6449 for part, m in zip(parts, medians, strict=True)])
        n = len(medians)
        between = np.std(medians, ddof=1) * next_group(n, 0.9) / 1.6449 if n > 2 else 0.3
        out[i] = np.hypot(within, between)
    return out


def known(cells: list[Cell], rows: dict[str, NDArray[Any]], seen: dict[str, Features]) -> list[law_fits.Known]:
    """Parameters of the law of each cell and variant, on some rows of it."""
    out = []
    for cell in cells:
        gpu, variant = gpus.load(cell.system), cell.variant[rows[cell.key]]
        for one in np.unique(variant):
            at = np.flatnonzero(variant == one)[:LAW_ROWS]
            if len(at) >= 60:
                theta = law_fits.fit(cell.operator, seen[cell.key].parts[:, at], cell.seconds[rows[cell.key][at]])
                out.append(law_fits.Known(gpu, cell.framework, cell.dtype, str(one), theta, 1 / len(ARCHITECTURES[gpu.architecture])))
    return out


def lawful(cell: Cell, rows: NDArray[Any], got: Features, law: laws.Transfer, sustained: Sustained) -> Features:
    """The features of some rows of a cell with the law's time as the first, its parameters carried to the GPU from the data sheet."""
    variant, gpu = cell.variant[rows], gpus.load(cell.system)
    base, values = np.empty(len(rows)), None
    for one in np.unique(variant):
        at = variant == one
        part = laws.widen(
            Features(got.base_s[at], got.values[at], got.parts[:, at]), law.log_theta(gpu, cell.framework, cell.dtype, str(one), sustained)
        )
        values = np.empty((len(rows), part.values.shape[1]), dtype=np.int16) if values is None else values
        base[at], values[at] = part.base_s, part.values
    assert values is not None
    return Features(base, values, got.parts)


def slower_than_wider(cells: list[Cell]) -> set[str]:
    """Keys of cells of experts in 8 bits or fewer that take longer than bf16's, shape by shape in the median: nothing to learn from."""

    def times(cell: Cell) -> pd.Series[float]:
        return pd.Series(cell.seconds, pd.MultiIndex.from_arrays([*cell.sizes.values(), cell.variant]))

    by_key, out = {cell.key: cell for cell in cells}, set()
    for cell in cells:
        wider = by_key.get(f"{cell.system}/{cell.framework}/bf16")
        if cell.operator == "moe" and cell.dtype != "bf16" and wider:
            both = pd.concat([times(cell), times(wider)], axis=1, join="inner").to_numpy()
            if len(both) > 50 and np.median(both[:, 0] / both[:, 1]) > 1:
                out.add(cell.key)
    return out


def fit_pooled(
    cells: list[Cell], levels: dict[str, Sustained], seed: int = 0, apart: list[Cell] | None = None
) -> tuple[dict[str, trees.Fitted], dict[str, laws.Transfer]]:
    """A forest for each number type and architecture left out, and of all (`none/<type>`), on the law's time where there is a law.

    For the operators of `laws.TOGETHER` one forest for all types (`none/`), of whose correction a share is believed; types that only one
    other architecture has keep a forest of their own on the first time, as chosen with two architectures left out.

    Intervals come from the other architectures' residuals, each predicted with itself left out: for `DRAWN` by `spread_elsewhere`, else
    by their quantiles, where Student's quantile on top of them covers too much (log of attempts).

    Args:
        apart: cells of single families of kernels and all releases, to fit on in place of `cells`; `laws.called` says which
            answers those.
    """
    rng, operator = np.random.default_rng(seed), cells[0].operator
    levels = {hidden: physics.carried(operator, level) for hidden, level in levels.items()}
    law, together = operator in laws.START, operator in laws.TOGETHER
    most = POOLED_ROWS_OF_A_CELL // (2 if law or apart else 1)
    bucket = {cell.key: splits.bucket(cell.sizes) for cell in [*cells, *(apart or [])]}
    rows = {key: rng.permutation(np.flatnonzero(place > 0))[:most] for key, place in bucket.items()}
    architecture = {cell.key: gpus.load(cell.system).architecture for cell in [*cells, *(apart or [])]}
    types, poor = sorted({cell.dtype for cell in cells}), slower_than_wider(cells)
    forests: dict[str, trees.Forest] = {}
    transfers: dict[str, laws.Transfer] = {}
    residuals: dict[str, dict[str, tuple[Floats, Floats]]] = {dtype: {} for dtype in (*types, "")}
    for hidden in (*ARCHITECTURES, "none"):
        first = seen = {cell.key: features(cell, rows[cell.key], levels[hidden]) for cell in cells}
        others = [cell for cell in cells if architecture[cell.key] != hidden]
        if law:
            transfers[hidden] = law_fits.transfer(operator, known([c for c in others if c.key not in poor], rows, seen), levels[hidden])
            seen = {cell.key: lawful(cell, rows[cell.key], seen[cell.key], transfers[hidden], levels[hidden]) for cell in cells}
        alone = [t for t in types if len({architecture[c.key] for c in others if c.dtype == t}) == 1] if together else types
        for dtype in ("", *alone) if together else types:
            of_type = [cell for cell in cells if (cell.dtype == dtype if dtype in types else cell.dtype not in alone)]
            train = [cell for cell in apart or of_type if architecture[cell.key] != hidden]
            if dtype not in types:
                train = [cell for cell in others if cell.key not in poor]
            test = [cell for cell in of_type if architecture[cell.key] == hidden and (apart or cell.dtype in {c.dtype for c in others})]
            if not train:
                continue
            counted = [cell for cell in cells if dtype in ("", cell.dtype)]
            members = {a: len({c.system for c in counted if architecture[c.key] == a}) for a in ARCHITECTURES}
            x, y, weight = [], [], []
            time_of = first if together and dtype else seen
            for cell in train:
                got = time_of.get(cell.key) or features(cell, rows[cell.key], levels[hidden])
                got = physics.mark(got, operator, cell.kernel, gpus.load(cell.system)) if apart else got
                x.append(got.values)
                y.append(np.log(cell.seconds[rows[cell.key]] / got.base_s))
                weight.append(np.full(len(got.base_s), 1 / np.sqrt(members[architecture[cell.key]])))
            plain = POOLED_LATENT if operator.startswith("latent") else POOLED_PLAIN
            settings: dict[str, Any] = POOLED if time_of is not first else plain
            loss: Loss = "absolute_error" if operator in ABSOLUTE else "squared_error"
            forest = fit_forest(np.concatenate(x), np.concatenate(y), weight=np.concatenate(weight), loss=loss, **settings)
            forest = forest if time_of is first else scaled(forest, laws.TOGETHER.get(operator, 1.0))
            forests[f"{hidden}/{dtype}"] = forest
            if test:
                base = np.concatenate([time_of[cell.key].base_s for cell in test])
                truth = np.concatenate([np.log(cell.seconds[rows[cell.key]]) for cell in test])
                answer = np.concatenate([elsewhere(c, rows[c.key], time_of[c.key], forest) for c in test])
                residuals[dtype][hidden] = (base, truth - answer)
    out = {}
    for key, forest in forests.items():
        hidden, dtype = key.split("/")
        others_ = [found for a, found in residuals[dtype].items() if a != hidden] or list(residuals[dtype].values())
        if others_:
            base, residual = (np.concatenate([one[i] for one in others_]) for i in (0, 1))
            edges = np.quantile(base, np.arange(1, BINS) / BINS)
            sd = spread_elsewhere(others_, edges) if operator in DRAWN else spread(base, residual, edges)
        else:  # one architecture only: nothing says how far it carries
            edges, sd = np.array([1e-5, 1e-4, 1e-3]), np.full(BINS, 0.5)
        out[key] = trees.Fitted(forest, edges, sd, np.zeros((2, 0)), "")
    return out, transfers


def elsewhere(cell: Cell, rows: NDArray[Any], got: Features, forest: trees.Forest) -> Floats:
    """Logarithm of the answer (s) of a pooled forest for some rows of a cell."""
    gpu, variant, out = gpus.load(cell.system), cell.variant[rows], np.empty(len(rows))
    for one in np.unique(variant):
        at = variant == one
        part = Features(got.base_s[at], got.values[at], got.parts[:, at])
        family = laws.called(cell.operator, cell.framework, gpu.architecture, str(one))
        out[at] = np.log(part.base_s) + laws.answer(cell.operator, part, forest, gpu, family)
    return out


def write_forests(name: str, fitted: dict[str, trees.Fitted], folder: Path | None = None) -> None:
    """Write the forests of one operator, joined end to end."""
    parts = list(fitted.values())
    arrays = {
        "keys": np.array(list(fitted)),
        "versions": np.array([p.version for p in parts]),
        "feature": np.concatenate([p.forest.feature for p in parts]),
        "number": np.concatenate([p.forest.number for p in parts]),
        "right": np.concatenate([p.forest.right for p in parts]),
        "nodes": np.array([len(p.forest.feature) for p in parts]),
        "trees": np.array([len(p.forest.start) for p in parts]),
        "tree_nodes": np.concatenate([np.diff([*p.forest.start, len(p.forest.feature)]) for p in parts]).astype(np.uint8),
        "constant": np.array([p.forest.constant for p in parts]),
        "edges": np.stack([p.edges for p in parts]),
        "log_sd": np.stack([p.log_sd for p in parts]),
        "hull": np.stack([p.hull for p in parts]).astype(np.float32),
    }
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    write_atomic((folder or trees.FOLDER) / f"{name}.npz", content.getvalue())


def write_sustained(levels: dict[str, Sustained], folder: Path | None = None) -> None:
    """Write the levels of each architecture left out."""
    plain = {
        hidden: {f"{dtype} {'registers' if key else 'shared memory'}": round(v, 4) for (dtype, key), v in s.level.items()}
        for hidden, s in levels.items()
    }
    write_atomic((folder or trees.FOLDER) / "sustained.json", (json.dumps(plain, indent=1) + "\n").encode())


def fit_all(wheel: Path, operators: tuple[str, ...] = tuple(splits.SIZES), folder: Path | None = None, pooled_only: bool = False) -> None:
    """Fit some operators and write `measured_<operator>.npz` and `pooled_<operator>.npz`; with GEMM `sustained.json`, which all use."""
    gemm = list(splits.cells(wheel, "gemm")) if "gemm" in operators else []
    if gemm:
        write_sustained({hidden: sustained_levels(gemm, hidden) for hidden in ("none", *ARCHITECTURES)}, folder)
    levels = physics.read_sustained(folder)
    for operator in operators:
        began = time.process_time()
        found = gemm if operator == "gemm" else list(splits.cells(wheel, operator))
        print(operator, len(found), "cells", round(time.process_time() - began, 1), "CPU-s to read", file=sys.stderr, flush=True)
        apart = list(splits.cells(wheel, operator, apart=True)) if operator in laws.APART else None
        pooled, carried = fit_pooled(found, levels, apart=apart)
        write_forests(f"pooled_{operator}", pooled, folder)
        if carried:
            law_fits.write({operator: carried}, folder)
        if not pooled_only:
            write_forests(f"measured_{operator}", {cell.key: fit_measured(cell, levels["none"]) for cell in found}, folder)
        print(operator, round(time.process_time() - began, 1), "CPU-s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if a != "--pooled-only"]
    tables = wheel_reader.find()
    if not arguments:
        write_csv(wheel_reader.collective_times(tables), trees.FOLDER / "collectives.csv")
    fit_all(tables, tuple(arguments) or tuple(splits.SIZES), pooled_only="--pooled-only" in sys.argv)
