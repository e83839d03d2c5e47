"""What does one GPU do in a training step? Seconds of each part of the work, from the kernel models, before anything fitted is applied.

A `Parts` array holds one number a case; per microbatch unless it says otherwise, of one pipeline stage. Cases are described together, in
arrays (`Cases`): a condition is a mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.case_rows import Shared, alike
from analysis.hardware import devices, systems
from analysis.kernels.library import Hide
from analysis.networks.collective_time import collective_s
from analysis.training.cases import Case, Cases
from analysis.training.kernels import TPU_CORES, Kernels, kernels_of
from analysis.training.machines import Machine
from analysis.workloads.models import SCAN_CHUNK

Floats = NDArray[np.float64]

NORM_BYTES = {True: (4.0, 10.0), False: (36.0, 60.0)}
"""Traffic of an element in a norm, forward and backward (bytes): one kernel, or cast, square, mean, product, cast, product one by one in
fp32 (LlamaRMSNorm of github.com/huggingface/transformers)."""
ROTARY_BYTES = {True: 4.0, False: 20.0}
"""The same of position embedding: one kernel, or cast, complex product and cast back."""
GATE_BYTES = (10.0, 18.0)
"""The same of a gate where activation and product are kernels of their own, as in eager programs; elsewhere 6 and 10."""

QUANTISED_BYTES = {"fp8": 5.0, "mxfp8": 4.1, "nvfp4": 5.2}
"""Traffic of an element that is quantised once for two products (bytes). fp8, one scale a tensor: read for the largest value, read again,
written; on Hopper, whose 8-bit products want one layout (docs.nvidia.com/cuda/cublas), the transposed copy besides. mxfp8, scales along
rows and along columns: read, written twice with scales. nvfp4: read twice, written twice."""

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
    """The work of every case."""
    of = Cases.of(cases)
    values = {name: np.zeros(len(of)) for name in PART_NAMES}
    groups, first = alike(of.machine.device, of.precision)
    for group, row in enumerate(first):
        rows = np.flatnonzero(groups == group)
        some = of.take(rows)
        jobs = _Jobs(kernels_of(of.machine[row].device, hide), some)
        _describe(some, of.precision[row], jobs)
        for part, places, seconds in jobs.results():
            values[part][rows[places]] += seconds
    _communicate(of, values)
    return Parts(**values)


class _Jobs:
    """Kernels of many cases on one device and in one number type, looked up together; each belongs to the cases that a mask selects.

    Sizes of products and of attention follow from `shapes` alone, so that each is asked for once where all of that is alike.
    """

    def __init__(self, kernels: Kernels, of: Cases) -> None:
        self.kernels, self.count = kernels, len(of)
        self.shapes, self.first = alike(of.shape, of.tensor, of.micro_batch, of.sequence, of.context, of.expert)
        self.asked: dict[str, list[tuple[str, NDArray[np.int64], tuple[Floats, ...], Floats]]] = {}
        self.plain: list[tuple[str, NDArray[np.int64], Floats]] = []

    def _rows(self, where: Any, *columns: Any) -> tuple[NDArray[np.int64], list[Floats]]:
        rows = np.flatnonzero(np.broadcast_to(where, self.count))
        return rows, [np.broadcast_to(np.asarray(column, np.float64), self.count)[rows] for column in columns]

    def ask(self, kind: str, part: str, where: Any, times: Any, *sizes: Any) -> None:
        """Add a kernel and how often it runs: a product in a number type, or attention."""
        rows, (times,) = self._rows(where, times)
        found = tuple(np.broadcast_to(np.asarray(size, np.float64), self.count)[self.first] for size in sizes)
        self.asked.setdefault(kind, []).append((part, rows, found, times))

    def stream(self, part: str, where: Any, size: Any, kernels: Any) -> None:
        rows, (size, kernels) = self._rows(where, size, kernels)
        self.plain.append((part, rows, kernels * self.kernels.stream_s(size / np.maximum(kernels, 1))))

    def fixed(self, part: str, where: Any, seconds: Any) -> None:
        rows, (seconds,) = self._rows(where, seconds)
        self.plain.append((part, rows, seconds))

    def results(self) -> Iterator[tuple[str, NDArray[np.int64], Floats]]:
        """Part, cases and seconds of each."""
        for kind, asked in self.asked.items():
            shapes = [np.flatnonzero(np.bincount(self.shapes[rows], minlength=len(self.first))) for _, rows, _, _ in asked]
            columns = zip(*[[size[some] for size in sizes] for (_, _, sizes, _), some in zip(asked, shapes, strict=True)], strict=True)
            sizes = [np.concatenate(column) for column in columns]
            seconds = self.kernels.attention_s(*sizes) if kind == "attention" else self.kernels.gemm_s(sizes[0], sizes[1], sizes[2], kind)
            ends = np.cumsum([len(some) for some in shapes])
            for (part, rows, _, times), some, each in zip(asked, shapes, np.split(seconds, ends[:-1]), strict=True):
                of_shape = np.zeros(len(self.first))
                of_shape[some] = each
                yield part, rows, times * of_shape[self.shapes[rows]]
        yield from self.plain


def _describe(of: Cases, precision: str, jobs: _Jobs) -> None:
    shape, t = of.shape, of.tensor
    tokens = of.micro_batch * of.sequence / of.context
    share = 1.0 / of.pipeline
    h = shape.hidden
    low = {"bf16": "", "fp8": "8", "mxfp8": "8", "nvfp4": "4"}[precision]
    low_type = {"bf16": "bf16", "fp8": "fp8", "mxfp8": "fp8", "nvfp4": "nvfp4"}[precision]
    forward, backward = f"gemm{low}", f"gemm{low}_back"
    weight_gradient = of.trained * 1.0

    def linear(where: Any, n: Any, k: Any, count: Any, into: tuple[str, str] = (forward, backward), dtype: str = "") -> None:
        kind = dtype or low_type
        jobs.ask(kind, into[0], where, count * share, tokens, n, k)
        jobs.ask(kind, into[1], where, count * share, tokens, k, n)
        jobs.ask(kind, into[1], where & of.trained, count * share, n, k, tokens)

    a = shape.attention_layers
    latent, compressed = shape.latent, shape.latent.there
    rank = np.where(latent.query_rank > 0, latent.query_rank, h)
    linear(compressed, latent.query_rank + latent.kv_rank + latent.rope_size, h, a)
    linear(compressed, shape.heads * (latent.nope_size + latent.rope_size) / t, rank, a)
    linear(compressed, shape.heads * (latent.nope_size + latent.value_size) / t, latent.kv_rank, a)
    linear(compressed, h, shape.heads * latent.value_size / t, a)
    grouped = ~compressed & (a > 0)
    kv = np.maximum(shape.kv_heads / t, 1.0) * shape.head_size
    width = shape.heads * shape.head_size / t
    linear(grouped, width + 2 * kv, h, a)
    linear(grouped, h, width, a)
    size = np.where(compressed, latent.nope_size + latent.rope_size, shape.head_size)
    value = np.where(compressed, latent.value_size, shape.head_size)
    _attention(of, jobs, compressed | grouped, a * share, size, value)
    # feed-forward
    dense, gates = shape.dense_layers > 0, np.where(shape.gated, 2, 1)
    ffn = shape.dense_width / t
    linear(dense, gates * ffn, h, shape.dense_layers)
    linear(dense, h, ffn, shape.dense_layers)
    routed = shape.experts.there & (shape.expert_layers > 0)
    if routed.any():
        e, layers = shape.experts, shape.expert_layers
        inner = np.where(e.latent > 0, e.latent, h)
        linear(routed & (e.shared > 0), gates * e.shared / t, h, layers)
        linear(routed & (e.shared > 0), h, e.shared / t, layers)
        linear(routed & (e.latent > 0), e.latent, h, layers)
        linear(routed & (e.latent > 0), h, e.latent, layers)
        linear(routed, e.count, h, layers, dtype="bf16", into=("gemm", "gemm_back"))
        rows = tokens / t * e.per_token  # tokens of the tensor-parallel group are dealt to its members; experts are whole
        asked = jobs.first[routed[jobs.first]]
        each, count, chosen, latent_width, width, over = (
            column[asked] for column in (tokens / t, e.count, e.per_token, inner, e.width, of.expert)
        )
        looked_up = np.zeros(len(of))
        looked_up[asked] = jobs.kernels.experts_s(each, count, chosen, latent_width, width, over, low_type)
        forward_s = looked_up[jobs.first[jobs.shapes]]
        forward_s = forward_s * (np.where(shape.gated, 1.0, 2 / 3) * layers * share)  # the tables' experts have three matrices
        jobs.fixed("grouped", routed, forward_s)
        jobs.fixed("grouped_back", routed, (1 + weight_gradient) * forward_s)
        for part in ("stream", "expert_stream"):
            jobs.stream(part, routed, rows * inner * 2 * 6 * layers * share, 6 * layers * share)
        jobs.stream("stream_back", routed, rows * inner * 2 * 8 * layers * share, 8 * layers * share)
        _activation(of, jobs, routed, rows * e.width, layers * share)
    recurrent = shape.linear.there
    if recurrent.any():
        x = shape.linear
        inner_width = x.values / t
        linear(recurrent, 2 * inner_width + (2 * x.keys + x.value_heads) / t, h, shape.linear_layers)
        linear(recurrent, h, inner_width, shape.linear_layers)
        _scan(of, jobs, recurrent & x.kind.isin(*SCAN_CHUNK), x, shape.linear_layers * share)
        # inputs, states every 128 tokens, outputs, a convolution and a gate, about 30 bytes an element of the inner width
        moved = tokens * inner_width * 30 * shape.linear_layers * share
        jobs.stream("stream", recurrent, moved, 8 * shape.linear_layers * share)
        jobs.stream("stream_back", recurrent, 2.5 * moved, 16 * shape.linear_layers * share)
    _activation(of, jobs, dense, tokens * shape.dense_width / t, shape.dense_layers * share)
    _streams(of, jobs, tokens, share)
    if precision != "bf16":
        _quantise(of, precision, jobs, tokens, share)
    _head(of, jobs, tokens)
    passes = shape.attention_layers * 0.5 + shape.dense_layers * 0.5 + shape.linear_layers * 0.7
    jobs.fixed("layers", True, passes * share)
    mixture = shape.experts.there
    jobs.fixed("routed", mixture, shape.expert_layers * share)
    jobs.fixed("local_experts", mixture, shape.expert_layers * share * shape.experts.count / of.expert)
    _update(of, jobs)


def _attention(of: Cases, jobs: _Jobs, where: Any, layers: Any, size: Any, value: Any) -> None:
    shape, t, s, b = of.shape, of.tensor, of.sequence * 1.0, of.micro_batch
    heads = shape.heads / t
    fused, written_out = where & ~of.written_out, where & of.written_out
    windows = fused & (shape.window > 0)
    kv = np.maximum(shape.kv_heads / t, 1.0)
    near_layers = np.where(windows, layers * (shape.window_layers / np.maximum(shape.attention_layers, 1)), 0.0)
    full = layers - near_layers
    near = np.where(shape.window > 0, np.minimum(np.maximum(shape.window, jobs.kernels.block), s), s)
    pieces = s / near
    for part, factor in (("attention", 1.0), ("attention_back", BACKWARD_OF_ATTENTION)):
        jobs.ask("attention", part, fused, factor * full / of.context, b, heads, kv, size, s, value)
        jobs.ask("attention", part, windows, 2 * factor * near_layers / of.context, b * pieces, heads, kv, size, near, value)
    matrices = b * heads
    elements = matrices * s * s
    for part, products in (("attention", 2), ("attention_back", 4)):
        jobs.fixed(part, written_out, layers * products * jobs.kernels.batched_gemm_s(matrices, s, s, size))
    jobs.stream("stream", written_out, layers * elements * 9, 2 * layers)  # softmax 4, dropout 5
    jobs.stream("stream_back", written_out, layers * elements * 11, 2 * layers)


def _scan(of: Cases, jobs: _Jobs, where: Any, x: Any, layers: Any) -> None:
    """Products of a chunked scan: causal attention within each chunk, and building and reading its state, as many products of its shape.

    Source: Dao and Gu 2024 (arXiv:2405.21060), section 6; Yang et al. 2024 (arXiv:2412.06464), section 3.3.
    """
    chunk, size, value = x.kind.each(lambda kind: float(SCAN_CHUNK.get(kind, 1))), x.key_size, x.value_size
    more = 1 + 4 * size * value / (chunk * np.maximum(size + value, 1))
    chunks, heads, kv = of.micro_batch * of.sequence / chunk, x.value_heads / of.tensor, np.maximum(x.key_heads / of.tensor, 1.0)
    for part, factor in (("attention", 1.0), ("attention_back", BACKWARD_OF_ATTENTION)):
        jobs.ask("attention", part, where, factor * more * layers / of.context, chunks, heads, kv, size, chunk, value)


def _activation(of: Cases, jobs: _Jobs, where: Any, elements: Any, layers: Any) -> None:
    gated = of.shape.gated
    forward = np.where(gated, 6.0, 4.0)
    apart = gated & (of.defaults.kernels == "eager")
    jobs.stream("stream", where, np.where(apart, GATE_BYTES[0], forward) * elements * layers, layers)
    jobs.stream("stream_back", where, np.where(apart, GATE_BYTES[1], forward + 4.0) * elements * layers, layers)


def _streams(of: Cases, jobs: _Jobs, tokens: Any, share: Any) -> None:
    """Norms, residuals, position embedding, quantisation: bytes of one block are counted in units of a token's hidden vector."""
    shape, program = of.shape, of.defaults
    blocks = (shape.attention_layers + shape.dense_layers + shape.expert_layers + shape.linear_layers) * share
    old, fused = of.written_out, program.fused_norms
    split = np.where(program.sequence_parallel, of.tensor, 1)
    unit = tokens * shape.hidden / split
    norm = [np.where(fused, NORM_BYTES[True][way], NORM_BYTES[False][way]) for way in (0, 1)]
    forward = blocks * unit * (norm[0] + 6 + np.where(old, 1, 0))
    backward = blocks * unit * (norm[1] + 6 + np.where(old, 5, 0))
    jobs.stream("stream", True, forward, np.where(fused, 2, 7) * blocks)
    jobs.stream("stream_back", True, backward, np.where(fused, 3, 10) * blocks)
    rotary = (
        tokens * (shape.heads + shape.kv_heads) * shape.head_size / of.tensor * np.where(fused, ROTARY_BYTES[True], ROTARY_BYTES[False])
    )
    attention = shape.attention_layers * share
    jobs.stream("stream", True, attention * rotary, 2 * shape.attention_layers * share)
    jobs.stream("stream_back", True, attention * rotary, 2 * shape.attention_layers * share)
    held = (shape.body_parameters / of.tensor + shape.routed_parameters / of.expert) * share
    in_four_bits = of.kind == "qlora"  # weights in 4 bits are read and written in 16 for each pass
    for part in ("stream", "stream_back"):
        jobs.stream(part, in_four_bits, 2.6 * held, 4 * blocks)
    gathered = (of.zero >= 2) & (of.pipeline == 1)
    held = held * TPU_CORES.get(jobs.kernels.device.name, 1)  # each core gathers all weights into its own memory
    # shards are cast from 32 bits, gathered weights copied apart, gradients together
    size = 2.0 - of.gathers_8_bits
    copied = (2 * size + (size + np.where(of.trained, of.weight_bytes, 2.0)) / of.shards) * held
    jobs.stream("stream", gathered, copied, 3 * blocks)
    jobs.stream("stream_back", gathered, copied * (of.zero == 3), 3 * blocks)
    jobs.stream("stream_back", gathered & of.trained, (2.0 + program.reduced_bytes) * held, 2 * blocks)
    # gradients of a microbatch are added to what is held, in kernels of their own unless the weight gradient's product does it: apart in
    # 32 bits (github.com/huggingface/nanotron, gradient_accumulator.py: each), or in place from the second on (torch's AccumulateGrad)
    apart, size = program.held_bytes > 4, program.held_bytes
    added = np.where(apart, 2.0 + 4.0 + 4.0, 3 * size * (1 - 1 / of.microbatches)) * (sum(parameters_of_gpu(of)))
    jobs.stream("stream_back", program.kernels.isin("eager", "compiled") & (of.zero < 2) & of.trained, added, 9 * blocks / 2)
    # adapters of the attention layers: dropout, two narrow products, scaling and sum
    adapted = shape.attention_layers * share * tokens * shape.hidden / split
    jobs.stream("stream", ~of.trained, 34.0 * adapted, 12 * shape.attention_layers * share)
    jobs.stream("stream_back", ~of.trained, 60.0 * adapted, 20 * shape.attention_layers * share)


