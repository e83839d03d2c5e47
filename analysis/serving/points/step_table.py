"""How long does a step take? Kernel times of a configuration on grids, by part, with the kernel models' doubt."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.errors import InputError
from analysis.kernels import gpus
from analysis.kernels.library import Latency
from analysis.kernels.physics import FRAMEWORKS
from analysis.paths import DATA
from analysis.serving.points import operators as op
from analysis.serving.points.closed_loop import Tables
from analysis.tables import read_csv

Floats = op.Floats


@dataclass(frozen=True)
class StepTable:
    """Seconds by part on each grid, and the standard deviation of their logarithm.

    Attributes:
        seconds: grid -> shape (parts, points of the grid, flattened).
        log_sd: part -> its kernels' doubt, weighted by their time.
        source: worst source of the kernels' times.
        notes: what else its kernels' answers say, such as a measured table that was not believed.
    """

    seconds: dict[str, Floats]
    log_sd: dict[str, float]
    source: str
    status: str
    notes: tuple[str, ...] = ()

    def total(self, grid: str) -> Floats:
        """Seconds of all parts on a grid, in its shape."""
        return np.asarray(self.seconds[grid].sum(axis=0).reshape(tuple(axis.size for axis in op.GRIDS[grid])))

    def doubts(self, prompt: bool = False) -> Floats:
        """Each part's share of the standard deviation of a step's logarithm: of a decode step (32 sequences of 4,096 tokens), or of a step
        of one prompt of 2,048 tokens."""
        if not self.seconds:
            return np.full(len(op.PARTS), np.nan)
        parts = on_prompt(self, 2048.0) if prompt else on_grid(self, 32.0, 4096.0)
        return np.asarray(parts * np.array([self.log_sd.get(part, 0.0) for part in op.PARTS]) / parts.sum())


REPLAYED = ("gemm", "moe")
"""Kernels whose own framework's table holds more than the kernel: see `_answer`."""


ROUTER = DATA / "published" / "router_products.csv"
"""Measured on a GB200 with `ROUTER_K` elements."""
ROUTER_K = 6144.0
FP32_FLOP = 256.0
"""A cycle of a multiprocessor: 128 lanes multiply and add."""


def router(gpu: gpus.Gpu, m: Floats, n: Floats, k: Floats, dtype: str) -> Latency:
    """A router's product in fp32 or tf32: it has few tiles, so the loop over k within one decides, in proportion to k over the clock.

    Formula: measured(m) k / ROUTER_K x clock of the GB200 / clock, and at least 2 m n k / rate.
    """
    table = read_csv(ROUTER)
    seconds = 1e-6 * np.interp(m, table["tokens"], table[f"{dtype}_us"]) * k / ROUTER_K * gpus.load("gb200").clock_hz / gpu.clock_hz
    rate = FP32_FLOP * gpu.sms * gpu.clock_hz if dtype == "fp32" else 0.5 * gpu.peak_flop_per_s["bf16"]
    seconds = np.maximum(seconds, 2 * m * n * k / rate)
    return Latency(seconds, np.full_like(seconds, 0.2), "", np.full(seconds.shape, "", dtype=object))


