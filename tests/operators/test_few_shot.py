"""Few-shot transfer: paths in cells, the posterior's laws, samples against brute force, the frozen figures against the data."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import datasets
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.studies.kernels.networks import few_shot, few_shot_spaces, few_shot_trial
from analysis.studies.kernels.networks.few_shot import FewShotSettings, Prior
from analysis.tables import read_csv

OPERATORS = ["none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3"]
PATHS = [[(0, 3)], [(0, 1), (1, 3)], [(0, 2), (2, 3)], [(0, 1), (1, 2), (2, 3)]]
"""All paths from input (node 0) to output (node 3) of a NAS-Bench-201 cell (Dong and Yang 2020, figure 1)."""


@given(st.lists(st.sampled_from(OPERATORS), min_size=6, max_size=6))
def test_used_edges_are_those_on_a_path_of_the_cell(operators: list[str]) -> None:
    present = {edge for edge, operator in zip(few_shot_spaces.CELL_EDGES, operators, strict=True) if operator != "none"}
    expected = {edge for path in PATHS if set(path) <= present for edge in path}
    used = few_shot_spaces.used_edges([operators])[0]
    assert {edge for edge, flag in zip(few_shot_spaces.CELL_EDGES, used, strict=True) if flag} == expected


def cell(operators: tuple[str, ...]) -> str:
    a, b, c, d, e, f = operators
    return f"|{a}~0|+|{b}~0|{c}~1|+|{d}~0|{e}~1|{f}~2|"


def test_tables_of_every_layout_become_spaces() -> None:
    cells = pd.DataFrame(
        {
            "arch_idx": range(32),
            "arch_str": [cell(row) for row in itertools.islice(itertools.product(*[OPERATORS[:2]] * 6), 32)],
            "phone": 1.0,
        }
    )
    space = few_shot_spaces.from_table("mine", cells)
    assert space.sources == ("phone",) and len(space.features) == 32
    layers = few_shot_spaces.from_table("mine", pd.DataFrame({"arch": ["7-8", "7-1"], "phone": [1.0, 2.0]}))
    assert layers.features.tolist() == [[1, 0, 1], [1, 1, 0]]
    chosen = pd.DataFrame({"ks": ["[3, 5]", "[3, 7]"], "e": ["3-4", "6-4"], "d": ["2", "4"], "r": [224, 160], "gpu": [1.0, 2.0]})
    assert few_shot_spaces.from_table("mine", chosen).features.shape == (2, 1 + 2 + 2 + 1 + 2 + 2)
    with pytest.raises(InputError, match="missing column; expected one a device of the split"):
        few_shot_spaces.from_table("fbnet", pd.DataFrame({"arch": ["7-8"], "phone": [1.0]}))
    with pytest.raises(InputError, match="no column describes architectures"):
        few_shot_spaces.from_table("mine", pd.DataFrame({"phone": [1.0]}))
    with pytest.raises(InputError, match="has 3 choices; the first has 2"):
        few_shot_spaces.from_table("mine", pd.DataFrame({"arch": ["7-8", "7-8-9"], "phone": [1.0, 2.0]}))


def made_up(seed: int, devices: int = 6, count: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Features of architectures, and latencies of devices that are mixtures of two hidden costs and a little of their own."""
    rng = np.random.default_rng(seed)
    features = few_shot_spaces.one_hot([[str(rng.integers(4)) for _ in range(8)] for _ in range(count)])
    hidden = rng.gamma(2.0, 1.0, (2, features.shape[1]))
    mixes = rng.uniform(0.1, 1.0, (devices, 2))
    own = 0.1 * rng.gamma(2.0, 1.0, (devices, features.shape[1]))
    return features, features @ (mixes @ hidden + own).T


def prior_of(seed: int, wanted: FewShotSettings) -> tuple[Prior, np.ndarray]:
    features, latency = made_up(seed)
    measured = np.arange(200)
    surfaces = few_shot.source_surfaces(features, [(measured, latency[measured, d]) for d in range(5)])
    return few_shot.prior(surfaces, features, wanted), latency[:, 5]