def _quantise(of: Cases, precision: str, jobs: _Jobs, tokens: Any, share: Any) -> None:
    """Inputs of the products in the forward pass, and gradients of their outputs in the backward pass, each once."""
    shape, t = of.shape, of.tensor
    size = QUANTISED_BYTES[precision] * np.where(of.defaults.kernels == "eager", 2.5, 1.0)  # scaling, clamping and cast one by one
    if precision == "fp8":
        size = size + np.where(of.device.architecture == "hopper", 1.0, 0.0)
    attention, dense, experts = (share * count for count in (shape.attention_layers, shape.dense_layers, shape.expert_layers))
    width, kv = shape.heads * shape.head_size / t, np.maximum(shape.kv_heads / t, 1) * shape.head_size
    hidden, gates = shape.hidden / t, np.where(shape.gated, 2, 1)
    forward = attention * (hidden + width) + dense * (hidden + shape.dense_width / t)
    backward = attention * (width + 2 * kv + hidden) + dense * (gates * shape.dense_width / t + hidden)
    e = shape.experts
    inner, routed = np.where(e.latent > 0, e.latent, shape.hidden), e.per_token / t
    forward += experts * routed * (inner + e.width)
    backward += experts * routed * (gates * e.width + inner)
    kernels = 2 * (attention + dense + experts)
    # PyTorch's own programs quantise weights in each pass; those that were gathered in 8 bits are copied transposed (github.com/pytorch/ao,
    # float8/float8_ops.py, preprocess_addmm); Megatron's keep theirs in 8 bits
    each_pass = of.defaults.kernels.isin("eager", "compiled")
    weights = (shape.body_parameters / t + shape.routed_parameters / of.expert) * share * each_pass
    in_8_bits = of.gathers_8_bits & (of.zero >= 2) & (of.shards > 1)
    for part, elements, of_weight in (("stream", forward, 0.0), ("stream_back", backward, 2.0)):
        moved = size * tokens * elements + np.where(in_8_bits, of_weight, size) * weights
        jobs.stream(part, True, moved, kernels * (1 + each_pass))


