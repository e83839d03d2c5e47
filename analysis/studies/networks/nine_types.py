"""All-reduce of nine machine types, a type or a GPU count left out of the formula's fit in turn, and an interpolation to compare with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.networks.calibrated.form import Floats
from analysis.paths import DATA
from analysis.studies.networks import fit, series, tables
from analysis.tables import read_csv

Predictor = Callable[[pd.DataFrame, pd.DataFrame], Floats]
"""Learns from its first argument and answers for its second (s); rows as of `tables.measured`."""


def formula(train: pd.DataFrame, test: pd.DataFrame) -> Floats:
    """The formula fitted on `train`, asked about `test` (s); only the times of H100 pairs tell how their board joins them."""
    unknown = not ((train["machine"] == "H100") & (train["gpus"] == 2)).any()
    solution = fit.solve(series.all_reduces(train), unknown)
    return fit.predict(solution, fit.features(series.all_reduces(test), unknown))[0]


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


PREDICTORS: dict[str, Predictor] = {"formula": formula, "interpolation": interpolation}


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


@dataclass(frozen=True)
class Scores:
    """Tables of the errors on what was left out, and the measured times beside the answers for a machine type left out."""

    summary: pd.DataFrame
    by_size: pd.DataFrame
    left_out: pd.DataFrame
    curves: pd.DataFrame


def scores() -> Scores:
    """Fitted on medians by half octave, judged on every measured row: medians over rows, and over octaves of size so that small messages
    count alike.
    """
    raw = tables.measured()
    binned = tables.half_octaves(raw)
    raw_masks = {(scheme, left): mask for scheme, left, mask in splits(raw)}
    parts = []
    for scheme, left, mask in splits(binned):
        test = raw[raw_masks[scheme, left]]
        for name, predictor in PREDICTORS.items():
            error = np.abs(predictor(binned[~mask], test) / test["time_s"].to_numpy() - 1)
            part = test[["machine", "gpus", "size_bytes"]].assign(scheme=scheme, left_out=left, model=name, absolute_error=error)
            parts.append(part)
    errors = pd.concat(parts, ignore_index=True)
    errors["octave"] = np.floor(np.log2(errors["size_bytes"])).astype(int)
    cells = errors.groupby(["scheme", "model", "left_out", "machine", "gpus", "octave"])["absolute_error"].median().reset_index()
    summary = (
        errors.groupby(["scheme", "model"])["absolute_error"]
        .agg(median_error="median", mean_error="mean", rows="size")
        .join(cells.groupby(["scheme", "model"])["absolute_error"].median().rename("median_error_by_octave"))
        .join(cells[cells["octave"] >= 20].groupby(["scheme", "model"])["absolute_error"].median().rename("median_error_from_1_mib"))
        .reset_index()
    )
    by_size = cells.groupby(["scheme", "model", "octave"])["absolute_error"].median().rename("median_error").reset_index()
    left_out = errors.groupby(["scheme", "model", "left_out"])["absolute_error"].agg(median_error="median", rows="size").reset_index()
    return Scores(summary, by_size, left_out, curves(binned))


def curves(binned: pd.DataFrame) -> pd.DataFrame:
    """Measured time by octave beside the answer for a machine type that was left out, for the figure (s)."""
    octave = np.floor(np.log2(binned["size_bytes"])).astype(int)
    parts = []
    for machine in sorted(set(binned["machine"])):
        test = binned[binned["machine"] == machine]
        parts.append(test.assign(octave=octave[test.index], predicted_s=formula(binned[binned["machine"] != machine], test)))
    joined = pd.concat(parts)
    return (
        joined.groupby(["machine", "origin", "gpus", "octave"])
        .agg(size_bytes=("size_bytes", "median"), measured_s=("time_s", "median"), predicted_s=("predicted_s", "median"))
        .reset_index()
    )


def astra_comparison() -> pd.DataFrame:
    """ASTRA-sim's validated 8-GPU setting beside the measured 8 x H200, both as recorded, and our answer with the H200 left out.

    Returns:
        size_bytes (bytes), measured_us, astra_us, ours_us (us), astra_error, ours_error (1, signed).
    """
    recorded = read_csv(DATA / "recorded" / "astra-sim" / "astra_hgx8_vs_nccl_h200.csv", required=["size_bytes", "astra_us", "nccl_us"])
    binned = tables.half_octaves(tables.measured())
    size, measured = recorded["size_bytes"].astype(float), recorded["nccl_us"]
    asked = pd.DataFrame({"machine": "H200", "origin": "published", "gpus": 8, "size_bytes": size, "time_s": 1e-6 * measured})
    ours = 1e6 * formula(binned[binned["machine"] != "H200"], asked)
    errors = {"astra_error": recorded["astra_us"] / measured - 1, "ours_error": ours / measured - 1}
    times = {"measured_us": measured, "astra_us": recorded["astra_us"], "ours_us": ours}
    return pd.DataFrame({"size_bytes": recorded["size_bytes"], **times, **errors})
