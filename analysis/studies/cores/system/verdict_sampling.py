"""How many sampled epochs does it take until the verdict between two designs is right with a given confidence?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

NORMAL_95 = 1.6448536269514722


@dataclass(frozen=True)
class EpochsNeeded:
    """Epochs for one pair of designs on one program.

    Attributes:
        difference: mean cycles of the second less those of the first, over the mean of both (1).
        by_normal: (1.645 s / mean difference)^2, by the normal approximation; infinite without a difference.
        by_resampling: least number of epochs, drawn with replacement, whose summed difference has the right sign in 95 % of draws;
            NaN when the largest number tried was not enough.
    """

    difference: float
    by_normal: float
    by_resampling: float


@lru_cache(maxsize=4)
def _picked(length: int, draws: int, epochs: int, seed: int) -> NDArray[np.int64]:
    """Which epochs each draw holds; the same for all pairs of designs on a program."""
    return np.random.default_rng(seed).integers(0, length, (draws, epochs))


def right_share(differences: NDArray[np.float64], sign: float, epochs: int, draws: int, seed: int) -> float:
    """Share of draws of `epochs` epochs, with replacement, whose summed difference has the given sign."""
    return float(np.mean(np.sign(differences[_picked(len(differences), draws, epochs, seed)].sum(axis=1)) == sign))


def epochs_needed(
    first: ArrayLike,
    second: ArrayLike,
    true_sign: float | None = None,
    confidence: float = 0.95,
    most: int = 512,
    draws: int = 1000,
    seed: int = 0,
) -> EpochsNeeded:
    """Epochs needed to tell two designs apart on a program.

    Args:
        first, second: cycles of the same epochs on both designs, simulated or predicted, shape (epochs,).
        true_sign: right sign of the summed difference (-1, 0 or 1); default that of all these epochs.
        most: largest number of epochs tried; powers of two and the numbers in between are searched by bisection.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    gaps = b - a
    sign = float(np.sign(gaps.sum())) if true_sign is None else float(true_sign)
    spread = float(gaps.std(ddof=1)) if len(gaps) > 1 else 0.0
    mean = float(gaps.mean())
    normal = math.inf if mean == 0 else max(1.0, (NORMAL_95 * spread / mean) ** 2)
    difference = float(gaps.sum() / ((a.sum() + b.sum()) / 2))

    def enough(epochs: int) -> bool:
        return right_share(gaps, sign, epochs, draws, seed) >= confidence

    if sign == 0 or not enough(most):
        return EpochsNeeded(difference, normal, math.nan)
    low, high = 0, 1
    while not enough(high):
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return EpochsNeeded(difference, normal, float(high))