def _head(of: Cases, jobs: _Jobs, tokens: Any) -> None:
    vocabulary = of.padded_vocabulary / of.tensor
    count, hidden = 1.0 + of.shape.mtp_modules, of.shape.hidden
    for m, n, k in ((tokens, vocabulary, hidden), (tokens, hidden, vocabulary), (vocabulary, hidden, tokens)):
        jobs.ask("bf16", "head", True, count, m, n, k)
    jobs.stream("head_stream", True, count * tokens * vocabulary * of.defaults.loss_bytes, 8)


def parameters_of_gpu(of: Any) -> tuple[Any, Any]:
    """Weights that a GPU of the fullest stage works with: (all but routed experts, routed experts), before sharding."""
    shape = of.shape
    ends = shape.hidden * (of.padded_vocabulary * np.where(shape.tied, 1, np.where(of.pipeline == 1, 2, 1)))
    ends = ends + shape.hidden * shape.learned_positions
    dense = (shape.body_parameters / of.pipeline + ends) / of.tensor
    return dense, shape.routed_parameters / of.pipeline / of.expert


def _update(of: Cases, jobs: _Jobs) -> None:
    dense, routed = parameters_of_gpu(of)
    shards, expert_shards = (np.where(of.zero, ways, 1.0) for ways in (of.shards, of.expert_replicas))
    held = dense / shards + routed / expert_shards
    # gradient read for the norm, read and written to be scaled, read; weight and moments read and written
    # (torch.nn.utils.clip_grad_norm_, torch.optim.AdamW with fused=True)
    moved = 6 * of.weight_bytes + 2 * of.moments_bytes
    jobs.stream("update", True, np.where(of.trained, held, 0.0) * moved, 8)


