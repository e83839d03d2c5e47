"""A model under a plan, as calls of the kernel library: what one step runs for so many tokens, sequences and cached tokens.

One layer list, four grids: `tokens` (all tokens of a step), `sequences` (those that get a token), `decode` (sequences x cached tokens) and
`prefill` (prompt tokens x tokens before them). A step's time is the sum of the four (`step_table`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.serving.points.cases import Plan
from analysis.workloads.models import SCAN_CHUNK, Attention, Experts, Model

Floats = NDArray[np.float64]

TOKENS = np.array(sorted({2.0**i for i in range(16)} | {1.5 * 2.0**i for i in range(4, 15)}))
SEQUENCES = np.array([1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096.0])
BATCH = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048.0])
CACHED = np.array([64, 128, 256, 512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 18432, 32768, 65536, 131072, 262144, 1048576.0])
PROMPT = np.array([16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144.0])
BEFORE = np.array([0, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 1048576.0])
PARTS = ("projections", "attention", "experts", "communication", "memory", "vocabulary", "adapters")
GRIDS = {"tokens": (TOKENS,), "sequences": (SEQUENCES,), "decode": (BATCH, CACHED), "prefill": (PROMPT, BEFORE)}
_DECODE_BATCH, _DECODE_CACHED = (axis.ravel() for axis in np.meshgrid(BATCH, CACHED, indexing="ij"))
_PROMPT, _BEFORE = (axis.ravel() for axis in np.meshgrid(PROMPT, BEFORE, indexing="ij"))
USUAL = {"decode": _DECODE_CACHED <= 18432, "prefill": (_PROMPT <= 32768) & (_BEFORE <= 16384)}
"""Points of the grids as long as the requests whose answers calibrated the intervals: of these is the doubt of a step's kernels."""
_TOGETHER = np.maximum(1.0, np.floor(2048.0 / _PROMPT))
"""Prompts that share a launch: the attention of short ones is timed in a batch of about 2048 tokens."""


@dataclass(frozen=True)
class Call:
    """One call of the kernel library over a grid.

    Args:
        method: of the library's handle; arrays: shape arguments over the flattened grid; options: the rest.
        count: how often a step runs it; scale: what its time is multiplied by at each point (shape as the grid).
    """

    part: str
    grid: str
    method: str
    count: float
    arrays: dict[str, Floats]
    options: tuple[tuple[str, Any], ...] = ()
    scale: Floats | None = None


@dataclass(frozen=True)
class Configuration:
    """What decides the step's operators: engine, model, plan, types (`attention`: of the products around it; `kv`: of the KV cache).

    `joined`: vectors of the served model's width that a drafting block makes into one; `lora_adapters`, `lora_rank`: as of a case;
    `padded`: whether each expert multiplies a tile, however few tokens chose it (`TILE`); `quantises`: whether kernels of their own
    quantise what products with scales by block take (NVIDIA's tables time them with the product).
    """

    engine: str
    model: Model
    plan: Plan
    gemm: str
    attention: str
    experts: str
    kv: str
    router: str = "bf16"
    joined: int = 0
    lora_adapters: int = 0
    lora_rank: int = 0
    padded: bool = False
    quantises: bool = False
    device: str = ""


def _gemm(part: str, grid: str, count: float, m: Floats, n: float, k: float, dtype: str) -> Call:
    ones = np.ones_like(m)
    return Call(part, grid, "gemm", count, {"m": m, "n": ones * max(1.0, round(n)), "k": ones * max(1.0, round(k))}, (("dtype", dtype),))


def _memory(grid: str, count: float, moved: Floats) -> Call:
    return Call("memory", grid, "memory_bound", count, {"bytes": moved})


def _collective(kind: str, count: float, size: Floats, devices: int) -> Iterator[Call]:
    if devices > 1:
        custom = (("kind", kind), ("devices", devices), ("implementation", "custom" if kind == "all_reduce" else "nccl"))
        yield Call("communication", "tokens", "collective", count, {"bytes": size}, custom)


