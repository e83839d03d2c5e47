"""What does one GPU do in a training step? Seconds of each part of the work, from the kernel models, before anything fitted is applied.

A `Parts` array holds one number a case; per microbatch unless it says otherwise, of one pipeline stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache

import numpy as np
from numpy.typing import NDArray

from analysis.hardware import devices, systems
from analysis.kernels.library import Hide
from analysis.networks.collective_time import collective_s
from analysis.training.cases import Case
from analysis.training.kernels import Kernels, kernels_of
from analysis.training.machines import Machine
from analysis.workloads.models import LinearAttention

Floats = NDArray[np.float64]

OPTIMIZER_BYTES = 40
"""Adam on one parameter: gradient read for the norm 4, scaled by it 8; gradient 4, fp32 weight 4 and two moments 8 read, 4 + 8 written
(bytes; torch.nn.utils.clip_grad_norm_, torch.optim.AdamW with fused=True)."""

NORM_BYTES = {True: (4.0, 10.0), False: (36.0, 60.0)}
"""Traffic of an element in a norm, forward and backward (bytes): one kernel, or cast, square, mean, product, cast, product one by one in
fp32 (LlamaRMSNorm of github.com/huggingface/transformers)."""
ROTARY_BYTES = {True: 4.0, False: 20.0}
"""The same of position embedding: one kernel, or cast, complex product and cast back."""
GATE_BYTES = {"eager": (10.0, 18.0)}
"""The same of a gate where activation and product are kernels of their own; elsewhere 6 and 10."""

QUANTISED_BYTES = {"fp8": 5.0, "mxfp8": 4.1, "nvfp4": 5.2}
"""Traffic of an element that is quantised once for two products (bytes). fp8, one scale a tensor: read for the largest value, read again,
written; on Hopper, whose 8-bit products want one layout (docs.nvidia.com/cuda/cublas), the transposed copy besides. mxfp8, scales along
rows and along columns: read, written twice with scales. nvfp4: read twice, written twice."""

SCAN_CHUNK = {"mamba2": 128, "gated_delta": 64}
"""Tokens of a chunk (count): Megatron's Mamba mixer; the delta rule of github.com/fla-org/flash-linear-attention."""

BACKWARD_OF_ATTENTION = 2.5
"""Products of the backward pass over those of the forward pass of fused attention (five in place of two)."""


@dataclass(frozen=True)
class Parts:
    """Seconds of each part, one a case.

    Attributes:
        gemm, gemm8, gemm4: linear layers in 16, 8 and 4 bits, forward; gemm_back and so on: backward.
        grouped, grouped_back: products of routed experts; grouped_low: share of them in 8 or 4 bits (1).
        attention, attention_back: fused, or the two products of unfused attention.
        stream, stream_back: kernels bound by memory; expert_stream: those of them, forward, that routed experts have.
        head: output layer's products, forward and backward; head_stream: its memory-bound kernels. Last stage only.
        layers: host work of all but routed experts, in passes over a block (count), of one pass;
        routed: layers of experts (count); local_experts: experts of this GPU in all of them (count).
        tensor, tensor_back: collectives of tensor parallelism; expert, expert_back: all-to-all; context: collectives of both passes.
        send: boundary to the next stage and back; gather, gather_back: sharded weights (and gradients) of the blocks; ends: of embedding
            and output layer, before the first block and after the last.
        reduce: gradients once a step; collect: updated weights; update: optimizer once a step.
    """

    gemm: Floats
    gemm_back: Floats
    gemm8: Floats
    gemm8_back: Floats
    gemm4: Floats
    gemm4_back: Floats
    grouped: Floats
    grouped_back: Floats
    attention: Floats
    attention_back: Floats
    stream: Floats
    stream_back: Floats
    expert_stream: Floats
    head: Floats
    head_stream: Floats
    layers: Floats
    routed: Floats
    local_experts: Floats
    tensor: Floats
    tensor_back: Floats
    expert: Floats
    expert_back: Floats
    context: Floats
    send: Floats
    gather: Floats
    gather_back: Floats
    ends: Floats
    reduce: Floats
    collect: Floats
    update: Floats


