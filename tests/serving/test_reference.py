"""The compiled schedulers against the same rules written a second time, plainly, with caches so small that preemption is common."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from analysis.serving.limits import Limits
from analysis.serving.requests import make_requests
from analysis.serving.simulate import simulate
from analysis.serving.steps import StepTime
from tests.serving.cases import EVERY, PREEMPTING, Case, cases
from tests.serving.reference import reference

SECOND = StepTime(fixed_s=1.0)


def assert_same_batches(case: Case) -> int:
    """Both make the same batches; returns the number of preemptions."""
    whole = make_requests(np.round(case.requests.arrived_at_s * 4) / 4, case.requests.prefill_tokens, case.requests.decode_tokens)
    result = simulate(whole, case.scheduler, SECOND, case.limits, record_batches=True)
    batches, jobs, preemptions = reference(whole, case.scheduler, case.limits)
    ours = result.batches
    assert ours is not None
    spans = [slice(a, b) for a, b in zip(ours.offsets[:-1], ours.offsets[1:], strict=True)]
    starts = ours.rows["start"].tolist()
    assert [(start, ours.members[s].tolist(), ours.tokens[s].tolist()) for start, s in zip(starts, spans, strict=True)] == batches
    assert result.records["prefill_completed_at"].tolist() == [job.first_token for job in jobs]
    assert result.records["completed_at"].tolist() == [job.finished for job in jobs]
    assert int(result.replicas["preempted"].sum()) == preemptions
    return preemptions


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases(swap=False, prefixes=False, most=30))
def test_same_batches_as_the_plain_rules(case: Case) -> None:
    assert_same_batches(case)


@pytest.mark.parametrize("scheduler", PREEMPTING)
def test_same_batches_when_every_case_preempts(scheduler: str) -> None:
    generator, preemptions = np.random.default_rng(7), 0
    limits = Limits(block_size=4, kv_blocks=40, watermark=0.05, max_batch=16, max_batch_tokens=70, chunk=24)
    for _ in range(20):
        prompt, output = generator.integers(1, 60, 40), generator.integers(1, 60, 40)
        case = Case(make_requests(np.cumsum(generator.integers(0, 12, 40) / 4), prompt, output), scheduler, limits)
        preemptions += assert_same_batches(case)
    assert preemptions > 200


@pytest.mark.parametrize("scheduler", EVERY)
def test_same_batches_when_cache_and_batch_are_always_short(scheduler: str) -> None:
    generator = np.random.default_rng(3)
    for kv_blocks, most, waiting in ((35, 4, 0), (35, 16, 2), (60, 3, 5), (90, 16, 10)):
        limits = Limits(
            block_size=4,
            kv_blocks=kv_blocks,
            watermark=0.0,
            max_batch=most,
            max_batch_tokens=64,
            chunk=9,
            max_request_tokens=120,
            max_waiting_batches=waiting,
        )
        prompt, output = generator.integers(1, 60, 25), generator.integers(1, 60, 25)
        output[:4] = (1, 2, 3, 1)
        assert_same_batches(Case(make_requests(np.cumsum(generator.integers(0, 30, 25) / 4), prompt, output), scheduler, limits))
