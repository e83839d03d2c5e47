"""Error metrics, rank statistics with ties, exact tests on small samples, and agreement (intervals stand in `intervals`)."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
RankStatistic = Literal["spearman", "kendall", "pearson"]
MAX_EXACT_N = 10
MAX_SIGN_FLIPS = 20


def _pair(truth: ArrayLike, predicted: ArrayLike, least: int = 1) -> tuple[Floats, Floats]:
    y, y_hat = np.asarray(truth, dtype=float).ravel(), np.asarray(predicted, dtype=float).ravel()
    if y.shape != y_hat.shape:
        raise ValueError(f"expected as many predictions as true values, got {y_hat.size} and {y.size}")
    if y.size < least:
        raise ValueError(f"expected at least {least} values, got {y.size}")
    if not (np.isfinite(y).all() and np.isfinite(y_hat).all()):
        raise ValueError("expected finite numbers")
    return y, y_hat


# --- errors -----------------------------------------------------------------------------------------------------------


def absolute_percentage_errors(truth: ArrayLike, predicted: ArrayLike) -> Floats:
    """Absolute percentage error of each value: 100 |y - y_hat| / |y|.

    Args:
        truth: measured values, shape (n,), none zero.
        predicted: predictions, same shape and unit.
    """
    y, y_hat = _pair(truth, predicted)
    if (y == 0).any():
        raise ValueError("a percentage error needs true values other than zero")
    return 100.0 * np.abs(y - y_hat) / np.abs(y)


def mape(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Mean absolute percentage error, in percent: (100/n) sum |(y - y_hat)/y|.

    Args:
        truth, predicted: shape (n,), same unit; no true value zero.
    Source: earlier survey draft, equation 4.
    """
    return float(absolute_percentage_errors(truth, predicted).mean())


