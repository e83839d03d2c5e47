"""How does a set of requests fare under a scheduler?

    result = simulate(requests, "vllm", step_time)              # one replica, limits of the recorded runs
    result = simulate(requests, "sarathi", step_time, Limits(chunk=256), replicas=4, routing="least_work", record=True)

`result.ttft_s`, `result.e2e_s`, ... are in the order of `requests`; `metrics.summary(result)` reduces them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.errors import InputError
from analysis.serving import engine
from analysis.serving.limits import Limits, blocks_for, check_feasible, record
from analysis.serving.requests import Floats, Ints, Requests
from analysis.serving.state import BATCH, NONE, PREFIX, REQUEST, STATE
from analysis.serving.steps import StepTime

Records = NDArray[np.void]
PLAIN_TOKENS = 50_000
"""So many output tokens are simulated in plain Python sooner than the engine is compiled."""


@dataclass(frozen=True)
class Batches:
    """Batches of a run by start time.

    Attributes:
        rows: `state.BATCH`, shape (batches,): replica, start, duration, size, tokens, prefills, blocks in use, requests waiting.
        offsets: shape (batches + 1,): batch b has the members offsets[b] to offsets[b + 1] - 1.
        members: position in `Requests` of each member, in the scheduler's order.
    """

    rows: Records
    offsets: Ints
    members: Ints
    tokens: Ints


@dataclass(frozen=True)
class Result:
    """What became of the requests.

    Attributes:
        records: `state.REQUEST`, in the order of `requests`.
        replicas: `state.STATE`, one a replica.
    """

    requests: Requests
    records: Records
    replicas: Records
    limits: Limits
    scheduler: str
    batches: Batches | None

    @cached_property
    def ttft_s(self) -> Floats:
        """Time to first token: prefill completed - arrived."""
        return np.asarray(self.records["prefill_completed_at"] - self.requests.arrived_at_s)

    @cached_property
    def e2e_s(self) -> Floats:
        """End-to-end latency: completed - arrived."""
        return np.asarray(self.records["completed_at"] - self.requests.arrived_at_s)

    @cached_property
    def queueing_s(self) -> Floats:
        """Queueing: first scheduled - arrived."""
        return np.asarray(self.records["scheduled_at"] - self.requests.arrived_at_s)

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Which requests had ended; all, but for a run with a time limit."""
        return ~np.isnan(self.records["completed_at"])

    @property
    def makespan_s(self) -> float:
        """From time zero to the last completion."""
        return float(self.records["completed_at"][self.complete].max()) if self.complete.any() else 0.0


def simulate(
    requests: Requests,
    scheduler: str,
    steps: StepTime,
    limits: Limits | None = None,
    replicas: int = 1,
    routing: str = "round_robin",
    seed: int = 0,
    record_batches: bool = False,
    prefilled: bool = False,
) -> Result:
    """Run requests to completion.

    Args:
        routing: round_robin, random, least_requests (fewest not complete), least_waiting (fewest not admitted; VIDUR's "least outstanding
            requests") or least_work (fewest tokens left).
        record_batches: keep every batch; the run is then made twice, first to count them.
        prefilled: the requests arrive with their prompt's KV blocks and first token, as they do at a decode replica (`disaggregation`).
    """
    limits = limits or Limits()
    check_feasible(requests, limits, scheduler, prefilled)
    if steps.profile.tokens.size:
        raise InputError("the profile of a GPU gives the times of steps that are scheduled ahead: run it by `coupled`", key="steps")
    if steps.recorded is not None and replicas > 1:
        raise InputError("recorded steps are one replica's", key="replicas")
    by_arrival = np.argsort(requests.arrived_at_s, kind="stable")
    compiled, settings = steps.compiled, record(limits, scheduler)
    assigned, mode = assign(len(requests), replicas, routing, seed)

    run = engine.run.chosen(int(requests.decode_tokens.sum()) <= PLAIN_TOKENS, patience_s=2.0)

    def once(log: Records, members: Ints, member_tokens: Ints) -> tuple[Records, Records]:
        rows, prefixes = initial_requests(requests, by_arrival)
        resident = initial_prefixes(requests, replicas, prefixes, limits)
        if prefilled:
            take_over(rows, limits.block_size)
        states = initial_states(replicas, int(settings["blocks"][0]))
        room = np.zeros((3, replicas, limits.max_batch + 1), np.int64)
        run(states, rows, room[0], resident, room[1], room[2], settings, compiled, assigned, mode, log, members, member_tokens)
        return states, rows

    states, rows = once(np.zeros(0, BATCH), np.zeros(0, np.int64), np.zeros(0, np.int64))
    check_finished(states, rows, steps)
    batches = None
    if record_batches:
        log = np.zeros(int(states["batches"].sum()), BATCH)
        members, member_tokens = np.zeros((2, int(states["members"].sum())), np.int64)
        states, rows = once(log, members, member_tokens)
        batches = by_start(log, by_arrival[members] if members.size else members, member_tokens)
    records = np.empty_like(rows)
    records[by_arrival] = rows
    return Result(requests, records, states, limits, scheduler, batches)