PART_NAMES = tuple(item.name for item in fields(Parts))


def parts(cases: Sequence[Case], hide: Hide = "none") -> Parts:
    """The work of every case.

    Args:
        cases: any number; hide: as of the kernel library (what of a GPU's own timings may be used).
    """
    values = {name: np.zeros(len(cases)) for name in PART_NAMES}
    machines: dict[str, list[int]] = {}
    for index, item in enumerate(cases):
        machines.setdefault(item.machine.device, []).append(index)
    for device, indices in machines.items():
        kernels = kernels_of(device, hide)
        jobs = _Jobs(kernels)
        for index in indices:
            _describe(cases[index], index, jobs)
        for name, index_array, seconds in jobs.results():
            np.add.at(values[name], index_array, seconds)
    for index, item in enumerate(cases):
        _communicate(item, index, values)
    return Parts(**values)


class _Jobs:
    """Kernels of many cases on one device, asked for together."""

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self.products: dict[str, list[tuple[str, int, float, float, float, float]]] = {}
        self.fused: list[tuple[str, int, float, float, float, float, float, float, float]] = []
        self.streams: list[tuple[str, int, float, float]] = []
        self.plain: list[tuple[str, int, float]] = []

    def gemm(self, part: str, case: int, dtype: str, m: float, n: float, k: float, count: float) -> None:
        self.products.setdefault(dtype, []).append((part, case, m, n, k, count))

    def attention(
        self, part: str, case: int, batch: float, heads: float, kv: float, size: float, tokens: float, value: float, factor: float
    ) -> None:
        self.fused.append((part, case, batch, heads, kv, size, tokens, value, factor))

    def stream(self, part: str, case: int, size: float, kernels: float) -> None:
        self.streams.append((part, case, size, kernels))

    def fixed(self, part: str, case: int, seconds: float) -> None:
        self.plain.append((part, case, seconds))

    def results(self) -> list[tuple[str, NDArray[np.int64], Floats]]:
        found: list[tuple[NDArray[np.object_], NDArray[np.int64], Floats]] = []
        for dtype, rows in self.products.items():
            m, n, k, count = (np.array([row[i] for row in rows]) for i in (2, 3, 4, 5))
            found.append((_names(rows), _indices(rows), count * self.kernels.gemm_s(m, n, k, dtype)))
        if self.fused:
            columns = [np.array([row[i] for row in self.fused]) for i in range(2, 9)]
            batch, heads, kv, size, tokens, value, factor = columns
            found.append(
                (_names(self.fused), _indices(self.fused), factor * self.kernels.attention_s(batch, heads, kv, size, tokens, value))
            )
        if self.streams:
            size, kernels = (np.array([row[i] for row in self.streams]) for i in (2, 3))
            found.append((_names(self.streams), _indices(self.streams), kernels * self.kernels.stream_s(size / np.maximum(kernels, 1))))
        if self.plain:
            found.append((_names(self.plain), _indices(self.plain), np.array([row[2] for row in self.plain])))
        out = []
        for names, indices, seconds in found:
            for name in np.unique(names):
                chosen = names == name
                out.append((str(name), indices[chosen], seconds[chosen]))
        return out


def _names(rows: Sequence[tuple]) -> NDArray[np.object_]:  # type: ignore[type-arg]
    return np.array([row[0] for row in rows], dtype=object)


def _indices(rows: Sequence[tuple]) -> NDArray[np.int64]:  # type: ignore[type-arg]
    return np.array([row[1] for row in rows], dtype=np.int64)


