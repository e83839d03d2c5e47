"""FLOP and least bytes of one kernel; how many rows each expert gets (`loads`)."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.kernels.gpus import ACTIVATION_BYTES, WEIGHT_BYTES

Floats = NDArray[np.float64]
LATENT, ROPE, QK_LATENT, V_LATENT = 512.0, 64.0, 192.0, 128.0  # multi-head latent attention as DeepSeek-V2 and V3 have it
HEIGHTS = (16, 32, 64, 128)  # rows of a tile
DRAWS = 8
MOST = 4096  # experts that are drawn; of more, each stands for several
ALONE, GROUPS = 8, 8  # the largest experts are kept one by one, the rest in groups of their order


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


class Loads(NamedTuple):
    """Of the timed rank: experts with any row, their rows, tokens that go to any, shapes (n,); tiles of `HEIGHTS`, shape (4, n)."""

    active: Floats
    pairs: Floats
    tokens: Floats
    tiles: Floats


@lru_cache(maxsize=20_000)
def _profile(experts: int, ranks: int, alpha: float, most: float) -> tuple[Floats, Floats]:
    """Shares of all choices that the busiest rank's experts have, in groups with their counts; means of `DRAWS` draws.

    Args:
        alpha: of the power law; 0: all the same. most: where it ends; 0: it runs from 0.01 to 2.
    """
    low, high = (v ** (1 - alpha) for v in ((1.0, max(most, 1.0001)) if most else (0.01, 2.0)))
    x = ((high - low) * np.random.default_rng(experts).random((DRAWS, experts)) + low) ** (1 / (1 - alpha))
    x = x if alpha else np.ones((DRAWS, experts))
    by_rank = (x / x.sum(axis=1, keepdims=True))[:, : experts // ranks * ranks].reshape(DRAWS, ranks, -1)
    busiest = by_rank[np.arange(DRAWS), by_rank.sum(axis=2).argmax(axis=1)]
    shares = -np.sort(-busiest, axis=1).mean(axis=0)
    parts = [*shares[:ALONE, None], *(p for p in np.array_split(shares[ALONE:], GROUPS) if len(p))]
    empty = [0.0] * (ALONE + GROUPS - len(parts))
    return np.array([p.mean() for p in parts] + empty), np.array([float(len(p)) for p in parts] + empty)


def loads(tokens: ArrayLike, experts: ArrayLike, top_k: ArrayLike, ranks: ArrayLike, distribution: str, crowded: bool = False) -> Loads:
    """Rows of the timed rank's experts, by the draws that the authors of the expert timings document.

    https://github.com/ai-dynamo/aiconfigurator, collector/helper.py (commit 006afd7): `power_law_logits_v3` draws each expert's tokens from
    a power law of 1 to 0.8 times the tokens (0.01 to 2 where the choices are fewer than the experts), rounds them, caps them at the tokens,
    levels the smallest up, and times the rank whose experts have most; balanced ones all get the same.

    Args:
        tokens: of the batch, over all `ranks` that share the experts; each goes to `top_k` of `experts`.
        distribution: balanced, or power_law_ and its exponent.
        crowded: the rank's tokens keep all their choices, those of other ranks' experts on its first (`collector/sglang/collect_moe.py`
            there, for Triton's and Marlin's kernels).
    """
    t, e, k, r = (np.asarray(v, dtype=np.float64) for v in (tokens, experts, top_k, ranks))
    alpha = 0.0 if distribution == "balanced" else float(distribution.rsplit("_", 1)[-1])
    most = np.where(t * k > e, 2 ** (np.round(2 * np.log2(np.maximum(0.8 * t, 1.0))) / 2), 0.0) * (alpha > 0)
    drawn = np.minimum(e, MOST)
    keys, at = np.unique(np.stack([drawn, np.clip(r, 1, drawn), most]), axis=1, return_inverse=True)
    found = [_profile(int(e_), int(r_), alpha, float(m)) for e_, r_, m in keys.T]
    share, count = (np.stack([f[i] for f in found])[at.ravel()] for i in (0, 1))
    share, count = share * (drawn / e)[:, None], count * (e / drawn)[:, None]
    rows = np.minimum(np.floor(share * (t * k)[:, None] + 0.5), t[:, None])
    short = np.maximum(t * k / r - (count * rows).sum(axis=1), 0)  # of an even share of the choices
    single = np.minimum(short, (count * (rows <= 0)).sum(axis=1))
    pairs = np.maximum((count * rows).sum(axis=1) + short, 1.0)
    none = np.exp((count * np.log1p(-np.minimum(rows / t[:, None], 1 - 1e-9))).sum(axis=1) - single / t)
    touched = np.where(r > 1, np.clip(t * (1 - none), np.minimum(pairs / k, t), t), t)
    crowd = np.where(r > 1, np.maximum(touched * k - pairs, 0), 0) if crowded else np.zeros(len(t))
    active = np.maximum((count * (rows > 0)).sum(axis=1) + single, 1.0)
    tiles = [np.maximum((count * np.ceil(rows / height)).sum(axis=1) + single + crowd / height, 1.0) for height in HEIGHTS]
    return Loads(active, pairs + crowd, touched, np.stack(tiles))
