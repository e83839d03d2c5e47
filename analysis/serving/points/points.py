"""Serving points with nothing fitted: cases -> TTFT, TPOT and the features that describe them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.hardware import devices
from analysis.kernels import gpus
from analysis.networks.collective_time import collective_s
from analysis.serving.kv_cache import RESERVED_BYTES, cache_bytes
from analysis.serving.points import settings
from analysis.serving.points.cases import ASKED_NOW, Case, Plan, machine
from analysis.serving.points.closed_loop import ENGINE, RESULT, simulate
from analysis.serving.points.operators import GRIDS, PARTS, Configuration, adapter_bytes, operators
from analysis.serving.points.step_table import StepTable, on_grid, stack, step_tables
from analysis.workloads import models
from analysis.workloads.models import Model

Floats = NDArray[np.float64]
WEIGHT_BYTES = {**models.WEIGHT_BYTES, "int8_wo": models.WEIGHT_BYTES["int8"]}
KV_BYTES = {"bf16": 2.0, "fp8": 1.0}
TPU_RESERVED = 0.02
"""Of the weights, that vLLM keeps free beside them on a TPU (vllm/v1/worker/tpu_worker.py, determine_available_memory)."""


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
HOST = {"vllm": Host(4e-4, 4.5e-4, 1.5e-3, 1e-6), "sglang": Host(0.0, 1.5e-4, 1.5e-3, 1e-6), "trtllm": Host(4e-4, 1.5e-4, 1.5e-3, 1e-6)}
OPERATOR_S = {"sglang": 8e-5}
"""Launch of an operator by the host of an engine at its defaults, where no graph is replayed: of 10, 40, 60 and 80 us the one with which
SGLang's strangers (data/published/served_panel.csv) are as slow on one client as on a hundred, each model family left out."""


@dataclass(frozen=True)
class Points:
    """Answers of many cases with nothing fitted.

    Attributes:
        result: shape (cases, len(RESULT)): seconds, as `closed_loop` writes them; NaN where there is none.
        tables, table_of: step tables, and which one each case uses; prefill_of, draft_of: -1, or the prefill worker's, and what drafts'.
        engines: `closed_loop.ENGINE` records.
    """

    result: Floats
    status: list[str]
    tables: list[StepTable]
    table_of: NDArray[np.int64]
    prefill_of: NDArray[np.int64]
    draft_of: NDArray[np.int64]
    engines: Any


def weight_bytes(case: Case, plan: Plan) -> float:
    """Weights of one GPU, with those of what drafts and of LoRA adapters (bytes)."""
    # The first stage of a pipeline has the embedding, the last the head.
    vocabulary = 2 / plan.tensor / min(2, plan.pipeline)
    found = _layer_bytes(case.model, (case.attention, case.gemm, case.experts), plan) + case.model.matrices["vocabulary"] * vocabulary
    if d := case.draft:
        found += d.blocks * _layer_bytes(d.model, (d.attention, d.gemm, d.experts), plan)
        found += d.joined * case.model.hidden**2 * WEIGHT_BYTES[d.attention] / plan.tensor
        found += d.model.matrices["vocabulary"] * vocabulary * d.own_vocabulary
    return found + case.lora_adapters * adapter_bytes(case.model, plan.tensor, case.lora_rank) / plan.pipeline


def _layer_bytes(model: Model, types: tuple[str, str, str], plan: Plan) -> float:
    """Weights of a model's layers on one GPU (bytes); `types`: of attention, other products, experts."""
    around, dense, routed = (WEIGHT_BYTES[kind] for kind in types)
    weights = model.matrices
    layers = (weights["attention"] * around + weights["dense"] * dense) / plan.tensor
    return (layers + weights["experts"] * routed / (plan.expert_tensor * plan.expert)) / plan.pipeline