def _describe(item: Case, index: int, jobs: _Jobs) -> None:
    shape, t = item.shape, item.tensor
    tokens = item.micro_batch * item.sequence / item.context
    share = 1.0 / item.pipeline
    h = shape.hidden
    low = {"bf16": "", "fp8": "8", "mxfp8": "8", "nvfp4": "4"}[item.precision]
    low_type = {"bf16": "bf16", "fp8": "fp8", "mxfp8": "fp8", "nvfp4": "nvfp4"}[item.precision]
    forward, backward = f"gemm{low}", f"gemm{low}_back"
    weight_gradient = 1.0 if item.trained else 0.0

    def linear(n: float, k: float, count: float, m: float = tokens, into: tuple[str, str] = (forward, backward), dtype: str = "") -> None:
        kind = dtype or low_type
        jobs.gemm(into[0], index, kind, m, n, k, count * share)
        jobs.gemm(into[1], index, kind, m, k, n, count * share)
        if weight_gradient:
            jobs.gemm(into[1], index, kind, n, k, m, count * share)

    a = shape.attention_layers
    if shape.latent:
        latent = shape.latent
        linear(latent.query_rank + latent.kv_rank + latent.rope_size, h, a)
        linear(shape.heads * (latent.nope_size + latent.rope_size) / t, latent.query_rank or h, a)
        linear(shape.heads * (latent.nope_size + latent.value_size) / t, latent.kv_rank, a)
        linear(h, shape.heads * latent.value_size / t, a)
        size, value, width = latent.nope_size + latent.rope_size, latent.value_size, shape.heads * latent.value_size / t
    elif a:
        kv = max(shape.kv_heads / t, 1.0) * shape.head_size
        width = shape.heads * shape.head_size / t
        linear(width + 2 * kv, h, a)
        linear(h, width, a)
        size, value = shape.head_size, shape.head_size
    if a:
        _attention(item, index, jobs, a * share, size, value)
    # feed-forward
    if shape.dense_layers:
        ffn = shape.dense_width / t
        linear((2 if shape.gated else 1) * ffn, h, shape.dense_layers)
        linear(h, ffn, shape.dense_layers)
    if shape.experts and shape.expert_layers:
        e = shape.experts
        inner = e.latent or h
        if e.shared:
            linear((2 if shape.gated else 1) * e.shared / t, h, shape.expert_layers)
            linear(h, e.shared / t, shape.expert_layers)
        if e.latent:
            linear(e.latent, h, shape.expert_layers)
            linear(h, e.latent, shape.expert_layers)
        linear(e.count, h, shape.expert_layers, dtype="bf16", into=("gemm", "gemm_back"))
        rows = tokens / t * e.per_token  # tokens of the tensor-parallel group are dealt to its members; experts are whole
        forward_s = jobs.kernels.experts_s(tokens / t, e.count, e.per_token, inner, e.width, item.expert, low_type)
        forward_s *= (1.0 if shape.gated else 2 / 3) * shape.expert_layers * share  # the tables' experts have three matrices
        jobs.fixed("grouped", index, forward_s)
        jobs.fixed("grouped_back", index, (1 + weight_gradient) * forward_s)
        for part in ("stream", "expert_stream"):
            jobs.stream(part, index, rows * inner * 2 * 6 * shape.expert_layers * share, 6 * shape.expert_layers * share)
        jobs.stream("stream_back", index, rows * inner * 2 * 8 * shape.expert_layers * share, 8 * shape.expert_layers * share)
        _activation(item, index, jobs, rows * e.width, shape.expert_layers * share)
    if shape.linear:
        x = shape.linear
        inner_width = x.values / t
        linear(2 * inner_width + (2 * x.keys + x.value_heads) / t, h, shape.linear_layers)
        linear(h, inner_width, shape.linear_layers)
        if x.kind in SCAN_CHUNK:
            _scan(item, index, jobs, x, shape.linear_layers * share)
        # inputs, states every 128 tokens, outputs, a convolution and a gate, about 30 bytes an element of the inner width
        moved = tokens * inner_width * 30 * shape.linear_layers * share
        jobs.stream("stream", index, moved, 8 * shape.linear_layers * share)
        jobs.stream("stream_back", index, 2.5 * moved, 16 * shape.linear_layers * share)
    if shape.dense_layers:
        _activation(item, index, jobs, tokens * shape.dense_width / t, shape.dense_layers * share)
    _streams(item, index, jobs, tokens, share)
    _head(item, index, jobs, tokens)
    passes = shape.attention_layers * 0.5 + shape.dense_layers * 0.5 + shape.linear_layers * 0.7
    jobs.fixed("layers", index, passes * share)
    if shape.experts:
        jobs.fixed("routed", index, shape.expert_layers * share)
        jobs.fixed("local_experts", index, shape.expert_layers * share * shape.experts.count / item.expert)
    _update(item, index, jobs)


