"""Fits the calibrated all-reduce model, and tests it on the machine type or GPU count that was left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares

from analysis.networks.measured_fabrics.model import ALGORITHMS, Deviation, Parameters, evaluate, link_of, machines

Floats = NDArray[np.float64]

# Priors: logarithms and their standard deviations. Bandwidth shares as NCCL's own tuning expects, latencies of tens of microseconds;
# wide where nothing is known. The departure of one machine from the common value is drawn from the last line.
_CENTRE = np.r_[np.log(35e-6), -1.2, np.log([0.75, 0.6, 0.5, 0.85]), np.log([8e-6, 8e-6, 4e-6, 8e-6])]
_WIDTH = np.r_[0.5, 0.5, 0.15, 0.15, 0.3, 0.15, 0.8, 0.8, 0.8, 0.8]
_DEPARTURE = np.array([0.3, 0.12, 0.7])
_NOISE = 0.15
_COMMON = len(_CENTRE)
FORMS = ("alpha_beta", "pipelined", "protocols")


def series_of(rows: pd.DataFrame) -> frozenset[str]:
    """The series in a table, such as `H100 x2`."""
    return frozenset(f"{machine} x{gpus}" for machine, gpus in set(zip(rows["machine"], rows["gpus"], strict=True)))


def _left_out(train: pd.DataFrame, test: pd.DataFrame) -> frozenset[str]:
    """Series that the fit may know nothing of: those of the test, and all of a machine that is not in the fit, listed or not."""
    absent = {machine for machine in machines() if machine not in set(train["machine"])} & set(test["machine"])
    named = {name for machine in machines().values() for entry in machine.known for name in entry.measured_on}
    return (series_of(test) | {name for name in named if name.split(" x")[0] in absent}) - series_of(train)


def _features(rows: pd.DataFrame, names: list[str], left_out: frozenset[str] = frozenset()) -> dict[str, NDArray[np.float64]]:
    links = {key: link_of(str(key[0]), int(key[1]), left_out) for key in set(zip(rows["machine"], rows["gpus"], strict=True))}
    chosen = [links[key] for key in zip(rows["machine"], rows["gpus"], strict=True)]
    return {
        "ideal": rows["size_bytes"].to_numpy() * np.array([link.traffic / link.bandwidth_bytes_per_s for link in chosen]),
        "pair": (rows["gpus"] == 2).to_numpy(),
        "algorithm": np.array([ALGORITHMS.index(link.algorithm) for link in chosen]),
        "machine": np.array([names.index(machine) if machine in names else len(names) for machine in rows["machine"]]),
    }


def _predict(vector: Floats, features: dict[str, Floats], form: str) -> Floats:
    common, departures = vector[:_COMMON], vector[_COMMON:].reshape(3, -1)
    departures = np.column_stack([departures, np.zeros(3)])
    who, which = features["machine"].astype(int), features["algorithm"].astype(int)
    floor = np.exp(common[0] + departures[0][who])
    efficiency = np.minimum(1.0, np.exp(common[2:6][which] + departures[1][who]))
    chunk = np.exp(common[6:10][which] + departures[2][who])
    if form == "protocols":
        return evaluate(features["ideal"], features["pair"], floor, np.exp(common[1]), efficiency, chunk, which == 0)[0]
    latency = np.where(features["pair"], floor * np.exp(common[1]), floor)
    transfer = features["ideal"] / efficiency
    return latency + transfer + (2 * np.sqrt(chunk * transfer) if form == "pipelined" else 0.0)


def _solve(rows: pd.DataFrame, form: str, left_out: frozenset[str] = frozenset()) -> tuple[Floats, list[str]]:
    names = sorted(set(rows["machine"]))
    features = _features(rows, names, left_out)
    target = np.log(rows["time_s"].to_numpy())
    series = rows["machine"] + rows["origin"] + rows["gpus"].astype(str)
    weight = np.sqrt(30 / series.map(series.value_counts()).to_numpy())

    def residuals(vector: Floats) -> Floats:
        error = (np.log(_predict(vector, features, form)) - target) / _NOISE
        robust = np.sign(error) * np.sqrt(2 * (np.sqrt(1 + error**2) - 1))
        departures = (vector[_COMMON:].reshape(3, -1) / _DEPARTURE[:, None]).ravel()
        return np.r_[robust * weight, (vector[:_COMMON] - _CENTRE) / _WIDTH, departures]

    start = np.r_[_CENTRE, np.zeros(3 * len(names))]
    return least_squares(residuals, start, max_nfev=100).x, names


def fit(rows: pd.DataFrame, split: str = "", hashes: dict[str, str] | None = None) -> Parameters:
    """Fits the protocol-aware model: robust least squares on log time, every series of equal weight, with the priors above."""
    vector, names = _solve(rows, "protocols")
    departures = vector[_COMMON:].reshape(3, -1)
    return Parameters(
        floor_s=float(np.exp(vector[0])),
        pair_factor=float(np.exp(vector[1])),
        efficiency={name: float(np.exp(value)) for name, value in zip(ALGORITHMS, vector[2:6], strict=True)},
        chunk_s={name: float(np.exp(value)) for name, value in zip(ALGORITHMS, vector[6:10], strict=True)},
        machines={
            name: Deviation(floor=float(column[0]), efficiency=float(column[1]), chunk=float(column[2]))
            for name, column in zip(names, departures.T, strict=True)
        },
        split=split,
        hashes=hashes or {},
    )


def model(form: str, blind: bool = True) -> Callable[[pd.DataFrame, pd.DataFrame], Floats]:
    """Predictor of one form: fits on its first argument, predicts the times of its second (s).

    Args:
        form: `alpha_beta` (floor + T), `pipelined` (no protocols) or `protocols`.
        blind: whether what was read off the second argument's own times (the fabric of a board) is withheld.
    """

    def predict(train: pd.DataFrame, test: pd.DataFrame) -> Floats:
        left_out = _left_out(train, test) if blind else frozenset()
        vector, names = _solve(train, form, left_out)
        return _predict(vector, _features(test, names, left_out), form)

    return predict


def interpolation(train: pd.DataFrame, test: pd.DataFrame) -> Floats:
    """Baseline: log-log interpolation in size, of the same machine's nearest GPU count, else of the mean log time of the other machines
    with the nearest GPU count.

    Returns:
        (rows of test,) times (s).
    """
    result = np.empty(len(test))
    for (machine, gpus), part in test.groupby(["machine", "gpus"]):
        same = train[train["machine"] == machine]
        source = same if len(same) else train
        distance = np.abs(np.log(source["gpus"].to_numpy(dtype=float) / float(str(gpus))))
        source = source[distance == distance.min()]
        curves = [
            np.interp(np.log(part["size_bytes"]), np.log(curve["size_bytes"]), np.log(curve["time_s"]))
            for _, curve in source.sort_values("size_bytes").groupby(["machine", "origin", "gpus"])
        ]
        result[test.index.get_indexer(part.index)] = np.exp(np.mean(curves, axis=0))
    return result


def splits(rows: pd.DataFrame) -> Iterator[tuple[str, str, pd.Series]]:
    """The two leave-one-out schemes: (scheme, what is left out, mask of the rows left out).

    `machine`: all rows of a machine type. `gpu_count`: one GPU count of a machine that has others.
    """
    for machine in sorted(set(rows["machine"])):
        yield "machine", machine, rows["machine"] == machine
    for machine, gpus in sorted(set(zip(rows["machine"], rows["gpus"], strict=True))):
        of_machine = rows["machine"] == machine
        out = of_machine & (rows["gpus"] == gpus)
        if of_machine.sum() > out.sum():
            yield "gpu_count", f"{machine} x{gpus}", out


def leave_one_out(
    raw: pd.DataFrame, binned: pd.DataFrame, predictors: dict[str, Callable[[pd.DataFrame, pd.DataFrame], Floats]]
) -> pd.DataFrame:
    """Errors on what was left out, for every measured row.

    Args:
        predictors: name -> (train, test) -> times (s).
        raw: as of `measured_tables.measured`; binned: `half_octaves` of it, which is what is fitted.
    Returns:
        one row for each measured row, scheme and predictor: scheme, left_out, machine, gpus, size_bytes, model, absolute_error (1).
    """
    parts = []
    raw_masks = {(scheme, left): mask for scheme, left, mask in splits(raw)}
    for scheme, left, mask in splits(binned):
        test = raw[raw_masks[scheme, left]]
        for name, predictor in predictors.items():
            error = np.abs(predictor(binned[~mask], test) / test["time_s"].to_numpy() - 1)
            part = test[["machine", "gpus", "size_bytes"]].assign(scheme=scheme, left_out=left, model=name, absolute_error=error)
            parts.append(part)
    return pd.concat(parts, ignore_index=True)
