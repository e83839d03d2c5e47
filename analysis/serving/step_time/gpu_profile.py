"""How long does a batch take on a GPU whose kernels were profiled for a model? Everything by tokens, attention by four sizes, experts.

Attention of a mixed batch is that of its decodes plus what each prompt chunk adds; prompts share a launch, and decodes are slower beside
prompts: both count once a batch, as if the prompts were one. Uneven cache lengths cost t = t_mean + alpha (t_max - t_mean).
Source: casys-kaist/LLMServingSim (MIT), profiler/core/fit_alpha.py; `serving.points.request_profile` reads its files.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from analysis.compiled import inner
from analysis.serving.interpolation import place, surface
from analysis.serving.state import Replica

SKEW_LEVERS = (0.25, 0.75, 1.5, 3.0)
"""Bounds between groups of (t_max - t_mean) / t_mean."""


class Profile(NamedTuple):
    """Seconds of a batch's pieces, for the compiled loop.

    Attributes:
        tokens: of everything that depends on the tokens alone, at 0, 1, 2, ... tokens; empty: there is no profile.
        sequences: of vocabulary and sampler, at 0, 1, 2, ... sequences.
        attention: all layers, shape (chunks, before, decodes, cached); its axes follow.
        alpha: shape (chunks of the skew table, decodes, levers: (t_max - t_mean) / t_mean); its axes follow; empty: no skew table.
        experts: all layers, shape (tokens, active experts); its axes follow; empty: none.
        expert_count, top_k: experts of a layer, and how many serve a token; ranks: GPUs that share them.
    """

    tokens: Any
    sequences: Any
    attention: Any
    chunk_axis: Any
    before_axis: Any
    decode_axis: Any
    cached_axis: Any
    alpha: Any
    alpha_chunks: Any
    alpha_decodes: Any
    experts: Any
    expert_tokens: Any
    expert_active: Any
    expert_count: float = 1.0
    top_k: float = 1.0
    ranks: float = 1.0


_LIST, _GRID = np.zeros(0), np.zeros((0, 0))
NO_PROFILE = Profile(
    _LIST, _LIST, np.zeros((0, 0, 0, 0)), _LIST, _LIST, _LIST, _LIST, np.zeros((0, 0, 0)), _LIST, _LIST, _GRID, _LIST, _LIST
)  # fmt: skip


@inner(_nrt=False)
def attention_s(p: Profile, chunk: float, before: float, decodes: float, cached: float) -> float:
    """Attention of all layers, by quadrilinear interpolation."""
    i, a = place(p.chunk_axis, chunk)
    j, b = place(p.before_axis, before)
    k, c = place(p.decode_axis, decodes)
    m, d = place(p.cached_axis, cached)
    total = 0.0
    for x in range(2):
        wx = a if x else 1 - a
        for y in range(2):
            wy = b if y else 1 - b
            for z in range(2):
                wz = c if z else 1 - c
                for w in range(2):
                    weight = wx * wy * wz * (d if w else 1 - d)
                    if weight != 0.0:
                        total += weight * p.attention[i + x, j + y, k + z, m + w]
    return total


@inner(_nrt=False)
def nearest(axis: Any, x: float) -> int:
    """Index of the point of an axis that is nearest in logarithms."""
    best = 0
    for i in range(axis.size):
        if abs(np.log1p(axis[i]) - np.log1p(x)) < abs(np.log1p(axis[best]) - np.log1p(x)):
            best = i
    return best


@inner(_nrt=False)
def experts_s(p: Profile, tokens: float) -> float:
    """Expert layers of one rank: uniform routing, 1 / ranks of the pairs and of the weights; 0 without experts."""
    if p.experts.size == 0:
        return 0.0
    active = p.expert_count * (1 - (1 - p.top_k / p.expert_count) ** tokens) / p.ranks
    return surface(p.expert_tokens, p.expert_active, p.experts, max(1.0, tokens / p.ranks), max(p.expert_active[0], active))


@inner(_nrt=False)
def profiled_s(p: Profile, replica: Replica, size: int) -> float:
    """Time of a batch without its experts."""
    tokens, decodes, cached, tallest, most, prompts, emitted, seen = 0, 0, 0, 0, 0, 0, 0, 0.0
    for k in range(size):
        request, chunk = replica.requests[replica.batch[k]], replica.tokens[k]
        tokens += chunk
        if request.processed > request.prefill:
            decodes += 1
            emitted += 1
            cached += request.processed
            tallest = max(tallest, request.processed)
        else:
            most = max(most, chunk)
            prompts += chunk
            seen += float(chunk) * request.processed
            emitted += 1 if request.processed + chunk == request.prefill else 0
    mean = cached / decodes if decodes > 0 else 0.0
    behind = seen / prompts if prompts > 0 else 0.0
    even = attention_s(p, float(prompts), behind, float(decodes), mean)
    attend = even
    if prompts > 0:
        attend -= attention_s(p, float(prompts), behind, 0.0, 0.0)
        least = p.chunk_axis[1]
        launch = attention_s(p, least, 0.0, 0.0, 0.0)
        for k in range(size):
            request, chunk = replica.requests[replica.batch[k]], replica.tokens[k]
            if request.processed <= request.prefill:
                attend += max(0.0, attention_s(p, max(least, float(chunk)), float(request.processed), 0.0, 0.0) - launch)
        attend += launch
    if decodes > 1 and p.alpha.size > 0 and tallest > mean:
        wide = max(0.0, attention_s(p, float(prompts), behind, float(decodes), float(tallest)) - even)
        group = 0
        while group < len(SKEW_LEVERS) and wide > SKEW_LEVERS[group] * even:
            group += 1
        attend += wide * p.alpha[nearest(p.alpha_chunks, float(most)), nearest(p.alpha_decodes, float(decodes)), group]
    return p.tokens[min(tokens, p.tokens.size - 1)] + p.sequences[min(emitted, p.sequences.size - 1)] + attend