def floors_s(case: Case, batch: float, cached: float) -> tuple[float, float]:
    """Least mean time to the first token and per output token by the data sheet (s): the prompt's FLOP over the GPUs' peak; of a decode
    step the larger of its FLOP over the peak and its bytes over the bandwidth, the weights that one token needs and every sequence's cache.

    Args:
        batch, cached: sequences of a rank's decode step and tokens cached of each, means over the tokens (count).
    """
    gpu, model, w = gpus.load(case.device), case.model, case.model.matrices
    plan, prefill = case.plan, case.prefill or case.plan
    kinds = (case.attention, case.gemm, case.experts)
    chosen = w["experts"] * model.experts_per_token / model.expert_count if model.experts is not None else 0.0
    peaks = gpu.peak_flop_per_s
    rates = [peaks.get(kind, peaks.get("bf16", peaks.get("fp16", math.inf))) for kind in kinds]
    flop_s = sum(2 * n / rate for n, rate in zip((w["attention"], w["dense"], chosen), rates, strict=True))
    ttft = max(0.0, case.shortest * case.input_tokens - case.prefix) * flop_s / prefill.gpus
    moved = sum(n * WEIGHT_BYTES[kind] for n, kind in zip((w["attention"], w["dense"], chosen), kinds, strict=True))
    moved += 2.0 * model.hidden * model.vocabulary
    moved /= plan.tensor if model.experts is None else plan.stage_gpus
    moved += batch * cache_read_bytes(model, cached, KV_BYTES[settings.of(case).kv], plan.tensor) / plan.pipeline
    least = max(moved / gpu.bandwidth_bytes_per_s, batch * (1 + case.drafted) * flop_s / plan.tensor / plan.pipeline)
    return ttft, least / case.step_tokens[1]


def cache_read_bytes(model: Model, cached: float, kv_bytes: float, tensor: int) -> float:
    """Cache that a GPU reads for a sequence's next token at least (bytes): windows no further than they reach, of a sparse indexer's layers
    its own keys alone."""
    if model.latent is not None and model.latent.index_size:
        return model.index_bytes_per_token * cached
    far, every = (model.kv_bytes_per_token(kv_bytes, tensor, windows) for windows in (False, True))
    return far * cached + (every - far) * min(cached, model.window)


def cache_tokens(case: Case, plan: Plan) -> float:
    """Tokens that the KV cache of one rank holds: what the weights and `RESERVED_BYTES` leave of a GPU's memory.

    A stage of a pipeline keeps its layers of all ranks' tokens, so a rank has as many as if its GPUs kept all layers of its own. The share
    is of all memory (vLLM, SGLang) or of what is free beside the weights (TensorRT-LLM's free_gpu_memory_fraction).
    """
    s, device, weights = settings.of(case), devices.load(case.device), weight_bytes(case, plan)
    token = max(1.0, case.model.kv_bytes_per_token(KV_BYTES[s.kv], plan.tensor))
    token += case.draft.model.kv_bytes_per_token(KV_BYTES[s.kv], plan.tensor) if case.draft else 0.0
    reserved = TPU_RESERVED * weights if device.kind == "tpu" else RESERVED_BYTES
    return cache_bytes(device.usable_bytes, weights, s.memory_share, reserved, of_free=case.engine == "trtllm") / token


def room(case: Case) -> tuple[float, str]:
    """Tokens that the KV cache of a rank holds (of a decode worker's, where there are two kinds), and why a replica cannot serve one
    request, with the numbers; empty where it can."""
    need, held = case.input_tokens + case.output_tokens, cache_tokens(case, case.plan)
    for plan, tokens in ((case.plan, held), *([(case.prefill, cache_tokens(case, case.prefill))] if case.prefill else [])):
        if tokens < need:
            weights, memory = weight_bytes(case, plan) / 1e9, devices.load(case.device).usable_bytes / 1e9
            adapters = case.lora_adapters * adapter_bytes(case.model, plan.tensor, case.lora_rank) / plan.pipeline / 1e9
            what = f"weights and {adapters:.1f} GB of LoRA adapters" if adapters else "weights"
            return held, (
                f"does not fit: {weights - adapters:.1f} GB of {what} a GPU of {memory:.1f} GB ({settings.of(case).memory_share:.0%} used) "
                f"leave a KV cache of {max(0, int(tokens)):,} tokens; one request needs {need:,}"
            )
    return held, ""