def calls(c: Configuration) -> Iterator[Call]:
    """Every kernel call of a step, over the grids."""
    for call in _calls(c):
        yield call
        if c.quantises:
            yield from _quantising(call)


def _quantising(call: Call) -> Iterator[Call]:
    """What quantises the input of a product with scales by block, and of each of a mixture's two: 2 bytes read and 1 written a value.

    Source: https://github.com/sgl-project/sglang python/sglang/srt/layers/quantization/fp8_utils.py (aiter_w8a8_block_fp8_linear, and its
    like by Triton), https://github.com/ROCm/aiter aiter/fused_moe.py.
    """
    o, a = dict(call.options), call.arrays
    if o.get("dtype") == "fp8_block":
        between = o["top_k"] * o["intermediate"] / o["tensor_parallel"] if call.method == "moe" else 0.0
        values = [a["m"] * a["k"]] if call.method == "gemm" else [a["tokens"] * width for width in (o["hidden"], between)]
        for count in values:
            yield _memory(call.grid, call.count, 3 * count)


def _calls(c: Configuration) -> Iterator[Call]:
    t, tp = TOKENS, c.plan.tensor
    h = float(c.model.hidden)
    yield _memory("tokens", 1, 4 * t * h)
    if c.joined:
        yield _gemm("projections", "tokens", 1, t, h, c.joined * h, c.attention)
    yield from _attention(c)
    if c.lora_adapters:
        yield from _adapters(c)
    if c.model.linear is not None:
        yield from _linear_attention(c)
    yield _memory("tokens", c.model.norms * c.model.layers, 8 * t * h)
    yield from _collective("all_reduce", c.model.attention_layers + c.model.linear_layers, 2 * t * h, tp)
    if c.model.dense_layers:
        yield from _feed_forward(c, c.model.dense_layers, c.model.dense_width)
    if c.model.experts is not None:
        yield from _experts(c)
    if c.plan.pipeline > 1:  # a token's vector to the next stage
        moved = (("kind", "send_recv"), ("devices", 2), ("implementation", "nccl"), ("stride", c.plan.stage_gpus))
        yield Call("communication", "tokens", "collective", c.plan.pipeline - 1, {"bytes": 2 * t * h / tp}, moved)
    yield _gemm("vocabulary", "sequences", 1, SEQUENCES, c.model.vocabulary / tp, h, "bf16")
    yield Call("vocabulary", "sequences", "memory_bound", 1, {"bytes": 6 * SEQUENCES * c.model.vocabulary})


KERNELS = {"moe": 6}
"""Kernels of one call where it is more than one: tokens sorted and padded by expert, two products, activation and sum of fused experts."""
LINEAR = {"mamba": 0, "mamba2": 2, "gated_delta": 6}
"""Kernels that a prompt's linear attention has beyond those timed: convolution, gates, norms and what a chunk takes are one each; Kimi's,
with a convolution each for queries, keys and values, has two more.

Source: https://github.com/sgl-project/sglang python/sglang/srt/layers/attention, fla/chunk.py (chunk_gated_delta_rule_fwd), fla/kda.py,
    mamba/ops/ssd_combined.py.
"""


@lru_cache(maxsize=2048)
def operators(c: Configuration, prompt: bool = True) -> float:
    """Operators of a decode step, or that a host launches one after another for a step with a prompt (count)."""
    found = sum(call.count * KERNELS.get(call.method, 1) for call in calls(c) if call.grid != ("decode" if prompt else "prefill"))
    if prompt and (x := c.model.linear) is not None:
        found += x.layers * (LINEAR[x.kind] + 2 * (x.kind == "gated_delta" and x.rank > 0))
    return found


