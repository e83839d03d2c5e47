"""What does the error of each kernel make of the error of the whole model? The law, the claim, and the overhead between kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.studies.checkable import checkable


@checkable
def claimed_model_error(kernel_error: float, kernels: int) -> float:
    """What the survey claims: sigma_model = sigma_kernel * sqrt(N).

    That is the absolute error of a sum, in units of one kernel's time. Read as a relative error it is too large by the
    factor N: the sum itself is N kernels long.

    Args:
        kernel_error: relative error of one kernel.
        kernels: N.
    Source: survey draft, sections 7.2 and 8.1.
    """
    return kernel_error * math.sqrt(kernels)


@checkable
def model_error(kernel_error: float, kernels: int, correlation: float = 0.0) -> float:
    """Relative error of the sum of N equal kernels: sigma * sqrt((1 + (N - 1) rho) / N).

    Independent errors (rho = 0) shrink as 1 / sqrt(N); fully correlated ones (rho = 1) stay as they are; none grow.

    Args:
        kernel_error: relative standard deviation of one kernel's error, sigma.
        kernels: N, at least 1.
        correlation: rho between any two kernels' errors, from -1/(N-1) to 1.
    """
    if kernels < 1 or kernel_error < 0:
        raise ValueError("expected at least one kernel and an error of zero or more")
    least = -1.0 if kernels == 1 else -1.0 / (kernels - 1)
    if not least - 1e-12 <= correlation <= 1:
        raise ValueError(f"a common correlation among {kernels} kernels lies from {least:.4g} to 1")
    return kernel_error * math.sqrt(max(0.0, (1 + (kernels - 1) * correlation) / kernels))


def weighted_model_error(kernel_errors: ArrayLike, kernel_s: ArrayLike, correlation: ArrayLike = 0.0) -> float:
    """Relative error of a sum of unequal kernels: sqrt(sum_ij w_i w_j s_i s_j rho_ij) / sum_i w_i.

    Never more than the largest kernel error, whatever the correlation.

    Args:
        kernel_errors: relative standard deviation s_i of each kernel, shape (n,).
        kernel_s: its time w_i, shape (n,).
        correlation: one number for all pairs, or a matrix, shape (n, n), with ones on the diagonal.
    """
    s, w = np.asarray(kernel_errors, dtype=float), np.asarray(kernel_s, dtype=float)
    if s.shape != w.shape or s.ndim != 1 or s.size == 0 or (s < 0).any() or (w < 0).any() or w.sum() == 0:
        raise ValueError("expected as many errors as times, none negative, and a total above zero")
    rho = np.asarray(correlation, dtype=float)
    if rho.ndim == 0:
        rho = np.full((s.size, s.size), float(rho))
        np.fill_diagonal(rho, 1.0)
    if rho.shape != (s.size, s.size) or not np.allclose(rho, rho.T) or not np.allclose(np.diag(rho), 1):
        raise ValueError("expected a symmetric correlation matrix with ones on its diagonal")
    variance = float((s * w) @ rho @ (s * w))
    if variance < -1e-9 * float((s * w).sum() ** 2):
        raise ValueError("this is no correlation matrix: a variance would be negative")
    return math.sqrt(max(0.0, variance)) / float(w.sum())


@dataclass(frozen=True)
class ErrorBudget:
    """Error of a model's prediction as a share of the measured time: what is random, what is left out."""

    random: float
    bias: float
    total: float


def error_budget(
    kernel_error: float, kernels: int, correlation: float, kernel_s: float, overhead_s: float, kernel_bias: float = 0.0
) -> ErrorBudget:
    """Error of a sum of N kernels that leaves out an overhead o after each, in root mean square.

    The measured time is N (t + o); the prediction N t (1 + b + noise). Then bias = (t b - o) / (t + o), random = sigma(N, rho) t / (t + o)
    and total = sqrt(random^2 + bias^2). The bias does not shrink with N: it is what is left at model level.

    Args:
        kernel_error: relative standard deviation of one kernel's error.
        kernels: N.
        correlation: rho.
        kernel_s: mean kernel time t.
        overhead_s: mean time between kernels o (launch, synchronization, data movement).
        kernel_bias: common relative bias b of the kernels.
    """
    if kernel_s <= 0 or overhead_s < 0:
        raise ValueError("expected a kernel time above zero and an overhead of zero or more")
    whole = kernel_s + overhead_s
    random = model_error(kernel_error, kernels, correlation) * kernel_s / whole
    bias = (kernel_s * kernel_bias - overhead_s) / whole
    return ErrorBudget(random, bias, math.hypot(random, bias))


def overhead_gap(kernel_s: float, overhead_s: float) -> float:
    """Composition gap of the overhead alone: gamma = o / t.

    Args:
        kernel_s: mean kernel time t.
        overhead_s: mean time between kernels o.
    """
    if kernel_s <= 0 or overhead_s < 0:
        raise ValueError("expected a kernel time above zero and an overhead of zero or more")
    return overhead_s / kernel_s


def kernel_time_for_gap(overhead_s: float, gamma: float) -> float:
    """Mean kernel time at which an overhead makes a given gap: t = o / gamma."""
    if gamma <= 0 or overhead_s < 0:
        raise ValueError("expected a gap above zero and an overhead of zero or more")
    return overhead_s / gamma


def simulate_model_errors(kernel_error: float, kernel_s: ArrayLike, correlation: float, trials: int, seed: int = 0) -> NDArray[np.float64]:
    """Relative errors of the sum of kernels with normal errors of equal correlation, by drawing them.

    Args:
        kernel_error: relative standard deviation of each kernel.
        kernel_s: kernel times, shape (n,).
        correlation: rho between any two, 0..1.
        trials: draws.
        seed: of the draws.
    Returns:
        (predicted - true) / true of each trial, shape (trials,).
    """
    if not 0 <= correlation <= 1:
        raise ValueError("the draws cover correlations from 0 to 1")
    w = np.asarray(kernel_s, dtype=float)
    rng = np.random.default_rng(seed)
    own, common = rng.standard_normal((trials, w.size)), rng.standard_normal((trials, 1))
    errors = kernel_error * (math.sqrt(1 - correlation) * own + math.sqrt(correlation) * common)
    return np.asarray(errors @ w / w.sum())
