"""Runs small enough to work out by hand, and laws of queues."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from analysis.errors import InputError
from analysis.serving.limits import Limits
from analysis.serving.metrics import goodput, summary, tpot_s, tpot_vidur_s, use
from analysis.serving.requests import make_requests
from analysis.serving.schedulers.names import SCHEDULERS
from analysis.serving.simulate import Result, simulate
from analysis.serving.steps import StepTime
from analysis.serving.traffic import Arrivals, Lengths, generate, vidur_requests

SECOND = StepTime(fixed_s=1.0)


def batches(result: Result) -> list[tuple[list[int], list[int]]]:
    """Members and tokens of each batch."""
    b = result.batches
    assert b is not None
    spans = [slice(a, z) for a, z in zip(b.offsets[:-1], b.offsets[1:], strict=True)]
    return [(b.members[s].tolist(), b.tokens[s].tolist()) for s in spans]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_one_at_a_time_is_lindleys_queue(scheduler: str) -> None:
    """With one request a batch and one output token, wait[k+1] = max(0, wait[k] + service - gap): Lindley 1952."""
    requests = generate(Arrivals(rate_per_s=0.9), Lengths(low=16), Lengths(low=1), 500, seed=3)
    result = simulate(requests, scheduler, SECOND, Limits(max_batch=1))
    wait = np.zeros(500)
    for k in range(499):
        wait[k + 1] = max(0.0, wait[k] + 1.0 - (requests.arrived_at_s[k + 1] - requests.arrived_at_s[k]))
    np.testing.assert_allclose(result.queueing_s, wait, atol=1e-9)
    np.testing.assert_allclose(result.e2e_s, wait + 1.0, atol=1e-9)
    assert use(result).busy_share == pytest.approx(500 / result.makespan_s)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_above_capacity_the_replica_is_always_busy(scheduler: str) -> None:
    requests = vidur_requests(300, 1000.0, seed=1)
    result = simulate(requests, scheduler, StepTime(fixed_s=0.01, prompt_s=1e-4, request_s=1e-4))
    assert use(result).busy_share > 0.99
    assert np.isfinite(result.e2e_s).all() and result.queueing_s.max() > 1.0


def test_chunk_of_one_token_prefills_token_by_token() -> None:
    requests = make_requests(np.zeros(2), np.array([3, 2]), np.array([2, 1]))
    result = simulate(requests, "sarathi", SECOND, Limits(chunk=1), record_batches=True)
    # The first request prefills three steps and decodes one, which takes the chunk; then the second prefills.
    assert batches(result) == [([0], [1]), ([0], [1]), ([0], [1]), ([0], [1]), ([1], [1]), ([1], [1])]
    assert result.ttft_s.tolist() == [3.0, 6.0] and result.e2e_s.tolist() == [4.0, 6.0]


def test_vllm_preempts_the_latest_and_recomputes_it() -> None:
    """Five blocks of one token, no watermark. Both prompts take two; the first decodes take one block each, and only one is left."""
    requests = make_requests(np.array([0.0, 0.5]), np.array([2, 2]), np.array([3, 2]))
    result = simulate(requests, "vllm", SECOND, Limits(block_size=1, kv_blocks=5, watermark=0.0), record_batches=True)
    assert batches(result) == [([0], [2]), ([1], [2]), ([0], [1]), ([0], [1]), ([1], [3])]
    assert result.records["restarts"].tolist() == [0, 1]
    assert result.records["computed"].tolist() == [4, 5]
    assert result.e2e_s.tolist() == [4.0, 4.5]


def test_vllm_swaps_instead_and_pays_for_the_way() -> None:
    """The same, by swapping: two blocks out before the third step and back before the last, half a second each."""
    limits = Limits(block_size=1, kv_blocks=5, watermark=0.0, preemption="swap", swap_s_per_block=0.5)
    requests = make_requests(np.array([0.0, 0.5]), np.array([2, 2]), np.array([3, 2]))
    result = simulate(requests, "vllm", SECOND, limits, record_batches=True)
    assert batches(result) == [([0], [2]), ([1], [2]), ([0], [1]), ([0], [1]), ([1], [1])]
    assert result.batches is not None
    assert result.batches.rows["duration"].tolist() == [1.0, 1.0, 2.0, 1.0, 2.0]
    assert result.records["computed"].tolist() == [4, 3]


def test_v1_mixes_decodes_and_prompts_in_one_budget() -> None:
    requests = make_requests(np.array([0.0, 0.5]), np.array([2, 7]), np.array([4, 1]))
    result = simulate(requests, "vllm_v1", SECOND, Limits(max_batch_tokens=4), record_batches=True)
    assert batches(result) == [([0], [2]), ([0, 1], [1, 3]), ([0, 1], [1, 3]), ([0, 1], [1, 1])]


def test_v1_gives_the_last_token_of_the_budget_to_a_new_prompt() -> None:
    requests = make_requests(np.zeros(2), np.array([2, 5]), np.array([1, 1]))
    result = simulate(requests, "vllm_v1", SECOND, Limits(max_batch_tokens=3), record_batches=True)
    assert batches(result) == [([0, 1], [2, 1]), ([1], [3]), ([1], [1])]


def test_v1_lets_those_wait_whom_the_budget_leaves_out() -> None:
    """Three requests that come with their prompts done, two tokens a step: the third waits until the first two have all their tokens."""
    requests = make_requests(np.zeros(3), np.full(3, 4), np.full(3, 3))
    result = simulate(requests, "vllm_v1", SECOND, Limits(max_batch_tokens=2), record_batches=True, prefilled=True)
    assert batches(result) == [([0, 1], [1, 1]), ([0, 1], [1, 1]), ([2], [1]), ([2], [1])]


def test_a_prompt_begun_waits_when_decodes_take_the_whole_chunk() -> None:
    """Seven blocks of one token, chunks of one. Two requests come with their prompts done, three blocks each; the second step leaves none
    for request 1, which is recomputed, four tokens now, once request 0 has ended. It has one of them when request 2 comes with its prompt
    done: the decode takes the chunk, twice, and request 1 goes on after that."""
    requests = make_requests(np.array([0.0, 0.0, 3.5]), np.array([2, 2, 1]), np.array([4, 4, 3]))
    limits = Limits(block_size=1, kv_blocks=7, watermark=0.0, chunk=1)
    result = simulate(requests, "sarathi", SECOND, limits, record_batches=True, prefilled=True)
    assert [members for members, _ in batches(result)] == [[0, 1], [0], [0], [1], [2], [2], [1], [1], [1], [1]]
    assert all(tokens == [1] * len(members) for members, tokens in batches(result))


@pytest.mark.parametrize("scheduler", ["vllm", "sarathi", "vllm_v1"])
def test_a_shared_prefix_is_computed_once(scheduler: str) -> None:
    limits = Limits(block_size=4, kv_blocks=100, prefix_caching=True)
    same = np.array([0, 0, 1, -1])
    requests = make_requests(np.arange(4) * 10.0, np.full(4, 10), np.full(4, 2), prefix=same, prefix_tokens=np.full(4, 9))
    result = simulate(requests, scheduler, SECOND, limits)
    assert result.records["cached"].tolist() == [0, 8, 0, 0]  # 9 tokens hold two full blocks of 4
    assert result.records["computed"].tolist() == [11, 3, 11, 11]
    assert int(result.replicas["evictable"][0]) == 4
    plain = simulate(requests, scheduler, SECOND, dataclasses.replace(limits, prefix_caching=False))
    assert plain.records["cached"].sum() == 0


def test_an_unused_prefix_gives_way() -> None:
    """Eight blocks; the first prefix keeps four until the second request needs them."""
    limits = Limits(block_size=1, kv_blocks=8, watermark=0.0, prefix_caching=True)
    requests = make_requests(
        np.arange(3) * 10.0, np.array([5, 6, 5]), np.ones(3), prefix=np.array([0, -1, 0]), prefix_tokens=np.array([4, 0, 4])
    )
    result = simulate(requests, "vllm", SECOND, limits)
    assert result.records["cached"].tolist() == [0, 0, 0]


def test_routing() -> None:
    requests = make_requests(np.array([0.0, 0.1, 0.2, 0.3]), np.array([100, 10, 10, 10]), np.full(4, 5))
    chosen = {
        routing: simulate(requests, "vllm", SECOND, replicas=2, routing=routing).records["replica"].tolist()
        for routing in ("round_robin", "least_requests", "least_work")
    }
    assert chosen == {"round_robin": [0, 1, 0, 1], "least_requests": [0, 1, 0, 1], "least_work": [0, 1, 1, 1]}


def test_least_work_beats_random_routing() -> None:
    """Join-the-shortest-queue waits less than random assignment at the same load: Winston 1977 for equal service."""
    requests = vidur_requests(4000, 60.0, seed=5)
    step = StepTime(fixed_s=0.01, prompt_s=4e-5, request_s=1e-4)
    mean = {r: simulate(requests, "vllm", step, replicas=4, routing=r).e2e_s.mean() for r in ("random", "least_work")}
    assert mean["least_work"] < mean["random"]


def test_metrics_by_hand() -> None:
    requests = make_requests(np.array([0.0, 10.0]), np.array([2, 2]), np.array([3, 1]))
    result = simulate(requests, "orca", SECOND)
    assert result.ttft_s.tolist() == [1.0, 1.0] and result.e2e_s.tolist() == [3.0, 1.0]
    np.testing.assert_array_equal(tpot_s(result), [1.0, np.nan])  # (3 - 1) / (3 - 1)
    np.testing.assert_allclose(tpot_vidur_s(result), [2 / 3, 0.0])
    assert summary(result)["e2e_s_mean"] == 2.0 and summary(result)["tpot_s_mean"] == 1.0
    used = use(result)
    assert used.busy_share == 4 / 11 and used.requests_in_flight == pytest.approx(4 / 11)  # Little's law: 2/11 a second, 2 s each
    assert used.mean_batch == 1.0 and used.output_tokens_per_s == pytest.approx(4 / 11)
    assert goodput(result, {"e2e_s": 1.0}) == (0.5, 1 / 11)
    assert goodput(result, {"tpot_s": 0.5}) == (0.5, 1 / 11)
    with pytest.raises(InputError, match="e2e: expected one of ttft_s"):
        goodput(result, {"e2e": 1.0})


def test_seeds_pair_traffics() -> None:
    slow, fast = (generate(Arrivals(rate_per_s=r), Lengths("zipf"), Lengths("uniform"), 50, seed=4) for r in (1.0, 8.0))
    assert slow.prefill_tokens.tolist() == fast.prefill_tokens.tolist() and slow.decode_tokens.tolist() == fast.decode_tokens.tolist()
    np.testing.assert_allclose(slow.arrived_at_s, 8 * fast.arrived_at_s)


@pytest.mark.parametrize(("kind", "cv"), [("poisson", 1.0), ("gamma", 0.5), ("gamma", 3.0), ("uniform", 0.0)])
def test_arrivals_have_the_rate_and_variation_asked_for(kind: str, cv: float) -> None:
    requests = generate(Arrivals(kind, 4.0, cv or 1.0), Lengths(), Lengths(), 200_000, seed=0)  # type: ignore[arg-type]
    gaps = np.diff(requests.arrived_at_s)
    assert gaps.mean() == pytest.approx(0.25, rel=0.03) and gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03, abs=1e-6)


def test_lengths_follow_their_distribution() -> None:
    zipf = generate(Arrivals(), Lengths("zipf", 10, 13, exponent=1.0), Lengths("empirical", values=(3, 3, 9)), 100_000, seed=0)
    weights = np.array([1, 1 / 2, 1 / 3, 1 / 4])
    np.testing.assert_allclose(np.bincount(zipf.prefill_tokens)[10:] / 100_000, weights / weights.sum(), atol=0.01)
    assert (zipf.decode_tokens == 3).mean() == pytest.approx(2 / 3, abs=0.01)


@pytest.mark.parametrize(
    ("scheduler", "limits", "message"),
    [
        ("orca", Limits(max_request_tokens=8), "max_request_tokens: request 0 can never finish: needs 12 tokens, the limit is 8"),
        ("orca", Limits(kv_blocks=10), "kv_blocks: request 0 can never finish: needs 32 KV blocks"),
        (
            "lightllm",
            Limits(block_size=2, kv_blocks=5),
            "kv_blocks: request 0 can never finish: needs 12 tokens of KV cache",
        ),
        ("sarathi", Limits(block_size=1, kv_blocks=11), "kv_blocks: request 0 can never finish: needs 12 KV blocks"),
        ("vllm_v1", Limits(block_size=1, kv_blocks=10), "kv_blocks: request 0 can never finish: needs 11 KV blocks"),
        ("orca", Limits(prefix_caching=True), "prefix_caching: orca has none"),
        ("fifo", Limits(), "scheduler: expected one of vllm, sarathi"),
    ],
)
def test_what_cannot_run_is_one_clear_error(scheduler: str, limits: Limits, message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulate(make_requests(np.zeros(1), np.array([9]), np.array([3])), scheduler, SECOND, limits)


def test_use_of_a_run_by_hand() -> None:
    """The run of `test_vllm_preempts_the_latest_and_recomputes_it`: 4 + 3 tokens are needed and 4 + 5 computed, in five batches of one
    request, one second each but for half a second of waiting."""
    requests = make_requests(np.array([0.0, 0.5]), np.array([2, 2]), np.array([3, 2]))
    result = simulate(requests, "vllm", SECOND, Limits(block_size=1, kv_blocks=5, watermark=0.0))
    found = use(result)
    assert (found.preemptions, found.batches, found.mean_batch) == (1, 5, 1.0)
    assert found.recomputed_share == pytest.approx(2 / 7) and found.cached_share == 0
    assert (found.busy_share, found.kv_peak_share) == (1.0, 0.8) and 0.3 < found.kv_share < 1.0
    assert found.output_tokens_per_s == pytest.approx(5 / 5) and found.requests_in_flight == pytest.approx((4.0 + 4.5) / 5)
    shared = make_requests(np.arange(2) * 10.0, np.full(2, 10), np.full(2, 2), prefix=np.zeros(2, int), prefix_tokens=np.full(2, 9))
    cached = use(simulate(shared, "vllm", SECOND, Limits(block_size=4, kv_blocks=100, prefix_caching=True)))
    assert (cached.cached_share, cached.recomputed_share) == (8 / 20, 0.0)
