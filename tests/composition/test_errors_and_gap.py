"""How errors compose: the printed claim, the law, overhead, and the gap with its attribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.studies.composition.errors import (
    claimed_model_error,
    error_budget,
    kernel_time_for_gap,
    model_error,
    overhead_gap,
    simulate_model_errors,
    weighted_model_error,
)
from analysis.studies.composition.gap import attribute_gap, composition_gap, gap_bound_from_error

errors = st.floats(0, 1)
kernels = st.integers(1, 200)
seconds = st.floats(1e-6, 10)


def test_the_surveys_sixteen_percent() -> None:
    """Claim s000.sec72.sqrt: 2.3 % x sqrt(50) = 16 %. The law gives 0.33 % if independent, 2.3 % at the very most."""
    assert claimed_model_error(2.3, 50) == pytest.approx(16.26, abs=0.01)
    got = {rho: round(model_error(2.3, 50, rho), 2) for rho in (0, 0.25, 0.5, 1)}
    assert got == {0: 0.33, 0.25: 1.18, 0.5: 1.64, 1: 2.3}
    assert claimed_model_error(2.3, 50) / model_error(2.3, 50) == pytest.approx(50)


@given(errors, kernels, st.floats(0, 1))
def test_a_sum_never_has_a_larger_relative_error_than_its_parts(sigma: float, n: int, rho: float) -> None:
    assert sigma / math.sqrt(n) - 1e-12 <= model_error(sigma, n, rho) <= sigma + 1e-12
    assert model_error(sigma, n, 1) == pytest.approx(sigma)
    assert weighted_model_error(np.full(n, sigma), np.ones(n), rho) == pytest.approx(model_error(sigma, n, rho), abs=1e-9)


@given(st.lists(st.tuples(errors, seconds), min_size=1, max_size=12), st.floats(0, 1))
def test_weighted_law_stays_below_the_worst_kernel(parts: list[tuple[float, float]], rho: float) -> None:
    s, w = (np.array(column) for column in zip(*parts, strict=True))
    total = weighted_model_error(s, w, rho)
    assert total <= s.max() + 1e-9
    assert total <= weighted_model_error(s, w, 1.0) + 1e-9
    assert weighted_model_error(s, w, 1.0) == pytest.approx(float((s * w).sum() / w.sum()), abs=1e-9)


def test_weighted_law_by_hand() -> None:
    # w = 3, 1; s = 10 %, 20 %; rho 0.5: sqrt(0.3^2 + 0.2^2 + 2 x 0.5 x 0.3 x 0.2) / 4 = sqrt(0.19) / 4
    assert weighted_model_error([0.1, 0.2], [3, 1], 0.5) == pytest.approx(math.sqrt(0.19) / 4)
    assert weighted_model_error([0.1, 0.1], [1, 1], [[1, -1], [-1, 1]]) == 0


@pytest.mark.parametrize("rho", [0.0, 0.3, 1.0])
def test_the_law_agrees_with_drawn_errors(rho: float) -> None:
    w = np.array([5.0, 1.0, 1.0, 3.0])
    drawn = simulate_model_errors(0.05, w, rho, trials=200_000, seed=7)
    assert drawn.std() == pytest.approx(weighted_model_error(np.full(4, 0.05), w, rho), rel=0.01)
    assert abs(drawn.mean()) < 0.001


@pytest.mark.parametrize(
    "call",
    [
        lambda: model_error(0.1, 0),
        lambda: model_error(0.1, 5, -0.5),
        lambda: weighted_model_error([0.1], [0.0]),
        lambda: weighted_model_error([0.1, 0.1], [1, 1], [[1, 0.5], [0.2, 1]]),
        lambda: weighted_model_error([0.1] * 3, [1] * 3, -0.9),
        lambda: overhead_gap(0, 1),
        lambda: simulate_model_errors(0.1, [1.0], -0.1, 10),
        lambda: composition_gap(0, [1.0]),
        lambda: attribute_gap(1, [1.0], [1.0, 2.0]),
        lambda: gap_bound_from_error(1.0),
    ],
)
def test_impossible_input_is_refused(call: object) -> None:
    with pytest.raises(ValueError):
        call()  # type: ignore[operator]


def test_overhead_between_kernels_explains_what_errors_cannot() -> None:
    """Claim s000.sec77.launch: 5-10 us a kernel makes a gap of 5-12 % where a kernel takes 42 to 200 us."""
    assert kernel_time_for_gap(5e-6, 0.12) == pytest.approx(42e-6, rel=0.01)
    assert kernel_time_for_gap(10e-6, 0.05) == pytest.approx(200e-6)
    assert overhead_gap(100e-6, 10e-6) == pytest.approx(0.1)


@given(st.floats(0, 0.3), kernels, st.floats(0, 1), seconds, seconds, st.floats(-0.3, 0.3))
def test_error_budget_adds_up(sigma: float, n: int, rho: float, t: float, o: float, bias: float) -> None:
    budget = error_budget(sigma, n, rho, t, o, bias)
    assert budget.total == pytest.approx(math.hypot(budget.random, budget.bias))
    assert budget.random <= sigma + 1e-12
    assert budget.bias == pytest.approx((t * (1 + bias) - (t + o)) / (t + o), abs=1e-12)


def test_gap_by_hand_keeps_its_sign() -> None:
    slow, fast = composition_gap(1.2, [0.4, 0.6]), composition_gap(0.8, [0.4, 0.6])
    assert slow.gamma == fast.gamma == pytest.approx(0.2)  # as printed, the two cannot be told apart
    assert slow.signed > 0 > fast.signed


@given(st.floats(0, 0.5), seconds, st.booleans())
def test_error_of_a_plain_sum_bounds_the_gap(error: float, whole_s: float, over: bool) -> None:
    predicted = whole_s * (1 + error if over else 1 - error)
    assert composition_gap(whole_s, [predicted]).gamma <= gap_bound_from_error(error) + 1e-9


@given(st.lists(st.tuples(seconds, seconds), min_size=1, max_size=8), seconds, st.floats(0, 5), st.floats(0, 5))
def test_attribution_adds_up_to_the_signed_gap(pairs: list[tuple[float, float]], whole: float, c_hat: float, c: float) -> None:
    predicted, measured = (list(column) for column in zip(*pairs, strict=True))
    parts = attribute_gap(whole, predicted, measured, c_hat, c)
    assert sum(parts.parts.values()) == pytest.approx(parts.signed, abs=1e-6)
    assert parts.signed == pytest.approx(composition_gap(whole, [*predicted, c_hat]).signed)