def _attention(item: Case, index: int, jobs: _Jobs, layers: float, size: float, value: float) -> None:
    shape, t, s, b = item.shape, item.tensor, float(item.sequence), item.micro_batch
    heads = shape.heads / t
    if not item.written_out:
        kv = max(shape.kv_heads / t, 1.0)
        near_layers = layers * (shape.window_layers / shape.attention_layers) if shape.window else 0.0
        full = layers - near_layers
        for part, factor in (("attention", 1.0), ("attention_back", BACKWARD_OF_ATTENTION)):
            jobs.attention(part, index, b, heads, kv, size, s, value, factor * full / item.context)
            if shape.window:
                near = min(float(shape.window), s)
                pieces = s / near
                jobs.attention(part, index, b * pieces, heads, kv, size, near, value, 2 * factor * near_layers / item.context)
        return
    matrices = b * heads
    elements = matrices * s * s
    for part, products in (("attention", 2), ("attention_back", 4)):
        jobs.fixed(part, index, layers * products * jobs.kernels.batched_gemm_s(matrices, s, s, size))
    jobs.stream("stream", index, layers * elements * 9, 2 * layers)  # softmax 4, dropout 5
    jobs.stream("stream_back", index, layers * elements * 11, 2 * layers)


def _scan(item: Case, index: int, jobs: _Jobs, x: LinearAttention, layers: float) -> None:
    """Products of a chunked scan: causal attention within each chunk, and building and reading its state, as many products of its shape.

    Source: Dao and Gu 2024 (arXiv:2405.21060), section 6; Yang et al. 2024 (arXiv:2412.06464), section 3.3.
    """
    chunk, size, value = float(SCAN_CHUNK[x.kind]), float(x.key_size), float(x.value_size)
    more = 1 + 4 * size * value / (chunk * (size + value))
    chunks, heads, kv = item.micro_batch * item.sequence / chunk, x.value_heads / item.tensor, max(x.key_heads / item.tensor, 1.0)
    for part, factor in (("attention", 1.0), ("attention_back", BACKWARD_OF_ATTENTION)):
        jobs.attention(part, index, chunks, heads, kv, size, chunk, value, factor * more * layers / item.context)


def _activation(item: Case, index: int, jobs: _Jobs, elements: float, layers: float) -> None:
    forward = 6.0 if item.shape.gated else 4.0
    both = GATE_BYTES.get(item.defaults.kernels, (forward, forward + 4.0)) if item.shape.gated else (forward, forward + 4.0)
    jobs.stream("stream", index, both[0] * elements * layers, layers)
    jobs.stream("stream_back", index, both[1] * elements * layers, layers)


