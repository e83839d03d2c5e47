"""Sums of regression trees as plain arrays: fitted with scikit-learn, stored without pickle, evaluated without scikit-learn.

A tree is a run of nodes in depth-first order: `feature` (255: a leaf), `number` (threshold, or a leaf's value) and `right`, the distance to
the right child; the left child is the next node. The kernels of today store numbers in 16 bits (thresholds in multiples of 1/1024, as their
features; values in multiples of 1/8192), the fp32 kernels as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.compiled import outer
from analysis.kernels.work import Floats

LEAF = 255
LEAF_SCALE = 8192.0
SMALL = 1 << 17
"""Leaves up to which numpy is sooner done than the compilation of the loop."""
Loss = Literal["squared_error", "absolute_error"]


class Forest(NamedTuple):
    """Sum of trees: nodes of all of them, first node of each, and the constant that is added."""

    feature: NDArray[np.uint8]
    number: NDArray[Any]
    right: NDArray[Any]
    start: NDArray[np.int32]
    constant: float


def _sum_in_numpy(values: Any, feature: Any, number: Any, right: Any, start: Any, out: Any) -> None:
    """What `_sum` does, a level of all trees and rows at once."""
    rows, node = np.repeat(np.arange(len(values)), len(start)), np.tile(start, len(values))
    leaf = np.empty(len(rows), dtype=node.dtype)
    place = np.arange(len(rows))
    while len(rows):
        inside = feature[node] != LEAF
        leaf[place[~inside]] = node[~inside]
        rows, node, place = rows[inside], node[inside], place[inside]
        node = node + np.where(values[rows, feature[node]] <= number[node], 1, right[node])
    for tree in range(len(start)):  # in the order of the compiled loop, so that floats round alike
        out += number[leaf[tree :: len(start)]]


@outer(plain=_sum_in_numpy, _nrt=False)
def _sum(values: Any, feature: Any, number: Any, right: Any, start: Any, out: Any) -> None:
    rows = values.shape[0]
    for tree in range(len(start)):
        first = start[tree]
        for row in range(rows):
            node = first
            while feature[node] != 255:
                node += 1 if values[row, feature[node]] <= number[node] else right[node]
            out[row] += number[node]


def predict(forest: Forest, values: NDArray[Any]) -> Floats:
    """Constant plus the sum of the leaves that each row falls into.

    Args:
        values: features, shape (n, p): in multiples of 1/1024 for a forest of 16-bit numbers.
    Returns:
        shape (n,).
    """
    packed = forest.number.dtype == np.int16
    total = np.zeros(len(values), dtype=np.int64) if packed else np.full(len(values), forest.constant)
    run = _sum.chosen(len(values) * len(forest.start) <= SMALL)
    for begin in range(0, len(values), 4096):  # a block of rows stays in the cache while the trees pass over it
        run(values[begin : begin + 4096], forest.feature, forest.number, forest.right, forest.start, total[begin : begin + 4096])
    return np.asarray(forest.constant + total / LEAF_SCALE if packed else total)


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


def from_arrays(stored: Mapping[str, NDArray[np.generic]], prefix: str) -> Forest:
    """The forest that `arrays` wrote.

    Raises:
        ValueError: its nodes are not in depth-first order.
    """
    get = {name: np.asarray(stored[f"{prefix}.{name}"]) for name in ("first", "feature", "threshold", "left", "right", "value", "base")}
    at, leaf = np.arange(len(get["feature"])), get["feature"] < 0
    if (get["left"] != at + 1)[~leaf].any() or get["feature"].max(initial=0) >= LEAF:
        raise ValueError(f"the trees of {prefix} are not in depth-first order")
    number = np.where(leaf, get["value"], get["threshold"]).astype(np.float64)
    right = np.where(leaf, 0, get["right"] - at).astype(np.int32)
    return Forest(
        np.where(leaf, LEAF, get["feature"]).astype(np.uint8), number, right, get["first"].astype(np.int32), float(get["base"][0])
    )


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
