"""Accuracy and ranking on examples that can be counted by hand, beside brute force and the trivial baselines."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import rankdata

from analysis.paths import DATA
from analysis.studies.cores.learning import freeze
from analysis.studies.cores.learning.accuracy import accuracy, fit_pc_table, majority
from analysis.studies.cores.learning.ranking import five_way, pair_orders, whole_program_order
from analysis.studies.cores.learning.study import UNSEEN
from analysis.studies.cores.programs import program_names
from analysis.studies.statistics import kendall_tau_b
from analysis.tables import read_csv

cycles = arrays(np.int64, st.tuples(st.integers(1, 12), st.just(4)), elements=st.integers(0, 3))


def test_the_seven_figures() -> None:
    got = accuracy([0, 0, 1, 3, 40], [0.4, 0.6, 3.4, 3, 41])
    assert got.mae == pytest.approx((0.4 + 0.6 + 2.4 + 0 + 1) / 5)
    assert got.rmse == pytest.approx(math.sqrt((0.16 + 0.36 + 5.76 + 0 + 1) / 5))
    assert got.rae == pytest.approx(4.4 / (8.8 + 8.8 + 7.8 + 5.8 + 31.2))
    assert (got.exact, got.within1, got.within2, got.rel5) == (0.4, 0.8, 1.0, 0.6)


def test_a_model_may_give_the_likely_latency_apart_from_its_mean() -> None:
    got = accuracy([0, 0, 0, 8], [2, 2, 2, 2], [0, 0, 0, 0])
    assert got.exact == 0.75 and got.mae == 3


@settings(deadline=None)
@given(arrays(np.int64, 20, elements=st.integers(0, 3)))
def test_the_majority_is_the_best_constant(latency: np.ndarray) -> None:
    best = max((latency == value).mean() for value in range(4))
    assert accuracy(latency, np.full(20, majority(latency))).exact == best


def test_a_pc_table_remembers() -> None:
    table = fit_pc_table([4, 4, 4, 8, 8, 12], [1, 1, 5, 0, 2, 1])
    mode, mean = table([4, 8, 12, 16])
    assert mode.tolist() == [1, 0, 1, 1]
    assert mean == pytest.approx([7 / 3, 1, 1, 10 / 6])


@settings(deadline=None)
@given(cycles, st.integers(0, 9))
def test_pairs_and_ranks_agree_with_one_instruction_at_a_time(truth: np.ndarray, seed: int) -> None:
    predicted = np.random.default_rng(seed).integers(0, 3, truth.shape)
    both = list(zip(truth, predicted, strict=True))
    pairs = pair_orders(truth, predicted)
    alike = [np.sign(a[i] - a[j]) == np.sign(b[i] - b[j]) for a, b in both for i, j in combinations(range(4), 2)]
    assert np.mean([p.match for p in pairs]) == pytest.approx(np.mean(alike))
    ranks = five_way(truth, predicted)
    assert ranks.full_match == pytest.approx(np.mean([np.array_equal(rankdata(a), rankdata(b)) for a, b in both]))
    assert ranks.best_match == pytest.approx(np.mean([(a == a.min())[b == b.min()].mean() for a, b in both]))
    taus = []
    for a, b in both:
        constant = (np.ptp(a) == 0, np.ptp(b) == 0)
        taus.append(1.0 if all(constant) else 0.0 if any(constant) else kendall_tau_b(a, b))
    assert ranks.tau == pytest.approx(np.mean(taus))


@settings(deadline=None)
@given(cycles)
def test_all_equal_scores_the_share_of_ties(truth: np.ndarray) -> None:
    """The baseline that NeuroScalar's Tables 6 and 7 lack: it looks at nothing and is right wherever the designs tie."""
    flat = np.zeros_like(truth)
    for (i, j), pair in zip(combinations(range(4), 2), pair_orders(truth, flat), strict=True):
        assert pair.match == pytest.approx((truth[:, i] == truth[:, j]).mean()) == pytest.approx(pair.all_equal)
        assert pair.recall == 0 or math.isnan(pair.recall)
        assert pair.non_zero == pytest.approx(((truth[:, i] > 0) | (truth[:, j] > 0)).mean())
    ranks = five_way(truth, flat)
    assert ranks.full_match == pytest.approx(1 - ranks.differ)
    perfect = five_way(truth, truth)
    assert (perfect.full_match, perfect.best_match, perfect.tau) == pytest.approx((1, 1, 1))


def test_whole_programs_count_only_clear_pairs() -> None:
    truth = np.array([[100, 101, 110], [50, 50, 50]])
    order = whole_program_order(truth, np.array([[10, 9, 11], [1, 2, 3]]))
    assert (order.clear_pairs, order.right, order.share) == (2, 2, 1.0)
    assert whole_program_order(truth, np.ones((2, 3))).right == 0
    assert math.isnan(whole_program_order([[1, 1]], [[1, 2]]).share)


def test_every_program_is_left_out_once_and_its_own_cycles_are_the_networks() -> None:
    """Issue 13, item 11: beside the first-order model's cycles stand the network's own, which agree nowhere."""
    own, true = (read_csv(DATA / "frozen" / "cores_model" / f"{name}.csv") for name in ("own", "cycles"))
    whose = freeze.whose_cycles(own, true)
    unseen = whose[(whose["setting"] == UNSEEN) & (whose["network"] == "ours")]
    said = unseen.pivot(index=["program", "design"], columns="cycles_of", values="predicted_cycles")
    assert set(said.index.get_level_values("program")) == set(program_names()) and len(said) == 5 * len(program_names())
    assert not (said[freeze.OWNERS["network_mean"]] == said[freeze.OWNERS["first_order"]]).any()
    table = freeze.errors_by_owner(unseen).set_index("cycles_of")
    for owner, rows in unseen.groupby("cycles_of"):
        assert table.loc[owner, "cycles_error_mean"] == pytest.approx(rows["error"].mean())
        assert table.loc[owner, "cycles_error_low"] < rows["error"].mean() < table.loc[owner, "cycles_error_high"]