def _answer(handles: list[Any], method: str, arrays: dict[str, Floats], options: dict[str, Any]) -> Any:
    """Times of one method: the engine's own table (the first handle), and for `REPLAYED` the fastest timed in that type.

    The tables time matrix products as each framework's Python calls them; some hold the call more than the kernel (vLLM's block-scaled FP8
    takes 180 us at any size on a B200, SGLang's, the same DeepGEMM kernel, 8 us). An engine replays its steps from a CUDA graph, so the
    kernel alone counts, and another framework's table of the same GPU, type and shape bounds it from above.
    """
    if method == "router":
        return router(handles[0].gpu, arrays["m"], arrays["n"], arrays["k"], options["dtype"])
    if method not in REPLAYED:
        return getattr(handles[0], method)(**arrays, **options)
    timed = [handle for handle in handles if handle.framework in handle.measured_by(method, options["dtype"])] or handles[:1]
    found = getattr(timed[0], method)(**arrays, **options)
    for handle in timed[1:]:
        other = getattr(handle, method)(**arrays, **options)
        if other.source == found.source or found.source == "unmeasured gpu":
            faster = np.nan_to_num(other.s, nan=np.inf) < np.nan_to_num(found.s, nan=np.inf)
            found = replace(found, s=np.where(faster, other.s, found.s), log_sd=np.where(faster, other.log_sd, found.log_sd))
    if method == "gemm" and options["dtype"] == "fp8":
        # The tables quantise the activations beside the product. FP8 checkpoints with one scale a tensor have it static (input_activations
        # `dynamic: false`, nvidia/Llama-3.1-70B-Instruct-FP8), and engines quantise in the norm or activation before.
        pass_s = handles[0].memory_bound(3 * arrays["m"] * arrays["k"]).s
        found = replace(found, s=np.maximum(found.s - pass_s, 0.4 * found.s))
    return found


def _evaluate(handles: list[Any], requests: list[tuple[int, op.Call]]) -> dict[int, list[Any]]:
    """Kernel times of many calls, by owner; those of one method and one set of options go in one call of the library."""
    groups: dict[tuple[str, tuple[tuple[str, Any], ...]], list[tuple[int, op.Call]]] = defaultdict(list)
    for owner, call in requests:
        groups[call.method, call.options].append((owner, call))
    out: dict[int, list[Any]] = defaultdict(list)
    for (method, options), members in groups.items():
        sizes = [next(iter(call.arrays.values())).size for _, call in members]
        arrays = {name: np.concatenate([call.arrays[name] for _, call in members]) for name in members[0][1].arrays}
        latency = _answer(handles, method, arrays, dict(options))
        seconds, sd = np.broadcast_to(latency.s, sum(sizes)), np.broadcast_to(latency.log_sd, sum(sizes))
        status, source = _worst(latency.status), _worst(latency.source)
        ends = np.cumsum(sizes)
        for (owner, call), end, size in zip(members, ends, sizes, strict=True):
            at = slice(end - size, end)
            out[owner].append((call, seconds[at], sd[at], status if np.isnan(seconds[at]).any() else "", source, latency.note))
    return out


def _worst(text: Any) -> str:
    """One text for many: the last in sorted order that is not empty ("unmeasured gpu" after "measured gpu")."""
    return max((str(x) for x in np.unique(np.atleast_1d(text))), default="")


def step_tables(configurations: list[op.Configuration], library: Any, hide: str = "none") -> list[StepTable]:
    """Step tables of many configurations.

    Args:
        hide: timings that the kernel models may not use: none, device or architecture.
    """
    handles: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i, each in enumerate(configurations):
        handles[each.device, each.engine].append(i)
    tables: list[StepTable | None] = [None] * len(configurations)
    for (device, engine), members in handles.items():
        try:
            names = (engine, *(name for name in FRAMEWORKS if name != engine))
            framework_handles = [library.on(gpus.sixteen_bits(gpus.load(device)), framework=name, hide=hide) for name in names]
        except InputError as error:
            for i in members:
                tables[i] = StepTable({}, {}, "", error.reason)
            continue
        measured = hide == "none" and framework_handles[0].gpu.vendor == "NVIDIA"  # the router's times
        found = {i: configurations[i] if measured else replace(configurations[i], router="bf16") for i in members}
        requests = [(i, call) for i in members for call in op.calls(found[i])]
        rows = _evaluate(framework_handles, requests)
        for i in members:
            tables[i] = _table(rows[i])
    return [table for table in tables if table is not None]


