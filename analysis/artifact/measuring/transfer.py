"""How well do a few samples predict one device from others? The measured devices as a transfer set."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.errors import InputError
from analysis.studies.statistics import mape, spearman

Floats = NDArray[np.float64]
Indices = NDArray[np.signedinteger]
ALPHAS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


def log_times(measurements: pd.DataFrame) -> pd.DataFrame:
    """Natural logarithm of the median times, one row an operator that every device has, one column a device.

    Args:
        measurements: device, operator, median_s.
    """
    table = measurements.pivot(index="operator", columns="device", values="median_s").dropna().apply(np.log)
    if table.empty:
        raise InputError("no operator was measured on every device", key="operator")
    return table


def constant(sources: Floats, target: Floats, picked: Indices) -> Floats:
    """The geometric mean of the samples for everything: what samples alone tell."""
    return np.full(len(sources), target[picked].mean())


def scaled(sources: Floats, target: Floats, picked: Indices) -> Floats:
    """The trivial transfer: one source device times one factor; the source whose ratio varies least over the samples is taken.

    log t = log s_j + mean over samples of (log t - log s_j).
    """
    ratios = target[picked, None] - sources[picked]
    best = int(np.argmin(ratios.std(axis=0)))
    return sources[:, best] + ratios[:, best].mean()


def ridge(sources: Floats, target: Floats, picked: Indices, extra: Floats | None = None) -> Floats:
    """Ridge on the logarithms of the source devices' times, towards the geometric mean of the sources.

    With m the mean of the sources: log t - m = b + sum w_j (log s_j - m) + v (m - mean m) + u . extra; w, v and u are penalised, b is not.
    The penalty is chosen by leaving out one sample at a time, in closed form.

    Args:
        sources: operators x devices; target: operators; picked: indices of the samples; extra: operators x features, such as the kind.
    """
    middle = sources.mean(axis=1)
    blocks = [sources - middle[:, None], (middle - middle.mean())[:, None], *([] if extra is None else [extra])]
    features = np.hstack(blocks)
    features = features - features[picked].mean(axis=0)
    x, residual = features[picked], target[picked] - middle[picked]
    y = residual - residual.mean()
    best, weights = np.inf, np.zeros(features.shape[1])
    for alpha in ALPHAS:
        inverse = np.linalg.solve(x.T @ x + alpha * np.eye(x.shape[1]), x.T)
        leverage = np.einsum("ij,ji->i", x, inverse) + 1 / len(y)
        error = float(np.mean(((y - x @ (inverse @ y)) / np.maximum(1 - leverage, 1e-6)) ** 2))
        if error < best:
            best, weights = error, inverse @ y
    return middle + residual.mean() + features @ weights


METHODS: dict[str, Callable[[Floats, Floats, Indices, Floats], Floats]] = {
    "mean of the samples": lambda s, t, p, kinds: constant(s, t, p),
    "one source, scaled": lambda s, t, p, kinds: scaled(s, t, p),
    "ridge on sources": lambda s, t, p, kinds: ridge(s, t, p),
    "ridge on sources and kind": lambda s, t, p, kinds: ridge(s, t, p, kinds),
}


def evaluate(table: pd.DataFrame, kinds: pd.Series, samples: int, seeds: int, seed: int = 0) -> pd.DataFrame:
    """Error on the operators that were not sampled, for each target device, method and draw.

    Args:
        samples: operators measured on the target (count); seeds: draws (count); seed: of the first.
    Returns:
        target, method, draw, mape (1), spearman (1), worst (largest error, 1), operators (count).
    """
    onehot = pd.get_dummies(kinds.loc[table.index]).to_numpy(float)
    rows = []
    for target in table.columns:
        sources, truth = table.drop(columns=target).to_numpy(float), table[target].to_numpy(float)
        for draw in range(seeds):
            picked = np.random.default_rng([seed, draw]).choice(len(table), samples, replace=False)
            rest = np.setdiff1d(np.arange(len(table)), picked)
            for name, method in METHODS.items():
                predicted = np.exp(method(sources, truth, picked, onehot))[rest]
                actual = np.exp(truth[rest])
                rows.append(
                    {
                        "target": target,
                        "method": name,
                        "draw": draw,
                        "mape": mape(actual, predicted),
                        "spearman": spearman(actual, predicted),
                        "worst": float(np.max(np.abs(predicted / actual - 1))),
                        "operators": len(rest),
                    }
                )
    return pd.DataFrame(rows)
