"""The event loop: arrivals, routing to replicas, batches; compiled.

A replica is idle or runs one batch. At equal times requests arrive first, then a batch ends, then the next is made: VIDUR's order of
events (time, id, type) comes to the same. Between arrivals replicas do not see each other, so each is simply advanced to the time of the
next arrival.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from analysis.compiled import inner, outer
from analysis.serving.memory import leave_prefix, release
from analysis.serving.schedulers.dispatch import FASTER_TRANSFORMER, schedule
from analysis.serving.state import NONE, Replica, put_last
from analysis.serving.steps import Steps, step_time

ASSIGNED, LEAST_REQUESTS, LEAST_WAITING, LEAST_WORK = range(4)
ROUTINGS = {
    "round_robin": ASSIGNED,
    "random": ASSIGNED,
    "least_requests": LEAST_REQUESTS,
    "least_waiting": LEAST_WAITING,
    "least_work": LEAST_WORK,
}
"""The one list of routings, with how the loop does each: as assigned before the run, or by the state of the replicas."""


@inner(error_model="numpy", _nrt=False)
def finish(replica: Replica) -> None:
    """The running batch ends: its requests have processed their tokens; the complete ones leave."""
    state, requests, limits = replica.state, replica.requests, replica.limits
    running = state.running
    for k in range(state.size):
        i = replica.batch[k]
        request, tokens = requests[i], replica.tokens[k]
        before = request.processed
        request.processed += tokens
        request.computed += tokens
        if request.processed == request.prefill:
            request.processed += 1
            request.generated += 1
            if np.isnan(request.prefill_completed_at):
                request.prefill_completed_at = state.clock
            leave_prefix(replica, i)
        elif before > request.prefill:
            request.generated += 1
        state.work -= request.processed - before
        if request.processed < request.total:
            replica.running[running] = i
            running += 1
            continue
        request.completed_at = state.clock
        state.outstanding -= 1
        if limits.scheduler == FASTER_TRANSFORMER:
            request.next = state.held
            state.held = i
        else:
            release(replica, i)
    state.running = running
    state.size = 0
    if running == 0:
        while state.held != NONE:
            i = state.held
            state.held = requests[i].next
            release(replica, i)


@inner(error_model="numpy", _nrt=False)
def start(replica: Replica, size: int, steps: Steps, number: int, log: Any, members: Any, member_tokens: Any, cursor: Any) -> bool:
    """Start a batch of `size` requests; returns False if there is no recorded time left for it."""
    state, requests, limits = replica.state, replica.requests, replica.limits
    if steps.recorded.size == 0:
        duration = step_time(steps, replica, size)
    elif state.batches < steps.recorded.size:
        duration = steps.recorded[state.batches]
    else:
        state.exhausted = 1
        return False
    duration += state.moved * limits.swap_s_per_block
    state.moved = 0
    total, prefills = 0, 0
    for k in range(size):
        request = requests[replica.batch[k]]
        total += replica.tokens[k]
        if request.processed < request.prefill:
            prefills += 1
        if np.isnan(request.scheduled_at):
            request.scheduled_at = state.clock
    used = limits.blocks - state.free
    if log.size > 0:
        row = log[cursor[0]]
        row.replica, row.start, row.duration, row.size, row.first = number, state.clock, duration, size, cursor[1]
        row.tokens, row.prefills, row.blocks, row.waiting = total, prefills, used, state.waiting
        for k in range(size):
            members[cursor[1] + k] = replica.batch[k]
            member_tokens[cursor[1] + k] = replica.tokens[k]
        cursor[0] += 1
        cursor[1] += size
    state.size = size
    state.end = state.clock + duration
    state.batches += 1
    state.members += size
    state.tokens += total
    state.busy_s += duration
    state.block_s += used * duration
    state.peak = max(state.peak, used)
    return True


@inner(error_model="numpy", _nrt=False)
def is_due(state: Any, until: float) -> bool:
    """Does anything happen in the replica before `until`?"""
    return state.end < until if state.size > 0 else state.first != NONE and state.clock < until


@inner(error_model="numpy", _nrt=False)
def advance(replica: Replica, until: float, steps: Steps, number: int, log: Any, members: Any, member_tokens: Any, cursor: Any) -> None:
    """Run a replica to just before `until`; a batch that ends at `until` is still running then."""
    state = replica.state
    while state.exhausted == 0:
        if state.size > 0:
            if state.end >= until:
                return
            state.clock = state.end
            finish(replica)
        if state.clock >= until or (state.running == 0 and state.first == NONE):
            return
        size = schedule(replica)
        if size == 0 or not start(replica, size, steps, number, log, members, member_tokens, cursor):
            return


@inner(error_model="numpy", _nrt=False)
def arrive(replica: Replica, i: int, number: int) -> None:
    """A request reaches a replica."""
    state, request = replica.state, replica.requests[i]
    if state.size == 0:
        state.clock = request.arrived_at
    request.replica = number
    state.outstanding += 1
    state.work += request.total - request.processed
    put_last(replica, i)


@outer
def run(
    states: Any,
    requests: Any,
    running: Any,
    prefixes: Any,
    batches: Any,
    tokens: Any,
    limits: Any,
    steps: Steps,
    assigned: Any,
    routing: int,
    log: Any,
    members: Any,
    member_tokens: Any,
) -> None:
    """Run all requests to completion; everything is changed in place.

    Args:
        states: STATE, shape (replicas,).
        requests: REQUEST, shape (requests,), by arrival.
        running, batches, tokens: i8, shape (replicas, capacity), working space.
        prefixes: PREFIX, shape (replicas, prefixes).
        assigned: i8, shape (requests,): replica of each request, read when `routing` is ASSIGNED.
        routing: ASSIGNED, LEAST_REQUESTS, LEAST_WAITING or LEAST_WORK.
        log, members, member_tokens: BATCH, i8, i8: batches as they start; empty: not wanted.
    """
    cursor = np.zeros(2, np.int64)
    count = states.shape[0]
    for i in range(requests.shape[0]):
        now = requests[i].arrived_at
        if routing == ASSIGNED:
            chosen = assigned[i]
            here = Replica(states[chosen], requests, running[chosen], prefixes[chosen], batches[chosen], tokens[chosen], limits[0])
            advance(here, now, steps, chosen, log, members, member_tokens, cursor)
        else:
            chosen = 0
            for r in range(count):
                if is_due(states[r], now):
                    there = Replica(states[r], requests, running[r], prefixes[r], batches[r], tokens[r], limits[0])
                    advance(there, now, steps, r, log, members, member_tokens, cursor)
                if routing == LEAST_WORK and states[r].work < states[chosen].work:
                    chosen = r
                if routing == LEAST_WAITING and states[r].waiting < states[chosen].waiting:
                    chosen = r
                if routing == LEAST_REQUESTS and states[r].outstanding < states[chosen].outstanding:
                    chosen = r
            here = Replica(states[chosen], requests, running[chosen], prefixes[chosen], batches[chosen], tokens[chosen], limits[0])
        arrive(here, i, chosen)
    for r in range(count):
        here = Replica(states[r], requests, running[r], prefixes[r], batches[r], tokens[r], limits[0])
        advance(here, np.inf, steps, r, log, members, member_tokens, cursor)
