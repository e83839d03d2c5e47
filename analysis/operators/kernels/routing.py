"""How many rows each expert of the busiest rank multiplies: the draws that the authors of the expert timings document.

https://github.com/ai-dynamo/aiconfigurator, collector/helper.py (commit 006afd7): `power_law_logits_v3` draws each expert's tokens from a
power law of 1 to 0.8 times the tokens (0.01 to 2 where the choices are fewer than the experts), rounds them, caps them at the tokens,
levels the smallest up, and times the rank whose experts have most; balanced ones all get the same.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from analysis.operators.kernels.work import Floats

HEIGHTS = (16, 32, 64, 128)  # rows of a tile
DRAWS = 8
MOST = 4096  # experts that are drawn; of more, each stands for several
ALONE, GROUPS = 8, 8  # the largest experts are kept one by one, the rest in groups of their order


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
    """Rows of the timed rank's experts.

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
