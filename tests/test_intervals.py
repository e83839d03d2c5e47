"""Intervals against scipy, hand-worked tables and simulated coverage; no other module has such code."""

from __future__ import annotations

import ast
import math

import numpy as np
import pytest
from scipy import stats

from analysis import site
from analysis.paths import DATA, ROOT
from analysis.studies import intervals
from analysis.studies.kernels.evaluate import gains
from analysis.studies.statistics import spearman
from analysis.tables import read_csv


def test_few_observations_are_enumerated() -> None:
    everything = intervals.exact_bootstrap(np.mean, [0.0, 1.0], level=0.4)  # the four means 0, 1/2, 1/2, 1
    assert (everything.clusters, everything.low, everything.high) == (2, pytest.approx(0.45), pytest.approx(0.55))
    rank = intervals.exact_bootstrap(spearman, [1, 2, 3], [1, 2, 3])
    assert rank.undefined == pytest.approx(3 / 27)  # the three constant resamples
    assert [rank.value, rank.low, rank.high] == pytest.approx([1, 1, 1])
    with pytest.raises(ValueError, match="at least 2"):
        intervals.exact_bootstrap(np.mean, [1.0])
    with pytest.raises(ValueError, match="too many"):
        intervals.exact_bootstrap(np.mean, range(7))


def test_cluster_bootstrap_covers_where_resampling_rows_does_not() -> None:
    """200 samples of 7 devices with 4 to 11 rows each, mean zero, most of the spread between devices: 95 % intervals that hold zero."""
    rng = np.random.default_rng(1)
    clustered = by_rows = 0
    for sample in range(200):
        device = np.repeat(np.arange(7), rng.integers(4, 12, 7))
        values = rng.normal(0, 1, 7)[device] + rng.normal(0, 0.5, len(device))
        found = intervals.cluster_bootstrap(np.mean, device, values, resamples=300, seed=sample)
        clustered += found.low <= 0 <= found.high
        low, high = np.quantile(values[rng.integers(len(values), size=(150, len(values)))].mean(axis=1), [0.025, 0.975])
        by_rows += low <= 0 <= high
    assert 0.90 <= clustered / 200 <= 0.99
    assert by_rows / 200 < 0.7


def test_cluster_bootstrap_of_one_row_a_cluster_is_nearly_the_t_interval() -> None:
    values = np.random.default_rng(3).normal(5, 2, 60)
    found = intervals.cluster_bootstrap(np.mean, np.arange(60), values, resamples=4000)
    expected = stats.t.interval(0.95, 59, values.mean(), values.std(ddof=1) / np.sqrt(60))
    assert (found.low, found.high) == pytest.approx(expected, abs=0.05)
    assert found.clusters == 60


def test_cluster_bootstrap_refuses_what_it_cannot_resample() -> None:
    with pytest.raises(ValueError, match="at least 2 clusters"):
        intervals.cluster_bootstrap(np.mean, ["a", "a"], [1.0, 2.0])
    with pytest.raises(ValueError, match="a cluster for each"):
        intervals.cluster_bootstrap(np.mean, ["a", "b"], [1.0, 2.0, 3.0])


def test_cluster_bootstrap_draws_whole_clusters() -> None:
    """Two clusters of two rows: four rows each time, of a cluster either both or none; the draws of seed 0 unless asked otherwise."""
    seen: list[tuple[float, ...]] = []

    def noted(rows: np.ndarray) -> float:
        seen.append(tuple(rows))
        return float(rows.mean())

    found = intervals.cluster_bootstrap(noted, ["a", "b", "a", "b"], [0.0, 1.0, 0.0, 1.0], resamples=50)
    assert {tuple(sorted(rows)) for rows in seen} == {(0.0,) * 4, (0.0, 0.0, 1.0, 1.0), (1.0,) * 4}
    values = [0.3, 1.1, 2.7, 4.0, 0.2, 0.9, 5.0]
    assert intervals.cluster_bootstrap(np.mean, list("abcdefg"), values, resamples=30) == intervals.cluster_bootstrap(
        np.mean, list("abcdefg"), values, resamples=30, seed=0
    )
    assert found.value == 0.5
    with pytest.raises(ValueError, match="undefined on most resamples"):
        intervals.cluster_bootstrap(lambda rows: math.nan, ["a", "b"], [0.0, 1.0], resamples=3)


