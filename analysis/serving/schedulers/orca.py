"""Orca: iteration-level scheduling; each request reserves the cache of the longest possible one.

Every batch holds all running requests and as many new ones, prompts whole, as the batch limit and the reservation allow.

Source: Yu et al., OSDI 2022, algorithm 1; VIDUR 7d47513 as recorded in data/recorded/vidur.
"""

from __future__ import annotations

from analysis.serving.compiled import inlined
from analysis.serving.memory import admit
from analysis.serving.state import NONE, Replica, keep_running, next_tokens, take_first


@inlined
def schedule(replica: Replica) -> int:
    """Fill the next batch; returns how many requests are in it."""
    state, requests, limits = replica.state, replica.requests, replica.limits
    size = min(state.running, limits.max_batch)
    for k in range(size):
        i = replica.running[k]
        replica.batch[k], replica.tokens[k] = i, next_tokens(requests[i])
    keep_running(replica, size, state.running)
    while state.first != NONE and size < limits.max_batch and state.free >= limits.reserve:
        i = take_first(replica)
        admit(replica, i, limits.reserve)
        replica.batch[size], replica.tokens[size] = i, next_tokens(requests[i])
        size += 1
    return size
