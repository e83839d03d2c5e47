"""Which operators should be measured next? A forest on few measurements, grown by chance, by its own doubt, or by distance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor

Array = NDArray[np.float64]
STRATEGIES = ("chance", "doubt", "distance")
TREES = 60


def features(operators: pd.DataFrame, kinds: Sequence[str]) -> Array:
    """Kind of operator as indicators; work, traffic and their ratio as logarithms; the dimensions as logarithms.

    Args:
        operators: with `kind`, `flop`, `traffic_elements` and columns of dimensions (count), empty where a kind has none.
    """
    words = ("operator", "kind", "variant")
    numbers = operators.drop(columns=[c for c in words if c in operators]).fillna(0).to_numpy(float)
    ratio = np.log(operators["flop"].to_numpy(float).clip(1) / operators["traffic_elements"].to_numpy(float).clip(1))
    chosen = (operators["kind"].to_numpy()[:, None] == np.array(kinds)[None, :]).astype(float)
    return np.column_stack([chosen, np.log1p(numbers), ratio])


def _forest(seed: int) -> ExtraTreesRegressor:
    return ExtraTreesRegressor(TREES, min_samples_leaf=1, random_state=seed, n_jobs=1)


def learn(x: Array, seconds: Array, test: NDArray[np.bool_], strategy: str, sizes: Sequence[int], seed: int) -> pd.DataFrame:
    """Error on operators that are never measured, as the number of those measured grows.

    Every strategy starts from the same operators, drawn by chance. `doubt` then measures those on which the trees disagree most
    (standard deviation of the logarithm); `distance` those farthest from all measured in standardised features; `chance` any.

    Args:
        seconds: measured times (s).
        sizes: numbers of measurements at which the error is taken, ascending (count).
        strategy: chance, doubt or distance.

    Returns:
        One row a size: measured (count), median_error (1).
    """
    rng = np.random.default_rng(seed)
    pool = np.flatnonzero(~test)
    chosen = list(rng.permutation(pool)[: sizes[0]])
    scale = x.std(axis=0)
    z = x / np.where(scale > 0, scale, 1.0)
    rows = []
    for i, size in enumerate(sizes):
        model = _forest(seed).fit(x[chosen], np.log(seconds[chosen]))
        error = np.abs(np.exp(model.predict(x[test])) / seconds[test] - 1)
        rows.append({"measured": size, "median_error": float(np.median(error))})
        if i + 1 == len(sizes):
            break
        left = np.setdiff1d(pool, chosen)
        wanted = sizes[i + 1] - size
        if strategy == "chance":
            chosen += list(rng.permutation(left)[:wanted])
        elif strategy == "doubt":
            doubt = np.std([tree.predict(x[left]) for tree in model.estimators_], axis=0)
            chosen += list(left[np.argsort(-doubt, kind="stable")[:wanted]])
        elif strategy == "distance":
            nearest = np.min(((z[left][:, None, :] - z[chosen][None, :, :]) ** 2).sum(axis=2), axis=1)
            for _ in range(wanted):
                pick = int(np.argmax(nearest))
                chosen.append(int(left[pick]))
                nearest = np.minimum(nearest, ((z[left] - z[left[pick]]) ** 2).sum(axis=1))
        else:
            raise ValueError(f"expected one of {', '.join(STRATEGIES)}, got {strategy!r}")
    return pd.DataFrame(rows)


def halving(curve: pd.DataFrame, start: int) -> float:
    """Measurements at which the error is half of the one at `start`, interpolated in logarithms of sizes; infinite where it never is.

    Args:
        start: a size of the curve (count).
    """
    error = curve.set_index("measured")["median_error"]
    goal = float(error.loc[start]) / 2
    sizes, errors = error.index.to_numpy(float), error.to_numpy(float)
    below = np.flatnonzero((errors <= goal) & (sizes > start))
    if below.size == 0:
        return float("inf")
    j = int(below[0])
    part = (np.log(errors[j - 1]) - np.log(goal)) / (np.log(errors[j - 1]) - np.log(errors[j]))
    return float(np.exp(np.log(sizes[j - 1]) + part * (np.log(sizes[j]) - np.log(sizes[j - 1]))))
