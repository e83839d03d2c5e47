"""Latency of architectures on a new device from a few samples, with other devices as the prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

OFFSET = 100.0
"""Spread of a new device's mean latency, in deviations between architectures: nothing is known of it."""


@dataclass(frozen=True)
class FewShotSettings:
    """How much a new device is expected to differ from the sources.

    Attributes:
        deviation: variance of a new device in the directions in which the sources differ from each other (1: as they do).
        architecture: variance in directions that no source shows.
        noise: variance of a measurement.
        slope: spread of the new device's sensitivity around the sources' mean.
        tail: degrees of freedom of the noise; a small number bears outliers, 0 is Gaussian.
    All variances in units of the variance between architectures.
    """

    deviation: float = 1.0
    architecture: float = 0.1
    noise: float = 0.15
    slope: float = 1.0
    tail: float = 4.0


@dataclass(frozen=True)
class Prior:
    """What the sources say about a device not yet seen: latency = offset + scale (mean + basis w), w ~ N(0, 1), measured with noise.

    Attributes:
        mean: standardized mean of the sources, one value an architecture.
        basis: shape (architectures, k).
        settings: as given.
    """

    mean: Floats
    basis: Floats
    settings: FewShotSettings


@dataclass(frozen=True)
class ArchitecturePrediction:
    """Predicted latency (in the unit of the samples) and its standard deviation, one value an architecture."""

    latency: Floats
    deviation: Floats


def ridge(features: Floats, targets: Floats, penalty: float) -> tuple[Floats, float]:
    """Ridge regression that spares the intercept, by its dual when there are fewer samples than features.

    min_w |y - b - X w|^2 + penalty |w|^2

    Args:
        features: shape (n, d).
        targets: shape (n,).
    Returns:
        w, shape (d,), and b.
    """
    mean_x, mean_y = features.mean(axis=0), float(targets.mean())
    x, y = features - mean_x, targets - mean_y
    if len(x) < x.shape[1]:
        weights = x.T @ np.linalg.solve(x @ x.T + penalty * np.eye(len(x)), y)
    else:
        weights = np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y)
    return weights, mean_y - float(mean_x @ weights)


def source_surfaces(features: Floats, latencies: list[tuple[Integers, Floats]], logarithmic: bool = False, penalty: float = 1.0) -> Floats:
    """Each source's latency of every architecture, from those that were measured there.

    Args:
        features: all architectures, shape (n, d).
        latencies: for each source the architectures measured and their latencies.
        logarithmic: fit the logarithm; otherwise latency over its median.
    Returns:
        shape (n, sources), each standardized.
    """
    surfaces = []
    for measured, values in latencies:
        target = np.log(values) if logarithmic else values / np.median(values)
        weights, bias = ridge(features[measured], target, penalty)
        surfaces.append(features @ weights + bias)
    stacked = np.array(surfaces).T
    return (stacked - stacked.mean(axis=0)) / stacked.std(axis=0)


def prior(surfaces: Floats, features: Floats, settings: FewShotSettings) -> Prior:
    """The sources' mean, the directions in which they differ from it, and the architecture's own features.

    Args:
        surfaces: standardized latencies of the sources, shape (n, sources).
        features: shape (n, d).
    """
    mean = surfaces.mean(axis=1)
    mean = mean / mean.std()
    apart = surfaces - np.outer(mean, mean @ surfaces / len(mean))
    centred = features - features.mean(axis=0)
    centred = centred / np.sqrt((centred**2).sum(axis=1).mean())
    parts = [
        settings.slope * mean[:, None],
        np.sqrt(settings.deviation / apart.shape[1]) * apart,
        np.sqrt(settings.architecture) * centred,
    ]
    return Prior(mean, np.hstack(parts), settings)


def choose(known: Prior, count: int, pool: Integers, judged: Integers) -> Integers:
    """Samples to measure, one after the other: the one that lowers the expected error of the judged architectures most.

    The gain of measuring x is sum_j cov(x, j)^2 / (var(x) + noise), with covariances after the samples chosen so far; an unknown
    offset counts as one more direction. Needs no latency of the new device.
    """
    basis = np.hstack([known.basis, np.full((len(known.mean), 1), OFFSET)])
    covariance = np.eye(basis.shape[1])
    wanted = basis[judged].T @ basis[judged]
    candidates = basis[pool]
    chosen: list[int] = []
    for _ in range(count):
        spread = candidates @ covariance
        variance = (spread * candidates).sum(axis=1) + known.settings.noise
        gain = ((spread @ wanted) * spread).sum(axis=1) / variance
        gain[[int(np.flatnonzero(pool == index)[0]) for index in chosen]] = -np.inf
        best = int(np.argmax(gain))
        covariance = covariance - np.outer(spread[best], spread[best]) / variance[best]
        chosen.append(int(pool[best]))
    return np.array(chosen)


def predict(known: Prior, samples: Integers, latencies: Floats, rounds: int = 5) -> ArchitecturePrediction:
    """Latency of every architecture on the new device: the posterior mean, with heavy-tailed noise by reweighting.

    K w = y with K = A A' + noise / weights; weights = (tail + 1) / (tail + r^2 / noise), renewed `rounds` times.
    """
    settings = known.settings
    centre, spread = float(latencies.mean()), float(latencies.std())
    expected = float(known.mean[samples].std())
    scale = spread / expected if spread > 0 and expected > 0 else max(abs(centre), 1e-12)
    rows = known.basis[samples] - known.basis[samples].mean(axis=0)
    mean = known.mean - known.mean[samples].mean()
    observed = (latencies - centre) / scale - mean[samples]
    weights = np.ones(len(samples))
    for _ in range(rounds if settings.tail else 1):
        gram = rows @ rows.T + np.diag(settings.noise / weights)
        coefficients = rows.T @ np.linalg.solve(gram, observed)
        residual = observed - rows @ coefficients
        if settings.tail:
            weights = (settings.tail + 1) / (settings.tail + residual**2 / settings.noise)
    shifted = known.basis - known.basis[samples].mean(axis=0)
    covariance = np.eye(rows.shape[1]) - rows.T @ np.linalg.solve(rows @ rows.T + np.diag(settings.noise / weights), rows)
    variance = ((shifted @ covariance) * shifted).sum(axis=1) + settings.noise * (1 + 1 / len(samples))
    return ArchitecturePrediction(centre + scale * (mean + shifted @ coefficients), scale * np.sqrt(variance))


def ridge_on_sources(surfaces: Floats, samples: Integers, latencies: Floats, penalty: float = 1.0) -> Floats:
    """The trivial way: ridge regression of the new device's log latency on the sources' standardized log latencies.

    Args:
        surfaces: shape (n, sources).
    """
    weights, bias = ridge(surfaces[samples], np.log(latencies), penalty)
    return np.exp(surfaces @ weights + bias)


def nearest_source(surfaces: Floats, samples: Integers, latencies: Floats) -> Floats:
    """The source that agrees best on the samples, with scale and offset fitted: log latency = a + b surface.

    Args:
        surfaces: shape (n, sources).
    """
    logs = np.log(latencies)
    best, answer = np.inf, np.full(len(surfaces), logs.mean())
    for column in surfaces.T:
        at = column[samples]
        slope = float(((at - at.mean()) * (logs - logs.mean())).sum() / max(((at - at.mean()) ** 2).sum(), 1e-12))
        fitted = logs.mean() + slope * (column - at.mean())
        error = float(((fitted[samples] - logs) ** 2).sum())
        if slope > 0 and error < best:
            best, answer = error, fitted
    return np.exp(answer)