def ended_by(result: Result, limit_s: float) -> Result:
    """The run up to some time: batches that had ended, and requests, whose times are NaN where they were not complete; needs its batches.

    What replicas did is counted from these batches, preemptions from the complete requests.
    """
    batches, records = result.batches, result.records.copy()
    assert batches is not None, "the run did not record its batches"
    unfinished = records["completed_at"] > limit_s
    for name in ("scheduled_at", "prefill_completed_at", "completed_at"):
        records[name][unfinished] = np.nan
    for name in ("restarts", "cached", "computed", "generated", "processed"):
        records[name][unfinished] = 0
    past = batches.rows["start"] + batches.rows["duration"] <= limit_s
    within = np.repeat(past, np.diff(batches.offsets))
    offsets = np.concatenate([[0], np.cumsum(np.diff(batches.offsets)[past])]).astype(np.int64)
    kept = Batches(batches.rows[past], offsets, batches.members[within], batches.tokens[within])
    replicas = np.zeros_like(result.replicas)
    for r in range(len(replicas)):
        own = kept.rows[kept.rows["replica"] == r]
        replicas["batches"][r], replicas["members"][r], replicas["tokens"][r] = len(own), own["size"].sum(), own["tokens"].sum()
        replicas["busy_s"][r], replicas["block_s"][r] = own["duration"].sum(), (own["blocks"] * own["duration"]).sum()
        replicas["peak"][r] = own["blocks"].max(initial=0)
        replicas["preempted"][r] = records["restarts"][records["replica"] == r].sum()
    return dataclasses.replace(result, records=records, replicas=replicas, batches=kept)


def assign(count: int, replicas: int, routing: str, seed: int) -> tuple[Ints, int]:
    """Replica of each request by arrival where the routing does not look at their state, and the loop's routing mode."""
    if routing == "random":
        return np.random.default_rng(seed).integers(0, replicas, count), engine.ASSIGNED
    mode = engine.ASSIGNED if replicas == 1 else engine.ROUTINGS[routing]
    return np.arange(count, dtype=np.int64) % replicas, mode


def initial_requests(requests: Requests, by_arrival: Ints) -> tuple[Records, int]:
    """Request records before the run, by arrival, and how many different prefixes there are."""
    rows: Any = np.zeros(len(requests), REQUEST)
    rows["arrived_at"] = requests.arrived_at_s[by_arrival]
    for name in ("scheduled_at", "prefill_completed_at", "completed_at"):
        rows[name] = np.nan
    rows["prefill"] = requests.prefill_tokens[by_arrival]
    rows["total"] = rows["prefill"] + requests.decode_tokens[by_arrival]
    rows["next"] = NONE
    rows["replica"] = NONE
    rows["prefix"] = NONE
    has = (requests.prefix[by_arrival] >= 0) & (requests.prefix_tokens[by_arrival] > 0)
    names, which = np.unique(requests.prefix[by_arrival][has], return_inverse=True)
    if len(requests.above):
        names, which = requests.above, requests.prefix[by_arrival][has]
    rows["prefix"][has] = which
    rows["prefix_tokens"][has] = requests.prefix_tokens[by_arrival][has]
    return rows, len(names)


def initial_prefixes(requests: Requests, replicas: int, prefixes: int, limits: Limits) -> Records:
    """Prefixes of each replica, none in its cache; of a tree, what each continues."""
    found: Any = np.zeros((replicas, prefixes), PREFIX)
    if len(requests.above) and limits.prefix_caching:
        if requests.hashed_tokens % limits.block_size:
            message = (
                f"hashes of {requests.hashed_tokens} tokens cannot be shared in blocks of {limits.block_size}, which do not divide them"
            )
            raise InputError(message, key="limits.block_size")
        depth = np.zeros(prefixes, np.int64)
        for node, parent in enumerate(requests.above.tolist()):  # a part stands behind what it continues
            depth[node] = depth[parent] + 1 if parent >= 0 else 0
        found["size"] = requests.hashed_tokens // limits.block_size
        found["before"], found["above"] = depth * found["size"], requests.above + 1
    return found


def take_over(rows: Records, block_size: int) -> None:
    """Let requests begin with their prompt processed and its first token generated; their blocks are on the way."""
    rows["processed"] = rows["prefill"] + 1
    rows["generated"] = 1
    rows["swapped"] = blocks_for(rows["processed"], block_size)
    rows["prefill_completed_at"] = rows["arrived_at"]


def initial_states(replicas: int, blocks: int) -> Records:
    """Idle replicas with empty caches."""
    states: Any = np.zeros(replicas, STATE)
    for name in ("first", "last", "held"):
        states[name] = NONE
    states["free"] = blocks
    return states


def check_finished(states: Records, rows: Records, steps: StepTime) -> None:
    """Make sure that every request ended."""
    left = int(np.isnan(rows["completed_at"]).sum())
    if states["exhausted"].any():
        have = 0 if steps.recorded is None else steps.recorded.size
        raise InputError(
            f"only {have} recorded steps, but {left} of {len(rows)} requests need more; are the steps of this run?", key="total_time_s"
        )
    if left:
        raise InputError(f"{left} of {len(rows)} requests never finish under these limits")


def by_start(log: Records, members: Ints, tokens: Ints) -> Batches:
    """Batches of all replicas sorted by start time, replica, and order within it."""
    order = np.lexsort((np.arange(len(log)), log["replica"], log["start"]))
    sizes = log["size"][order]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    pick = np.repeat(log["first"][order] - offsets[:-1], sizes) + np.arange(int(sizes.sum()))
    return Batches(log[order], offsets, members[pick], tokens[pick])
