"""LightLLM: token-grained cache; prompts are admitted only if all admitted requests can run to their end.

Prompts go in batches of their own, when nothing runs or after `max_waiting` decode batches. With the admitted requests sorted by tokens
left, longest first, request k frees its cache after all behind it, so the peak need is max over k of
`k x left_k + tokens held by the first k`; it must stay below the capacity. A block holds one token.

Source: LightLLM's "efficient router", as recorded by VIDUR 7d47513 in data/recorded/vidur.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from analysis.compiled import inner
from analysis.serving.memory import admit, take
from analysis.serving.state import NONE, Replica, take_first


@inner(error_model="numpy", _nrt=False)
def insert(left: Any, held: Any, count: int, tokens_left: int, tokens_held: int) -> None:
    """Insert a request into the lists sorted by tokens left, longest first."""
    k = count
    while k > 0 and left[k - 1] < tokens_left:
        left[k], held[k] = left[k - 1], held[k - 1]
        k -= 1
    left[k], held[k] = tokens_left, tokens_held


@inner(error_model="numpy", _nrt=False)
def peak_need(left: Any, held: Any, count: int) -> int:
    """Most tokens the listed requests will ever hold together."""
    need, total = 0, 0
    for k in range(count):
        total += held[k]
        need = max(need, left[k] * (k + 1) + total)
    return need


@inner(error_model="numpy", _nrt=True)
def prefill_batch(replica: Replica) -> int:
    """Fill a batch with prompts; returns how many."""
    state, requests, limits = replica.state, replica.requests, replica.limits
    if state.first == NONE:
        return 0
    left, held = np.empty(limits.max_batch + 1, np.int64), np.empty(limits.max_batch + 1, np.int64)
    for k in range(state.running):
        request = requests[replica.running[k]]
        insert(left, held, k, max(0, request.total - request.processed - 1), request.processed)
    size, used, count = 0, 0, state.running
    while state.first != NONE:
        i = state.first
        request = requests[i]
        if used + request.prefill > limits.max_tokens or state.admitted == limits.max_batch:
            break
        insert(left, held, count, max(0, request.total - request.prefill - 2), request.prefill + 1)
        count += 1
        if peak_need(left, held, count) >= limits.blocks:
            break
        take_first(replica)
        admit(replica, i, request.prefill)
        replica.batch[size], replica.tokens[size] = i, request.prefill
        size, used = size + 1, used + request.prefill
    return size


@inner(error_model="numpy", _nrt=False)
def schedule(replica: Replica) -> int:
    """Fill the next batch; returns how many requests are in it."""
    state, limits = replica.state, replica.limits
    if state.running == 0 or state.decodes >= limits.max_waiting:
        state.decodes = 0
        size = prefill_batch(replica)
        if size > 0:
            return size
    size = state.running
    if size > 0:
        state.decodes += 1
    for k in range(size):
        i = replica.running[k]
        take(replica, i, 1)
        replica.batch[k], replica.tokens[k] = i, 1
    state.running = 0
    return size
