"""What the event loop keeps in memory: one record a request, one record a replica.

The records are NumPy structured arrays, so that compiled code can change them in place and Python can read them afterwards.
A request's progress is one number, `processed`: tokens whose keys and values are in the cache, plus the newest token once it is
emitted. A request still prefills while `processed < prefill`; when the prompt is done the first token comes with it, so `processed`
jumps to `prefill + 1`; at `processed == total` the request is complete.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from analysis.compiled import inner

NONE = -1

REQUEST = np.dtype(
    [
        ("arrived_at", "f8"),
        ("scheduled_at", "f8"),  # NaN until first scheduled
        ("prefill_completed_at", "f8"),  # NaN until the first token
        ("completed_at", "f8"),  # NaN until the last
        ("prefill", "i8"),  # tokens to prefill: the prompt, and after a preemption what was generated too
        ("total", "i8"),  # prompt and generated tokens
        ("processed", "i8"),
        ("generated", "i8"),
        ("computed", "i8"),  # tokens fed to the model, recomputed ones included
        ("cached", "i8"),  # prompt tokens found in the prefix cache, summed over admissions
        ("blocks", "i8"),  # KV blocks held by this request alone
        ("shared", "i8"),  # KV blocks used together with others of the same prefix
        ("swapped", "i8"),  # KV blocks waiting elsewhere
        ("freed", "i8"),  # free KV blocks that still hold its tokens (block reuse)
        ("full", "i8"),  # KV blocks that were full when it lost them
        ("newer", "i8"),  # the request whose blocks were freed next
        ("prefix", "i8"),  # which shared prefix the prompt begins with (of a tree: its deepest part), or NONE
        ("node", "i8"),  # deepest part of it that the request keeps in the cache, where `shared` is not 0
        ("prefix_tokens", "i8"),
        ("restarts", "i8"),  # preemptions
        ("order", "i8"),  # how many were admitted before
        ("next", "i8"),  # the request behind in a linked list
        ("replica", "i8"),
    ],
    align=True,
)

STATE = np.dtype(
    [
        ("clock", "f8"),
        ("end", "f8"),  # when the running batch ends
        ("size", "i8"),  # requests in the running batch; 0: idle
        ("running", "i8"),  # admitted requests outside the running batch
        ("admitted", "i8"),  # requests that hold KV blocks
        ("admissions", "i8"),
        ("waiting", "i8"),  # requests in the waiting list
        ("first", "i8"),  # its first
        ("last", "i8"),  # and last
        ("held", "i8"),  # completed requests whose blocks are still reserved (static batching)
        ("free", "i8"),  # free KV blocks
        ("evictable", "i8"),  # KV blocks of prefixes that nobody uses now
        ("lru_first", "i8"),  # 1 + the prefix that nobody has used for longest; 0: none
        ("lru_last", "i8"),  # 1 + the one that was left last
        ("fresh", "i8"),  # free KV blocks that hold nobody's tokens (block reuse)
        ("oldest", "i8"),  # the request whose blocks have been free longest
        ("newest", "i8"),  # and shortest
        ("moved", "i8"),  # KV blocks swapped since the last batch
        ("decodes", "i8"),  # decode batches since the last prefill (LightLLM)
        ("preempted", "i8"),
        ("outstanding", "i8"),  # requests not complete
        ("work", "i8"),  # tokens not processed yet
        ("batches", "i8"),
        ("members", "i8"),
        ("tokens", "i8"),
        ("peak", "i8"),  # most KV blocks ever in use
        ("exhausted", "i8"),  # 1: there were fewer recorded steps than batches
        ("busy_s", "f8"),
        ("block_s", "f8"),  # KV blocks in use, integrated over busy time
    ],
    align=True,
)

PREFIX = np.dtype(
    [
        ("blocks", "i8"),  # KV blocks in the cache; 0: it is not there
        ("users", "i8"),
        ("size", "i8"),  # blocks of a part of a tree; 0: as many as the first who leaves it has
        ("before", "i8"),  # blocks of the parts above
        ("above", "i8"),  # 1 + the part that it continues; 0: it is the beginning
        ("older", "i8"),  # neighbours among those that nobody uses, 1 + their place; 0: none
        ("newer", "i8"),
    ],
    align=True,
)

LIMITS = np.dtype(
    [
        ("scheduler", "i8"),
        ("block_size", "i8"),
        ("blocks", "i8"),
        ("watermark", "i8"),  # blocks kept free when a new request is admitted
        ("max_batch", "i8"),
        ("max_tokens", "i8"),
        ("chunk", "i8"),
        ("reserve", "i8"),  # blocks reserved for each request (Orca, static)
        ("max_waiting", "i8"),
        ("swap", "i8"),
        ("prefix_caching", "i8"),
        ("reuse", "i8"),  # 1: a preempted request finds those of its blocks again that nobody has taken
        ("swap_s_per_block", "f8"),
    ],
    align=True,
)

BATCH = np.dtype(
    [
        ("replica", "i8"),
        ("start", "f8"),
        ("duration", "f8"),
        ("size", "i8"),
        ("first", "i8"),  # where its members begin in the list of members
        ("tokens", "i8"),
        ("prefills", "i8"),
        ("blocks", "i8"),  # KV blocks in use while it runs
        ("waiting", "i8"),
    ],
    align=True,
)


class Replica(NamedTuple):
    """One replica as the schedulers see it; every field is shared memory, not a copy."""

    state: Any  # STATE record
    requests: Any  # REQUEST, all requests of the run
    running: Any  # i8 (capacity,): admitted requests outside the running batch, `state.running` of them
    prefixes: Any  # PREFIX, one for each shared prefix
    batch: Any  # i8 (capacity,): the batch being made or run
    tokens: Any  # i8 (capacity,): tokens of each of its requests
    limits: Any  # LIMITS record


@inner(error_model="numpy", _nrt=False)
def put_last(replica: Replica, i: int) -> None:
    """A request arrives: it goes to the end of the waiting list."""
    state, requests = replica.state, replica.requests
    requests[i].next = NONE
    if state.first == NONE:
        state.first = i
    else:
        requests[state.last].next = i
    state.last = i
    state.waiting += 1


@inner(error_model="numpy", _nrt=False)
def put_first(replica: Replica, i: int) -> None:
    """A preempted request goes to the front of the waiting list."""
    state, requests = replica.state, replica.requests
    requests[i].next = state.first
    if state.first == NONE:
        state.last = i
    state.first = i
    state.waiting += 1


@inner(error_model="numpy", _nrt=False)
def take_first(replica: Replica) -> int:
    """Remove the first request from the waiting list and return it."""
    state = replica.state
    i = state.first
    state.first = replica.requests[i].next
    state.waiting -= 1
    return i


@inner(error_model="numpy", _nrt=False)
def keep_running(replica: Replica, first: int, last: int) -> None:
    """Of the running list, keep only positions first to last - 1."""
    running = replica.running
    if first > 0:
        for k in range(first, last):
            running[k - first] = running[k]
    replica.state.running = last - first


@inner(error_model="numpy", _nrt=False)
def sort_running(replica: Replica, by_admission: bool) -> None:
    """Sort the running list by admission, or by arrival; equals keep their order. Nearly sorted already, so insertion is cheap."""
    running, requests = replica.running, replica.requests
    for k in range(1, replica.state.running):
        i = running[k]
        j = k - 1
        while j >= 0 and (
            requests[running[j]].order > requests[i].order if by_admission else requests[running[j]].arrived_at > requests[i].arrived_at
        ):
            running[j + 1] = running[j]
            j -= 1
        running[j + 1] = i


@inner(error_model="numpy", _nrt=False)
def next_tokens(request: Any) -> int:
    """Tokens the request could process next: all that is left of the prompt, or one."""
    return request.prefill - request.processed if request.processed < request.prefill else 1
