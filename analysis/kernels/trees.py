"""Sums of regression trees as plain arrays: fitted with scikit-learn, stored without pickle, evaluated without scikit-learn.

A tree is a run of nodes in depth-first order: `feature` (255: a leaf), `number` (threshold, or a leaf's value) and `right`, the distance to
the right child; the left child is the next node. The kernels of today store numbers in 16 bits (thresholds in multiples of 1/1024, as their
features; values in multiples of 1/8192), the fp32 kernels as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros
from numpy.typing import NDArray

from analysis.compiled import outer
from analysis.errors import InputError
from analysis.kernels.work import Floats
from analysis.paths import DATA

FOLDER = DATA / "models" / "gpu_kernels"
"""Fitted parameters of the kernels of today."""
LEAF = 255
LEAF_SCALE = 8192.0
MOST_LEAVES = 64  # of a tree
ROWS = 512  # a block of rows stays in the cache while the trees pass over it
SMALL = 1 << 17
"""Leaves up to which numpy is sooner done than the compilation of the loop."""


class Forest(NamedTuple):
    """Sum of trees: nodes of all of them, first node of each, and the constant that is added."""

    feature: NDArray[np.uint8]
    number: NDArray[Any]
    right: NDArray[Any]
    start: NDArray[np.int32]
    constant: float


def _sum_in_numpy(columns: Any, feature: Any, number: Any, right: Any, start: Any, out: Any) -> None:
    """What `_sum` does, a step of all trees and rows at once; those that have come to a leaf stay there."""
    leaf, cells, row = feature == LEAF, columns.ravel(), np.arange(len(out))
    at, left, right = (np.where(leaf, 0, step) for step in (len(out) * feature.astype(np.int64), 1, right))
    node = np.repeat(start[:, None].astype(np.int64), len(out), axis=1)
    while left.take(node).any():
        node += np.where(cells.take(at.take(node) + row) <= number.take(node), left.take(node), right.take(node))
    for each in node:  # in the order of the compiled loop, so that floats round alike
        out += number[each]


@outer(plain=_sum_in_numpy)
def _sum(columns: Any, feature: Any, number: Any, right: Any, start: Any, out: Any) -> None:
    """Each threshold that a row exceeds clears the bits of the leaves on its left (QuickScorer, Lucchese et al., SIGIR 2015)."""
    reached, leaves = np.empty(len(out), np.uint64), np.empty(MOST_LEAVES, np.int64)
    for tree in range(len(start)):
        reached[:] = ~np.uint64(0)
        found = 0
        for node in range(start[tree], start[tree + 1] if tree + 1 < len(start) else len(feature)):
            column, limit, step = feature[node], number[node], np.uint64(right[node])
            if column == LEAF:
                if found == MOST_LEAVES:
                    raise ValueError("a tree has more than 64 leaves")
                leaves[found] = node
                found += 1
                continue
            # the left subtree has `step - 1` nodes, so half of `step` leaves: the next ones
            others = ~(((np.uint64(1) << (step >> np.uint64(1))) - np.uint64(1)) << np.uint64(found))
            for row in range(len(out)):
                reached[row] &= ~np.uint64(0) if columns[column, row] <= limit else others
        for row in range(len(out)):
            out[row] += number[leaves[trailing_zeros(reached[row])]]  # type: ignore[call-arg]


def predict(forest: Forest, values: NDArray[Any]) -> Floats:
    """Constant plus the sum of the leaves that each row falls into.

    Args:
        values: features, shape (n, p): in multiples of 1/1024 for a forest of 16-bit numbers.
    """
    packed = forest.number.dtype == np.int16
    total = np.zeros(len(values), dtype=np.int64) if packed else np.full(len(values), forest.constant)
    run = _sum.chosen(len(values) * len(forest.start) <= SMALL)
    for begin in range(0, len(values), ROWS):
        block = np.ascontiguousarray(values[begin : begin + ROWS].T)
        run(block, forest.feature, forest.number, forest.right, forest.start, total[begin : begin + ROWS])
    return np.asarray(forest.constant + total / LEAF_SCALE if packed else total)


def from_arrays(stored: Mapping[str, NDArray[np.generic]], prefix: str) -> Forest:
    """The forest that `arrays` wrote."""
    get = {name: np.asarray(stored[f"{prefix}.{name}"]) for name in ("first", "feature", "threshold", "left", "right", "value", "base")}
    at, leaf = np.arange(len(get["feature"])), get["feature"] < 0
    if (get["left"] != at + 1)[~leaf].any() or get["feature"].max(initial=0) >= LEAF:
        raise ValueError(f"the trees of {prefix} are not in depth-first order")
    number = np.where(leaf, get["value"], get["threshold"]).astype(np.float64)
    right = np.where(leaf, 0, get["right"] - at).astype(np.int32)
    return Forest(
        np.where(leaf, LEAF, get["feature"]).astype(np.uint8), number, right, get["first"].astype(np.int32), float(get["base"][0])
    )


class Fitted(NamedTuple):
    """One forest and its interval.

    Args:
        edges: bins of the first time (s), shape (b - 1,); log_sd: standard deviation of log latency in each, shape (b,).
        hull: smallest and largest logarithm of each size that was fitted, shape (2, sizes); version: of the framework.
    """

    forest: Forest
    edges: Floats
    log_sd: Floats
    hull: Floats
    version: str


def read(name: str, folder: Path | None = None) -> dict[str, Fitted]:
    """The forests of one operator by key; empty where the file is absent."""
    path = (folder or FOLDER) / f"{name}.npz"
    if not path.is_file():
        return {}
    try:
        with np.load(path, allow_pickle=False) as file:
            a = {key: file[key] for key in file.files}
        nodes, trees = np.concatenate([[0], np.cumsum(a["nodes"])]), np.concatenate([[0], np.cumsum(a["trees"])])
        found = {}
        for i, key in enumerate(a["keys"]):
            n, t = slice(nodes[i], nodes[i + 1]), slice(trees[i], trees[i + 1])
            start = np.concatenate([[0], np.cumsum(a["tree_nodes"][t].astype(np.int64))[:-1]]).astype(np.int32)
            forest = Forest(a["feature"][n], a["number"][n], a["right"][n], start, float(a["constant"][i]))
            found[str(key)] = Fitted(forest, a["edges"][i], a["log_sd"][i], a["hull"][i], str(a["versions"][i]))
        return found
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise InputError(f"is not a file of fitted kernels: {error}", path=path) from None
