"""How well do the fidelities tell published training steps, against a constant utilisation, in time and in the order of devices?"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.hardware import devices
from analysis.predict.program import study_fusion
from analysis.predict.program.predict import predict
from analysis.studies.composition import study_step
from analysis.studies.intervals import Interval, cluster_bootstrap
from analysis.studies.statistics import kendall_tau_b
from analysis.studies.workloads.zoo.published_steps import Step
from analysis.workloads.graph import Module, Tensor
from analysis.workloads.hlo import reader as hlo

FIDELITIES: tuple[study_step.Fidelity, ...] = ("roofline", "fused", "shares")


FROZEN_AS = {"again": "rematerialize", "exchange_s": "communication_s"}
"""Columns of data/frozen/hlo_published/estimates.csv and what `estimates` calls them today."""


def scores_on_chip(sequence: int) -> Callable[[Tensor], bool]:
    """Whether a tensor has the shape of attention scores: five axes or more, (..., queries, group, keys), queries = keys = `sequence`."""
    return lambda tensor: len(tensor.shape) >= 5 and tensor.shape[-1] == sequence and tensor.shape[-3] == sequence


def estimates(steps: Sequence[Step], as_stated: bool = True) -> pd.DataFrame:
    """Times of steps by fidelity, one row a step, fidelity and kind of kernel; `rematerialize` False is the fusion rule without rule 3.

    Args:
        as_stated: whether rule 3 is that of before the first score (`study_fusion`).
    Columns: line, fidelity, rematerialize, kind, compute_s (of the kind), communication_s, time_s (of the step), flop (of the
        step), kernels.
    """
    rows: list[dict[str, object]] = []
    for step, module, on_chip in _modules(steps):
        for rematerialize in (True, False):
            parts = study_fusion.kernels(module, on_chip, rematerialize, as_stated)
            for fidelity in FIDELITIES:
                if not rematerialize and fidelity != "shares":
                    continue
                found = study_step.estimate(step, module, parts, fidelity)
                common = {"line": step.line, "fidelity": fidelity, "rematerialize": rematerialize}
                whole = {"communication_s": found.communication_s, "time_s": found.time_s, "flop": module.flops, "kernels": len(parts)}
                rows.extend({**common, "kind": kind, "compute_s": time, **whole} for kind, time in sorted(found.by_kind_s.items()))
    return pd.DataFrame(rows)


def today(steps: Sequence[Step]) -> pd.DataFrame:
    """Times of steps with shares by the fusion rule as it is corrected: columns line, time_s."""
    return estimates(steps, as_stated=False).query("fidelity == 'shares' and rematerialize").drop_duplicates("line")[["line", "time_s"]]


_PROGRAMS: dict[tuple[str, ...], Module] = {}


def _modules(steps: Sequence[Step]) -> Iterator[tuple[Step, Module, Callable[[Tensor], bool] | None]]:
    """Each step with its program, read once for all that share it, and what its attention kernel keeps on the chip."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "step.mlir"
        for step in steps:
            if step.module_key not in _PROGRAMS:
                path.write_text(step.text())
                _PROGRAMS[step.module_key] = hlo.read(path)
            fused = step.attention == "fused"
            yield step, _PROGRAMS[step.module_key], scores_on_chip(int(step.options["sequence"])) if fused else None


def by_kernel_tables(steps: Sequence[Step]) -> pd.DataFrame:
    """Arithmetic of one device in steps on GPUs, by shares and with products by the kernel tables: columns line, fidelity, compute_s."""
    rows = []
    for step, module, on_chip in _modules([each for each in steps if not each.device.startswith("TPU")]):
        for fidelity in ("efficiency", "kernels"):
            f32_in = "tf32" if step.arithmetic == "tf32" else "fp32"
            found = predict(module, devices.load(step.device), fidelity, on_chip=on_chip, f32_in=f32_in)
            rows.append({"line": step.line, "fidelity": fidelity, "compute_s": found.compute_s})
    return pd.DataFrame(rows)


def constant_elsewhere(frame: pd.DataFrame, left_out: str) -> np.ndarray:
    """Time from one share of the matrix peak, the median of the rows that do not share `left_out` with the row (s).

    Args:
        frame: columns measured_s, flop, peak and the one named.
        left_out: column whose value is left out, such as device.
    """
    share = (frame["flop"] / frame["peak"] / frame["measured_s"]).to_numpy()
    kept = [(frame[left_out] != value).to_numpy() for value in frame[left_out]]
    return (frame["flop"] / frame["peak"]).to_numpy() / np.array([np.median(share[each]) for each in kept])


def constant_within(frame: pd.DataFrame, same: str) -> np.ndarray:
    """Time from the median share of the matrix peak of the other rows with the same `same`; NaN for a row without others (s).

    Args:
        frame: columns measured_s, flop, peak and the one named; same: column, such as device or cluster.
    """
    share = (frame["flop"] / frame["peak"] / frame["measured_s"]).to_numpy()
    values = frame[same].to_numpy()
    found = []
    for at in range(len(frame)):
        kept = values == values[at]
        kept[at] = False
        found.append(float(np.median(share[kept])) if kept.any() else np.nan)
    return (frame["flop"] / frame["peak"]).to_numpy() / np.array(found)


def together(sources: Sequence[frozenset[str]]) -> list[str]:
    """The cluster of each set of sources: sets that share a source, directly or through others, are one cluster."""
    joined: list[frozenset[str]] = []
    for one in sources:
        linked = [other for other in joined if other & one]
        joined = [other for other in joined if not other & one] + [frozenset(one.union(*linked))]
    return [", ".join(sorted(next(other for other in joined if one <= other))) for one in sources]


def trends(frame: pd.DataFrame, predictors: Sequence[str]) -> pd.DataFrame:
    """Order of devices for the same work: one row a workload, with Kendall's tau-b of each predictor and the number of devices.

    Args:
        frame: columns group (workload), device, source, unit_s (measured, a unit of work on one device) and one `<predictor>_unit_s` each.
    Returns:
        columns group, cluster (workloads that share a source are not independent of each other), devices, pairs and the predictors.
    """
    rows, sources = [], []
    for group, part in frame.groupby("group"):
        by_device = part.groupby("device").median(numeric_only=True)
        if len(by_device) < 2:
            continue
        row: dict[str, object] = {"group": group, "devices": len(by_device), "pairs": len(by_device) * (len(by_device) - 1) // 2}
        for predictor in predictors:
            tau = kendall_tau_b(by_device["unit_s"], by_device[f"{predictor}_unit_s"])
            row[predictor] = 0.0 if np.isnan(tau) else tau  # a predictor that ties every device orders nothing
        rows.append(row)
        sources.append(frozenset(part["source"]))
    return pd.DataFrame(rows).assign(cluster=together(sources))


def mean_tau(table: pd.DataFrame, predictor: str, resamples: int, seed: int, against: str = "") -> Interval:
    """Mean tau over workloads, weighted by pairs, with a 95 % interval over resampled clusters; or the difference to another predictor."""
    values = table[predictor].to_numpy(float) - (table[against].to_numpy(float) if against else 0.0)
    weight = table["pairs"].to_numpy(float)
    mean = lambda v, w: float((v * w).sum() / w.sum())  # noqa: E731
    return cluster_bootstrap(mean, list(table["cluster"]), values, weight, resamples=resamples, seed=seed)