def _engine(case: Case, room_tokens: float, host: Host) -> dict[str, Any]:
    """The fields of a `closed_loop.ENGINE` record but its tables."""
    s = settings.of(case)
    ranks = case.plan.ranks
    requests = case.requests or max(s.per_client * case.clients, 16)
    if case.arrival == "static" or (case.arrival == "offline" and not case.requests):
        requests = case.clients
    most = max(1, s.max_running // ranks if s.max_running > case.clients else s.max_running)
    online = case.arrival in ("closed", "poisson")
    found: dict[str, Any] = {
        "clients": case.clients if case.arrival == "closed" else requests,
        "input": case.input_tokens,
        "output": case.output_tokens,
        "requests": requests,
        "budget": s.batched_tokens,
        "max_running": min(most, case.clients) if case.arrival in ("offline", "static") else most,
        "mixed": s.mixed,
        "chunked": s.chunked,
        "receive": s.receive_interval,
        "wait_ratio": s.wait_ratio,
        "wait_steps": s.wait_steps,
        "reserve": case.engine == "trtllm",
        "cache_tokens": room_tokens,
        "host_s": host.step_s,
        "prompt_host_s": host.step_s + launch_s(case, host),
        "graph_tokens": s.graph_tokens,
        "send_s": host.request_s * ranks * online,
        "send_token_s": host.token_s * ranks * online,
        "rate": case.rate,
        "low": case.shortest,
        "exponential": case.answers == "exponential",
        "prefix": case.prefix,
        "drafted": case.drafted,
        "step_tokens": case.step_tokens[1],
    }
    if case.prefill is not None:
        found["servers"] = case.prefill_workers * case.prefill.attention_data / (case.decode_workers * ranks)
        found["max_running"] = max(found["max_running"], case.clients)
        cache = transfer(case)
        found |= {"transfer_s": cache.fixed_s, "transfer_token_s": cache.token_s, "transfer_tokens": cache.tokens}
    return found


@dataclass(frozen=True)
class Transfer:
    """How a prompt's cache gets to the worker that decodes: fixed_s + token_s for each of its last `tokens` tokens.

    Attributes:
        size_bytes: of a prompt as long as its label, into one GPU; over: the link's name.
    """

    fixed_s: float
    token_s: float
    tokens: int
    size_bytes: float
    over: str


def transfer(case: Case) -> Transfer:
    """Time of moving a prompt's cache from prefill to decode workers: bytes of a GPU over its link, as one message of the collective model.

    Formula: collective_time("send_recv", bytes of the cache that one GPU holds on the side that holds more), inside a node where both
    kinds of workers fit into one, else over the network. Transfers run beside the steps of other requests, but a request decodes once
    its own cache is there; SGLang sends a long prompt chunk by chunk, so that the last one alone is waited for.

    Source: https://nvidia.github.io/TensorRT-LLM/features/disagg-serving.html (transmission overlaps with other requests' computation);
        https://docs.vllm.ai/en/latest/features/nixl_connector_usage.html (asynchronous, after the prompt);
        https://github.com/sgl-project/sglang python/sglang/srt/disaggregation/prefill.py (send_kv_chunk).
    """
    assert case.prefill is not None
    model, s, tokens = case.model, settings.of(case), max(1, case.input_tokens - case.prefix)
    tensor, system = min(case.prefill.tensor, case.plan.tensor), machine(case.device)
    each = model.growing_bytes_per_token(KV_BYTES[s.kv], tensor)
    every = model.kv_bytes_per_token(KV_BYTES[s.kv], tensor) + model.index_bytes_per_token
    fixed = (every - each) * min(tokens, model.window)
    fixed += 4 * model.linear_layers * model.linear.state_values / tensor if model.linear else 0.0
    together = case.prefill_workers * case.prefill.gpus + case.decode_workers * case.plan.gpus
    stride = case.prefill.gpus if together <= system.devices_per_node else system.devices_per_node
    size = fixed + each * tokens
    start, whole = (collective_s("send_recv", n, 2, system, stride, graph=False) for n in (1.0, size))
    byte_s = (whole - start) / size
    last = min(tokens, s.batched_tokens) if case.engine == "sglang" and s.chunked else tokens
    return Transfer(start + fixed * byte_s, each * byte_s, last, size, system.group(2, stride).level.name)


def at_least(case: Case, least: tuple[int, ...]) -> bool:
    """Is the release of a case's engine known, and this one or later?"""
    found = re.search(r"\d+(?:\.\d+)+", case.version)  # not the number of a branch or a commit
    return found is not None and tuple(map(int, found[0].split(".")[: len(least)])) >= least


def in_pieces(case: Case) -> bool:
    """Are prompts replayed from graphs of pieces of a layer? SGLang's default on NVIDIA's GPUs from 0.5.10 on.

    Source: release notes of SGLang 0.5.10 (https://github.com/sgl-project/sglang/pull/16331).
    """
    return case.engine == "sglang" and devices.load(case.device).vendor == "NVIDIA" and at_least(case, (0, 5, 10))


def launch_s(case: Case, host: Host) -> float:
    """What the host takes to launch a step with a prompt (s): layers by their launch, or at an engine's defaults operators by theirs."""
    model = case.model
    if devices.load(case.device).kind == "tpu":  # XLA compiles a step for each padded number of tokens into one program
        return 0.0
    if case.engine in OPERATOR_S and settings.of(case).script == "default" and not in_pieces(case):
        # A product's call in Python launches what quantises for it, too.
        return OPERATOR_S[case.engine] * operators(replace(configuration(case), quantises=False))
    # Where a block has attention or a feed-forward alone, two make a layer.
    return host.layer_s * (model.attention_layers + model.linear_layers + model.expert_layers + model.dense_layers) / 2


def padded(case: Case) -> bool:
    """Do experts with a scale a block go through DeepGEMM's contiguous layout at any number of tokens? In vLLM 0.11.1 to 0.13 on NVIDIA's
    GPUs, from 0.12 on not where they are cut by tensor parallel 8.

    Source: https://github.com/vllm-project/vllm/pull/26197 (E8M0 scales, with which TritonOrDeepGemmExperts always takes DeepGEMM),
        /pull/29346 (tensor parallel 8), deep_gemm_utils.py compute_aligned_M (padding); from 0.14 on backends are chosen by shape.
    """
    routed = case.engine == "vllm" and case.experts == "fp8_block" and devices.load(case.device).vendor == "NVIDIA"
    if not routed or not at_least(case, (0, 11, 1)) or at_least(case, (0, 14)):
        return False
    return case.plan.expert_tensor != 8 or not at_least(case, (0, 12))


def configuration(case: Case) -> Configuration:
    """What decides a step's operators."""
    s = settings.of(case)
    # Where a device does not multiply 4-bit floats, such weights are widened on the way (VLLM_MXFP4_USE_MARLIN, Triton).
    routed = "int4" if case.experts == "mxfp4" and "fp4" not in devices.load(case.device).peak else case.experts
    router: str = case.model.experts.router if case.model.experts is not None else "bf16"
    router = "tf32" if router == "fp32" and s.tf32 else router
    types, adapters = (case.gemm, case.attention, routed, s.kv, router), (case.lora_adapters, case.lora_rank)
    amd = devices.load(case.device).vendor == "AMD"
    return Configuration(case.engine, case.model, case.plan, *types, 0, *adapters, padded(case), amd, case.device)


def drafting(case: Case) -> Configuration:
    """What decides the operators of what drafts."""
    d, own = case.draft, configuration(case)
    assert d is not None
    types = d.gemm, d.attention, own.experts if d.experts == case.experts else d.experts, own.kv, own.router
    return Configuration(case.engine, d.model, replace(case.plan, pipeline=1), *types, d.joined, device=case.device)


def points(cases: list[Case | None], library: Any, hide: str = "none", host: dict[str, Host] | None = None) -> Points:
    """Simulate every case."""
    host = host or HOST
    count = len(cases)
    table_of, prefill_of, draft_of = (np.full(count, -1) for _ in range(3))
    keys: dict[Configuration, int] = {}
    engines = np.zeros(count, ENGINE)
    status = [""] * count
    for i, case in enumerate(cases):
        if case is None:
            continue
        found = configuration(case)
        table_of[i] = keys.setdefault(found, len(keys))
        if case.prefill is not None:
            prefill_of[i] = keys.setdefault(replace(found, plan=case.prefill), len(keys))
        if case.draft is not None:
            draft_of[i] = keys.setdefault(drafting(case), len(keys))
        held, status[i] = room(case)
        if status[i]:
            continue
        for name, value in _engine(case, held, host[case.engine]).items():
            engines[i][name] = value
        engines[i]["table"], engines[i]["prefill_table"], engines[i]["draft_table"] = (
            table_of[i],
            max(0, prefill_of[i]),
            max(0, draft_of[i]),
        )
    tables = step_tables(list(keys), library, hide)
    for i in range(count):
        for j in (table_of[i], prefill_of[i], draft_of[i]):
            if j >= 0 and not status[i] and tables[j].status:
                status[i] = tables[j].status
    live = np.array([table_of[i] >= 0 and not status[i] for i in range(count)])
    result = np.full((count, len(RESULT)), np.nan)
    if live.any():
        blank = {grid: np.zeros((len(PARTS), int(np.prod([axis.size for axis in axes])))) for grid, axes in GRIDS.items()}
        stacked = stack([table if table.seconds else StepTable(blank, {}, "", "") for table in tables])
        result[live] = simulate(engines[live], stacked)
    return Points(result, status, tables, table_of, prefill_of, draft_of, engines)


def release(engine: str, version: str) -> str:
    """Engine and release without its patches, such as `vllm 0.19`; empty where no version is given."""
    found = re.match(r"v?(\d+)\.(\d+)", version)
    return f"{engine} {found[1]}.{found[2]}" if found else ""


LONGEST = {"prompts": 15_000, "answers": 8192}
"""Longest lengths of the served points that calibrated (tokens): data/measured_suite/serving_points.csv.gz; all of one stage."""


def beyond(case: Case) -> tuple[str, ...]:
    """What no calibrated row has of a question's lengths and plan."""
    sizes = {"prompts": case.input_tokens, "answers": case.output_tokens}
    said = [f"{name} above {LONGEST[name]:,} tokens" for name, size in sizes.items() if size > LONGEST[name]]
    return tuple(said + ([f"{case.plan.pipeline} pipeline stages"] if case.plan.pipeline > 1 else []))


def features(cases: list[Case | None], raw: Points) -> pd.DataFrame:
    """What the constants may depend on, one row a case."""
    rows: list[dict[str, Any]] = []
    doubts = [table.doubts() for table in raw.tables]
    for i, case in enumerate(cases):
        if case is None:
            rows.append({})
            continue
        r, e = raw.result[i], raw.engines[i]
        kernels = dict(zip(PARTS, on_grid(raw.tables[raw.table_of[i]], r[4], r[5]), strict=True)) if np.isfinite(r[0]) else {}
        decode = doubts[raw.table_of[i]]
        prompt = raw.tables[raw.table_of[i] if case.prefill is None else raw.prefill_of[i]].doubts(prompt=True)
        unsure = kernels.get("adapters", 0.0) / r[2]
        if case.draft is not None and kernels:
            drafts_s = case.drafted * on_grid(raw.tables[raw.draft_of[i]], r[4], r[5]).sum()
            unsure = min(0.9, (unsure + drafts_s / r[2]) / case.step_tokens[1])
        rows.append(
            {
                "engine": case.engine,
                "origin": case.origin,
                "mode": "agg" if case.prefill is None else "disagg",
                "family": case.model.family or case.model.name,
                "device": case.device,
                "experts": "moe" if case.model.experts is not None else "dense",
                "clients": case.clients,
                "ttft_s": r[0],
                "tpot_s": r[2],
                # Parts of a step err independently. Wide plans of two kinds of workers stretch unmeasured kernels beyond what aggregated
                # points show of them: their parts may err alike.
                "doubt": float(np.sqrt((decode**2).sum()) if case.prefill is None else decode.sum()),
                "doubt_prompt": float(np.sqrt((prompt**2).sum())),
                "ranks": case.plan.ranks,
                "types": case.types,
                "release": release(case.engine, case.version),
                "old": case.engine == "vllm" and release("vllm", case.version) != "" and not at_least(case, (0, 14)),
                "beyond": beyond(case),
                "asked": case.measured == ASKED_NOW,
                "vendor": devices.load(case.device).vendor,
                "script": settings.of(case).script,
                # Tokens of all clients' requests, of mean length, over those that the KV cache holds.
                "load": 0.9 * case.clients * (case.input_tokens + case.output_tokens) / max(1.0, e["cache_tokens"]),
                "host_s": 1e-6 * r[RESULT.index("batch")],
                "operators": operators(configuration(case), prompt=False) / case.step_tokens[1],
                "launched": operators(configuration(case)),
                # Logarithms of fewer and more tokens a step than expected; what drafts, and adapters, take half to twice as long.
                "fewer": math.hypot(math.log(case.step_tokens[1] / case.step_tokens[0]), math.log(1 + unsure)),
                "more": math.hypot(math.log(case.step_tokens[2] / case.step_tokens[1]), math.log(1 - unsure / 2)),
                "one": 1.0,
                "stream_s": (settings.of(case).stream_interval - 1) * r[2],
                "flow": r[RESULT.index("throughput")],
                "requests": float(e["requests"]),
            }
        )
    return pd.DataFrame(rows)