def test_the_interval_of_a_mean_is_students() -> None:
    """Five values 1..5: mean 3, standard error sqrt(2.5 / 5) = 0.7071, t(0.975, 4) = 2.776 (any table)."""
    found = intervals.student_interval([1, 2, 3, 4, 5])
    assert (found.value, found.low, found.high) == pytest.approx((3, 3 - 2.7764 * 0.70711, 3 + 2.7764 * 0.70711), abs=1e-3)
    assert intervals.next_group(5, 0.95) == pytest.approx(2.7764 * math.sqrt(1.2), abs=1e-3)
    with pytest.raises(ValueError, match="at least 2 groups"):
        intervals.next_group(1, 0.9)


def test_weighted_quantiles_by_hand() -> None:
    """Of 1, 2, 3 with weights 1, 1, 2: half the weight is reached at 2; middles of the weights lie at 1/8, 3/8 and 3/4."""
    values, weight = np.array([3.0, 1.0, 2.0]), np.array([2.0, 1.0, 1.0])
    assert [intervals.weighted_quantile(values, weight, level) for level in (0.2, 0.5, 0.51, 1.0)] == [1.0, 2.0, 3.0, 3.0]
    assert [intervals.interpolated_quantile(values, weight, level) for level in (0.0, 0.125, 0.375, 0.75, 1.0)] == [1, 1, 2, 3, 3]
    assert intervals.interpolated_quantile(values, weight, 0.25) == pytest.approx(1.5)


def test_percentiles_of_five_clusters_are_too_narrow_and_ours_are_not() -> None:
    """600 samples of five normal values: plain percentiles of their resampled means hold zero far less than 95 times in 100."""
    rng, plain, ours = np.random.default_rng(5), 0, 0
    for sample in range(600):
        values = rng.normal(size=5)
        drawn = values[rng.integers(0, 5, (400, 5))].mean(axis=1)
        low, high = np.quantile(drawn, [0.025, 0.975])
        plain += low <= 0 <= high
        ours += intervals.cluster_bootstrap(np.mean, range(5), values, resamples=400, seed=sample, together=True).contains_zero
    assert plain / 600 < 0.86 < 0.89 < ours / 600


def test_gains_of_kernels_that_contain_zero_say_so() -> None:
    """By hand from the five architectures' frozen medians: with the architecture left out four of eighteen gains do not exclude zero."""
    found = gains(read_csv(DATA / "frozen" / "kernels_today" / "accuracy.csv")).set_index(["operator", "setting", "baseline"])
    assert len(found) == 36 and set(found["architectures"]) == {5}
    apart = found.xs("unmeasured architecture", level="setting")
    assert set(apart.index[apart["contains_zero"] == "yes"]) == {
        ("latent_decode", "roofline"),
        ("latent_decode", "nearest shape"),
        ("latent_prefill", "nearest shape"),
        ("latent_prefill", "boosted trees"),
    }
    prompts = apart.loc["attention_prefill", "nearest shape"]  # 76.1, -1.3, 10.7, 36.2 and 4.5 points
    assert (prompts["lost"], prompts["p"]) == (1, 0.125) and prompts["gain"] == pytest.approx(0.252, abs=1e-3)
    assert found["p"].min() == 2 / 2**5


def test_no_other_module_resamples_or_has_a_students_interval() -> None:
    """Outside `intervals`, no function draws with replacement and takes quantiles of what it drew, and none asks for Student's t."""
    offenders = []
    for path in sorted((ROOT / "analysis").rglob("*.py")):
        if path.name == "intervals.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            names = {
                node.attr if isinstance(node, ast.Attribute) else node.id
                for node in ast.walk(function)
                if isinstance(node, (ast.Attribute, ast.Name))
            }
            resamples = names & {"integers", "choice"} and names & {"quantile", "percentile"} and "cluster_tail" not in names
            if resamples or names & {"stdtrit", "ppf"}:
                offenders.append(f"{path.relative_to(ROOT)}: {function.name}")
    assert offenders == []


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 8, 29, 224])
def test_students_quantile_is_scipys(freedom: int) -> None:
    for probability in (0.5, 0.6, 0.9, 0.95, 0.975, 0.999):
        assert intervals.student_quantile(freedom, probability) == pytest.approx(stats.t.ppf(probability, freedom), rel=1e-12, abs=1e-12)


def test_a_site_has_half_an_interval_of_its_own_freedom() -> None:
    assert intervals.student_quantile(site.FREEDOM, 0.95) == site.HALF