def _feed_forward(c: Configuration, layers: int, width: float, reduce: bool = True) -> Iterator[Call]:
    t, tp, h, wide = TOKENS, c.plan.tensor, float(c.model.hidden), c.model.ffn_matrices - 1
    yield _gemm("projections", "tokens", layers, t, wide * width / tp, h, c.gemm)
    yield _memory("tokens", layers, 2 * (wide + 1) * t * width / tp)
    yield _gemm("projections", "tokens", layers, t, h, width / tp, c.gemm)
    if reduce:
        yield from _collective("all_reduce", layers, 2 * t * h, tp)


TILE = 128.0
"""Rows to which DeepGEMM pads the tokens of each expert: with fewer tokens than that they take as long as with as many."""


def _experts(c: Configuration) -> Iterator[Call]:
    e, t, h = c.model.experts, TOKENS, float(c.model.hidden)
    assert e is not None
    layers, width = c.model.expert_layers, float(e.latent or h)
    everywhere = t * c.plan.attention_data
    rows = np.maximum(everywhere, TILE) if c.padded else everywhere
    router = _gemm("experts", "tokens", layers, t, e.count, h, c.router)
    yield router if c.router == "bf16" else replace(router, method="router")
    options = (
        ("experts", e.count),
        ("top_k", e.per_token),
        ("hidden", round(width)),
        ("intermediate", e.width),
        ("dtype", c.experts),
        ("tensor_parallel", c.plan.expert_tensor),
        ("expert_parallel", c.plan.expert),
    )
    if e.latent:
        yield _gemm("experts", "tokens", layers, t, width, h, c.gemm)
        yield _gemm("experts", "tokens", layers, t, h, width, c.gemm)
    # The tables' experts have three matrices.
    count, fewer = layers * (c.model.ffn_matrices / 3), reached(e, c.plan.expert, rows)
    yield Call("experts", "tokens", "moe", count, {"tokens": rows}, options, fewer)
    if dispatched(c.model, c.plan):
        yield from _dispatched(c, layers, width)
    elif c.plan.attention_data > 1:
        yield from _collective("all_gather", layers, 2 * everywhere * width, c.plan.stage_gpus)
        yield from _collective("reduce_scatter", layers, 2 * everywhere * width, c.plan.stage_gpus)
    else:
        yield from _collective("all_reduce", layers, 2 * t * h, c.plan.stage_gpus)
    if e.shared:
        yield from _feed_forward(c, layers, e.shared, reduce=False)


POPULARITY = 2.0
"""How alike the chances are that tokens choose an expert: 1 / squared coefficient of variation, of 1.5, 2, 3 and 4 the one with the least
errors on the selection families (infinite: all are alike)."""


def reached(e: Experts, ranks: int, everywhere: Floats) -> Floats:
    """Experts whose weights the slowest of some ranks reads, over those that evenly spread choices would reach.

    Texts choose some experts more often than others, and the same ones again, so that a batch reaches fewer and a step reads fewer weights.
    Formula: one of t tokens that each choose k of E experts misses one with a chance of 1 - k / E, or of a beta distribution of that mean:
    q = 1 - B(a, b + t) / B(a, b). Of n ranks with L experts the slowest has L q + z(n) sqrt(L q (1 - q)) of them.
    Source: A. Q. Jiang et al., Mixtral of Experts (arXiv 2401.04088), section 5, table 5 (experts repeat); beta-binomial distribution.

    Args:
        everywhere: tokens of all ranks (count).
    """
    share, held = e.per_token / e.count, max(1.0, e.count / ranks)
    a = POPULARITY * (1 - share) - share
    if a <= 0:  # nearly all experts are chosen by each token
        return np.ones_like(everywhere)
    b = a / share - a
    spread = NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25)) if ranks > 1 else 0.0
    untouched = np.exp(_log_gamma(b + everywhere) - _log_gamma(a + b + everywhere) - _log_gamma(b) + _log_gamma(a + b))
    even, drawn = 1 - (1 - share) ** everywhere, 1 - untouched
    most = [np.minimum(held, held * q + spread * np.sqrt(held * q * (1 - q))) for q in (drawn, even)]
    return np.asarray(most[0] / most[1])


