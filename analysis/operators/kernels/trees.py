"""Boosted regression trees as plain arrays: kept small, evaluated quickly, never unpickled.

A tree is a run of nodes in depth-first order: `feature` (255: a leaf), `number` (threshold in multiples of 1/1024, or a leaf's value in
multiples of 1/8192) and `right`, the distance to the right child; the left child is the next node.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.compiled import outer
from analysis.operators.kernels.work import Floats

LEAF = 255
LEAF_SCALE = 8192.0
SMALL = 1 << 17
"""So many leaves are looked up in numpy sooner than the loop is compiled."""
Loss = Literal["squared_error", "absolute_error"]


class Forest(NamedTuple):
    """Sum of trees: nodes of all of them, first node of each, and the constant."""

    feature: NDArray[np.uint8]
    number: NDArray[np.int16]
    right: NDArray[np.uint8]
    start: NDArray[np.int32]
    constant: float


def _sum_in_numpy(values: Any, feature: Any, number: Any, right: Any, start: Any, out: Any) -> None:
    """What `_sum` does, a level of all trees and rows at once: for so few that compiling takes longer."""
    rows, node = np.repeat(np.arange(len(values)), len(start)), np.tile(start, len(values))
    while len(rows):
        inside = feature[node] != LEAF
        np.add.at(out, rows[~inside], number[node[~inside]])
        rows, node = rows[inside], node[inside]
        node = node + np.where(values[rows, feature[node]] <= number[node], 1, right[node])


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


def predict(forest: Forest, values: NDArray[np.int16]) -> Floats:
    """Sum of the leaves that each row of features, shape (n, p), falls into, shape (n,)."""
    total = np.zeros(len(values), dtype=np.int64)
    run = _sum.chosen(len(values) * len(forest.start) <= SMALL)
    for begin in range(0, len(values), 4096):  # a block of rows stays in the cache while the trees pass over it
        run(values[begin : begin + 4096], forest.feature, forest.number, forest.right, forest.start, total[begin : begin + 4096])
    return forest.constant + total / LEAF_SCALE


def scaled(forest: Forest, share: float) -> Forest:
    """The forest whose answers are a share of this one's."""
    number = np.where(forest.feature == LEAF, np.rint(share * forest.number), forest.number).astype(np.int16)
    return forest._replace(number=number, constant=share * forest.constant)


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
    """Gradient boosting (scikit-learn's histogram trees) kept as plain arrays.

    Args:
        values: features in multiples of 1/1024, shape (n, p); target: shape (n,).
        trees, leaves, rate, minimum: number of trees, leaves of each, learning rate, rows of a leaf at least.
        loss: absolute errors draw a leaf to the median of its rows, squared ones to the mean.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(
        loss=loss,
        max_iter=trees,
        max_leaf_nodes=leaves,
        learning_rate=rate,
        l2_regularization=1.0,
        min_samples_leaf=minimum,
        early_stopping=False,
        random_state=0,
    ).fit(values.astype(np.float32) if weight is None else _levels(values), target, sample_weight=weight)
    features, numbers, rights, starts, at = [], [], [], [], 0
    for (tree,) in model._predictors:
        nodes = tree.nodes
        leaf = nodes["is_leaf"].astype(bool)
        inner = np.flatnonzero(~leaf)
        assert (nodes["left"][inner] == inner + 1).all() and len(nodes) < 2 * LEAF, "the tree is not in depth-first order"
        thresholds = np.where(leaf, 0, np.clip(np.floor(np.nan_to_num(nodes["num_threshold"], posinf=32000)), -32767, 32767))
        number = np.where(leaf, np.clip(np.rint(nodes["value"] * LEAF_SCALE), -32767, 32767), thresholds)
        features.append(np.where(leaf, LEAF, nodes["feature_idx"]).astype(np.uint8))
        numbers.append(number.astype(np.int16))
        rights.append(np.where(leaf, 0, nodes["right"].astype(np.int64) - np.arange(len(nodes))).astype(np.uint8))
        starts.append(at)
        at += len(nodes)
    return Forest(
        np.concatenate(features),
        np.concatenate(numbers),
        np.concatenate(rights),
        np.array(starts, dtype=np.int32),
        float(np.ravel(model._baseline_prediction)[0]),
    )
