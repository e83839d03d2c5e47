"""The search for the largest rate."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from analysis.commands.models.serve import app
from analysis.errors import InputError
from analysis.serving.capacity import Bound, at_rate, capacity, read_bound
from analysis.serving.limits import Limits
from analysis.serving.requests import make_requests
from analysis.serving.simulate import Result, simulate
from analysis.serving.steps import linear
from analysis.serving.traffic import Arrivals, Lengths, generate

REQUESTS = generate(Arrivals("uniform", 1.0), Lengths("fixed", 10), Lengths("fixed", 1), 400)
STEP = linear(0.1, 0.0, 0.0)


def serve(rate_per_s: float) -> Result:
    return simulate(at_rate(REQUESTS, rate_per_s), "faster_transformer", STEP, Limits(max_batch=1))


def test_single_server_with_equal_gaps_saturates_at_its_service_rate() -> None:
    # D/D/1: service takes 0.1 s, so nothing waits up to 10 a second; at rate r > 10 the last of 400 waits 399 (0.1 - 1/r).
    found = capacity(serve, [Bound("ttft_max", 0.1001)], relative_tolerance=0.001)
    assert found.rate_per_s <= 10.0001
    assert found.rate_per_s == pytest.approx(10.0, rel=0.002)
    assert found.above_per_s / found.rate_per_s <= 1.001
    assert found.bound_by == ("ttft_max",)
    waits = capacity(serve, [Bound("queueing_max", 3.99)], relative_tolerance=0.0001)
    assert waits.rate_per_s == pytest.approx(1 / 0.09, rel=0.001)


def test_of_several_bounds_the_tightest_decides() -> None:
    """Waits of 3.99 s allow 1 / 0.09 a second, none allows 10; a bound of an hour changes neither."""
    tight, loose, free = Bound("ttft_max", 0.1001), Bound("queueing_max", 3.99), Bound("e2e_max", 3600.0)
    for bounds in ([tight, loose, free], [free, loose, tight]):
        found = capacity(serve, bounds, relative_tolerance=0.001)
        assert found.rate_per_s == pytest.approx(10.0, rel=0.002) and found.bound_by == ("ttft_max",)
    assert capacity(serve, [loose, free], relative_tolerance=0.001).rate_per_s == pytest.approx(1 / 0.09, rel=0.002)


@settings(max_examples=15, deadline=None)
@given(st.floats(0.05, 5.0), st.sampled_from(["ttft_p99", "e2e_mean", "tpot_p50"]), st.integers(0, 99))
def test_answer_meets_the_bound_and_its_neighbour_does_not(most_s: float, name: str, seed: int) -> None:
    requests = generate(Arrivals("poisson"), Lengths("uniform", 10, 60), Lengths("uniform", 1, 20), 120, seed)
    step = linear(0.01, 0.0005, 0.002)

    def run(rate: float) -> Result:
        return simulate(at_rate(requests, rate), "sarathi", step)

    bound = Bound(name, most_s)
    found = capacity(run, [bound], 0.02)
    if found.rate_per_s > 0:
        assert bound.allows(bound.value(run(found.rate_per_s)))
    if math.isfinite(found.above_per_s):
        assert not bound.allows(bound.value(run(found.above_per_s)))
    if found.rate_per_s > 0 and math.isfinite(found.above_per_s):
        assert found.rate_per_s < found.above_per_s <= 1.0201 * found.rate_per_s


def test_bounds_that_nothing_or_everything_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert capacity(serve, [Bound("ttft_mean", 0.05)]).rate_per_s == 0
    monkeypatch.setattr("analysis.serving.capacity.HIGHEST_PER_S", 64.0)
    free = capacity(serve, [Bound("ttft_mean", 1e6)])
    assert (free.rate_per_s, free.above_per_s, free.bound_by) == (64.0, math.inf, ())
    assert free.status.startswith("nothing binds up to 64 a second")
    assert capacity(serve, [Bound("ttft_mean", 0.05)]).status.startswith("no rate down to")


def test_a_run_too_short_for_a_steady_queue_says_so() -> None:
    """D/D/1 of 0.1 s: up to 10 a second nobody waits; a bound of 10 s on 400 requests is met at 13.3 a second, where the queue grows."""
    assert capacity(serve, [Bound("ttft_max", 0.1001)], relative_tolerance=0.001).status == ""
    loose = capacity(serve, [Bound("ttft_max", 10.0)], relative_tolerance=0.001)
    assert loose.rate_per_s == pytest.approx(1 / (0.1 - 9.9 / 399), rel=0.01)
    assert "still grow at the end" in loose.status
    # of i arrivals 1 - 10 / r are not served: the means over the third and the last quarter of 400, each arrival counted
    quarters = next(each.in_flight for each in loose.tries if each.rate_per_s == loose.rate_per_s)
    assert quarters == pytest.approx([(1 - 10 / loose.rate_per_s) * i for i in (250, 350)], abs=1.5)


def test_same_requests_at_every_rate() -> None:
    faster = at_rate(REQUESTS, 8.0)
    np.testing.assert_array_equal(faster.prefill_tokens, REQUESTS.prefill_tokens)
    assert len(faster) / faster.arrived_at_s.max() == pytest.approx(8.0)


@pytest.mark.parametrize("text", ["ttft_p99", "ttft=1", "ttft_p99=x", "speed_p99=1", "ttft_p100=1", "ttft_p99=-1", "ttft_p99=nan", "=3"])
def test_bad_bounds(text: str) -> None:
    with pytest.raises(InputError):
        read_bound(text)


def test_requests_at_once_have_no_rate() -> None:
    with pytest.raises(InputError, match="time 0"):
        at_rate(make_requests(np.zeros(3), np.ones(3, int), np.ones(3, int)), 1.0)


def test_command(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "config.yaml"
    path.write_text(
        "requests: {count: 200, prompt: {kind: fixed, low: 200}, output: {kind: fixed, low: 8}}\n"
        "scheduler: vllm\n"
        "steps: {kind: roofline, model: llama-2-7b, device: A100-SXM4-80GB}\n"
    )
    done = CliRunner().invoke(app, ["capacity", str(path), "--slo", "ttft_p99=0.5", "--slo", "tpot_mean=0.05", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    rows = (tmp_path / "capacity.csv").read_text().splitlines()
    assert rows[0] == "rate_per_s,met,ttft_p99_s,tpot_mean_s"
    best = max(float(row.split(",")[0]) for row in rows[1:] if row.split(",")[1] == "True")
    assert f"{best:.6g}" in done.output