def _streams(item: Case, index: int, jobs: _Jobs, tokens: float, share: float) -> None:
    """Norms, residuals, position embedding, quantisation: bytes of one block are counted in units of a token's hidden vector."""
    shape, program = item.shape, item.defaults
    blocks = (shape.attention_layers + shape.dense_layers + shape.expert_layers + shape.linear_layers) * share
    old = item.written_out
    split = item.tensor if program.sequence_parallel else 1
    unit = tokens * shape.hidden / split
    norm = NORM_BYTES[program.fused_norms]
    forward = blocks * unit * (norm[0] + 6 + (1 if old else 0))
    backward = blocks * unit * (norm[1] + 6 + (5 if old else 0))
    jobs.stream("stream", index, forward, (2 if program.fused_norms else 7) * blocks)
    jobs.stream("stream_back", index, backward, (3 if program.fused_norms else 10) * blocks)
    rotary = tokens * (shape.heads + shape.kv_heads) * shape.head_size / item.tensor * ROTARY_BYTES[program.fused_norms]
    jobs.stream("stream", index, shape.attention_layers * share * rotary, 2 * shape.attention_layers * share)
    jobs.stream("stream_back", index, shape.attention_layers * share * rotary, 2 * shape.attention_layers * share)
    if item.kind == "qlora":  # weights in 4 bits are read and written in 16 for each pass
        weights = (shape.body_parameters / item.tensor + shape.matrices["experts"] / item.expert) * share
        for part in ("stream", "stream_back"):
            jobs.stream(part, index, 2.6 * weights, 4 * blocks)
    held = (shape.body_parameters / item.tensor + shape.matrices["experts"] / item.expert) * share
    if item.zero >= 2 and item.pipeline == 1:  # shards are cast from 32 bits, gathered weights copied apart, gradients together
        jobs.stream("stream", index, (4.0 + 6.0 / item.shards) * held, 3 * blocks)
        jobs.stream("stream_back", index, (4.0 + 6.0 / item.shards) * held * (item.zero == 3), 3 * blocks)
        if item.trained:
            jobs.stream("stream_back", index, (2.0 + program.reduced_bytes) * held, 2 * blocks)
    if not item.trained:  # adapters of the attention layers: dropout, two narrow products, scaling and sum
        adapted = shape.attention_layers * share * tokens * shape.hidden / split
        jobs.stream("stream", index, 34.0 * adapted, 12 * shape.attention_layers * share)
        jobs.stream("stream_back", index, 60.0 * adapted, 20 * shape.attention_layers * share)
    if item.precision != "bf16":
        _quantise(item, index, jobs, tokens, share)


def _quantise(item: Case, index: int, jobs: _Jobs, tokens: float, share: float) -> None:
    """Inputs of the products in the forward pass, and gradients of their outputs in the backward pass, each once."""
    shape, t = item.shape, item.tensor
    size = QUANTISED_BYTES[item.precision] * (2.5 if item.defaults.kernels == "eager" else 1.0)  # scaling, clamping and cast one by one
    if item.precision == "fp8" and devices.load(item.machine.device).architecture == "hopper":
        size += 1.0
    attention, dense, experts = (share * count for count in (shape.attention_layers, shape.dense_layers, shape.expert_layers))
    width, kv = shape.heads * shape.head_size / t, max(shape.kv_heads / t, 1) * shape.head_size
    hidden, gates = shape.hidden / t, 2 if shape.gated else 1
    forward = attention * (hidden + width) + dense * (hidden + shape.dense_width / t)
    backward = attention * (width + 2 * kv + hidden) + dense * (gates * shape.dense_width / t + hidden)
    if shape.experts:
        inner, routed = shape.experts.latent or shape.hidden, shape.experts.per_token / t
        forward += experts * routed * (inner + shape.experts.width)
        backward += experts * routed * (gates * shape.experts.width + inner)
    kernels = 2 * (attention + dense + experts)
    # PyTorch's own programs gather and hold weights in 16 bits and quantise them in each pass; Megatron's keep them in 8 bits
    each_pass = item.defaults.kernels in ("eager", "compiled")
    weights = (shape.body_parameters / t + shape.matrices["experts"] / item.expert) * share * each_pass
    jobs.stream("stream", index, size * (tokens * forward + weights), kernels * (1 + each_pass))
    jobs.stream("stream_back", index, size * (tokens * backward + weights), kernels * (1 + each_pass))


