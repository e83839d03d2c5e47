"""Samples, medians and spreads, with a clock that the test winds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.artifact.measuring.timing import measure, summarise


class Clock:
    """A clock that moves only when the thing measured runs."""

    def __init__(self, seconds: list[float]) -> None:
        self.now = 0.0
        self.seconds = seconds
        self.calls = 0

    def __call__(self) -> float:
        return self.now

    def run(self, calls: int) -> None:
        for _ in range(calls):
            self.now += self.seconds[min(self.calls, len(self.seconds) - 1)]
            self.calls += 1


def test_spread_by_hand() -> None:
    timing = summarise([1.0, 2.0, 3.0, 4.0, 10.0], calls=7)
    assert (timing.median_s, timing.minimum_s, timing.samples, timing.calls) == (3.0, 1.0, 5, 7)
    assert timing.mad_s == 1.0  # distances 2, 1, 0, 1, 7
    assert (timing.p10_s, timing.p90_s) == (pytest.approx(1.4), pytest.approx(7.6))  # 1 + 0.4 x 1; 4 + 0.6 x 6
    assert timing.spread == pytest.approx((7.6 - 1.4) / 3)


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=50), st.floats(1e-3, 1e3))
def test_spread_does_not_depend_on_the_unit(samples: list[float], factor: float) -> None:
    one, other = summarise(samples), summarise([factor * sample for sample in samples])
    assert other.spread == pytest.approx(one.spread, rel=1e-6, abs=1e-9)
    assert one.minimum_s <= one.p10_s * (1 + 1e-12) and one.p10_s <= one.median_s * (1 + 1e-12) and one.median_s <= one.p90_s * (1 + 1e-12)


@pytest.mark.parametrize("samples", [[], [0.0], [1.0, -1.0], [float("nan")]])
def test_samples_must_be_times(samples: list[float]) -> None:
    with pytest.raises(ValueError, match="above zero"):
        summarise(samples)


def test_the_compiling_call_does_not_count() -> None:
    clock = Clock([5.0, 1e-3])  # the first call takes 5 s, all others 1 ms
    timing = measure(clock.run, 0.1, clock)
    assert timing.median_s == pytest.approx(1e-3)
    assert timing.spread == pytest.approx(0, abs=1e-9)
    assert timing.calls == 1 and 95 <= timing.samples <= 105


def test_short_calls_are_grouped_and_long_ones_repeated() -> None:
    short = Clock([1e-6])
    timing = measure(short.run, 0.05, short, shortest_sample_s=1e-3)
    assert timing.calls == pytest.approx(1000, abs=2) and timing.median_s == pytest.approx(1e-6)
    slow = Clock([2.0])
    assert measure(slow.run, 0.05, slow).samples == 5  # the least, though the budget is gone after the first


def test_the_median_ignores_an_interruption() -> None:
    clock = Clock([1e-3] * 30 + [0.05] + [1e-3])
    timing = measure(clock.run, 0.2, clock)
    assert timing.median_s == pytest.approx(1e-3) and np.isclose(timing.mad_s, 0, atol=1e-12)
