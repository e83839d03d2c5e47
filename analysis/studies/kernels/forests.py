"""Sums of regression trees (`kernels.trees`) fitted, scaled and written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from analysis.kernels.trees import LEAF, LEAF_SCALE, Forest
from analysis.kernels.work import Floats

Loss = Literal["squared_error", "absolute_error"]


@dataclass(frozen=True)
class Boosting:
    """Settings of gradient boosting.

    Args:
        trees, leaves, least_in_leaf: number of trees, leaves of each, rows of a leaf at least.
        learning_rate: weight of a tree.
        loss: absolute errors draw a leaf to the median of its rows, squared ones to the mean.
    """

    trees: int = 120
    leaves: int = 15
    learning_rate: float = 0.1
    least_in_leaf: int = 20
    loss: Loss = "absolute_error"


def scaled(forest: Forest, share: float) -> Forest:
    """The forest whose answers are a share of this one's."""
    number = np.where(forest.feature == LEAF, np.rint(share * forest.number), forest.number).astype(np.int16)
    return forest._replace(number=number, constant=share * forest.constant)


def arrays(forest: Forest, prefix: str) -> dict[str, NDArray[np.generic]]:
    """A forest of floats by the names of its arrays, children by their index, for a file."""
    at, leaf = np.arange(len(forest.feature)), forest.feature == LEAF
    columns: dict[str, NDArray[np.generic]] = {
        "first": forest.start,
        "feature": np.where(leaf, -1, forest.feature.astype(np.int32)),
        "threshold": np.where(leaf, 0.0, forest.number),
        "left": np.where(leaf, 0, at + 1).astype(np.int32),
        "right": np.where(leaf, 0, at + forest.right).astype(np.int32),
        "value": np.where(leaf, forest.number, 0.0),
        "base": np.array([forest.constant]),
    }
    return {f"{prefix}.{name}": column for name, column in columns.items()}


def _boosted(features: NDArray[Any], target: Floats, weight: Floats | None, settings: Boosting, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(
        loss=settings.loss,
        max_iter=settings.trees,
        max_leaf_nodes=settings.leaves,
        learning_rate=settings.learning_rate,
        min_samples_leaf=settings.least_in_leaf,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=seed,
    ).fit(features, target, sample_weight=weight)


def _levels(values: NDArray[np.int16]) -> NDArray[np.float32]:
    """The features at 255 levels each at most, by quantiles: scikit-learn's own quantiles of weighted rows take ten times the fit."""
    out = values.astype(np.float32)
    for column in out.T:
        levels = np.unique(np.quantile(column, np.linspace(0, 1, 255), method="nearest"))
        column[:] = levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, column)]
    return out


def fit(
    values: NDArray[np.int16], target: Floats, trees: int, leaves: int, rate: float, weight: Floats | None = None, minimum: int = 20,
    loss: Loss = "squared_error",
) -> Forest:  # fmt: skip
    """Gradient boosting (scikit-learn's histogram trees) in 16-bit numbers.

    Args:
        values: features in multiples of 1/1024, shape (n, p); target: shape (n,).
        trees, leaves, rate, minimum, loss: as of `Boosting`.
    """
    features = values.astype(np.float32) if weight is None else _levels(values)
    whole = _joined(_boosted(features, target, weight, Boosting(trees, leaves, rate, minimum, loss), 0))
    leaf = whole.feature == LEAF
    thresholds = np.clip(np.floor(np.nan_to_num(whole.number, posinf=32000)), -32767, 32767)
    number = np.where(leaf, np.clip(np.rint(whole.number * LEAF_SCALE), -32767, 32767), thresholds).astype(np.int16)
    assert whole.right.max(initial=0) <= LEAF, "a tree has too many nodes"
    return whole._replace(number=number, right=whole.right.astype(np.uint8))


def fit_boosting(features: Floats, target: Floats, weight: Floats, settings: Boosting, seed: int = 0) -> Forest:
    """Gradient boosting in floats.

    Args:
        features: shape (n, d), finite; target, weight: shape (n,).
    """
    return _joined(_boosted(features, target, weight, settings, seed))


def _joined(model: Any) -> Forest:
    """The trees of a fitted booster, end to end; scikit-learn has no public view of them."""
    nodes = [stage[0].nodes for stage in model._predictors]
    every = np.concatenate(nodes)
    leaf = every["is_leaf"].astype(bool)
    at = np.concatenate([np.arange(len(tree)) for tree in nodes])
    assert (every["left"] == at + 1)[~leaf].all(), "the trees are not in depth-first order"
    return Forest(
        np.where(leaf, LEAF, every["feature_idx"]).astype(np.uint8),
        np.where(leaf, every["value"], every["num_threshold"]).astype(np.float64),
        np.where(leaf, 0, every["right"].astype(np.int64) - at).astype(np.int32),
        np.cumsum([0, *map(len, nodes[:-1])]).astype(np.int32),
        float(np.ravel(model._baseline_prediction)[0]),
    )