def _head(item: Case, index: int, jobs: _Jobs, tokens: float) -> None:
    vocabulary = item.padded_vocabulary / item.tensor
    count = 1.0 + item.shape.mtp_modules
    for m, n, k in (
        (tokens, vocabulary, item.shape.hidden),
        (tokens, item.shape.hidden, vocabulary),
        (vocabulary, item.shape.hidden, tokens),
    ):
        jobs.gemm("head", index, "bf16", m, n, k, count)
    jobs.stream("head_stream", index, count * tokens * vocabulary * item.defaults.loss_bytes, 8)


def parameters_of_gpu(item: Case) -> tuple[float, float]:
    """Weights that a GPU of the fullest stage works with: (all but routed experts, routed experts), before sharding."""
    shape = item.shape
    ends = shape.hidden * (item.padded_vocabulary * (1 if shape.tied and item.pipeline == 1 else 2 if item.pipeline == 1 else 1))
    ends += shape.hidden * shape.learned_positions
    dense = (shape.body_parameters / item.pipeline + ends) / item.tensor
    return dense, shape.matrices["experts"] / item.pipeline / item.expert


def _update(item: Case, index: int, jobs: _Jobs) -> None:
    dense, routed = parameters_of_gpu(item)
    shards, expert_shards = (item.shards, item.expert_replicas) if item.zero else (1.0, 1.0)
    held = (dense / shards + routed / expert_shards) if item.trained else 0.0
    jobs.stream("update", index, held * OPTIMIZER_BYTES, 8)


@cache
def system_of(machine: Machine) -> systems.System:
    """The machine with its nodes and network as a collective's time is asked for."""
    device = devices.load(machine.device)
    return systems.of_device(device) if machine.tpu else systems.cluster(device, machine.domain, machine.network_bytes_per_s)


def collectives_s(item: Case, kind: str, size: float, members: float, stride: float, message: float = 0.0) -> float:
    """Collectives one after the other (s).

    Args:
        kind: as of `collective_s`; size: bytes in all; members, stride: GPUs of the group and their distance.
        message: bytes of each (0: there is one).
    """
    if members <= 1 or size <= 0:
        return 0.0
    count = max(1.0, size / message) if message else 1.0
    return count * collective_s(kind, size / count, round(members), system_of(item.machine), max(1, round(stride)))


def stages(item: Case) -> tuple[list[float], int]:
    """Blocks of each stage, and the stage of the output layer.

    Dealt by cost, a stage takes blocks until their cost passes its share (github.com/huggingface/nanotron, build_and_set_rank).
    """
    shape, count = item.shape, item.pipeline
    if item.defaults.output_layer == "last" or count == 1:
        return [shape.blocks / count] * count, count - 1
    block = (shape.body_parameters + shape.matrices["experts"]) / shape.blocks - 2 * shape.hidden  # without norms
    head = float(shape.hidden * item.padded_vocabulary)
    held, stage, cost = [0.0] * count, 0, 0.0
    for _ in range(shape.blocks):
        held[stage] += 1
        cost += block
        if cost > (block * shape.blocks + head) * (stage + 1) / count:
            stage += 1
    return held, stage


