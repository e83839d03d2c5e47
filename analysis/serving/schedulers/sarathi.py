"""Sarathi-Serve: every batch decodes all running requests and fills up with pieces of prompts, within a chunk of tokens.

Order in a batch: running decodes, prompts begun earlier, new prompts. Blocks for a whole prompt are taken when it is admitted.
Decodes may exceed the chunk (each needs its token); prompts never do.

Source: Agrawal et al., OSDI 2024, algorithm 3; VIDUR 7d47513 as recorded in data/recorded/vidur.
"""

from __future__ import annotations

from analysis.compiled import inner
from analysis.serving.memory import admit, blocks_for, fits, grow, make_room, resume_swapped
from analysis.serving.state import NONE, Replica, next_tokens, sort_running, take_first


@inner(error_model="numpy", _nrt=False)
def schedule(replica: Replica) -> int:
    """Fill the next batch; returns how many requests are in it."""
    state, requests, limits = replica.state, replica.requests, replica.limits
    running, batch, tokens = replica.running, replica.batch, replica.tokens
    resume_swapped(replica)

    # Positions 0 to begun - 1 of the running list, which are read already, collect the prompts begun earlier.
    size, used, begun = 0, 0, 0
    first, last = 0, state.running
    while first < last and size < limits.max_batch:
        i = running[first]
        first += 1
        if requests[i].processed < requests[i].prefill:
            running[begun] = i
            begun += 1
            continue
        runs, last = make_room(replica, i, 1, first, last)
        if runs:
            grow(replica, i)
            batch[size], tokens[size] = i, 1
            size, used = size + 1, used + 1

    kept = 0
    for k in range(begun):
        i = running[k]
        chunk = min(next_tokens(requests[i]), limits.chunk - used)
        if chunk > 0:
            batch[size], tokens[size] = i, chunk
            size, used = size + 1, used + chunk
        else:
            running[kept] = i
            kept += 1
    for k in range(first, last):
        running[kept] = running[k]
        kept += 1
    state.running = kept
    sort_running(replica, False)

    while state.first != NONE and requests[state.first].swapped == 0:
        i = state.first
        blocks = blocks_for(requests[i].prefill, limits.block_size)
        if state.admitted == limits.max_batch or size == limits.max_batch or used >= limits.chunk:
            break
        if not fits(replica, i, blocks, limits.watermark):
            break
        take_first(replica)
        admit(replica, i, blocks)
        chunk = min(next_tokens(requests[i]), limits.chunk - used)
        batch[size], tokens[size] = i, chunk
        size, used = size + 1, used + chunk
    return size