@given(st.integers(0, 20), st.floats(0.01, 100), st.floats(-50, 50), st.sampled_from([0.0, 4.0]))
@settings(max_examples=20, deadline=None)
def test_units_and_offsets_of_the_new_device_do_not_matter(seed: int, factor: float, offset: float, tail: float) -> None:
    known, truth = prior_of(seed, FewShotSettings(tail=tail))
    samples = np.arange(10) * 7
    plain = few_shot.predict(known, samples, truth[samples])
    changed = few_shot.predict(known, samples, factor * truth[samples] + offset)
    np.testing.assert_allclose(changed.latency, factor * plain.latency + offset, rtol=1e-6, atol=1e-6 * factor)
    np.testing.assert_allclose(changed.deviation, factor * plain.deviation, rtol=1e-6)


@given(st.integers(0, 20))
@settings(max_examples=10, deadline=None)
def test_without_noise_the_samples_are_met_and_with_endless_noise_only_the_mean_is_left(seed: int) -> None:
    known, truth = prior_of(seed, FewShotSettings(noise=1e-9, tail=0.0))
    samples = np.arange(10) * 7
    np.testing.assert_allclose(few_shot.predict(known, samples, truth[samples]).latency[samples], truth[samples], rtol=1e-3)
    deaf = Prior(known.mean, known.basis, replace(known.settings, noise=1e9))
    answer = few_shot.predict(deaf, samples, truth[samples]).latency
    assert np.corrcoef(answer, known.mean)[0, 1] == pytest.approx(1.0, abs=1e-6)


@given(st.integers(0, 10))
@settings(max_examples=5, deadline=None)
def test_each_chosen_sample_lowers_the_expected_error_most(seed: int) -> None:
    """Brute force: the covariance after conditioning on each candidate in turn, by its formula, summed over the judged architectures."""
    known, _ = prior_of(seed, FewShotSettings())
    pool, judged = np.arange(0, 300, 20), np.arange(5, 300, 30)
    chosen = few_shot.choose(known, 3, pool, judged)
    assert len(set(chosen)) == 3 and set(chosen) <= set(pool)
    basis = np.hstack([known.basis, np.full((300, 1), few_shot.OFFSET)])
    taken: list[int] = []
    for step in range(3):
        left: dict[int, float] = {}
        for candidate in set(pool) - set(taken):
            rows = basis[[*taken, candidate]]
            gram = rows @ rows.T + known.settings.noise * np.eye(len(rows))
            cross = basis[judged] @ rows.T
            left[candidate] = float((basis[judged] ** 2).sum() - (cross * np.linalg.solve(gram, cross.T).T).sum())
        assert left[chosen[step]] == pytest.approx(min(left.values()), rel=1e-6)
        taken.append(int(chosen[step]))


@given(st.integers(1, 30), st.integers(1, 30), st.floats(0.01, 10), st.integers(0, 100))
def test_ridge_solves_its_normal_equations_on_either_side(rows: int, columns: int, penalty: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(rows, columns)), rng.normal(size=rows)
    weights, bias = few_shot.ridge(x, y, penalty)
    residual = y - x @ weights - bias
    np.testing.assert_allclose((x - x.mean(axis=0)).T @ residual, penalty * weights, atol=1e-8)
    assert residual.sum() == pytest.approx(0, abs=1e-8)


def test_sources_help_where_ten_samples_alone_do_not() -> None:
    features, latency = made_up(3, count=400)
    names = [f"d{i}" for i in range(6)]
    space = few_shot_spaces.Space("mine", features, dict(zip(names, latency.T, strict=True)), tuple(names[:5]), ("d5",))
    scores = few_shot_trial.new_device_scores(space, 0, FewShotSettings(), [10, 50]).set_index(["method", "samples"])["spearman"]
    assert scores["scratch", 10] < 0.8 < 0.93 < scores["prior_chosen", 10]
    assert scores["prior_chosen", 50] > scores["prior_chosen", 10] - 0.01


@pytest.mark.skipif(
    not datasets.available("help/fbnet_latency_ms"), reason="HELP's tables are not here: make data, or set ANALYSIS_DATASETS"
)
def test_the_frozen_figures_are_what_the_data_give() -> None:
    frozen = DATA / "frozen" / "few_shot"
    chosen = FewShotSettings(**read_csv(frozen / "settings.csv").iloc[0].to_dict())
    (situation,) = few_shot_trial.situations(few_shot_spaces.load("fbnet"), 0, [chosen])
    kept = read_csv(frozen / "ten_samples.csv").set_index(["space", "device", "method", "seed"])["spearman"]
    for method in ("ridge", "prior_chosen"):
        row = few_shot_trial.score(situation, "fpga", method, 10)
        assert row["spearman"] == pytest.approx(kept["fbnet", "fpga", method, 0], abs=1e-6)
