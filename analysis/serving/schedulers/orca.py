"""Orca: iteration-level scheduling; each request reserves the cache of the longest possible one.

Every batch holds all running requests and as many new ones, prompts whole, as the batch limit and the reservation allow.

Source: Yu et al., OSDI 2022, algorithm 1; VIDUR 7d47513 as recorded in data/recorded/vidur.
"""

from __future__ import annotations

from analysis.compiled import inner
from analysis.serving.memory import admit_whole
from analysis.serving.state import Replica, keep_running, next_tokens


@inner(error_model="numpy", _nrt=False)
def schedule(replica: Replica) -> int:
    """Fill the next batch; returns how many requests are in it."""
    state, requests = replica.state, replica.requests
    size = min(state.running, replica.limits.max_batch)
    for k in range(size):
        i = replica.running[k]
        replica.batch[k], replica.tokens[k] = i, next_tokens(requests[i])
    keep_running(replica, size, state.running)
    return admit_whole(replica, size)
