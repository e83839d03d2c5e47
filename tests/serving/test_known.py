"""Runs small enough to work out by hand, and laws of queues."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.compiled.plain_python import run_plain
from analysis.errors import InputError
from analysis.serving import coupled, engine
from analysis.serving.answer import Setup, record_of, summary_table
from analysis.serving.coupled import Coupling
from analysis.serving.disaggregation import Transfer, simulate_disaggregated
from analysis.serving.kv_cache import RESERVED_BYTES, cache_bytes
from analysis.serving.limits import Limits, blocks_for, check_feasible, record
from analysis.serving.metrics import goodput, summary, tpot_s, tpot_vidur_s, use
from analysis.serving.requests import Requests, make_requests, read_requests
from analysis.serving.schedulers.names import SCHEDULERS
from analysis.serving.simulate import Result, simulate
from analysis.serving.steps import Grid, StepTime, linear
from analysis.serving.tables import batches_table, requests_table
from analysis.serving.traffic import (
    Arrivals,
    Lengths,
    VidurDraw,
    draw_arrivals,
    draw_lengths,
    generate,
    split_by_ratio,
    vidur_zipf,
)
from analysis.studies.serving.agreement import vidur_requests
from tests.golden import answer, kept

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


def _mixed(count: int = 40, seed: int = 7) -> Requests:
    draw = np.random.default_rng(seed)
    prompt, output = draw.integers(1, 60, count), draw.integers(1, 40, count)
    prefix = draw.integers(-1, 3, count)
    gaps = draw.choice([0.0, 0.003, 0.05, 0.4], count)
    return make_requests(np.cumsum(gaps), prompt, output, prefix=prefix, prefix_tokens=np.minimum(prompt, 5 + 9 * np.maximum(prefix, 0)))


TIGHT = Limits(
    block_size=3, kv_blocks=47, watermark=0.03, max_batch=7, max_batch_tokens=101, chunk=17, max_request_tokens=100, max_waiting_batches=2
)
MIXED_STEP = StepTime(
    token_s=0.0007 * np.arange(9) ** 1.1,
    fixed_s=0.01,
    prompt_s=0.0003,
    pair_s=0.00001,
    request_s=0.0011,
    kv_s=0.000013,
    sequence_s=0.0013 * np.arange(5) ** 1.2,
    launch_s=0.019,
    graph_tokens=11,
    prefill=Grid(np.array([0.0, 20, 50]), np.array([1.0, 9, 30]), np.array([[1.0, 2, 5], [1.5, 3, 7], [2.5, 5, 11]]) * 1e-3),
    decode=Grid(np.array([1.0, 3, 6]), np.array([4.0, 16, 64]), np.array([[1.0, 2, 5], [1.5, 3, 7], [2.5, 5, 11]]) * 1e-3),
)
EACH_STEP = dataclasses.replace(MIXED_STEP, prefill_each=True)  # as calibrated steps are


def _fared(result: Result) -> dict[str, Any]:
    """What became of a run, shortly: each time summed with weights, and the tables' first rows."""
    weights = np.arange(1, len(result.requests) + 1)
    records = {name: float(np.dot(np.nan_to_num(result.records[name].astype(float)), weights)) for name in result.records.dtype.names or ()}
    found = {
        "records": records,
        "use": use(result),
        "summary": summary(result),
        "goodput": goodput(result, {"ttft_s": 0.5, "tpot_s": 0.03}),
    }
    if result.batches is not None:
        table = batches_table(result)
        found["batches"] = [
            len(table),
            *(float(np.dot(table[name], np.arange(1, len(table) + 1))) for name in table if name not in ("request_ids", "num_tokens")),
        ]
        found["first"] = table.head(2).to_dict("records") + requests_table(result).head(2).to_dict("records")
    return found


