"""The composition gap of training, measured: gamma = (measured step - sum of its kernels) / sum, signed, in parts that add up to it.

The sum is every kernel that the kernel tables time on the run's GPU: products, attention and experts, forward and backward, recomputed
ones and the output layer's too, at their own shapes. What else a step holds is put in one after the other, and a part is what it adds:
    kernels under load   the fitted shares on those kernels: clock under load, layouts, older kernels
    missing operators    norms, activations, quantisation, loss, optimizer: by their bytes
    communication        what of the collectives is not hidden
    launch and host      host work that the device waits for
    scheduling           pipeline bubble and the slowest GPU
    not explained        measured over the prediction with the source left out
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.hardware import devices
from analysis.studies.training import sources
from analysis.studies.training.fit import Prepared
from analysis.studies.training.sensitivity import RATES
from analysis.training.kernels import OLDER
from analysis.training.step import NAMES, Plans, step
from analysis.training.work import PART_NAMES, Floats, Parts

GAP_PARTS = ("kernels_under_load", "missing_operators", "communication", "launch_and_host", "scheduling", "not_explained")

KERNELS, STREAMS, LINKS, HOST = RATES.values()
UNITS = (
    "product_16",
    "product_8",
    "product_4",
    "product_amd",
    "product_amd_8",
    "product_ampere",
    "attention_ampere",
    "rowwise",
    "grouped",
    "attention",
    "flash_1",
    "flash_2",
)
"""Shares that are one where kernels are taken as the tables have them."""


def _with(parts: Parts, names: Sequence[str]) -> Parts:
    """The named parts; the others zero."""
    return replace(parts, **{name: np.zeros_like(parts.gemm) for name in PART_NAMES if name not in names})


def _busy(parts: Parts, plans: Plans, shares: Floats, host: bool = False) -> Floats:
    """Seconds of a step without the pipeline's filling, every GPU as fast as the mean; host: with what lies between two steps."""
    even = shares.copy()
    even[NAMES.index("imbalance")] = 1.0
    if not host:
        even[[NAMES.index("between_s"), NAMES.index("between_block_s")]] = 0.0
    seconds = step(parts, plans, even)
    return np.asarray(seconds["total"] - seconds["bubble"])


def split(parts: Parts, plans: Plans, shares: Floats, measured_s: Floats) -> dict[str, Floats]:
    """`kernels_s`, `gamma`, and its parts over the sum.

    Args:
        parts, plans: of the runs; shares: fitted elsewhere; measured_s: step of each run.
    """
    units = shares.copy()
    units[[NAMES.index(name) for name in UNITS]] = 1.0
    total = _busy(_with(parts, KERNELS), plans, units)
    known: list[str] = list(KERNELS)
    steps = [total, _busy(_with(parts, known), plans, shares)]
    for more in (STREAMS, LINKS, HOST):
        known += more
        steps.append(_busy(_with(parts, known), plans, shares, more is HOST))
    steps += [step(parts, plans, shares)["total"], measured_s]
    found = {name: (after - before) / total for name, before, after in zip(GAP_PARTS, steps[:-1], steps[1:], strict=True)}
    return {"kernels_s": total, "gamma": measured_s / total - 1, **found}


def gaps(prepared: Mapping[str, Prepared], left_out: Mapping[str, Floats]) -> pd.DataFrame:
    """One row a run on a GPU whose kernels are asked for by shape, its source left out of the shares; dense models and mixtures."""
    tables = []
    for together in sources.LEFT_OUT_TOGETHER:
        for name in together:
            item, shares = prepared[name], left_out[name]
            runs = item.runs
            measured = np.array([devices.load(case.machine.device).architecture not in OLDER for case in runs.cases])
            if not measured.any():
                continue
            frame = pd.DataFrame(split(item.parts, item.plans, shares, runs.step_s))
            frame.insert(0, "row_id", [f"{name}:{index}" for index in range(len(frame))])
            frame.insert(1, "source", name)
            frame.insert(2, "model", [case.name for case in runs.cases])
            frame.insert(3, "gpu", [case.machine.device for case in runs.cases])
            frame.insert(4, "precision", [case.precision for case in runs.cases])
            frame.insert(5, "kind", ["mixture or hybrid" if case.shape.experts or case.shape.linear else "dense" for case in runs.cases])
            tables.append(frame[measured])
    return pd.concat(tables, ignore_index=True)
