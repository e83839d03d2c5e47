"""Serving points with nothing fitted: cases -> TTFT, TPOT and the features that describe them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.composition.service import settings
from analysis.composition.service.cases import ASKED_NOW, Case, Plan
from analysis.composition.service.closed_loop import ENGINE, RESULT, simulate
from analysis.composition.service.operators import GRIDS, PARTS, Configuration
from analysis.composition.service.step_table import Key, StepTable, stack, step_tables
from analysis.hardware import devices

Floats = NDArray[np.float64]
WEIGHT_BYTES = {"bf16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "nvfp4": 0.5625, "mxfp4": 0.53125, "int4": 0.53125}
KV_BYTES = {"": 2.0, "fp8": 1.0}
BESIDE = 4 * 2**30
"""Memory for activations, CUDA graphs and communication beside weights and KV cache: of 2, 3, 4 and 5 GiB the one with which prompts of the
selection families (data/evaluation/serving_split.yaml) begin to wait at the measured numbers of clients."""
SHORTEST = 0.8
"""Shortest length over the label: `--random-range-ratio 0.8` of the benchmark's client; the vendor's own draws no lengths."""


@dataclass(frozen=True)
class Host:
    """Time that no kernel table holds, before anything is fitted (seconds).

    Args:
        step_s: of each step.
        layer_s: launch of a layer where no graph is replayed: a step with a prompt takes at least layers x this.
        request_s, token_s: the front end handles requests one after another: of each, and of each of its prompt's tokens.
    """

    step_s: float
    layer_s: float
    request_s: float
    token_s: float


# Launch of a layer in vLLM: of 0.15, 0.3, 0.45 and 0.6 ms the best on the selection families, steps within graphs apart.
HOST = {"vllm": Host(4e-4, 4.5e-4, 1.5e-3, 1e-6), "sglang": Host(4e-4, 1.5e-4, 1.5e-3, 1e-6), "trtllm": Host(4e-4, 1.5e-4, 1.5e-3, 1e-6)}


@dataclass(frozen=True)
class Points:
    """Answers of many cases with nothing fitted.

    Attributes:
        result: shape (cases, len(RESULT)): seconds, as `closed_loop` writes them; NaN where there is none.
        status: empty, or why there is none.
        tables, table_of: step tables, and which one each case uses; prefill_of: -1, or the prefill worker's.
        engines: `closed_loop.ENGINE` records.
    """

    result: Floats
    status: list[str]
    tables: list[StepTable]
    table_of: NDArray[np.int64]
    prefill_of: NDArray[np.int64]
    engines: Any


def usable_bytes(data_sheet_bytes: float) -> float:
    """What the driver offers of a data sheet's memory: its GB are GiB, less about 1.5 %.

    An RTX PRO 6000 of 96 GB has 94.97 GiB (LLMServingSim, profiler/perf/RTXPRO6000/hardware.yaml).
    """
    return data_sheet_bytes / 1e9 * 2**30 * 0.985


def _device(name: str) -> devices.Device:
    """A device by its name in the sample or in `data/hardware`."""
    from analysis.operators.kernels.gpus import SYSTEMS

    return devices.load(SYSTEMS.get(name, name))


def memory_bytes(device: str) -> float:
    """Memory of a device by its name in the sample or in `data/hardware`."""
    return usable_bytes(float(_device(device).memory_bytes))


def has_fp4(device: str) -> bool:
    """Does the device multiply 4-bit floats? Where not, 4-bit weights are widened on the way (VLLM_MXFP4_USE_MARLIN, Triton)."""
    return "fp4" in _device(device).peak


def weight_bytes(case: Case, plan: Plan) -> float:
    """Weights of one GPU (bytes)."""
    weights = case.model.parameters()
    dense, around, routed = (WEIGHT_BYTES[kind] for kind in (case.gemm, case.attention, case.experts))
    each = (weights["attention"] * around + weights["dense"] * dense) / plan.tensor + weights["experts"] * routed / (
        plan.expert_tensor * plan.expert
    )
    return each + weights["vocabulary"] * 2 / plan.tensor


def cache_tokens(case: Case, plan: Plan, share: float, kv_bytes: float) -> float:
    """Tokens that the KV cache of one attention rank holds: what the weights and `BESIDE` leave of a GPU's memory.

    `share` is of all memory (vLLM, SGLang) or of what is free beside the weights (TensorRT-LLM's free_gpu_memory_fraction).
    """
    memory, each = memory_bytes(case.device), weight_bytes(case, plan) + BESIDE
    left = (memory - each) * share if case.engine == "trtllm" else memory * share - each
    return left / max(1.0, case.model.kv_bytes_per_token(kv_bytes, plan.tensor))


def points(cases: list[Case | None], library: Any, hide: str = "none", host: dict[str, Host] | None = None) -> Points:
    """Simulate every case.

    Args:
        cases: None: no case (its status stays empty here).
        library: a `KernelLibrary`; hide: see `step_table.step_tables`.
        host: by engine; `HOST` by default.
    """
    host = host or HOST
    count = len(cases)
    table_of, prefill_of = np.full(count, -1), np.full(count, -1)
    keys: dict[Key, int] = {}
    engines = np.zeros(count, ENGINE)
    status = [""] * count
    for i, case in enumerate(cases):
        if case is None:
            continue
        s = settings.of(case)
        kv = "fp8" if s.kv == "fp8" else "bf16"
        routed = "int4" if case.experts == "mxfp4" and not has_fp4(case.device) else case.experts
        router = case.model.experts.router if case.model.experts is not None else "bf16"
        found = Configuration(
            case.engine, case.model, case.plan, case.gemm, case.attention, routed, kv, "tf32" if router == "fp32" and s.tf32 else router
        )
        table_of[i] = keys.setdefault(Key(found, case.device), len(keys))
        if case.prefill is not None:
            prefill_of[i] = keys.setdefault(Key(replace(found, plan=case.prefill), case.device), len(keys))
        short = [plan for plan in (case.plan, case.prefill) if plan is not None and weight_bytes(case, plan) > memory_bytes(case.device)]
        if short:
            status[i] = (
                f"does not fit: {weight_bytes(case, short[0]) / 1e9:.0f} GB of weights a GPU of {memory_bytes(case.device) / 1e9:.0f} GB"
            )
            continue
        # Where our estimate leaves less than a few requests, the engine was started with other settings than we know.
        room = max(cache_tokens(case, case.plan, s.memory_share, KV_BYTES[s.kv]), 4.0 * (case.input_tokens + case.output_tokens))
        e, h = engines[i], host[case.engine]
        e["clients"], e["input"], e["output"] = case.clients, case.input_tokens, case.output_tokens
        e["requests"] = max(s.per_client * case.clients, 16)
        e["budget"], e["max_running"] = (
            s.batched_tokens,
            max(1, s.max_running // case.plan.attention_data if s.max_running > case.clients else s.max_running),
        )
        e["mixed"], e["chunked"], e["receive"] = s.mixed, s.chunked, s.receive_interval
        e["wait_ratio"], e["wait_steps"] = s.wait_ratio, s.wait_steps
        e["reserve"] = case.engine == "trtllm"
        e["cache_tokens"], e["host_s"], e["prompt_host_s"] = room, h.step_s, h.step_s + case.model.layers * h.layer_s
        e["graph_tokens"] = s.graph_tokens
        e["send_s"], e["send_token_s"] = h.request_s * case.plan.attention_data, h.token_s * case.plan.attention_data
        e["low"] = 1.0 if case.origin == "vendor" else SHORTEST
        e["exponential"] = case.answers == "exponential"
        e["table"] = table_of[i]
        if case.prefill is not None:
            e["servers"] = case.prefill_workers * case.prefill.attention_data / (case.decode_workers * case.plan.attention_data)
            e["prefill_table"] = prefill_of[i]
            e["max_running"] = max(e["max_running"], case.clients)
    tables = step_tables(list(keys), library, hide)
    for i in range(count):
        for j in (table_of[i], prefill_of[i]):
            if j >= 0 and not status[i] and tables[j].status:
                status[i] = tables[j].status
    live = np.array([table_of[i] >= 0 and not status[i] for i in range(count)])
    result = np.full((count, len(RESULT)), np.nan)
    if live.any():
        blank = {grid: np.zeros((len(PARTS), int(np.prod([axis.size for axis in axes])))) for grid, axes in GRIDS.items()}
        stacked = stack([table if table.seconds else StepTable(blank, {}, "", "") for table in tables])
        result[live] = simulate(engines[live], stacked)
    return Points(result, status, tables, table_of, prefill_of, engines)


def features(cases: list[Case | None], raw: Points) -> pd.DataFrame:
    """What the constants may depend on, one row a case."""
    rows: list[dict[str, Any]] = []
    # Wide plans of two kinds of workers stretch unmeasured kernels beyond what aggregated points show of them: their parts may err alike.
    doubts = [(table.doubt, table.doubt_together) for table in raw.tables]
    for i, case in enumerate(cases):
        if case is None:
            rows.append({})
            continue
        r, e = raw.result[i], raw.engines[i]
        rows.append(
            {
                "engine": case.engine,
                "origin": case.origin,
                "mode": "agg" if case.prefill is None else "disagg",
                "family": case.model.family,
                "device": case.device,
                "architecture": _device(case.device).architecture,
                "experts": "moe" if case.model.experts is not None else "dense",
                "precision": case.precision,
                "clients": case.clients,
                "ttft_s": r[0],
                "tpot_s": r[2],
                "doubt": doubts[raw.table_of[i]][case.prefill is not None],
                "ranks": case.plan.attention_data,
                # A question about an engine that no published run started as the benchmark's scripts do.
                "elsewhere": case.measured == ASKED_NOW and settings.of(case).script == "default",
                # Tokens of all clients' requests, of mean length, over those that the KV cache holds.
                "load": 0.9 * case.clients * (case.input_tokens + case.output_tokens) / max(1.0, e["cache_tokens"]),
                "host_s": 1e-6 * r[RESULT.index("batch")],
                "one": 1.0,
                "stream_s": (settings.of(case).stream_interval - 1) * r[2],
            }
        )
    return pd.DataFrame(rows)