def rmse(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Root mean square error in the unit of the data: sqrt(mean (y - y_hat)^2).

    Source: earlier survey draft, equation 5.
    """
    y, y_hat = _pair(truth, predicted)
    return float(np.sqrt(np.mean((y - y_hat) ** 2)))


def mae(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Mean absolute error in the unit of the data: mean |y - y_hat|."""
    y, y_hat = _pair(truth, predicted)
    return float(np.mean(np.abs(y - y_hat)))


def rae(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Relative absolute error: sum |y - y_hat| / sum |y - mean(y)|. One means no better than always saying the mean."""
    y, y_hat = _pair(truth, predicted)
    spread = float(np.abs(y - y.mean()).sum())
    if spread == 0:
        raise ValueError("relative absolute error needs true values that differ")
    return float(np.abs(y - y_hat).sum()) / spread


def coefficient_of_variation(values: ArrayLike) -> float:
    """Sample standard deviation over the mean, as a fraction: s / |mean|, s with n - 1."""
    x = np.asarray(values, dtype=float).ravel()
    mean = np.add.reduce(x) / x.size if x.size > 1 else 0.0  # numpy's own mean and std say the same in five times the time
    if mean == 0:
        raise ValueError("expected at least two values with a mean other than zero")
    apart = x - mean
    return float(np.sqrt(np.add.reduce(apart * apart) / (x.size - 1)) / abs(mean))


# --- association and order --------------------------------------------------------------------------------------------


def average_ranks(values: ArrayLike) -> Floats:
    """Ranks from 1 (smallest) to n; equal values share the mean of their ranks.

    Args:
        values: shape (n,), without NaN.
    """
    x = np.asarray(values, dtype=float).ravel()
    if np.isnan(x).any():
        raise ValueError("not a number has no rank")
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2.0)[inverse]


def pearson(x: ArrayLike, y: ArrayLike) -> float:
    """Pearson correlation; NaN where either side is constant."""
    a, b = _pair(x, y, least=2)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan
    a, b = a - a.mean(), b - b.mean()
    return max(-1.0, min(1.0, float(a @ b) / (math.sqrt(float(a @ a)) * math.sqrt(float(b @ b)))))


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Spearman rank correlation: Pearson of the average ranks, so ties are right; NaN where either side is constant."""
    a, b = _pair(x, y, least=2)
    return pearson(average_ranks(a), average_ranks(b))


def _pair_signs(values: Floats) -> NDArray[np.int8]:
    first, second = np.triu_indices(values.size, k=1)
    return np.sign(values[second] - values[first]).astype(np.int8)


def kendall_tau_b(x: ArrayLike, y: ArrayLike) -> float:
    """Kendall's tau-b: (concordant - discordant) / sqrt(pairs not tied in x * pairs not tied in y).

    NaN where either side is constant. Compares all n(n-1)/2 pairs.
    """
    a, b = _pair(x, y, least=2)
    sign_a, sign_b = _pair_signs(a).astype(np.int64), _pair_signs(b).astype(np.int64)
    untied_a, untied_b = int(np.abs(sign_a).sum()), int(np.abs(sign_b).sum())
    if untied_a == 0 or untied_b == 0:
        return math.nan
    return float(int((sign_a * sign_b).sum()) / math.sqrt(untied_a * untied_b))


# --- exact tests ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PermutationTest:
    """A rank statistic with its p-value over all n! orders, and the smallest p this sample could have given."""

    statistic: str
    value: float
    n: int
    extreme: int
    orders: int
    p_value: float
    smallest_p: float


def _scores(statistic: RankStatistic, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """For every order of y, a score that grows with the statistic (integers wherever ranks are used); last, as given."""
    n = x.size
    orders = np.array(list(itertools.permutations(range(n))), dtype=np.int8)
    if statistic == "kendall":
        first, second = np.triu_indices(n, k=1)
        sign_x = np.sign(x[second] - x[first])
        score = np.zeros(len(orders))
        for weight, i, j in zip(sign_x, first, second, strict=True):
            score += weight * np.sign(y[orders[:, j]] - y[orders[:, i]])
        return score, np.array(float(np.dot(sign_x, np.sign(y[second] - y[first]))))
    if statistic == "spearman":
        a, b = 2 * average_ranks(x) - (n + 1), 2 * average_ranks(y) - (n + 1)
    else:
        a, b = x - x.mean(), y - y.mean()
    return b[orders] @ a, np.asarray(a @ b)


def exact_permutation_test(x: ArrayLike, y: ArrayLike, statistic: RankStatistic = "spearman") -> PermutationTest:
    """Exact two-sided permutation test of association: the share of all n! orders of y at least as extreme as the one seen.

    Args:
        x, y: shape (n,), n from 3 to 10; ties allowed.
    """
    a, b = _pair(x, y, least=3)
    if a.size > MAX_EXACT_N:
        raise ValueError(f"all orders of {a.size} values are too many; expected at most {MAX_EXACT_N}")
    value = {"spearman": spearman, "kendall": kendall_tau_b, "pearson": pearson}[statistic](a, b)
    if math.isnan(value):
        raise ValueError("a constant side has no correlation to test")
    scores, seen = (np.abs(each) for each in _scores(statistic, a, b))
    slack = 1e-12 * float(np.abs(scores).max())
    extreme, most = int((scores >= seen - slack).sum()), int((scores >= scores.max() - slack).sum())
    return PermutationTest(statistic, value, a.size, extreme, len(scores), extreme / len(scores), most / len(scores))


@dataclass(frozen=True)
class SignFlipTest:
    """Mean of paired differences with its p-value over all 2^n signs, and the smallest p that n differences allow."""

    value: float
    n: int
    p_value: float
    smallest_p: float


def sign_flip_test(differences: ArrayLike) -> SignFlipTest:
    """Exact two-sided test that paired differences lie about zero: the share of all 2^n sign changes with as large a mean.

    Args:
        differences: one of each independent unit (a device, a source), shape (n,), n from 2 to 20.
    """
    x = np.asarray(differences, dtype=float).ravel()
    if not 2 <= x.size <= MAX_SIGN_FLIPS or not np.isfinite(x).all():
        raise ValueError(f"expected from 2 to {MAX_SIGN_FLIPS} finite differences, got {x.size}")
    signs = 1 - 2 * ((np.arange(2**x.size)[:, None] >> np.arange(x.size)) & 1)
    sums, seen = np.abs(signs @ x), abs(float(x.sum()))
    slack = 1e-12 * float(np.abs(x).sum())
    most = float(np.abs(x).sum())
    return SignFlipTest(float(x.mean()), x.size, float(np.mean(sums >= seen - slack)), float(np.mean(sums >= most - slack)))


@dataclass(frozen=True)
class FisherTest:
    """Fisher's exact test of a 2x2 table, and the smallest two-sided p that its margins allow."""

    p_value: float
    p_fraction: Fraction
    smallest_p: float
    smallest_fraction: Fraction


def fisher_exact(table: ArrayLike) -> FisherTest:
    """Fisher's exact test, two-sided, in exact arithmetic: the sum of the probabilities not above the one seen.

    Args:
        table: [[a, b], [c, d]], counts of successes and failures in two groups.
    """
    counts = np.asarray(table)
    if counts.shape != (2, 2) or (counts < 0).any() or not np.array_equal(counts, np.floor(counts)) or counts.sum() == 0:
        raise ValueError("expected a 2x2 table of counts, not all zero")
    (a, b), (c, d) = ((int(v) for v in row) for row in counts)
    row, column, total = a + b, a + c, a + b + c + d
    ways = math.comb(total, column)
    chance = {
        k: Fraction(math.comb(row, k) * math.comb(total - row, column - k), ways)
        for k in range(max(0, column + row - total), min(row, column) + 1)
    }
    two_sided = {k: sum((q for q in chance.values() if q <= p), Fraction(0)) for k, p in chance.items()}
    smallest = min(two_sided.values())
    return FisherTest(float(two_sided[a]), two_sided[a], float(smallest), smallest)


# --- agreement --------------------------------------------------------------------------------------------------------


def cohen_kappa(first: ArrayLike, second: ArrayLike, levels: int, weights: Literal["none", "linear"] = "none") -> float:
    """Cohen's kappa between two graders: 1 - observed disagreement / disagreement expected by chance.

    Args:
        first, second: grades 0..levels-1, shape (n,).
        weights: `linear` counts a disagreement by its distance in grades.
    """
    a, b = (np.asarray(v, dtype=int).ravel() for v in (first, second))
    if a.size == 0 or a.shape != b.shape or min(a.min(), b.min()) < 0 or max(a.max(), b.max()) >= levels:
        raise ValueError(f"expected two equally long lists of grades from 0 to {levels - 1}")
    seen = np.zeros((levels, levels))
    np.add.at(seen, (a, b), 1.0 / a.size)
    chance = np.outer(seen.sum(axis=1), seen.sum(axis=0))
    distance = np.abs(np.subtract.outer(np.arange(levels), np.arange(levels))).astype(float)
    cost = distance if weights == "linear" else (distance > 0).astype(float)
    expected = float((cost * chance).sum())
    return math.nan if expected == 0 else 1.0 - float((cost * seen).sum()) / expected
