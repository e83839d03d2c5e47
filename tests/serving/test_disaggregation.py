"""Prefill and decode on different replicas: the same laws, and a run worked out by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis.errors import InputError
from analysis.serving.disaggregation import Transfer, simulate_disaggregated
from analysis.serving.requests import make_requests
from analysis.serving.simulate import simulate
from analysis.serving.steps import StepTime
from tests.serving.cases import PREEMPTING, Case, cases
from tests.serving.test_laws import assert_nothing_is_held, assert_run_is_lawful

SECOND = StepTime(fixed_s=1.0)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases(schedulers=PREEMPTING), st.sampled_from([0.0, 0.5]))
def test_the_laws_hold_on_both_sides(case: Case, latency_s: float) -> None:
    roomy = dataclasses.replace(case.limits, kv_blocks=case.limits.kv_blocks + 2)
    case = dataclasses.replace(case, limits=roomy)
    transfer = Transfer(latency_s, 0.001)
    result = simulate_disaggregated(case.requests, case.scheduler, case.steps, roomy, 2, 2, transfer, record_batches=True)
    assert_run_is_lawful(case, result)
    assert_nothing_is_held(case, result)
    decoding = case.requests.decode_tokens > 1
    gap = (result.e2e_s - result.ttft_s)[decoding]
    assert (gap >= latency_s + 0.001 * case.requests.prefill_tokens[decoding]).all()
    batches = result.batches
    assert batches is not None
    if roomy.preemption == "swap" or not result.replicas["preempted"].any():
        assert (batches.rows["prefills"][batches.rows["replica"] >= 2] == 0).all()
        assert (batches.rows["prefills"][batches.rows["replica"] < 2] > 0).all()


@pytest.mark.parametrize("scheduler", PREEMPTING)
def test_one_request_by_hand(scheduler: str) -> None:
    """A prompt of one step of 1 s, 0.5 s + 10 tokens x 0.1 s on the way, two more tokens of 1 s each."""
    requests = make_requests(np.array([2.0]), np.array([10]), np.array([3]))
    result = simulate_disaggregated(requests, scheduler, SECOND, transfer=Transfer(0.5, 0.1))
    assert result.ttft_s.tolist() == [1.0]
    assert result.e2e_s.tolist() == pytest.approx([1.0 + 1.5 + 2.0])
    assert result.records["computed"].tolist() == [12] and result.records["replica"].tolist() == [1]


def test_a_decode_never_waits_for_a_prompt() -> None:
    """Under vLLM v0 a prompt stops decoding; with replicas of its own it does not."""
    requests = make_requests(np.arange(20) * 1.5, np.full(20, 50), np.full(20, 8))
    together = simulate(requests, "vllm", SECOND)
    apart = simulate_disaggregated(requests, "vllm", SECOND)
    assert (apart.e2e_s - apart.ttft_s).max() <= 8.0 < (together.e2e_s - together.ttft_s).max()


def test_who_reserves_cannot_take_over() -> None:
    requests = make_requests(np.zeros(1), np.array([10]), np.array([3]))
    with pytest.raises(InputError, match="scheduler: orca cannot take over prompts"):
        simulate_disaggregated(requests, "orca", SECOND)
    with pytest.raises(InputError, match="latency_s: Input should be greater than or equal to 0"):
        Transfer(latency_s=-1.0)