@cache
def system_of(machine: Machine) -> systems.System:
    """The machine with its nodes and network, as `collective_time` takes it."""
    device = devices.load(machine.device)
    return systems.of_device(device) if machine.tpu else systems.cluster(device, machine.domain, machine.network_bytes_per_s)


def collectives_s(of: Cases, kind: Any, size: Any, members: Any, stride: Any, message: Any = 0.0) -> Floats:
    """Collectives one after the other (s), of each case.

    Args:
        kind: as of `collective_s`; size: bytes in all; members, stride: GPUs of the group and their distance.
        message: bytes of each (0: there is one).
    """
    size, members, stride, message = (
        np.broadcast_to(np.asarray(column, np.float64), len(of)) for column in (size, members, stride, message)
    )
    rows = np.flatnonzero((members > 1) & (size > 0))
    found = np.zeros(len(of))
    size, message = size[rows], message[rows]
    count = np.where(message > 0, np.maximum(1.0, size / np.where(message > 0, message, 1.0)), 1.0)
    ways, apart = np.rint(members[rows]), np.maximum(1, np.rint(stride[rows]))
    groups, first = alike(of.machine.take(rows), ways, apart)
    order = np.argsort(groups, kind="stable")
    each = np.split(order, np.cumsum(np.bincount(groups, minlength=len(first)))[:-1]) if rows.size else []
    seconds = np.empty(len(rows))
    for some, one in zip(each, first, strict=True):
        machine = system_of(of.machine[rows[one]])
        seconds[some] = collective_s(kind, size[some] / count[some], int(ways[one]), machine, int(apart[one]))
    found[rows] = count * seconds
    return found


