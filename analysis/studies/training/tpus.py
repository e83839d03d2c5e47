"""What share of its data-sheet peak does a TPU reach in large products? One number a device, fitted on MaxText's published steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.hardware import devices
from analysis.paths import DATA
from analysis.studies import attempts
from analysis.studies.freezing import digests
from analysis.studies.training import sources
from analysis.studies.training.fit import Prepared, stretch, write
from analysis.training.answers import fitted
from analysis.training.interval import doubt
from analysis.training.kernels import TPUS, TpuFile, kernels_of, tpu_share, tpus

SPLIT = (
    "share: MaxText's Llama 2 70B on v4, v5e and v5p, Llama 3.1 8B on six slices of v6e, five models on v7x; test: Llama 3.1 70B on four "
    "slices of v6e; "
    "interval: each device predicted from the others (analysis.training.kernels.tpu_share)"
)
PRODUCTS = ("gemm", "gemm_back", "gemm8", "gemm8_back", "grouped", "grouped_back", "head")


def prepared() -> dict[str, Prepared]:
    """MaxText's published steps, by device; those of v6e that are judged apart."""
    found = {}
    for runs in (sources.published("maxtext"), sources.published("maxtext_judged"), sources.panel("tpu_ironwood")):
        item = Prepared.of(runs)
        for device in dict.fromkeys(case.machine.device for case in runs.cases):
            chosen = np.array([case.machine.device == device for case in runs.cases])
            found[device if device not in found else f"{device} judged"] = item.take(chosen)
    return found


def errors(item: Prepared, share: float) -> np.ndarray:
    """log(predicted / measured) of each run where products reach a share of the peak (1)."""
    return _with(item, share).log_error(fitted().shares)


def others_shares() -> list[Prepared]:
    """Every device's runs with the share that the other devices give it in place of its own."""
    return [_with(item, _of_others(item, tpus().product)) for item in prepared().values()]


def _of_others(item: Prepared, known: dict[str, float]) -> float:
    device = devices.load(item.runs.cases[0].machine.device)
    return tpu_share(device, {name: share for name, share in known.items() if name != device.name})


def _with(item: Prepared, share: float) -> Prepared:
    """Runs on one device where products reach a share of the peak (1)."""
    kernels = kernels_of(item.runs.cases[0].machine.device)
    longer = kernels.product_rate / kernels.peak / share
    return replace(item, parts=replace(item.parts, **{name: longer * getattr(item.parts, name) for name in PRODUCTS}))


def fit(item: Prepared) -> float:
    """The share (1) with which the median of `errors` is 0, by bisection: no odd run pulls it."""
    low, high = 0.05, 0.99
    for _ in range(50):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if np.median(errors(item, middle)) > 0 else (low, middle)
    return (low * high) ** 0.5


def freeze() -> TpuFile:
    """Fit every TPU, score each by the others; write `TPUS` and the log, give the first.

    A kernel is the longer of its arithmetic and its bytes, so that a share changes which it is: fitted again until no share moves.
    """
    while True:
        before, content = tpus().product, _fitted()
        write(TPUS, content, "analysis.studies.training.tpus.freeze, after the shares of training_step.yaml")
        for known in (tpus, kernels_of, fitted):
            known.cache_clear()
        if max(abs(share / before.get(name, 1.0) - 1) for name, share in content.product.items()) < 1e-5:
            break
    attempts.record(attempt())
    return content


def _fitted() -> TpuFile:
    """Shares and stretch as the kernels of the committed shares give them."""
    items = prepared()
    shares = {name: fit(item) for name, item in items.items() if " " not in name}
    scores = []
    for name, item in items.items():
        if " " not in name:
            scores.append(-errors(item, _of_others(item, shares)) / doubt(item.parts, item.plans, fitted().shares, fitted().spread))
    tables = {name: DATA / name for name in ("published/older_training_steps.csv", "measured_suite/panel_training.csv")}
    return TpuFile(
        split=SPLIT,
        product={name: float(f"{share:.6g}") for name, share in shares.items()},
        stretch=stretch(scores, len(scores)),
        hashes=digests(tables),
    )


def attempt() -> pd.DataFrame:
    """The fit as a row of the log: error on the rows that judge it."""
    item = prepared()["TPU-v6e judged"]
    error = np.abs(np.exp(errors(item, tpus().product["TPU-v6e"])) - 1)
    form = {
        "configuration": "the predictor's parts, no host work, one share of the peak a device",
        "test_value": float(error.mean()),
        "test_max": float(error.max()),
        "chosen": True,
        "note": "the form was chosen after the older model's errors on these rows (4.8 %, at most 8.1 %) had been seen",
    }
    common = {"fitted_on": "MaxText's Llama 3.1 8B on v6e (6)", "tested_on": "Llama 3.1 70B on v6e (4)", "test_metric": "mean |error|"}
    return attempts.rows([form], room="composition", experiment="training_on_tpus", **common)
