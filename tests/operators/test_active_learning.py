"""Active learning: every strategy measures what it says and never the held-out; the halving is found on a curve whose answer is known."""

import numpy as np
import pandas as pd
import pytest

from analysis.studies.kernels.active_learning import STRATEGIES, halving, learn


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_more_measurements_help_and_the_start_is_shared(strategy: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 3, (160, 2))
    seconds = np.exp(x[:, 0] + 0.5 * x[:, 1])
    test = np.arange(160) % 4 == 0
    curve = learn(x, seconds, test, strategy, [8, 16, 100], seed=1)
    other = learn(x, seconds, test, "chance", [8], seed=1)
    assert curve["median_error"][0] == other["median_error"][0]
    assert curve["median_error"][2] < 0.5 * curve["median_error"][0]


def test_held_out_operators_are_never_measured() -> None:
    x = np.arange(40.0)[:, None]
    seconds, test = np.exp(x[:, 0] / 10), np.arange(40) >= 30
    spoiled = np.where(test, seconds * 1e6, seconds)
    a = learn(x, seconds, test, "distance", [5, 20], seed=0)
    b = learn(x, spoiled, test, "distance", [5, 20], seed=0)
    # what is held out is only compared with: made a million times slower, each prediction is some 100 % off
    assert b["median_error"].tolist() == pytest.approx([1.0, 1.0], abs=1e-4) and a["median_error"][1] < 1


def test_halving_of_a_power_law() -> None:
    # error = n^-0.5 halves at four times the measurements
    curve = pd.DataFrame({"measured": [20, 40, 160], "median_error": [20**-0.5, 40**-0.5, 160**-0.5]})
    assert halving(curve, 20) == pytest.approx(80)
    assert halving(curve.assign(median_error=0.3), 20) == float("inf")