@cache
def dealt(blocks: float, pipeline: int, block: float, head: float) -> tuple[tuple[float, ...], int]:
    """Blocks of each stage, dealt by cost, and the stage of the output layer: a stage takes blocks until their cost passes its share
    (github.com/huggingface/nanotron, build_and_set_rank).

    Args:
        blocks, pipeline: blocks and stages (counts); block, head: cost of a block and of the output layer.
    """
    held, stage, cost = [0.0] * pipeline, 0, 0.0
    for _ in range(int(blocks)):
        held[stage] += 1
        cost += block
        if cost > (block * blocks + head) * (stage + 1) / pipeline:
            stage += 1
    return tuple(held), stage


def stages(of: Cases) -> tuple[Shared, Any]:
    """Of each case the blocks of its stages, and the stage of the output layer: the last one, or as they are `dealt`."""
    shape, count = of.shape, of.pipeline
    block = (shape.body_parameters + shape.routed_parameters) / shape.blocks - 2 * shape.hidden  # without norms
    head = np.where((of.defaults.output_layer == "last") | (count == 1), -1.0, shape.hidden * of.padded_vocabulary)
    codes, first = alike(shape.blocks, count, block, head)
    found = []
    for row in first:
        blocks, ways = float(shape.blocks[row]), int(count[row])
        even = ((blocks / ways,) * ways, ways - 1)
        found.append(even if head[row] < 0 else dealt(blocks, ways, float(block[row]), float(head[row])))
    return Shared([held for held, _ in found], codes), np.array([stage for _, stage in found])[codes]


