"""Every statistic against scipy or scikit-learn, or a table worked by hand, and the laws each must obey."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from analysis.studies import statistics as s

TRUTH, PREDICTED = [10.0, 20.0, 40.0], [11.0, 18.0, 40.0]

vectors = st.integers(3, 7).flatmap(
    lambda n: st.tuples(*(st.lists(st.integers(-3, 3).map(float), min_size=n, max_size=n) for _ in range(2)))
)
positive = st.lists(st.floats(0.01, 1e6), min_size=1, max_size=30)


def test_errors_by_hand() -> None:
    # |10-11|/10 = 10 %, |20-18|/20 = 10 %, 0 %: mean 20/3 %; absolute errors 1, 2, 0; squares 1, 4, 0; spread about 70/3: 40/3+10/3+50/3
    assert s.mape(TRUTH, PREDICTED) == pytest.approx(20 / 3)
    assert s.mae(TRUTH, PREDICTED) == pytest.approx(1)
    assert s.rmse(TRUTH, PREDICTED) == pytest.approx(math.sqrt(5 / 3))
    assert s.rae(TRUTH, PREDICTED) == pytest.approx(3 / (100 / 3))
    assert s.coefficient_of_variation([9.0, 10.0, 11.0]) == pytest.approx(0.1)


def test_a_hit_rate_says_little_about_the_mean_error() -> None:
    """99 % within 10 % goes with a mean error of 9.9 % as well as with one of 100 %: it is not '<1 % MAPE'."""
    truth = np.full(100, 10.0)
    near, far = truth * 1.099, truth * 1.099
    far[-1] = 10 * (1 + 92.0)
    near[-1] = 20
    assert np.mean(np.abs(near / truth - 1) <= 0.1) == np.mean(np.abs(far / truth - 1) <= 0.1) == 0.99
    assert s.mape(truth, near) > 9.8
    assert s.mape(truth, far) > 100


@pytest.mark.parametrize("bad", [([], []), ([1.0], [1.0, 2.0]), ([0.0], [1.0]), ([math.nan], [1.0])])
def test_mape_refuses(bad: tuple[list[float], list[float]]) -> None:
    with pytest.raises(ValueError):
        s.mape(*bad)


@given(positive, st.floats(0.1, 10))
def test_mape_does_not_depend_on_the_unit_and_scaling_all_predictions_is_read_back(values: list[float], scale: float) -> None:
    truth = np.array(values)
    assert s.mape(truth, truth) == 0
    assert s.mape(truth, truth * scale) == pytest.approx(100 * abs(scale - 1), abs=1e-6)
    assert s.rmse(truth, truth * 1.1) >= s.mae(truth, truth * 1.1) - 1e-9 * truth.max()


@given(vectors)
@settings(max_examples=200)
def test_correlations_agree_with_scipy(pair: tuple[list[float], list[float]]) -> None:
    x, y = pair
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert math.isnan(s.spearman(x, y)) and math.isnan(s.kendall_tau_b(x, y)) and math.isnan(s.pearson(x, y))
        return
    assert s.average_ranks(x) == pytest.approx(stats.rankdata(x))
    assert s.pearson(x, y) == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-12)
    assert s.spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    assert s.kendall_tau_b(x, y) == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-12)


@given(vectors)
@settings(max_examples=60, deadline=None)
def test_rank_statistics_obey_their_laws(pair: tuple[list[float], list[float]]) -> None:
    x, y = (np.array(v) for v in pair)
    if len(set(x)) == 1 or len(set(y)) == 1:
        return
    for statistic in (s.spearman, s.kendall_tau_b):
        value = statistic(x, y)
        assert -1 <= value <= 1
        assert statistic(y, x) == pytest.approx(value, abs=1e-12)
        assert statistic(-x, y) == pytest.approx(-value, abs=1e-12)
        assert statistic(np.exp(x), y) == pytest.approx(value, abs=1e-12)
    assert s.spearman(x, x) == pytest.approx(1)


@pytest.mark.parametrize("statistic", ["spearman", "pearson"])
def test_exact_permutation_agrees_with_scipy(statistic: str) -> None:
    rng = np.random.default_rng(3)
    reference = {"spearman": stats.spearmanr, "pearson": stats.pearsonr}[statistic]
    for n in (4, 5, 6):
        x, y = rng.integers(0, 4, n).astype(float), rng.normal(size=n)
        x[:2] = 0.0, 3.0
        ours = s.exact_permutation_test(x, y, statistic)  # type: ignore[arg-type]

        def value(shuffled: np.ndarray, x: np.ndarray = x) -> float:
            return reference(x, shuffled).statistic

        theirs = stats.permutation_test((y,), value, permutation_type="pairings", n_resamples=np.inf)
        direct = np.abs(theirs.null_distribution) >= abs(theirs.statistic) - 1e-9  # scipy doubles the smaller tail
        assert ours.p_value == pytest.approx(direct.mean())
        assert ours.orders == math.factorial(n)


def test_exact_kendall_agrees_with_scipy_without_ties() -> None:
    x, y = [1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 6, 5]
    assert s.exact_permutation_test(x, y, "kendall").p_value == pytest.approx(stats.kendalltau(x, y, method="exact").pvalue)


def test_the_surveys_rank_correlation() -> None:
    """Claim s000.sec77.rho: accuracy order nn-Meter, NeuSight, VIDUR, Timeloop, ASTRA-sim against S = 0.0, 1.6, 2.1, 2.1, 2.2.

    By hand: ranks 1 2 3.5 3.5 5 against 1 2 3 4 5; sum of products of centred ranks 9.5; sums of squares 10 and 9.5:
    rho = 9.5 / sqrt(95) = 0.9747. Only the two orders that swap the tied pair, and their mirror images, reach it: 4 of 120.
    """
    test = s.exact_permutation_test([5, 4, 3, 2, 1], [0.0, 1.6, 2.1, 2.1, 2.2])
    assert test.value == pytest.approx(-9.5 / math.sqrt(95))
    assert (test.extreme, test.orders) == (4, 120)
    assert test.p_value == pytest.approx(1 / 30)
    # the same claim's -0.9 has exact p = 10/120
    near = s.exact_permutation_test([1, 2, 3, 4, 5], [1, 2, 4, 3, 5])
    assert near.value == pytest.approx(0.9)
    assert near.extreme == 10


def test_permutation_refuses_what_it_cannot_enumerate() -> None:
    with pytest.raises(ValueError, match="too many"):
        s.exact_permutation_test(range(11), range(11))
    with pytest.raises(ValueError, match="constant"):
        s.exact_permutation_test([1, 1, 1], [1, 2, 3])


@given(st.lists(st.integers(0, 6), min_size=4, max_size=4))
def test_fisher_agrees_with_scipy(cells: list[int]) -> None:
    table = np.array(cells).reshape(2, 2)
    if table.sum() == 0:
        return
    ours = s.fisher_exact(table)
    assert ours.p_value == pytest.approx(stats.fisher_exact(table).pvalue)
    assert 0 < ours.smallest_p <= ours.p_value <= 1


def test_fisher_of_five_tools() -> None:
    """Claim s000.abs.docker_predictor: 3/3 with Docker against 1/2 without: p = 0.4; two against three can never go below 0.1."""
    assert s.fisher_exact([[3, 0], [1, 1]]).p_fraction == Fraction(2, 5)
    perfect = s.fisher_exact([[2, 0], [0, 3]])
    assert perfect.p_fraction == perfect.smallest_fraction == Fraction(1, 10)


@pytest.mark.parametrize("bad", [[[1, 2]], [[1, -1], [0, 1]], [[0.5, 1], [1, 1]], [[0, 0], [0, 0]]])
def test_fisher_refuses(bad: list[list[float]]) -> None:
    with pytest.raises(ValueError):
        s.fisher_exact(bad)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=30))
def test_kappa_agrees_with_scikit_learn(grades: list[tuple[int, int]]) -> None:
    a, b = zip(*grades, strict=True)
    labels = [0, 1, 2, 3]
    for weights, theirs in (("none", None), ("linear", "linear")):
        ours = s.cohen_kappa(a, b, 4, weights)  # type: ignore[arg-type]
        if len(set(a) | set(b)) == 1:
            assert math.isnan(ours)
        else:
            assert ours == pytest.approx(cohen_kappa_score(a, b, labels=labels, weights=theirs), abs=1e-12)


@pytest.mark.parametrize("values", [[1.0, 2.0, 3.0], [1.0, 2.0, -3.5], [0.4, -0.1, 0.3, 0.25, 0.05, 0.7, -0.2]])
def test_sign_flips_are_scipys_exact_permutation_test(values: list[float]) -> None:
    found = s.sign_flip_test(values)
    expected = stats.permutation_test((values,), np.mean, permutation_type="samples", n_resamples=np.inf).pvalue
    assert found.p_value == pytest.approx(expected)
    assert found.smallest_p == pytest.approx(2 / 2 ** len(values))


def test_the_least_that_a_statistic_takes() -> None:
    """Two values correlate, and values one apart differ; one value more or less is refused."""
    assert [of([0.0, 1.0], [0.0, 1.0]) for of in (s.pearson, s.spearman)] == pytest.approx([1.0, 1.0])
    assert math.isnan(s.pearson([1.0, 1.0], [0.0, 1.0])) and math.isnan(s.spearman([0.0, 1.0], [1.0, 1.0]))
    assert s.rae([0.0, 1.0], [0.0, 0.0]) == 1.0
    with pytest.raises(ValueError, match="differ"):
        s.rae([1.0, 1.0], [0.0, 1.0])
    for bad in ([1.0], [1.0, math.nan], [1.0, math.inf, 2.0], [1.0] * 21):
        with pytest.raises(ValueError, match="finite differences"):
            s.sign_flip_test(bad)
    for bad_pair in (([0, 2], [0, 1]), ([0, 1], [2, 0]), ([0, -1], [0, 1]), ([], [])):
        with pytest.raises(ValueError, match="grades from 0 to 1"):
            s.cohen_kappa(*bad_pair, levels=2)
    assert s.cohen_kappa([0, 1], [0, 1], levels=2) == 1.0


def test_permutations_that_differ_only_by_rounding_are_equally_extreme() -> None:
    """Three of four values tie: 6 of the 24 orders put the largest on the largest, whatever order the sums are taken in."""
    found = s.exact_permutation_test([0.1, 0.1, 0.1, 0.7], [0.3, 0.1, 0.2, 0.9], "pearson")
    assert (found.p_value, found.smallest_p) == (6 / 24, 6 / 24)
    assert s.exact_permutation_test([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 4.0, 3.0], "spearman").smallest_p == 2 / 24  # rising and falling
