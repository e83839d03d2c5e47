"""Conservation laws, also when the cache is full and requests are preempted."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
from hypothesis import HealthCheck, given, settings

from analysis.compiled import outer, plain_python
from analysis.serving import engine
from analysis.serving.limits import record
from analysis.serving.schedulers.names import SCHEDULERS
from analysis.serving.simulate import Result, initial_requests, initial_states, simulate
from analysis.serving.state import BATCH, NONE, PREFIX, Replica
from tests.serving.cases import Case, cases

RELAXED = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def run(case: Case, **options: Any) -> Result:
    return simulate(case.requests, case.scheduler, case.steps, case.limits, record_batches=True, **options)


def assert_run_is_lawful(case: Case, result: Result) -> None:
    """Every request ends once with its tokens; time never runs back; no batch is over its limits."""
    records, requests, limits = result.records, case.requests, case.limits
    assert (records["generated"] == requests.decode_tokens).all()
    assert (records["processed"] == requests.prefill_tokens + requests.decode_tokens).all()
    assert (records["scheduled_at"] >= requests.arrived_at_s).all()
    assert (records["prefill_completed_at"] > records["scheduled_at"]).all()
    assert (records["completed_at"] >= records["prefill_completed_at"]).all()
    assert (records["blocks"] == 0).all() and (records["shared"] == 0).all() and (records["swapped"] == 0).all()

    needed = requests.prefill_tokens + requests.decode_tokens - 1
    repeated = records["computed"] + records["cached"] - needed
    assert (repeated >= 0).all()
    if limits.preemption == "swap" or not result.replicas["preempted"].any():
        assert (repeated == 0).all()
    assert int(records["restarts"].sum()) == int(result.replicas["preempted"].sum())

    batches = result.batches
    assert batches is not None
    fed = np.bincount(batches.members, weights=batches.tokens, minlength=len(requests))
    assert (fed == records["computed"]).all() and (batches.tokens > 0).all()
    for b in range(len(batches.rows)):
        members = batches.members[batches.offsets[b] : batches.offsets[b + 1]]
        assert len(set(members.tolist())) == len(members) <= limits.max_batch
        if case.scheduler == "vllm_v1":
            assert batches.rows["tokens"][b] <= limits.max_batch_tokens
        if case.scheduler == "sarathi" and batches.rows["prefills"][b]:
            assert batches.rows["tokens"][b] <= max(limits.chunk, len(members))
    for r in range(len(result.replicas)):
        mine = batches.rows[batches.rows["replica"] == r]
        assert (mine["start"][1:] >= (mine["start"] + mine["duration"])[:-1]).all()
    last = np.zeros(len(requests))
    ends = np.repeat(batches.rows["start"] + batches.rows["duration"], np.diff(batches.offsets))
    np.maximum.at(last, batches.members, ends)
    assert (last == records["completed_at"]).all()


def assert_nothing_is_held(case: Case, result: Result) -> None:
    """After the run nothing is held but the prefix cache."""
    states = result.replicas
    capacity = int(record(case.limits, case.scheduler)["blocks"][0])
    assert (states["free"] + states["evictable"] == capacity).all()
    for name in ("size", "running", "admitted", "waiting", "outstanding", "work", "moved"):
        assert (states[name] == 0).all(), name
    assert (states["peak"] <= capacity).all()


@RELAXED
@given(cases())
def test_every_request_ends_once_and_nothing_is_lost(case: Case) -> None:
    result = run(case)
    assert_run_is_lawful(case, result)
    assert_nothing_is_held(case, result)


@RELAXED
@given(cases(most=40))
def test_the_same_holds_on_several_replicas(case: Case) -> None:
    for routing in engine.ROUTINGS:
        result = run(case, replicas=3, routing=routing)
        assert_run_is_lawful(case, result)
        assert_nothing_is_held(case, result)


@outer
def one_step(
    states: Any, rows: Any, room: Any, prefixes: Any, limits: Any, steps: Any, log: Any, members: Any, cursor: Any, until: float, new: int
) -> None:
    """Let one request arrive, or run the replica to just before `until`."""
    replica = Replica(states[0], rows, room[0], prefixes, room[1], room[2], limits[0])
    if new >= 0:
        engine.arrive(replica, new, 0)
    else:
        engine.advance(replica, until, steps, 0, log, members, members, cursor)


def audit(states: Any, rows: Any, prefixes: Any, capacity: int, static: bool) -> None:
    """Blocks are never lost or shared but through a prefix; the counters agree with what they count."""
    state = states[0]
    assert state["free"] >= 0 and (rows["blocks"] >= 0).all()
    assert state["free"] + rows["blocks"].sum() + prefixes["blocks"].sum() == capacity
    assert state["evictable"] == prefixes["blocks"][prefixes["users"] == 0].sum()
    sharing = rows["prefix"][rows["shared"] > 0]
    assert (np.bincount(sharing, minlength=len(prefixes)) == prefixes["users"]).all()
    assert (rows["shared"][rows["shared"] > 0] <= prefixes["blocks"][sharing]).all()
    holding = rows["blocks"] + rows["shared"] > 0
    assert holding.sum() == state["admitted"] == state["running"] + state["size"] + (held(state, rows) if static else 0)
    waiting, i = 0, int(state["first"])
    while i != NONE:
        assert not holding[i]
        waiting, i = waiting + 1, int(rows["next"][i])
    assert waiting == state["waiting"]
    arrived = rows["replica"] == 0
    done = rows["processed"] == rows["total"]
    assert state["outstanding"] == (arrived & ~done).sum() == state["waiting"] + state["running"] + state["size"]
    assert state["work"] == (rows["total"] - rows["processed"])[arrived].sum()


def held(state: Any, rows: Any) -> int:
    """Complete requests whose reservation a static batch still keeps."""
    count, i = 0, int(state["held"])
    while i != NONE:
        count, i = count + 1, int(rows["next"][i])
    return count


@settings(RELAXED, max_examples=120)
@given(cases(most=15))
def test_blocks_are_conserved_after_every_batch(case: Case) -> None:
    settings_ = record(case.limits, case.scheduler)
    capacity = int(settings_["blocks"][0])
    rows, count = initial_requests(case.requests, np.argsort(case.requests.arrived_at_s, kind="stable"))
    states, prefixes = initial_states(1, capacity), np.zeros(count, PREFIX)
    room = np.zeros((3, case.limits.max_batch + 1), np.int64)
    log, members, cursor, steps = np.zeros(0, BATCH), np.zeros(0, np.int64), np.zeros(2, np.int64), case.steps.compiled
    static, clock = SCHEDULERS["faster_transformer"].code == settings_["scheduler"][0], 0.0

    def step(until: float, new: int = NONE) -> None:
        one_step(states, rows, room, prefixes, settings_, steps, log, members, cursor, until, new)
        audit(states, rows, prefixes, capacity, static)

    for i in range(len(rows)):
        now = float(rows["arrived_at"][i])
        while states["size"][0] > 0 and states["end"][0] < now:
            step(min(now, np.nextafter(states["end"][0], np.inf)))
            assert states["clock"][0] >= clock
            clock = float(states["clock"][0])
        step(now)
        step(0.0, i)
    step(np.nextafter(states["clock"][0], np.inf))
    while states["size"][0] > 0:
        step(np.nextafter(states["end"][0], np.inf))
    assert (rows["generated"] == rows["total"] - case.requests.prefill_tokens[np.argsort(case.requests.arrived_at_s, kind="stable")]).all()
    audited, plain = rows["completed_at"], run(case).records["completed_at"]
    assert (audited == plain).all()


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases())
def test_few_requests_in_plain_python_fare_as_in_compiled_code(case: Case) -> None:
    found = []
    for call in (engine.run, lambda *arguments: plain_python.run_plain(engine.run.plain, arguments)):
        with mock.patch.object(engine.run, "chosen", lambda *_, call=call, **__: call):
            result = run(case)
        assert result.batches is not None
        found.append([part.tobytes() for part in (result.records, result.replicas, result.batches.rows, result.batches.members)])
    assert found[0] == found[1]