def _log_gamma(x: Floats | float) -> Floats:
    return np.vectorize(math.lgamma, otypes=[float])(x)


def dispatched(model: Model, plan: Plan) -> bool:
    """Whether tokens go to the GPUs of their experts alone; else each goes to all of them (`_dispatched` has the source)."""
    return model.experts is not None and plan.attention_data > 1 and plan.expert > model.experts.per_token


EIGHT_BITS = ("fp8", "fp8_block", "nvfp4")
"""Types of experts whose tokens travel to them in 8 bits."""


def _dispatched(c: Configuration, layers: int, width: float) -> Iterator[Call]:
    """Tokens to the GPUs of their experts and back, where these are fewer than all: k experts lie on n (1 - (1 - 1 / n)^k) of n GPUs.

    Source: DeepEP (https://github.com/deepseek-ai/DeepEP: FP8 there, BF16 back); TensorRT-LLM's select_alltoall_method_type, which gathers
    where there are no more GPUs than experts a token (tensorrt_llm/_torch/modules/fused_moe).
    """
    assert c.model.experts is not None
    n = c.plan.expert
    reached = n * (1 - (1 - 1 / n) ** c.model.experts.per_token)
    there = 1.0 if c.experts in EIGHT_BITS else 2.0
    for size in (there, 2.0):
        yield from _collective("all_to_all", layers, size * TOKENS * reached * width, c.plan.stage_gpus)


def _attention(c: Configuration) -> Iterator[Call]:
    if c.model.latent is not None:
        yield from _latent(c)
        return
    for layers, kind in c.model.attention_kinds:
        yield from _attention_of_a_kind(c, layers, kind)


