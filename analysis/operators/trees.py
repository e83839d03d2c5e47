"""Sums of regression trees as plain arrays: fitted with scikit-learn, kept and evaluated without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.compiled import outer

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Trees:
    """A sum (boosting) or a mean (forest) of trees, all nodes in one array.

    Args:
        first: index of the root of each tree, shape (trees,).
        feature: feature a node splits on, -1 for a leaf, shape (nodes,).
        threshold: a case goes left when its feature is at most this.
        left, right: index of the children.
        value: of a leaf.
        base: added to the sum.
    """

    first: Ints
    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints
    value: Floats
    base: float

    def predict(self, features: Floats) -> Floats:
        """Evaluate: base + sum over trees of the value of the leaf that a case falls into.

        Args:
            features: shape (n, d).
        Returns:
            shape (n,).
        """
        return _evaluate(
            np.ascontiguousarray(features, dtype=np.float64),
            self.first,
            self.feature,
            self.threshold,
            self.left,
            self.right,
            self.value,
            self.base,
        )

    def arrays(self, prefix: str) -> dict[str, NDArray[np.generic]]:
        """The arrays by name, for a file."""
        names = ("first", "feature", "threshold", "left", "right", "value")
        found: dict[str, NDArray[np.generic]] = {f"{prefix}.{name}": getattr(self, name) for name in names}
        found[f"{prefix}.base"] = np.array([self.base])
        return found

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]], prefix: str) -> Trees:
        """From the arrays of `arrays`."""

        def ints(name: str) -> Ints:
            return np.ascontiguousarray(arrays[f"{prefix}.{name}"], dtype=np.int32)

        def floats(name: str) -> Floats:
            return np.ascontiguousarray(arrays[f"{prefix}.{name}"], dtype=np.float64)

        return cls(
            ints("first"), ints("feature"), floats("threshold"), ints("left"), ints("right"), floats("value"), float(floats("base")[0])
        )


@outer
def _evaluate(features, first, feature, threshold, left, right, value, base):  # type: ignore[no-untyped-def]  # pragma: no cover - compiled
    out = np.empty(features.shape[0])
    for row in range(features.shape[0]):
        case, total = features[row], base
        for tree in range(first.shape[0]):
            node = np.uint64(first[tree])  # unsigned: numba then skips the check for negative indices, which more than halves the time
            column = feature[node]
            while column >= 0:
                node = np.uint64(left[node] if case[np.uint64(column)] <= threshold[node] else right[node])
                column = feature[node]
            total += value[node]
        out[row] = total
    return out


@dataclass(frozen=True)
class Boosting:
    """Settings of gradient boosting.

    Args:
        trees, leaves: number of trees and of leaves of each.
        learning_rate: weight of a tree.
        loss: absolute_error (the default; on a logarithm it stands for the relative error) or squared_error.
    """

    trees: int = 120
    leaves: int = 15
    learning_rate: float = 0.1
    least_in_leaf: int = 20
    loss: str = "absolute_error"


def fit_boosting(features: Floats, target: Floats, weight: Floats, settings: Boosting, seed: int = 0) -> Trees:
    """Gradient boosting on histograms (scikit-learn), as plain arrays.

    Args:
        features: shape (n, d), finite.
        target, weight: shape (n,).
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(
        loss=settings.loss,
        max_iter=settings.trees,
        max_leaf_nodes=settings.leaves,
        learning_rate=settings.learning_rate,
        min_samples_leaf=settings.least_in_leaf,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=seed,
    ).fit(features, target, sample_weight=weight)
    nodes = [stage[0].nodes for stage in model._predictors]  # the fitted trees; scikit-learn has no public view of them
    sizes = np.array([len(tree) for tree in nodes])
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    offset = np.repeat(first, sizes)
    every = np.concatenate(nodes)
    leaf = every["is_leaf"].astype(bool)
    return Trees(
        first.astype(np.int32),
        np.where(leaf, -1, every["feature_idx"]).astype(np.int32),
        every["num_threshold"].astype(np.float64),
        np.where(leaf, 0, every["left"] + offset).astype(np.int32),
        np.where(leaf, 0, every["right"] + offset).astype(np.int32),
        np.where(leaf, every["value"], 0.0).astype(np.float64),
        float(np.ravel(model._baseline_prediction)[0]),
    )


def fit_forest(features: Floats, target: Floats, weight: Floats, trees: int = 40, least_in_leaf: int = 5, seed: int = 0) -> Trees:
    """Random forest (scikit-learn), as plain arrays; leaf values are divided by the number of trees, so that they add up to the mean.

    Args:
        features: shape (n, d); target, weight: shape (n,).
    """
    from sklearn.ensemble import RandomForestRegressor

    model = RandomForestRegressor(trees, min_samples_leaf=least_in_leaf, max_features=0.5, max_samples=0.5, random_state=seed, n_jobs=1)
    model.fit(features.astype(np.float32), target, sample_weight=weight)
    parts = [estimator.tree_ for estimator in model.estimators_]
    sizes = np.array([part.node_count for part in parts])
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    offset = np.repeat(first, sizes)
    left = np.concatenate([part.children_left for part in parts])
    right = np.concatenate([part.children_right for part in parts])
    leaf = left < 0
    return Trees(
        first.astype(np.int32),
        np.where(leaf, -1, np.concatenate([part.feature for part in parts])).astype(np.int32),
        np.concatenate([part.threshold for part in parts]).astype(np.float64),
        np.where(leaf, 0, left + offset).astype(np.int32),
        np.where(leaf, 0, right + offset).astype(np.int32),
        np.where(leaf, np.concatenate([part.value[:, 0, 0] for part in parts]) / trees, 0.0).astype(np.float64),
        0.0,
    )