@dataclass(frozen=True)
class Exchange:
    """A collective of many cases, arrays all.

    Args:
        parts: how often its seconds count in each part of `Parts`.
        kind, size, members, stride, message: as of `collectives_s`.
    """

    parts: dict[str, Any]
    kind: str
    size: Any
    members: Any
    stride: Any
    message: Any = 0.0


def _communicate(of: Cases, values: dict[str, Floats]) -> None:
    for each in exchanges(of):
        seconds = collectives_s(of, each.kind, each.size, each.members, each.stride, each.message)
        for part, often in each.parts.items():
            values[part] += often * seconds
    spread = np.flatnonzero((of.expert > 1) & of.shape.experts.there)
    if spread.size:
        values["expert"][spread] = values["expert_back"][spread] = _dispatch_s(of.take(spread))


def exchanges(of: Cases) -> Iterator[Exchange]:
    """Every collective of a step but the all-to-all of experts (`to_experts`)."""
    shape, t = of.shape, of.tensor
    tokens = of.micro_batch * of.sequence / of.context
    boundary = 2.0 * tokens * shape.hidden
    share = 1.0 / of.pipeline
    blocks = (shape.attention_layers + shape.dense_layers + shape.expert_layers + shape.linear_layers) * share
    for kind, size in (("all_gather", boundary * np.where(of.gathers_8_bits, 0.5, 1.0)), ("reduce_scatter", boundary)):
        yield Exchange({"tensor": blocks, "tensor_back": blocks}, kind, size, t, 1)
    kv = 2 * tokens * np.maximum(shape.kv_heads / t, 1.0) * shape.head_size * 2.0
    size = np.where(of.context > 1, kv * of.context, 0.0)
    yield Exchange({"context": 3 * shape.attention_layers * share}, "all_gather", size, of.context, t)
    sent = np.where(of.pipeline > 1, boundary / t, 0.0)
    yield Exchange({"send": 2 * of.virtual}, "send_recv", sent, 2, of.gpus / of.pipeline)
    yield from _synchronised(of)


