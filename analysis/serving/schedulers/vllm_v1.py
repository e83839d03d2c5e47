"""vLLM v1: one token budget a step; running requests first, each with what it needs next, then new ones.

There is no prefill or decode phase: a request asks for all tokens it lacks, cut to the budget, and blocks are taken for those tokens
only. A running request without blocks preempts the one admitted last, itself in the end. New requests are admitted only in a step that
preempted nobody.

Source: vLLM's documentation of the v1 engine and its `Scheduler.schedule` (0.8 and later); not one of VIDUR's schedulers.
"""

from __future__ import annotations

from analysis.compiled import inner
from analysis.serving.memory import admit, available, blocks_for, fits, preempt, resume_swapped, reusable, sharable, take
from analysis.serving.state import NONE, Replica, next_tokens, sort_running, take_first


@inner(error_model="numpy", _nrt=False)
def schedule(replica: Replica) -> int:
    """Fill the next batch; returns how many requests are in it."""
    state, requests, limits, running = replica.state, replica.requests, replica.limits, replica.running
    preempted = state.preempted
    resume_swapped(replica)
    sort_running(replica, True)
    size, budget, k, last = 0, limits.max_tokens, 0, state.running
    while k < last and budget > 0:
        i = running[k]
        request = requests[i]
        chunk = min(next_tokens(request), budget)
        held = request.processed if request.processed > request.prefill else request.processed + chunk
        missing = blocks_for(held, limits.block_size) - request.blocks - request.shared
        while available(replica) < missing and last > k:
            last -= 1
            preempt(replica, running[last])
        if last == k:
            break
        if missing > 0:
            take(replica, i, missing)
        replica.batch[size], replica.tokens[size] = i, chunk
        size, budget, k = size + 1, budget - chunk, k + 1
    for j in range(k, last):
        running[j - k] = running[j]
    state.running = last - k

    while state.first != NONE and budget > 0 and state.preempted == preempted and state.admitted < limits.max_batch:
        i = state.first
        request = requests[i]
        if request.swapped > 0:
            break
        found = (sharable(replica, i) + (reusable(replica, i) if limits.reuse != 0 else 0)) * limits.block_size
        chunk = min(request.prefill - found, budget)
        blocks = blocks_for(found + chunk, limits.block_size)
        if not fits(replica, i, blocks, 0):
            break
        take_first(replica)
        admit(replica, i, blocks)
        replica.batch[size], replica.tokens[size] = i, chunk
        size, budget = size + 1, budget - chunk
    return size
