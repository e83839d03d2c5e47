"""The kernels of one transformer block on one GPU: matrix shapes and bytes moved, forward and backward.

Counts follow Korthikanti et al. 2022 (arXiv:2205.05198), section 4, extended to gates, grouped-query attention and mixtures of experts.
"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.studies.training.fixed_efficiency.plan import Plan, Software, padded_vocab
from analysis.workloads.models import Model

BYTES = 2  # of an activation or weight in 16-bit arithmetic


@dataclass(frozen=True)
class Gemm:
    """`batch` products of (m x k) and (k x n), with all operands in 16 bits: 2 batch m n k FLOP.

    Attributes:
        name: what it computes; m, n, k, batch: counts.
        extra_bytes: traffic beside the operands (bytes), such as a gradient read and written in place.
    """

    name: str
    m: float
    n: float
    k: float
    batch: float = 1.0
    extra_bytes: float = 0.0

    @property
    def flop(self) -> float:
        """2 batch m n k."""
        return 2.0 * self.batch * self.m * self.n * self.k

    @property
    def bytes(self) -> float:
        """Operands read and result written once (bytes)."""
        return BYTES * self.batch * (self.m * self.k + self.k * self.n + self.m * self.n) + self.extra_bytes


@dataclass(frozen=True)
class Stream:
    """A kernel bound by memory: bytes moved, in `kernels` launches."""

    name: str
    bytes: float
    kernels: int = 1


@dataclass(frozen=True)
class FusedAttention:
    """Attention that never writes its matrix: FLOP at matrix speed, bytes of queries, keys, values and output."""

    name: str
    flop: float
    bytes: float


Kernel = Gemm | Stream | FusedAttention


@dataclass(frozen=True)
class Block:
    """Kernels of one block: forward, of which `core` (attention scores) is what selective recomputation repeats, and backward."""

    forward: tuple[Kernel, ...]
    core: tuple[Kernel, ...]
    backward: tuple[Kernel, ...]
    weight_gradients: tuple[Kernel, ...]


def _split(plan: Plan) -> int:
    return plan.tensor_parallel if plan.sequence_parallel else 1


def block_kernels(model: Model, plan: Plan, software: Software) -> Block:
    """Kernels that one GPU runs for one block and one microbatch."""
    t, tokens, h = plan.tensor_parallel, plan.tokens, model.hidden
    unit = tokens * h / _split(plan)  # elements of a residual on this GPU
    heads, width, kv = model.heads / t, model.attention_width / t, max(model.kv_width / t, model.head_size)
    ffn = model.ffn_width / t
    s, d = plan.sequence_length, model.head_size
    mask = 1 if software.dropout else 0
    linears = [("qkv", width + 2 * kv, h), ("projection", h, width), ("ffn_in", (2 if model.gated else 1) * ffn, h), ("ffn_out", h, ffn)]
    core_forward, core_backward = _attention(model, software, plan.microbatch * heads, s, d, tokens * (width + kv))
    activation = (3 if model.gated else 2) * BYTES * tokens * ffn
    forward: list[Kernel] = [Stream("norm", 2 * 2 * BYTES * unit, 2)]
    forward += [Gemm(name, tokens, n, k) for name, n, k in linears]
    forward += [Stream("activation", activation), Stream("dropout_add", 2 * (3 * BYTES + mask) * unit, 2)]
    backward: list[Kernel] = [Stream("norm_backward", 2 * 5 * BYTES * unit, 4)]
    backward += [Stream("residual_gradients", 2 * 3 * BYTES * unit, 2)]
    backward += [Gemm(f"{name}_input_gradient", tokens, k, n) for name, n, k in linears]
    backward += [Stream("activation_backward", (5 if model.gated else 3) * BYTES * tokens * ffn)]
    if software.dropout:
        backward += [Stream("dropout_backward", 2 * (2 * BYTES + mask) * unit, 2)]
    if model.attention and model.attention.biases != "none":
        backward += [Stream("bias_gradients", BYTES * (2 * unit + tokens * (width + 2 * kv) + tokens * ffn), 4)]
    weights: list[Kernel] = []
    for name, n, k in linears:
        if software.fused_gradients:
            weights.append(Gemm(f"{name}_weight_gradient", n, k, tokens, extra_bytes=2 * software.gradient_bytes * (n * k)))
        else:
            weights.append(Gemm(f"{name}_weight_gradient", n, k, tokens))
            weights.append(Stream(f"{name}_accumulate", (BYTES + 2 * software.gradient_bytes) * (n * k)))
    return Block(tuple(forward + core_forward), tuple(core_forward), tuple(backward + core_backward), tuple(weights))


def _attention(model: Model, software: Software, matrices: float, s: int, d: int, operands: float) -> tuple[list[Kernel], list[Kernel]]:
    """Scores, softmax, dropout and weighted sum for `matrices` heads of s x s; `operands` elements of queries and keys."""
    if software.attention == "fused":
        share = 0.5 if model.causal else 1.0  # blocks above the diagonal are skipped
        flop = 4.0 * matrices * s * s * d * share
        return (
            [FusedAttention("attention", flop, 2 * BYTES * operands)],
            [FusedAttention("attention_backward", 2.5 * flop, 4 * BYTES * operands)],
        )
    elements = matrices * s * s
    forward: list[Kernel] = [Gemm("scores", s, s, d, matrices), Stream("softmax", 2 * BYTES * elements), Gemm("context", s, d, s, matrices)]
    backward: list[Kernel] = [
        Gemm("context_gradient", s, s, d, matrices),
        Gemm("value_gradient", s, d, s, matrices),
        Stream("softmax_backward", 3 * BYTES * elements),
        Gemm("query_gradient", s, d, s, matrices),
        Gemm("key_gradient", s, d, s, matrices),
    ]
    if software.dropout:
        forward.append(Stream("attention_dropout", (2 * BYTES + 1) * elements))
        backward.append(Stream("attention_dropout_backward", (2 * BYTES + 1) * elements))
    return forward, backward


def head_kernels(model: Model, plan: Plan, software: Software) -> tuple[tuple[Kernel, ...], tuple[Kernel, ...]]:
    """Kernels of the output layer and the loss for one microbatch, (forward, backward): logits, then softmax and its gradient in fp32."""
    tokens, h, vocab = plan.tokens, model.hidden, padded_vocab(model, plan) / plan.tensor_parallel
    forward = (Gemm("logits", tokens, vocab, h), Stream("loss", (BYTES + 3 * 4) * tokens * vocab, 4))
    backward = (
        Stream("loss_backward", (4 + 4 + BYTES) * tokens * vocab, 2),
        Gemm("logits_input_gradient", tokens, h, vocab),
        Gemm("logits_weight_gradient", vocab, h, tokens, extra_bytes=2 * software.gradient_bytes * vocab * h),
    )
    return forward, backward


def embedding_kernels(model: Model, plan: Plan) -> tuple[tuple[Kernel, ...], tuple[Kernel, ...]]:
    """Kernels of the input embedding for one microbatch, (forward, backward)."""
    moved = 3 * BYTES * plan.tokens * model.hidden
    return (Stream("embedding", moved, 2),), (Stream("embedding_backward", moved, 2),)
