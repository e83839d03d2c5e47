"""vLLM v0: prompts first, in batches of their own; otherwise one token for every running request.

A prompt is admitted while padded tokens (requests x longest prompt) stay within the batch's token limit, the batch limit holds and the
watermark of free blocks stays untouched. A decode step goes by arrival; a request runs only if at least one block is free, and the
latest arrivals are preempted to make it so. A prompt longer than the token limit, which only a recomputed one can be, is let in alone.

Source: Kwon et al., SOSP 2023, section 4.5; VIDUR 7d47513 as recorded in data/recorded/vidur.
"""

from __future__ import annotations

from analysis.compiled import inner
from analysis.serving.memory import admit, blocks_for, fits, grow, make_room, resume_swapped
from analysis.serving.state import NONE, Replica, keep_running, next_tokens, sort_running, take_first


@inner(error_model="numpy", _nrt=False)
def schedule(replica: Replica) -> int:
    """Fill the next batch; returns how many requests are in it."""
    state, requests, limits = replica.state, replica.requests, replica.limits
    resume_swapped(replica)
    size, longest = 0, 0
    while state.first != NONE and requests[state.first].swapped == 0:
        i = state.first
        request = requests[i]
        blocks = blocks_for(request.prefill, limits.block_size)
        if not fits(replica, i, blocks, limits.watermark):
            break
        padded = (size + 1) * max(longest, request.prefill)
        if padded > limits.max_tokens and not (size == 0 and request.restarts > 0):
            break
        if state.admitted == limits.max_batch:
            break
        take_first(replica)
        admit(replica, i, blocks)
        replica.batch[size], replica.tokens[size] = i, next_tokens(request)
        size, longest = size + 1, max(longest, request.prefill)
    if size > 0:
        return size

    sort_running(replica, False)
    first, last = 0, state.running
    while first < last and size < limits.max_batch:
        i = replica.running[first]
        first += 1
        runs, last = make_room(replica, i, 1, first, last)
        if runs:
            grow(replica, i)
            replica.batch[size], replica.tokens[size] = i, 1
            size += 1
    keep_running(replica, first, last)
    return size
