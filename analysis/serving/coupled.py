"""The event loop where replicas and clients wait for each other: vLLM v1's scheduler under one clock; compiled.

    simulate(requests, steps, limits, Coupling(ahead=1, prepare_s=0.02))     # the next step is scheduled while one runs
    simulate(requests, steps, limits, Coupling(clients=16))                  # closed loop: an answer releases the next request
    simulate(requests, steps, limits, Coupling(ahead=0))                     # requests with sessions: an answer releases the next turn

Asynchronous scheduling (vLLM's default): a request that arrives during a step joins the step after the next, and a finished request's
place is free one step later. Replicas (data parallelism) take a request where 4 x waiting + running is least; those of a mixture of
experts step together, and one without requests runs an empty step. Where prefixes are cached and none is named, preempted requests
reuse their blocks.
Source: vLLM's `Scheduler.schedule` and its data-parallel load balancer (docs.vllm.ai, data_parallel_deployment).
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from analysis.compiled import inner, outer
from analysis.errors import InputError
from analysis.serving.heap import pop, push
from analysis.serving.limits import Limits, check_feasible, record
from analysis.serving.memory import leave_prefix, release
from analysis.serving.requests import Requests
from analysis.serving.schedulers.vllm_v1 import schedule
from analysis.serving.sessions import chained, following
from analysis.serving.simulate import Result, initial_prefixes, initial_requests, initial_states
from analysis.serving.state import NONE, Replica, put_last
from analysis.serving.step_time.gpu_profile import Profile, experts_s, profiled_s
from analysis.serving.steps import Steps, StepTime, step_time

SCHEDULER = "vllm_v1"
STEP = np.dtype(
    [
        ("ends", "f8"),  # when the running step ends; infinite: idle
        ("composed", "f8"),  # when the next step was scheduled
        ("width", "i8"),  # requests in it
        ("emitting", "i8"),  # requests of the running step that get a token
    ],
    align=True,
)


TURN = np.dtype(
    [
        ("follows", "i8"),  # the session's next turn, or NONE
        ("after", "i8"),  # deepest block of prompt and answer that it shares, or NONE
        ("after_tokens", "i8"),
        ("think", "f8"),  # from the answer before to the request
    ],
    align=True,
)


class Coupling(NamedTuple):
    """How replicas and clients depend on each other.

    Attributes:
        ahead: 1: the next step is scheduled while one runs.
        together: 1: replicas step together and share their experts.
        prepare_s: from when a step with a prompt is scheduled to its first kernel; hidden while a longer step runs.
        clients: of a closed loop, which all begin at time 0; 0: requests arrive when they say.
        send_s, send_token_s: a front end takes the requests of clients one after another: of each, and of each prompt token.
    """

    ahead: int = 1
    together: int = 0
    prepare_s: float = 0.0
    clients: int = 0
    send_s: float = 0.0
    send_token_s: float = 0.0


class Fleet(NamedTuple):
    """Replicas, requests and working space; everything is changed in place."""

    states: Any  # STATE (replicas,)
    requests: Any  # REQUEST, by arrival
    running: Any  # i8 (replicas, capacity)
    prefixes: Any  # PREFIX (replicas, prefixes)
    batches: Any  # i8 (replicas, capacity): the next step's requests
    tokens: Any  # i8 (replicas, capacity)
    emitting: Any  # i8 (replicas, capacity): requests that get a token when the running step ends
    steps: Any  # STEP (replicas,)
    seen_at: Any  # f8 (requests,): when the scheduler sees each
    turns: Any  # TURN (requests,)
    thinking: Any  # f8 (requests + 1, 2): how many turns will be sent, and these, a heap by `seen_at`
    limits: Any  # LIMITS (1,)


@inner(error_model="numpy", _nrt=False)
def compose(fleet: Fleet, r: int, now: float) -> None:
    """Schedule the next step of a replica."""
    f = fleet
    replica = Replica(f.states[r], f.requests, f.running[r], f.prefixes[r], f.batches[r], f.tokens[r], f.limits[0])
    replica.state.clock = now
    f.steps[r].width = schedule(replica)
    f.steps[r].composed = now


@inner(error_model="numpy", _nrt=False)
def start(fleet: Fleet, r: int, steps: Steps, profile: Profile, coupling: Coupling, shared_tokens: int, now: float) -> float:
    """Start the scheduled step; its tokens count as processed from now on. Returns its duration.

    Args:
        shared_tokens: tokens of all replicas' steps, where these share their experts.
    """
    f, step = fleet, fleet.steps[r]
    replica = Replica(f.states[r], f.requests, f.running[r], f.prefixes[r], f.batches[r], f.tokens[r], f.limits[0])
    state, size, total, prompts, emitting = replica.state, step.width, 0, 0, 0
    seconds = step_time(steps, replica, size) if profile.tokens.size == 0 else profiled_s(profile, replica, size)
    running = state.running
    for k in range(size):
        i = replica.batch[k]
        request = replica.requests[i]
        total += replica.tokens[k]
        prompts += 1 if request.processed <= request.prefill else 0
        if np.isnan(request.scheduled_at):
            request.scheduled_at = step.composed
        before = request.processed
        request.processed += replica.tokens[k]
        request.computed += replica.tokens[k]
        emits = request.processed >= request.prefill
        if request.processed == request.prefill:
            request.processed += 1
            leave_prefix(replica, i)
        if emits:
            request.generated += 1
            fleet.emitting[r, emitting] = i
            emitting += 1
        state.work -= request.processed - before
        if request.processed < request.total:
            replica.running[running] = i
            running += 1
    state.running = running
    if profile.tokens.size > 0:
        seconds += experts_s(profile, float(shared_tokens if coupling.together == 1 else total))
    if prompts > 0:
        seconds += max(0.0, step.composed + coupling.prepare_s - now)
    seconds += state.moved * replica.limits.swap_s_per_block
    state.moved = 0
    used = replica.limits.blocks - state.free
    state.batches += 1
    state.members += size
    state.tokens += total
    state.busy_s += seconds
    state.block_s += used * seconds
    state.peak = max(state.peak, used)
    step.width, step.emitting, step.ends = 0, emitting, now + seconds
    return seconds


@inner(error_model="numpy", _nrt=False)
def follow(fleet: Fleet, i: int, now: float, coupling: Coupling) -> None:
    """Turn `i` will be sent: its user has the answer before it now."""
    request, waiting = fleet.requests[i], fleet.thinking
    request.arrived_at = max(request.arrived_at, now + fleet.turns[i].think)
    fleet.seen_at[i] = request.arrived_at + coupling.send_s + coupling.send_token_s * request.prefill
    waiting[0, 0] = push(waiting[1:], int(waiting[0, 0]), fleet.seen_at[i], i)


@inner(error_model="numpy", _nrt=False)
def end(fleet: Fleet, r: int, now: float, coupling: Coupling) -> int:
    """The running step ends: its requests get their tokens, and the complete ones leave; returns how many."""
    f, step, complete = fleet, fleet.steps[r], 0
    replica = Replica(f.states[r], f.requests, f.running[r], f.prefixes[r], f.batches[r], f.tokens[r], f.limits[0])
    replica.state.clock = now
    for k in range(step.emitting):
        i = fleet.emitting[r, k]
        request = replica.requests[i]
        if np.isnan(request.prefill_completed_at):
            request.prefill_completed_at = now
        if request.processed == request.total:
            request.completed_at = now
            replica.state.outstanding -= 1
            turn = fleet.turns[i]
            if turn.after != NONE:
                request.prefix, request.prefix_tokens = turn.after, turn.after_tokens
                leave_prefix(replica, i)
            release(replica, i)
            if turn.follows != NONE:
                follow(fleet, turn.follows, now, coupling)
            complete += 1
    step.emitting, step.ends = 0, np.inf
    return complete


@inner(error_model="numpy", _nrt=False)
def send(fleet: Fleet, i: int, at: float, front: float, coupling: Coupling) -> float:
    """A client sends request `i`; returns when the front end has taken it."""
    request = fleet.requests[i]
    request.arrived_at = at
    front = max(front, at) + coupling.send_s + coupling.send_token_s * request.prefill
    fleet.seen_at[i] = front
    return front


@inner(error_model="numpy", _nrt=False)
def arrive(fleet: Fleet, i: int) -> None:
    """A request joins the replica where 4 x waiting + running is least."""
    best = 0
    for r in range(1, fleet.states.shape[0]):
        if 4 * fleet.states[r].waiting + fleet.states[r].admitted < 4 * fleet.states[best].waiting + fleet.states[best].admitted:
            best = r
    fleet.requests[i].replica = best
    fleet.states[best].outstanding += 1
    fleet.states[best].work += fleet.requests[i].total
    f, r = fleet, best
    put_last(Replica(f.states[r], f.requests, f.running[r], f.prefixes[r], f.batches[r], f.tokens[r], f.limits[0]), i)


@outer
def run(fleet: Fleet, steps: Steps, profile: Profile, coupling: Coupling) -> bool:
    """Run all requests to completion; False: a request can never be scheduled."""
    count, replicas = fleet.requests.shape[0], fleet.states.shape[0]
    first = count
    for i in range(count):
        first -= 1 if fleet.turns[i].follows != NONE else 0
    sent = min(coupling.clients, count) if coupling.clients > 0 else first
    seen, done, front = 0, 0, 0.0
    if coupling.clients > 0:
        for i in range(sent):
            front = send(fleet, i, 0.0, front, coupling)
    while done < count:
        now = fleet.seen_at[seen] if seen < sent else np.inf
        if fleet.thinking[0, 0] > 0:
            now = min(now, fleet.thinking[1, 0])
        for r in range(replicas):
            now = min(now, fleet.steps[r].ends)
        if now == np.inf:
            return False
        for r in range(replicas):
            if fleet.steps[r].ends <= now:
                complete = end(fleet, r, now, coupling)
                done += complete
                for _ in range(complete if coupling.clients > 0 else 0):
                    if sent < count:
                        front = send(fleet, sent, now, front, coupling)
                        sent += 1
        while seen < sent and fleet.seen_at[seen] <= now:
            arrive(fleet, seen)
            seen += 1
        while fleet.thinking[0, 0] > 0 and fleet.thinking[1, 0] <= now:
            arrive(fleet, int(fleet.thinking[1, 1]))
            fleet.thinking[0, 0] = pop(fleet.thinking[1:], int(fleet.thinking[0, 0]))
        shared_tokens, longest = 0, 0.0
        for r in range(replicas):
            if fleet.steps[r].ends == np.inf and fleet.steps[r].width == 0:
                compose(fleet, r, now)
            for k in range(fleet.steps[r].width if fleet.steps[r].ends == np.inf else 0):
                shared_tokens += fleet.tokens[r, k]
        for r in range(replicas):
            if fleet.steps[r].ends == np.inf and fleet.steps[r].width > 0:
                longest = max(longest, start(fleet, r, steps, profile, coupling, shared_tokens, now))
                if coupling.ahead == 1:
                    compose(fleet, r, now)
        if coupling.together == 1 and longest > 0:
            for r in range(replicas):
                fleet.steps[r].ends = now + longest
    return True


def simulate(requests: Requests, steps: StepTime, limits: Limits, coupling: Coupling, replicas: int = 1) -> Result:
    """Run requests under vLLM v1's scheduler to completion; the arrival times in the result are those of sending.

    Args:
        requests: of a closed loop in the order in which clients send them; of sessions as `sessions` says.
        steps: how long a step takes, not recorded; limits: of each replica; coupling: see `Coupling`.
    """
    turns = np.zeros(len(requests), TURN)
    turns["follows"] = turns["after"] = NONE
    first = np.ones(len(requests), bool)
    if len(requests.session):
        requests, turns["after"], turns["after_tokens"] = chained(requests, limits.block_size)
        turns["follows"], turns["think"] = following(requests), requests.think_s
        first[turns["follows"][turns["follows"] >= 0]] = False
    named = bool((requests.prefix >= 0).any())
    check_feasible(requests, dataclasses.replace(limits, prefix_caching=limits.prefix_caching and named), SCHEDULER)
    if steps.recorded is not None:
        raise InputError("recorded steps are not those of replicas and clients that wait for each other", key="steps")
    by_arrival = np.lexsort((requests.arrived_at_s, ~first)) if coupling.clients == 0 else np.arange(len(requests))
    place = np.empty(len(requests), np.int64)
    place[by_arrival] = np.arange(len(requests))
    turns["follows"] = np.where(turns["follows"] >= 0, place[turns["follows"]], NONE)
    settings: Any = record(limits, SCHEDULER)
    settings["reuse"] = limits.prefix_caching and not named
    rows, prefixes = initial_requests(requests, by_arrival)
    states: Any = initial_states(replicas, int(settings["blocks"][0]))
    states["oldest"] = states["newest"] = NONE
    states["fresh"] = states["free"]
    room = np.zeros((4, replicas, limits.max_batch + 1), np.int64)
    slots = np.zeros(replicas, STEP)
    slots["ends"] = np.inf
    resident = initial_prefixes(requests, replicas, prefixes, limits)
    seen_at = requests.arrived_at_s[by_arrival]
    if len(requests.session):
        seen_at = seen_at + coupling.send_s + coupling.send_token_s * rows["prefill"]
    thinking = np.zeros((len(requests) + 1, 2))
    fleet = Fleet(states, rows, room[0], resident, room[1], room[2], room[3], slots, seen_at, turns[by_arrival], thinking, settings)
    if not run(fleet, steps.compiled, steps.profile, coupling):
        raise InputError(f"{int(np.isnan(rows['completed_at']).sum())} of {len(rows)} requests never finish under these limits")
    records = np.empty_like(rows)
    records[by_arrival] = rows
    arrived = dataclasses.replace(requests, arrived_at_s=records["arrived_at"].copy())
    return Result(arrived, records, states, limits, SCHEDULER, None)