def to_experts(of: Cases, ways: Any) -> tuple[Any, Any]:
    """Bytes of a GPU's tokens of a microbatch, and to how many of some GPUs or domains with experts each goes (itself among them)."""
    shape, chosen = of.shape, of.shape.experts.per_token
    tokens = of.micro_batch * of.sequence / of.context
    size = tokens / of.tensor * 2.0 * np.where(shape.experts.latent > 0, shape.experts.latent, shape.hidden)
    return size, np.where(of.recipe.dispatcher == "flex", _reached(ways, chosen), chosen)  # torch's all-to-all sends each copy


def _dispatch_s(of: Cases) -> Any:
    """All-to-all of the experts of a stage, there and back (s): a token goes once to each GPU that holds one of its experts, and over the
    network once to each domain that does."""
    domains = np.maximum(1.0, of.expert * of.tensor / of.machine.domain)
    size, _ = to_experts(of, of.expert)
    gpus, away = (to_experts(of, ways)[1] * (1 - 1 / ways) for ways in (of.expert, domains))
    joined = np.maximum(2, np.minimum(of.expert * of.tensor, of.machine.domain))
    codes, first = alike(of.machine, joined)
    inner = np.array([system_of(of.machine[row]).group(int(joined[row])).bandwidth_bytes_per_s for row in first])[codes]
    seconds = size * np.maximum(gpus / (0.7 * inner), away / (0.7 * of.machine.network_bytes_per_s)) + 30e-6
    return 2 * seconds * of.shape.expert_layers * (1.0 / of.pipeline)


