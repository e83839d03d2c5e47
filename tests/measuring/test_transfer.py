"""Transfer between devices: exact where the law holds by construction."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.artifact.measuring.transfer import evaluate, log_times, ridge, scaled
from analysis.errors import InputError

RNG = np.random.default_rng(3)
WORK = RNG.uniform(-10, -3, 200)


def test_a_scaled_copy_is_found_exactly() -> None:
    sources = np.column_stack([WORK + RNG.normal(0, 1, 200), WORK])
    target = WORK + np.log(3)  # three times the second source
    np.testing.assert_allclose(scaled(sources, target, np.arange(5)), target, atol=1e-12)


def test_ridge_beats_scaling_where_the_target_mixes_sources() -> None:
    compute, memory = WORK, WORK + RNG.normal(0, 1, 200)
    sources, target = np.column_stack([compute, memory]), 0.5 * compute + 0.5 * memory - 1
    picked = np.arange(10)
    error = {name: np.abs(method(sources, target, picked) - target).max() for name, method in (("ridge", ridge), ("scaled", scaled))}
    assert error["ridge"] < 0.05 < error["scaled"]


def test_ridge_leaves_one_out_as_it_says() -> None:
    # The closed form (residual over 1 - leverage) against fitting again without each sample, for the penalty that is chosen by it.
    x = RNG.normal(size=(12, 3))
    y = x @ [1.0, -2.0, 0.5] + RNG.normal(0, 0.1, 12)
    alpha = 0.3
    centred, mean = x - x.mean(0), y.mean()
    inverse = np.linalg.solve(centred.T @ centred + alpha * np.eye(3), centred.T)
    leverage = np.einsum("ij,ji->i", centred, inverse) + 1 / 12
    closed = (y - mean - centred @ (inverse @ (y - mean))) / (1 - leverage)
    for index in range(12):
        keep = np.arange(12) != index
        inner = x[keep] - x[keep].mean(0)
        weights = np.linalg.solve(inner.T @ inner + alpha * np.eye(3), inner.T @ (y[keep] - y[keep].mean()))
        assert y[index] - y[keep].mean() - (x[index] - x[keep].mean(0)) @ weights == pytest.approx(closed[index], rel=1e-6)


def test_samples_are_not_scored() -> None:
    names = [f"o{index}" for index in range(40)]
    table = pd.DataFrame({"a": WORK[:40], "b": WORK[:40] + 1}, index=names)
    result = evaluate(table, pd.Series("gemm", index=names), samples=10, seeds=3)
    assert (result["operators"] == 30).all() and len(result) == 2 * 3 * 4
    assert result[result["method"] == "one source, scaled"]["mape"].max() < 1e-12


def test_devices_without_a_common_operator() -> None:
    frame = pd.DataFrame({"device": ["a", "b"], "operator": ["x", "y"], "median_s": [1.0, 1.0]})
    with pytest.raises(InputError, match="every device"):
        log_times(frame)