def _table(rows: list[Any]) -> StepTable:
    seconds = {grid: np.zeros((len(op.PARTS), int(np.prod([axis.size for axis in axes])))) for grid, axes in op.GRIDS.items()}
    doubt: dict[str, list[tuple[float, float]]] = defaultdict(list)
    reasons, sources, notes = set(), set(), set()
    for call, s, sd, status, source, note in rows:
        value = call.count * s * (1.0 if call.scale is None else call.scale)
        seconds[call.grid][op.PARTS.index(call.part)] += value
        if np.isfinite(value).any():
            usual = op.USUAL.get(call.grid, np.ones(value.size, bool))
            doubt[call.part].append((float(np.nanmedian(value[usual])), float(np.nanmedian(np.broadcast_to(sd, value.shape)[usual]))))
        if status:
            reasons.add(status)
        if note:
            notes.add(note)
        if call.method != "memory_bound":  # one fit over all GPUs, which says nothing of this one
            sources.add(source)
    # Beyond the usual lengths the kernels' models are extrapolated: noise must not make a longer cache faster to read.
    decode = seconds["decode"].reshape(len(op.PARTS), op.BATCH.size, op.CACHED.size)
    last = int(op.USUAL["decode"][: op.CACHED.size].sum()) - 1
    np.maximum.accumulate(decode[..., last:], axis=-1, out=decode[..., last:])
    log_sd = {part: sum(w * d for w, d in pairs) / max(1e-30, sum(w for w, _ in pairs)) for part, pairs in doubt.items()}
    return StepTable(seconds, log_sd, max(sources, default=""), "; ".join(sorted(reasons)), tuple(sorted(notes)))


def stack(tables: list[StepTable]) -> Tables:
    """The tables of many configurations for the compiled loop."""
    every = np.ones(len(op.PARTS))

    def block(grid: str) -> Floats:
        shape = tuple(axis.size for axis in op.GRIDS[grid])
        return np.stack([np.nan_to_num(np.tensordot(every, table.seconds[grid], 1)).reshape(shape) for table in tables])

    axes = [axis for axes in op.GRIDS.values() for axis in axes]
    return Tables(block("tokens"), block("sequences"), block("decode"), block("prefill"), *axes)


def on_grid(table: StepTable, batch: float, cached: float, checked: int = 1) -> np.ndarray:
    """Seconds of each of `PARTS` in a decode step of so many sequences and cached tokens a sequence, shape (parts,).

    Args:
        checked: tokens of each sequence in it, its own and those drafted (count).
    """
    tokens, sequences = table.seconds["tokens"], table.seconds["sequences"]
    decode = table.seconds["decode"].reshape(len(op.PARTS), op.BATCH.size, op.CACHED.size)
    at = min(max(int(np.searchsorted(op.BATCH, batch, side="right")) - 1, 0), op.BATCH.size - 2)  # the batches on both sides
    out = np.empty(len(op.PARTS))
    for k in range(len(op.PARTS)):
        by_batch = [np.interp(cached, op.CACHED, decode[k, i]) for i in (at, at + 1)]
        kernels = np.interp(batch, op.BATCH[at : at + 2], by_batch)
        out[k] = np.interp(checked * batch, op.TOKENS, tokens[k]) + np.interp(checked * batch, op.SEQUENCES, sequences[k]) + kernels
    return out


def on_prompt(table: StepTable, tokens: float) -> np.ndarray:
    """Seconds of each of `PARTS` in a step of one prompt with nothing before it, shape (parts,)."""
    prefill = table.seconds["prefill"].reshape(len(op.PARTS), op.PROMPT.size, op.BEFORE.size)[:, :, 0]
    sequences = table.seconds["sequences"][:, 0]
    rows = [np.interp(tokens, op.TOKENS, table.seconds["tokens"][k]) + sequences[k] for k in range(len(op.PARTS))]
    return np.array([row + np.interp(tokens, op.PROMPT, prefill[k]) for k, row in enumerate(rows)])
