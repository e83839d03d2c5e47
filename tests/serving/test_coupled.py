"""Replicas and clients that wait for each other: against the engine of independent replicas, and by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings

from analysis.errors import InputError
from analysis.serving import coupled
from analysis.serving.coupled import Coupling
from analysis.serving.limits import Limits
from analysis.serving.metrics import use
from analysis.serving.requests import make_requests
from analysis.serving.simulate import simulate
from analysis.serving.step_time.gpu_profile import NO_PROFILE
from analysis.serving.steps import StepTime, linear
from tests.serving.cases import Case, cases

SECOND = linear(1.0, 0.0, 0.0)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(cases(schedulers=("vllm_v1",), prefixes=False))
def test_without_coupling_it_is_the_engine_of_independent_replicas(case: Case) -> None:
    """One scheduler, one memory: with steps scheduled when the last one ends, both loops give the same bits."""
    alone = simulate(case.requests, "vllm_v1", case.steps, case.limits)
    loop = coupled.simulate(case.requests, case.steps, case.limits, Coupling(ahead=0))
    for name in ("scheduled_at", "prefill_completed_at", "completed_at", "restarts", "computed", "generated"):
        assert alone.records[name].tobytes() == loop.records[name].tobytes(), name
    assert use(alone) == use(loop)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(cases(schedulers=("vllm_v1",), swap=False, prefixes=False))
def test_every_request_ends_with_all_its_tokens_however_steps_are_coupled(case: Case) -> None:
    limits = dataclasses.replace(case.limits, prefix_caching=True)
    nameless = dataclasses.replace(case.requests, prefix=np.full(len(case.requests), -1))
    for coupling, replicas in ((Coupling(ahead=1), 1), (Coupling(ahead=1, together=1), 3), (Coupling(ahead=1, clients=3), 2)):
        result = coupled.simulate(nameless, case.steps, limits, coupling, replicas)
        records, needed = result.records, case.requests.prefill_tokens + case.requests.decode_tokens - 1
        assert (records["generated"] == case.requests.decode_tokens).all() and result.complete.all()
        assert (records["computed"] + records["cached"] >= needed).all()
        assert (result.replicas["free"] == limits.kv_blocks).all() and (result.replicas["outstanding"] == 0).all()
        assert (result.replicas["work"] == 0).all()
        assert (result.ttft_s >= 0).all() and (result.e2e_s >= result.ttft_s).all()


def test_a_request_that_arrives_during_a_step_joins_the_one_after_the_next() -> None:
    """vLLM schedules ahead: the step at 1 s is composed at 0 s. Arrived at 0.5 s: seen at 1 s, in the step from 2 s to 3 s."""
    requests = make_requests(np.array([0.0, 0.5]), np.array([10, 10]), np.array([6, 2]))
    ends = [coupled.simulate(requests, SECOND, Limits(), Coupling(ahead=n)).records["prefill_completed_at"][1] for n in (0, 1)]
    assert ends == [2.0, 3.0]


def test_preparing_a_prompt_is_hidden_behind_a_longer_step() -> None:
    """0.25 s from scheduling to the first kernel: the first step waits for it, the second request's was scheduled a second before."""
    requests = make_requests(np.array([0.0, 0.5]), np.array([10, 10]), np.array([6, 2]))
    result = coupled.simulate(requests, SECOND, Limits(), Coupling(ahead=1, prepare_s=0.25))
    assert list(result.records["prefill_completed_at"]) == [1.25, 3.25]


def test_replicas_that_share_their_experts_step_together() -> None:
    """Two replicas, prompts of 10 and 30 tokens at 0.1 s each: both steps take as long as the longer one."""
    requests = make_requests(np.zeros(2), np.array([10, 30]), np.array([1, 1]))
    apart, together = (
        coupled.simulate(requests, linear(0.0, 0.1, 0.0), Limits(), Coupling(ahead=0, together=n), replicas=2).e2e_s for n in (0, 1)
    )
    assert apart == pytest.approx([1.0, 3.0]) and together == pytest.approx([3.0, 3.0])


def test_an_answer_releases_the_next_request_of_a_closed_loop() -> None:
    """Two clients, four requests of three steps: the later two are sent at 3 s; a front end of 0.5 s a request hands them on one by one."""
    requests = make_requests(np.zeros(4), np.full(4, 10), np.full(4, 3))
    result = coupled.simulate(requests, SECOND, Limits(), Coupling(ahead=0, clients=2))
    assert list(result.requests.arrived_at_s) == [0, 0, 3, 3] and list(result.records["completed_at"]) == [3, 3, 6, 6]
    slow = coupled.simulate(requests, SECOND, Limits(), Coupling(ahead=0, clients=2, send_s=0.5))
    assert list(slow.ttft_s[:2]) == [1.5, 2.5]


def test_recorded_steps_and_requests_that_never_fit_are_refused() -> None:
    requests = make_requests(np.zeros(1), np.array([100]), np.array([3]))
    with pytest.raises(InputError, match="recorded steps"):
        coupled.simulate(requests, StepTime(recorded=np.ones(9)), Limits(), Coupling())
    with pytest.raises(InputError, match="profile of a GPU"):
        simulate(requests, "vllm_v1", StepTime(profile=NO_PROFILE._replace(tokens=np.ones(9))))
    with pytest.raises(InputError, match="can never finish: needs 7 KV blocks"):
        coupled.simulate(requests, SECOND, Limits(kv_blocks=6), Coupling())