def _reached(ways: Any, chosen: Any) -> Floats:
    """Of so many GPUs or domains, those that hold at least one of a token's experts, drawn evenly (count)."""
    codes, first = alike(ways, chosen)
    return np.array([float(ways[row]) * (1 - (1 - 1 / float(ways[row])) ** float(chosen[row])) for row in first])[codes]


def _synchronised(of: Cases) -> Iterator[Exchange]:
    """Gradients and sharded weights: what is gathered and reduced each microbatch (ZeRO 2 and 3) or once a step."""
    program, t = of.defaults, of.tensor
    dense, routed = parameters_of_gpu(of)
    replicas = of.data * of.context * 1.0
    experts = np.where(routed > 0, of.expert_replicas, 1.0)
    shards, size = of.shards, program.reduced_bytes
    held = np.where(of.kind == "qlora", 0.55, 2.0)
    message = np.maximum(program.bucket_bytes, program.bucket_bytes_per_replica * replicas)
    unit = np.maximum(1.0, (dense + routed) / np.maximum(1.0, of.shape.blocks / of.pipeline))
    sharded, alone = of.zero >= 2, of.pipeline == 1
    # weights stay gathered over the microbatches of a pipeline; otherwise the root's own are gathered first, kept, and reduced last
    # (docs.pytorch.org, fully_shard)
    ends = np.where(alone, (dense - of.shape.body_parameters / t) / (dense + routed), 0.0)
    inside = np.where(alone, 1 - ends, 0.0)
    within = inside * np.where(of.gathers_8_bits, 0.5, 1.0)
    gathered = {"collect": ~alone * 1.0, "ends": ends, "gather": within, "gather_back": within * (of.zero == 3)}
    scattered = {"ends": ends, "gather_back": np.where(alone, inside, 1.0)}
    reduced = sharded & of.trained
    both = ((dense, shards, t), (routed, experts, of.expert))
    for n, members, stride in both:
        yield Exchange(gathered, "all_gather", np.where(sharded, held * n, 0.0), members, stride, held * unit)
        yield Exchange(scattered, "reduce_scatter", np.where(reduced, size * n, 0.0), members, stride, size * unit)
    once = {"reduce": 1.0}
    hybrid = np.where(reduced & (replicas > shards), size * dense / shards, 0.0)  # hybrid sharding
    yield Exchange(once, "all_reduce", hybrid, replicas / shards, t * shards, message)
    # sharded optimizer: gradients scattered, weights gathered after the update; otherwise gradients all-reduced
    whole = ~sharded & of.trained
    apart = (of.zero > 0) & (shards == replicas)
    for n, members, stride in ((dense, replicas, t), (routed, experts, of.expert)):
        for kind, where in (("reduce_scatter", apart), ("all_reduce", ~apart)):
            yield Exchange(once, kind, np.where(whole & where, size * n, 0.0), members, stride, message)
    tied = np.where(whole & ~alone & of.shape.tied, size * of.shape.hidden * of.padded_vocabulary / t, 0.0)
    yield Exchange(once, "all_reduce", tied, 2, of.gpus / of.pipeline)
    back = whole & (of.zero > 0)
    for n, members, stride in both:
        yield Exchange({"collect": 1.0}, "all_gather", np.where(back, 2 * n, 0.0), members, stride, message)
