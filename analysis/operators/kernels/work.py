"""FLOP and bytes of one kernel: what has to be multiplied and what has to be moved at least."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.operators.kernels.gpus import ACTIVATION_BYTES, WEIGHT_BYTES

Floats = NDArray[np.float64]
LATENT, ROPE, QK_LATENT, V_LATENT = 512.0, 64.0, 192.0, 128.0  # multi-head latent attention as DeepSeek-V2 and V3 have it


class Work(NamedTuple):
    """What a kernel has to do, shapes (n,): FLOP of the matrix unit, and bytes to and from memory at least."""

    flop: Floats
    bytes: Floats


def _f(*values: ArrayLike) -> list[Floats]:
    return [np.asarray(v, dtype=np.float64) for v in values]


def gemm(m: ArrayLike, n: ArrayLike, k: ArrayLike, dtype: str) -> Work:
    """C = A B with A (m, k), B (k, n): 2mnk FLOP; the three matrices once, C in 16 bits."""
    m, n, k = _f(m, n, k)
    return Work(2 * m * n * k, ACTIVATION_BYTES[dtype] * m * k + WEIGHT_BYTES[dtype] * n * k + 2 * m * n)


def causal_pairs(query_tokens: ArrayLike, kv_tokens: ArrayLike, window: ArrayLike = 0, causal: bool = True) -> Floats:
    """Query-key pairs of one head: the queries are the last of the keys; each sees those before it, at most `window` of them (0: all)."""
    q, kv, w = _f(query_tokens, kv_tokens, window)
    if not causal:
        return q * kv
    full = q * (kv - q) + q * (q + 1) / 2
    w = np.where(w > 0, w, np.inf)
    start = np.clip(w - (kv - q), 0, q)  # queries that see fewer keys than the window holds
    with np.errstate(invalid="ignore"):
        cut = start * (kv - q) + start * (start + 1) / 2 + np.where(np.isfinite(w), (q - start) * np.where(np.isfinite(w), w, 0), 0)
    return np.minimum(full, np.where(np.isfinite(w), cut, full))


def attention_prefill(
    batch: ArrayLike, query_heads: ArrayLike, kv_heads: ArrayLike, head_size: ArrayLike, value_size: ArrayLike,
    query_tokens: ArrayLike, kv_tokens: ArrayLike, kv_bytes: float, window: ArrayLike = 0, causal: bool = True,
) -> Work:  # fmt: skip
    """Softmax(QK')V: 2 FLOP a pair for each of the head's query and value sizes; Q, K, V and the result once."""
    b, h, g, d, v, q, kv = _f(batch, query_heads, kv_heads, head_size, value_size, query_tokens, kv_tokens)
    flop = 2 * b * h * (d + v) * causal_pairs(q, kv, window, causal)
    return Work(flop, b * (2 * q * h * (d + v) + kv_bytes * kv * g * (d + v)))


def attention_decode(
    batch: ArrayLike,
    query_heads: ArrayLike,
    kv_heads: ArrayLike,
    head_size: ArrayLike,
    kv_tokens: ArrayLike,
    kv_bytes: float,
    window: ArrayLike = 0,
) -> Work:
    """One query a sequence over the keys and values cached."""
    b, h, g, d, kv, w = _f(batch, query_heads, kv_heads, head_size, kv_tokens, window)
    kv = np.where(w > 0, np.minimum(kv, w), kv)
    return Work(4 * b * h * d * kv, b * (4 * h * d + 2 * kv_bytes * kv * g * d))


def latent_prefill(batch: ArrayLike, heads: ArrayLike, query_tokens: ArrayLike, kv_tokens: ArrayLike, kv_bytes: float) -> Work:
    """Latent attention of a prompt: keys of 192 and values of 128 a head, expanded."""
    b, h, q, kv = _f(batch, heads, query_tokens, kv_tokens)
    return Work(2 * b * h * (QK_LATENT + V_LATENT) * causal_pairs(q, kv), 2 * b * h * (QK_LATENT + V_LATENT) * (q + kv))


def latent_decode(batch: ArrayLike, heads: ArrayLike, kv_tokens: ArrayLike, kv_bytes: float) -> Work:
    """Latent attention of one token: all heads share 512 + 64 values a cached token."""
    b, h, kv = _f(batch, heads, kv_tokens)
    return Work(2 * b * h * kv * (2 * LATENT + ROPE), b * (kv_bytes * kv * (LATENT + ROPE) + 2 * h * (2 * LATENT + ROPE)))


class Routed(NamedTuple):
    """Mixture of experts on one GPU, shapes (n,): work, pairs of token and expert, experts (all, active), rows."""

    work: Work
    pairs: Floats
    local: Floats
    active: Floats
    rows: Floats


def moe(
    tokens: ArrayLike, experts: ArrayLike, top_k: ArrayLike, hidden: ArrayLike, intermediate: ArrayLike, dtype: str,
    tensor_parallel: ArrayLike = 1, expert_parallel: ArrayLike = 1, matrices: ArrayLike = 3.0,
) -> Routed:  # fmt: skip
    """Grouped GEMMs of the experts of one GPU: gate, up and down (two matrices without a gate); the active experts' weights once.

    Args:
        tokens: of the batch, over all GPUs that share the experts; each goes to `top_k` of `experts`.
        hidden, intermediate: width of the model and of an expert; tensor_parallel divides the latter, expert_parallel the experts.
    """
    t, e, k, h, i, tp, ep, x = _f(tokens, experts, top_k, hidden, intermediate, tensor_parallel, expert_parallel, matrices)
    i = i / tp
    local = np.maximum(e / ep, 1.0)
    pairs = t * k / ep
    active = np.maximum(local * -np.expm1(t * np.log1p(-np.minimum(k / e, 0.999999))), np.minimum(1.0, pairs))
    rows = pairs / active
    flop = 2 * pairs * h * i * x
    moved = WEIGHT_BYTES[dtype] * active * h * i * x + ACTIVATION_BYTES[dtype] * pairs * (h + i) + 2 * pairs * (h + i * (x - 1))
    return Routed(Work(flop, moved), pairs, local, active, rows)