def _communicate(item: Case, index: int, values: dict[str, Floats]) -> None:
    shape, t = item.shape, item.tensor
    tokens = item.micro_batch * item.sequence / item.context
    boundary = 2.0 * tokens * shape.hidden
    share = 1.0 / item.pipeline
    if t > 1:
        each = sum(collectives_s(item, kind, boundary, t, 1) for kind in ("all_gather", "reduce_scatter"))
        blocks = (shape.attention_layers + shape.dense_layers + shape.expert_layers + shape.linear_layers) * share
        values["tensor"][index] = blocks * each
        values["tensor_back"][index] = blocks * each
    if item.expert > 1 and shape.experts:
        # a token goes once to each GPU that holds one of its experts, and over the network once to each domain that does
        domains = max(1.0, item.expert * t / item.machine.domain)
        chosen = float(shape.experts.per_token)
        once = item.recipe.dispatcher == "flex"  # torch's all-to-all sends each copy
        gpus = (item.expert * (1 - (1 - 1 / item.expert) ** chosen) if once else chosen) * (1 - 1 / item.expert)
        away = (domains * (1 - (1 - 1 / domains) ** chosen) if once else chosen) * (1 - 1 / domains)
        size = tokens / t * 2.0 * (shape.experts.latent or shape.hidden)
        inner = system_of(item.machine).group(max(2, int(min(item.expert * t, item.machine.domain)))).bandwidth_bytes_per_s
        seconds = size * max(gpus / (0.7 * inner), away / (0.7 * item.machine.network_bytes_per_s)) + 30e-6
        values["expert"][index] = 2 * seconds * shape.expert_layers * share
        values["expert_back"][index] = 2 * seconds * shape.expert_layers * share
    if item.context > 1:
        kv = 2 * tokens * max(shape.kv_heads / t, 1.0) * shape.head_size * 2.0
        values["context"][index] = (
            3 * shape.attention_layers * share * collectives_s(item, "all_gather", kv * item.context, item.context, t)
        )
    if item.pipeline > 1:
        each = collectives_s(item, "send_recv", boundary / t, 2, item.gpus / item.pipeline)
        values["send"][index] = 2 * item.virtual * each
    _synchronise(item, index, values)


def _synchronise(item: Case, index: int, values: dict[str, Floats]) -> None:
    """Gradients and sharded weights: what is gathered and reduced each microbatch (ZeRO 2 and 3) or once a step."""
    program, t = item.defaults, item.tensor
    dense, routed = parameters_of_gpu(item)
    replicas = float(item.data * item.context)
    experts = item.expert_replicas if routed else 1.0
    shards = item.shards
    held = 0.55 if item.kind == "qlora" else 2.0
    message = max(program.bucket_bytes, program.bucket_bytes_per_replica * replicas)
    blocks = max(1.0, item.shape.blocks / item.pipeline)
    size = program.reduced_bytes
    if item.zero >= 2:
        unit = max(1.0, (dense + routed) / blocks)
        both = ((dense, shards, t), (routed, experts, item.expert))
        gather = sum(collectives_s(item, "all_gather", held * n, members, stride, held * unit) for n, members, stride in both)
        scatter = sum(collectives_s(item, "reduce_scatter", size * n, members, stride, size * unit) for n, members, stride in both)
        scatter *= item.trained
        if item.pipeline > 1:  # weights stay gathered over the microbatches of a pipeline
            values["collect"][index], values["gather_back"][index] = gather, scatter
        else:  # the root's own weights are gathered first, kept, and reduced last (docs.pytorch.org, fully_shard)
            ends = (dense - item.shape.body_parameters / t) / (dense + routed)
            values["ends"][index] = ends * (gather + scatter)
            values["gather"][index] = (1 - ends) * gather
            values["gather_back"][index] = (1 - ends) * (scatter + gather * (item.zero == 3))
        if replicas > shards and item.trained:  # hybrid sharding
            values["reduce"][index] += collectives_s(item, "all_reduce", size * dense / shards, replicas / shards, t * shards, message)
        return
    if not item.trained:
        return
    # sharded optimizer: gradients scattered, weights gathered after the update; otherwise gradients all-reduced
    kind = "reduce_scatter" if item.zero and shards == replicas else "all_reduce"
    reduce = collectives_s(item, kind, size * dense, replicas, t, message) + collectives_s(
        item, kind, size * routed, experts, item.expert, message
    )
    if item.pipeline > 1 and item.shape.tied:
        ends = size * item.shape.hidden * item.padded_vocabulary / t
        reduce += collectives_s(item, "all_reduce", ends, 2, item.gpus / item.pipeline)
    values["reduce"][index] = reduce
    if item.zero:
        values["collect"][index] = collectives_s(item, "all_gather", 2 * dense, shards, t, message) + collectives_s(
            item, "all_gather", 2 * routed, experts, item.expert, message
        )