def test_runs_of_every_scheduler() -> None:
    """Under each limit and rule that a scheduler has, with more requests than the cache holds: laws and small runs by hand stand above and
    in test_laws.py, VIDUR's own runs in test_reference.py."""
    requests, found = _mixed(), dict[str, Any]()
    for scheduler, kind in SCHEDULERS.items():
        ways = {"tight": TIGHT, "roomy": dataclasses.replace(TIGHT, kv_blocks=400, max_batch=64, max_batch_tokens=400, chunk=64)}
        if kind.preempts:
            ways["swapped"] = dataclasses.replace(TIGHT, preemption="swap", swap_s_per_block=0.002)
            ways["shared"] = dataclasses.replace(TIGHT, prefix_caching=True, kv_blocks=60)
        for name, limits in ways.items():
            for steps in (linear(0.01, 0.0007, 0.0003, 0.00001, 0.000002), MIXED_STEP):
                run = simulate(requests, scheduler, steps, limits, record_batches=name == "tight")
                found[f"{scheduler} {name} {'mixed' if steps is MIXED_STEP else 'linear'}"] = _fared(run)
        for routing in ("round_robin", "random", "least_requests", "least_waiting", "least_work"):
            found[f"{scheduler} {routing}"] = _fared(simulate(requests, scheduler, MIXED_STEP, TIGHT, 3, routing, 5))
        if kind.preempts:
            roomy = dataclasses.replace(TIGHT, kv_blocks=60)
            found[f"{scheduler} apart"] = _fared(
                simulate_disaggregated(requests, scheduler, MIXED_STEP, roomy, 2, 2, Transfer(0.004, 0.0001))
            )
    for name, coupling in {
        "ahead": Coupling(ahead=1),
        "together": Coupling(ahead=1, together=1),
        "clients": Coupling(ahead=1, clients=3),
    }.items():
        run = coupled.simulate(dataclasses.replace(requests, prefix=np.full(40, -1)), MIXED_STEP, TIGHT, coupling, 2)
        found[f"coupled {name}"] = _fared(run)
    kept("runs_served", found)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_few_requests_in_plain_python_are_those_of_compiled_code(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain Python does not stumble, after which compiled code would answer unnoticed."""
    ways = [
        (steps, routing) for steps in (linear(0.01, 0.0007, 0.0003), MIXED_STEP, EACH_STEP) for routing in ("round_robin", "least_work")
    ]
    monkeypatch.setattr(engine.run, "chosen", lambda *_, **__: engine.run)
    compiled = [simulate(_mixed(), scheduler, steps, TIGHT, 2, routing) for steps, routing in ways]
    monkeypatch.setattr(engine.run, "chosen", lambda *_, **__: lambda *arguments: run_plain(engine.run.plain, arguments))
    for (steps, routing), result in zip(ways, compiled, strict=True):
        plain = simulate(_mixed(), scheduler, steps, TIGHT, 2, routing)
        assert plain.records.tobytes() == result.records.tobytes() and plain.replicas.tobytes() == result.replicas.tobytes()


def test_limits_at_their_edges() -> None:
    """What a run may hold by each scheduler's rule: the last request that can end and the first that cannot."""
    found: dict[str, Any] = {}
    for scheduler in SCHEDULERS:
        found[f"{scheduler} record"] = answer(lambda s=scheduler: record(TIGHT, s))  # type: ignore[misc]
        for change in (
            {"prefix_caching": True},
            {"preemption": "swap"},
            {"watermark": 0.5},
            {"max_request_tokens": 120},
            {"max_batch_tokens": 20},
        ):
            limits = dataclasses.replace(TIGHT, **change)
            found[f"{scheduler} {change} record"] = answer(lambda s=scheduler, given=limits: record(given, s))  # type: ignore[misc]
            for prompt, output in (
                (20, 1),
                (21, 2),
                (60, 40),
                (60, 41),
                (99, 1),
                (100, 21),
                (100, 22),
                (69, 1),
                (70, 1),
                (67, 2),
                (100, 40),
                (100, 41),
                (100, 42),
            ):
                alone = make_requests(np.zeros(1), np.array([prompt]), np.array([output]))
                said = answer(lambda s=scheduler, given=limits, r=alone: check_feasible(r, given, s))  # type: ignore[misc]
                moved = answer(lambda s=scheduler, given=limits, r=alone: check_feasible(r, given, s, True))  # type: ignore[misc]
                found[f"{scheduler} {change} {prompt}+{output}"] = [said, moved]
    assert [blocks_for(n, 3) for n in (1, 3, 4)] == [1, 1, 2] and TIGHT.watermark_blocks == 1
    kept("limits", found)


def test_traffic_of_every_kind() -> None:
    """Draws of each process and length at seeds of their own, VIDUR's streams, and what a kind does not read."""
    draws: dict[str, Any] = {}
    for kind in ("poisson", "gamma", "uniform", "burst"):
        process = Arrivals(kind=kind, rate_per_s=3.0, **({"cv": 2.0} if kind == "gamma" else {}))  # type: ignore[arg-type]
        draws[kind] = draw_arrivals(process, 5, np.random.default_rng(3))
    for given in (
        Lengths(low=7),
        Lengths(kind="uniform", low=3, high=5),
        Lengths(kind="zipf", low=3, high=9, exponent=1.3),
        Lengths(kind="empirical", values=(3, 11)),
    ):
        draws[f"{given.kind} tokens"] = draw_lengths(given, 9, np.random.default_rng(3))
    refused: tuple[Callable[[], Any], ...] = (
        lambda: Arrivals(kind="poisson", cv=2.0),
        lambda: Lengths(kind="fixed", high=3),
        lambda: Lengths(kind="empirical"),
        lambda: Lengths(kind="uniform", low=5, high=4),
        lambda: Lengths(kind="zipf", low=5, high=5),
        lambda: Lengths(kind="empirical", low=3),
        lambda: generate(Arrivals(), Lengths(), Lengths(), -1),
        lambda: len(generate(Arrivals(), Lengths(), Lengths(), 0)),
    )
    draws["refused"] = [answer(one) for one in refused]
    vidur = VidurDraw(5)
    draws["vidur"] = [
        [vidur.gap_s(kind, 3.0, 2.0) for kind in ("poisson", "gamma", "static", "poisson", "poisson")],
        vidur.uniform(3, 9),
        vidur_zipf(30, 5, 40, 0.6, 3),
    ]
    draws["vidur's requests"] = vars(vidur_requests(6, 2.0, 11))
    draws["split"] = split_by_ratio(np.array([100.0, 21.0, 20.9, 1.0]), 20.0)
    kept("traffic", draws)
    assert split_by_ratio(np.array([100.0, 21.0]), 20.0)[0].tolist() == [95, 20]  # ceil(100 / 21) = 5 tokens of output, and 1


def test_the_cache_of_a_replica_by_hand() -> None:
    """0.9 of 80 GB less 16 GB of weights and 4 GB; of what is free: 0.9 of 60 GB."""
    found = [cache_bytes(80e9, 16e9, 0.9, 4e9), cache_bytes(80e9, 16e9, 0.9, 4e9, of_free=True), cache_bytes(10e9, 16e9, 0.9, 0)]
    assert found == pytest.approx([52e9, 54e9, -7e9])
    assert RESERVED_BYTES == 4 * 2**30


def test_an_answer_in_words_by_hand() -> None:
    """47 blocks of 3 tokens: two requests of 60 tokens take 20 each; a scheduler that reserves counts its longest request."""
    setup = Setup("m", "d", "tp1", "bf16", "fp8", "vllm", "roofline", TIGHT, ("a", "b"))
    requests = make_requests(np.zeros(2), np.array([40, 5]), np.array([20, 5]))
    assert setup.kv_cache_tokens == 141 and setup.most_requests(requests) == 2
    assert (
        dataclasses.replace(setup, scheduler="orca").most_requests(requests) == 1 and setup.most_requests(requests.at(np.array([1]))) == 7
    )
    assert setup.most_requests(requests.at(np.array([], dtype=int))) == 7
    run = simulate(requests, "vllm", SECOND, TIGHT)
    told = record_of(run, setup, {"ttft_s_lower": 0.5, "tpot_s_upper": 2.0})
    table = summary_table(run, {"ttft_s": 1.0}, {"ttft_s_lower": 0.5}).set_index("name")
    assert (
        told["requests"],
        told["ttft_ms"],
        told["ttft_lower_ms"],
        told["ttft_upper_ms"],
        told["tpot_upper_ms"],
        told["most_requests"],
    ) == (2, 1000, 500, None, 2000, 2)
    assert "e2e_lower_ms" not in told and told["output_tokens_per_s"] == pytest.approx(25 / 20)
    assert (
        table["value"]["goodput"] == pytest.approx(2 / 20)
        and table["value"]["makespan_s"] == 20
        and table["unit"]["goodput"] == "1/s"
        and table["value"]["ttft_s_lower"] == 0.5
    )
    assert setup.lines(requests)[0] == "m on d, tp1; weights in bf16, KV cache in fp8; vllm, step times: roofline"
    assert dataclasses.replace(setup, model="").title == "tp1; vllm, step times: roofline"
    nothing = record_of(simulate(requests.at(np.array([], dtype=int)), "vllm", SECOND, TIGHT), setup, {})
    assert nothing["ttft_ms"] is None and nothing["output_tokens_per_s"] == 0


def test_files_of_requests_at_their_edges(tmp_path: Path) -> None:
    """Each column's first value that is refused, with its line; public traces by their own columns; hashes as a tree of prefixes."""
    head = "request_id,arrived_at,num_prefill_tokens,num_decode_tokens"
    texts = {
        "good.csv": f"{head},prefix_id,prefix_tokens\n1,0.5,10,1,,\n2,0,1,2,3,1\n",
        "early.csv": f"{head}\n1,-0.1,10,1\n",
        "prompt.csv": f"{head}\n1,0,1,1\n2,0,0,1\n",
        "output.csv": f"{head}\n1,0,1,0\n",
        "twice.csv": f"{head}\n1,0,1,1\n1,0,1,1\n",
        "half.csv": f"{head}\n1,0,1.5,1\n",
        "words.csv": f"{head}\n1,x,1,1\n",
        "huge.csv": f"{head}\n1,0,{2**53},1\n",
        "large.csv": f"{head}\n1,0,{2**53 - 1},1\n",
        "prefix.csv": f"{head},prefix_id,prefix_tokens\n1,0,5,1,2,6\n",
        "prefix5.csv": f"{head},prefix_id,prefix_tokens\n1,0,5,1,2,5\n",
        "below.csv": f"{head},prefix_id,prefix_tokens\n1,0,5,1,2,-1\n",
        "azure.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:02.5,7,3\n2024-05-10 00:00:01,5,2\n",
        "azure_bad.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10,7,3\nx,5,2\n",
        "burst.csv": "Timestamp,Request tokens,Response tokens\n3.5,7,3\n",
        "gen.csv": "timestamp,input_tokens,output_tokens\n3.5,7,3\n",
        "vidur.csv": "arrived_at,num_prefill_tokens,num_decode_tokens\n1,7,3\n",
        "moon.jsonl": '{"timestamp": 2500, "input_length": 1030, "output_length": 3, "hash_ids": [1, 2, 3]}\n\n'
        '{"timestamp": 0, "input_length": 1536, "output_length": 3, "hash_ids": [1, 5, 6]}\n',
        "bad.jsonl": "{}\n[1]\n",
        "no.jsonl": "x\n",
        "share.json": "[]",
    }
    found = {}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        found[name] = answer(lambda name=name: vars(read_requests(tmp_path / name)), tmp_path)  # type: ignore[misc]
    kept("request_files", found)
