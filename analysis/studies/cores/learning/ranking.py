"""Does a model order designs as the simulator does: instruction by instruction, and over the whole program?"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class PairOrder:
    """One pair of designs, over instructions: shares of 1.

    `match`: both sides say less, equal or more. `all_equal`: match of a predictor that calls every pair equal. `first_better`,
    `non_zero`: of the truth. `recall`: match among the instructions where the designs differ (NaN: none do).
    """

    first: int
    second: int
    match: float
    all_equal: float
    first_better: float
    non_zero: float
    recall: float


def pair_orders(truth: ArrayLike, predicted: ArrayLike) -> list[PairOrder]:
    """Every pair of designs.

    Args:
        truth, predicted: retire latency of each instruction on each design, whole cycles, shape (n, designs).
    Source: NeuroScalar, section 6.3 and the appendix.
    """
    y, p = np.asarray(truth), np.asarray(predicted)
    result = []
    for i, j in combinations(range(y.shape[1]), 2):
        true_sign, sign = np.sign(y[:, i] - y[:, j]), np.sign(p[:, i] - p[:, j])
        right, differ = true_sign == sign, true_sign != 0
        result.append(
            PairOrder(
                i,
                j,
                float(right.mean()),
                float(1 - differ.mean()),
                float((true_sign < 0).mean()),
                float(((y[:, i] != 0) | (y[:, j] != 0)).mean()),
                float(right[differ].mean()) if differ.any() else float("nan"),
            )
        )
    return result


@dataclass(frozen=True)
class FiveWay:
    """Ranking of all designs for each instruction, ties included, averaged over instructions.

    `full_match`: the same order. `best_match`: the design predicted lowest is among the lowest (ties in the prediction count by
    their share). `tau`: Kendall's tau-b where both sides are constant counted 1, one side constant 0. `tau_where_differ`: over the
    instructions on which the designs truly differ. `differ`: their share.
    """

    full_match: float
    best_match: float
    tau: float
    tau_where_differ: float
    full_match_where_differ: float
    differ: float


def five_way(truth: ArrayLike, predicted: ArrayLike) -> FiveWay:
    """Ranking of the designs, instruction by instruction.

    Args:
        truth, predicted: whole cycles, shape (n, designs).
    Source: NeuroScalar, section 6.3 and Table 7.
    """
    y, p = np.asarray(truth), np.asarray(predicted)
    pairs = list(combinations(range(y.shape[1]), 2))
    a = np.stack([np.sign(y[:, i] - y[:, j]) for i, j in pairs], axis=1).astype(np.int8)
    b = np.stack([np.sign(p[:, i] - p[:, j]) for i, j in pairs], axis=1).astype(np.int8)
    full = (a == b).all(axis=1)
    best = (y == y.min(axis=1, keepdims=True)).astype(np.float64)
    chosen = p == p.min(axis=1, keepdims=True)
    best_share = (best * chosen).sum(axis=1) / chosen.sum(axis=1)
    agree = (a.astype(np.int32) * b).sum(axis=1)
    untied_a, untied_b = (a != 0).sum(axis=1), (b != 0).sum(axis=1)
    tau = np.where((untied_a == 0) & (untied_b == 0), 1.0, agree / np.sqrt(np.maximum(untied_a * untied_b, 1)))
    differ = untied_a > 0
    return FiveWay(
        float(full.mean()),
        float(best_share.mean()),
        float(tau.mean()),
        float(tau[differ].mean()) if differ.any() else float("nan"),
        float(full[differ].mean()) if differ.any() else float("nan"),
        float(differ.mean()),
    )


@dataclass(frozen=True)
class WholeProgramOrder:
    """Pairs of designs whose cycles differ by more than a margin, over programs: how many there are, and how many are ordered right."""

    clear_pairs: int
    right: int

    @property
    def share(self) -> float:
        """Share ordered right; NaN without a clear pair."""
        return self.right / self.clear_pairs if self.clear_pairs else float("nan")


def whole_program_order(truth: ArrayLike, predicted: ArrayLike, margin: float = 0.02) -> WholeProgramOrder:
    """Are the designs of each program ordered right by their cycles? A predicted tie is wrong.

    Args:
        truth, predicted: cycles, shape (programs, designs).
        margin: a pair counts when the slower takes more than (1 + margin) times the cycles of the faster.
    """
    y, p = np.atleast_2d(np.asarray(truth, dtype=np.float64)), np.atleast_2d(np.asarray(predicted, dtype=np.float64))
    clear = right = 0
    for i, j in combinations(range(y.shape[1]), 2):
        low, high = np.minimum(y[:, i], y[:, j]), np.maximum(y[:, i], y[:, j])
        counts = high > (1 + margin) * low
        clear += int(counts.sum())
        right += int((np.sign(y[:, i] - y[:, j]) == np.sign(p[:, i] - p[:, j]))[counts].sum())
    return WholeProgramOrder(clear, right)