def _attention_of_a_kind(c: Configuration, layers: int, a: Attention) -> Iterator[Call]:
    t, tp, h = TOKENS, c.plan.tensor, float(c.model.hidden)
    heads, kv_heads = max(1, a.heads // tp), max(1, a.kv_heads // tp)
    width = (heads * (2 if a.output_gate else 1) + (1 if a.shared_kv else 2) * kv_heads) * a.head_size
    yield _gemm("projections", "tokens", layers, t, width, h, c.attention)
    yield _memory("tokens", layers, 4 * t * width)
    if c.engine != "trtllm":  # keys and values into the cache, which TensorRT-LLM does beside the rotary embedding
        yield _memory("tokens", layers, 8 * t * kv_heads * a.head_size)
    if a.norm != "none":
        yield _memory("tokens", layers, 4 * t * (heads + kv_heads) * a.head_size)
    if a.norm == "all":  # sums of squares of queries and keys, in fp32
        yield from _collective("all_reduce", layers, 8 * t, tp)
    yield _gemm("projections", "tokens", layers, t, h, heads * a.head_size, c.attention)
    shape: tuple[tuple[str, Any], ...] = (("query_heads", heads), ("kv_heads", kv_heads), ("head_size", a.head_size), ("dtype", "bf16"))
    shape += (("kv_dtype", c.kv), *((("window", a.window),) if a.window else ()))
    yield Call("attention", "decode", "attention_decode", layers, {"batch": _DECODE_BATCH, "kv_tokens": _DECODE_CACHED}, shape)
    grown = {"batch": _TOGETHER, "query_tokens": _PROMPT, "kv_tokens": _PROMPT + _BEFORE}
    yield Call("attention", "prefill", "attention_prefill", layers, grown, shape, 1 / _TOGETHER)


def adapted(model: Model, tensor: int) -> Iterator[tuple[int, int, float, float]]:
    """Products that a LoRA adapter has: layers, products that engines run as one (queries, keys and values; gate and up), and the widths
    that go in and out of a GPU's part of them (elements). Of mixtures, attention's and plain feed-forwards' alone."""
    h, wide = float(model.hidden), model.ffn_matrices - 1
    for layers, a in model.attention_kinds:
        heads, kv_heads = max(1, a.heads // tensor), max(1, a.kv_heads // tensor)
        yield layers, 3, h, float((heads * (2 if a.output_gate else 1) + 2 * kv_heads) * a.head_size)
        yield layers, 1, float(heads * a.head_size), h
    if model.dense_layers:
        yield model.dense_layers, wide, h, wide * model.dense_width / tensor
        yield model.dense_layers, 1, model.dense_width / tensor, h


def adapter_bytes(model: Model, tensor: int, rank: int) -> float:
    """A LoRA adapter on one GPU, in 16 bits (bytes): 2 r (s k + n) for s products of widths k and n that run as one; what is not cut by
    tensor parallelism lies on each GPU, as vLLM keeps it (without --fully-sharded-loras)."""
    return sum(2.0 * layers * rank * (products * k + n) for layers, products, k, n in adapted(model, tensor))


def _adapters(c: Configuration) -> Iterator[Call]:
    """What LoRA adapters add to each product: a kernel that shrinks each token's vector to the rank of its own adapter, and one that
    expands it and adds it to the output. Both are bound by memory up to ranks of some hundreds.

    Formula: 2 t k + 4 s t r + 2 d s r k bytes, then 4 s t r + 4 t n + 2 d r n, where t tokens take d = N (1 - (1 - 1 / N)^t) of N adapters.
    Source: L. Chen et al., Punica (arXiv 2310.18547), section 4; vLLM's lora_shrink and lora_expand (vllm/lora/ops/triton_ops).
    """
    t, r = TOKENS, float(c.lora_rank)
    taken = c.lora_adapters * (1 - (1 - 1 / c.lora_adapters) ** t)
    for layers, products, k, n in adapted(c.model, c.plan.tensor):
        for moved in (
            2 * t * k + 4 * products * t * r + 2 * taken * products * r * k,
            4 * products * t * r + 4 * t * n + 2 * taken * r * n,
        ):
            yield Call("adapters", "tokens", "memory_bound", layers, {"bytes": moved})


def _latent(c: Configuration) -> Iterator[Call]:
    a, layers, t, tp, h = c.model.latent, c.model.attention_layers, TOKENS, c.plan.tensor, float(c.model.hidden)
    assert a is not None
    heads, queries = max(1, c.model.heads // tp), a.query_rank or h
    down = a.query_rank + a.kv_rank + a.rope_size
    yield _gemm("projections", "tokens", layers, t, down, h, c.attention)
    yield _memory("tokens", layers, 4 * t * down)
    yield _gemm("projections", "tokens", layers, t, heads * (a.nope_size + a.rope_size), queries, c.attention)
    yield _gemm("projections", "tokens", layers, t, heads * a.kv_rank, a.nope_size, "bf16")
    yield _gemm("projections", "tokens", layers, t, heads * a.value_size, a.kv_rank, "bf16")
    yield _gemm("projections", "tokens", layers, t, h, heads * a.value_size, c.attention)
    seen = _DECODE_CACHED
    if a.index_top_k:
        yield _gemm("projections", "tokens", layers, t, a.index_size + a.index_heads, h, "bf16")
        yield _gemm("projections", "tokens", layers, t, a.index_heads * a.index_size, queries, c.attention)
        # Keys normalised, then queries and keys each rotated, transformed (Hadamard), quantised, the keys stored; the scores written, and
        # read to choose from (https://github.com/deepseek-ai/DeepSeek-V3.2-Exp, inference/model.py, Indexer).
        yield Call("memory", "tokens", "memory_bound", 4 * layers, {"bytes": 4 * t * a.index_size})
        yield Call("memory", "tokens", "memory_bound", 3 * layers, {"bytes": 4 * t * a.index_heads * a.index_size})
        yield Call("attention", "decode", "memory_bound", layers, {"bytes": _DECODE_BATCH * _DECODE_CACHED * a.index_size}, ())
        yield Call("attention", "decode", "memory_bound", layers, {"bytes": _DECODE_BATCH * _DECODE_CACHED * 8.0}, ())
        scored = {"m": _PROMPT, "n": a.index_heads * (_BEFORE + 0.5 * _PROMPT), "k": np.full_like(_PROMPT, float(a.index_size))}
        yield Call("attention", "prefill", "gemm", layers, scored, (("dtype", "fp8"),))
        seen = np.minimum(_DECODE_CACHED, a.index_top_k)
    shape = (("heads", heads), ("dtype", "bf16"), ("kv_dtype", c.kv))
    yield Call("attention", "decode", "latent_attention_decode", layers, {"batch": _DECODE_BATCH, "kv_tokens": seen}, shape)
    scale = np.minimum(1.0, a.index_top_k / (_BEFORE + 0.5 * _PROMPT)) if a.index_top_k else np.ones_like(_PROMPT)
    arrays = {"batch": _TOGETHER, "query_tokens": _PROMPT, "kv_tokens": _PROMPT + _BEFORE}
    yield Call("attention", "prefill", "latent_attention_prefill", layers, arrays, shape, scale / _TOGETHER)


def _linear_attention(c: Configuration) -> Iterator[Call]:
    x, t, tp, h = c.model.linear, TOKENS, c.plan.tensor, float(c.model.hidden)
    assert x is not None
    keys, values, heads = x.keys / tp, x.values / tp, max(1.0, x.value_heads / tp)
    ranked = x.kind == "gated_delta" and x.rank
    width = 2 * values if x.kind == "mamba" else 2 * keys + (1 if ranked else 2) * values + (heads if x.kind == "mamba2" else 0)
    yield _gemm("projections", "tokens", x.layers, t, width, h, c.attention)
    if x.kind == "gated_delta":
        yield _gemm("projections", "tokens", x.layers, t, heads if ranked else 2 * heads, h, "bf16")
    for wide in (keys, values) if ranked else ():
        yield _gemm("projections", "tokens", x.layers, t, x.rank, h, "bf16")
        yield _gemm("projections", "tokens", x.layers, t, wide, x.rank, "bf16")
    if x.kind == "mamba":
        yield _gemm("projections", "tokens", x.layers, t, x.rank + 2 * x.key_size, values, c.attention)
        yield _gemm("projections", "tokens", x.layers, t, values, x.rank, c.attention)
    yield _memory("tokens", x.layers, 4 * t * (2 * keys + values) + 8 * t * values)
    yield _gemm("projections", "tokens", x.layers, t, h, values, c.attention)
    # The state of each sequence is read and written once a step, in fp32 (the configuration's mamba_ssm_dtype).
    state = x.state_values / tp * 4
    yield Call("attention", "decode", "memory_bound", x.layers, {"bytes": 2 * _DECODE_BATCH * state})
    # Products within a chunk and with the state (state-space duality, arXiv 2405.21060; gated delta rule, arXiv 2412.06464).
    if x.kind in SCAN_CHUNK:
        twice = 2.0 if x.kind == "gated_delta" else 1.0  # the delta rule also solves for what each token changes
        n, k = twice * x.value_size, 2.0 * x.key_size + SCAN_CHUNK[x.kind]
        shape = {"m": _PROMPT * heads, "n": np.full_like(_PROMPT, n), "k": np.full_like(_PROMPT, k)}
        yield Call("attention", "prefill", "gemm", x.layers, shape, (("dtype", "bf16"),))
    yield Call("attention", "prefill", "memory_bound", 3 * x.layers, {"bytes": 4 * _PROMPT * (2 * keys + 2 * values)})
