"""How right is the training predictor on runs of a source that it has never seen? Scores with it left out, and the shipped shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.composition.training import fit, interval, sources, tpus
from analysis.composition.training.answers import arithmetic_s, fitted
from analysis.composition.training.fit import Prepared
from analysis.composition.training.shares import write
from analysis.composition.training.step import SHARES, step
from analysis.datasets import find
from analysis.freezing import digests
from analysis.operators.kernels.library import Hide
from analysis.paths import DATA

Floats = NDArray[np.float64]

MODEL = DATA / "models" / "training_step.yaml"
HASHED = ("vtrain/single_node", "vtrain/multi_node", "llm_foundry/mpt_training", "megatron_bridge/pretraining")
PUBLISHED = ("megatron_sc21.csv", "distributed_training.csv", "gpu_tpu_workloads.csv")


def prepare(hide: Hide = "none") -> dict[str, Prepared]:
    """Every source with its parts worked out.

    Args:
        hide: what of a GPU's own kernel timings the kernel library may use.
    """
    return {runs.source: Prepared.of(runs, hide) for runs in sources.all_runs()}


def scores_of(item: Prepared, shares: Floats) -> dict[str, Floats]:
    """log(measured / predicted) over doubt, by group."""
    z = -item.log_error(shares) / interval.doubt(item.parts, item.plans, shares)
    groups = np.array([interval.group(case) for case in item.runs.cases])
    return {name: z[groups == name] for name in interval.GROUPS if (groups == name).any()}


def stretches(prepared: Mapping[str, Prepared], hidden: tuple[str, ...] = ()) -> dict[str, tuple[float, float]]:
    """Stretch of each group, from the sources that are not hidden, each predicted with itself left out.

    Args:
        prepared: all sources; hidden: what may not be seen at all.
    """
    found: dict[str, list[Floats]] = {name: [] for name in interval.GROUPS}
    groups = dict.fromkeys(interval.GROUPS, 0)
    for together in sources.LEFT_OUT_TOGETHER:
        if set(together) & set(hidden):
            continue
        shares = fit.fit([item for name, item in prepared.items() if name not in together and name not in hidden])
        scored = [scores_of(prepared[name], shares) for name in together if name in prepared]
        for group in interval.GROUPS:
            found[group] += [values[group] for values in scored if group in values]
            groups[group] += any(group in values for values in scored)
    mixtures = [name for name in prepared if name not in hidden and name == "megatron_bridge_other"]
    if mixtures:  # the only source of them: a model left out at a time, in place of the source
        found["mixture"] = _models_left_out(prepared, mixtures[0], hidden)
        groups["mixture"] = len(found["mixture"])
    dense = interval.stretch(found["dense"], groups["dense"])
    mixture = (
        interval.stretch(found["mixture"], groups["mixture"])
        if found["mixture"]
        else (interval.UNSEEN * dense[0], interval.UNSEEN * dense[1])
    )
    return {"dense": dense, "mixture": mixture}


def _models_left_out(prepared: Mapping[str, Prepared], source: str, hidden: tuple[str, ...]) -> list[Floats]:
    """log(measured / predicted) over doubt of the mixtures of a source, each model predicted with itself left out; one array a model."""
    item = prepared[source]
    models = np.array([case.name for case in item.runs.cases])
    others = [other for name, other in prepared.items() if name not in hidden and name != source]
    found = []
    for model in np.unique(models):
        scored = scores_of(item.take(models == model), fit.fit([*others, item.take(models != model)]))
        if "mixture" in scored:
            found.append(scored["mixture"])
    return found


def mixtures_left_out(prepared: Mapping[str, Prepared]) -> pd.DataFrame:
    """Every mixture of experts of Megatron-Bridge predicted with its model left out, all else given: what forms are chosen by.

    Args:
        prepared: all sources (`mixture_left_out` in data/measured_suite/splits.yaml).
    """
    item = prepared["megatron_bridge_other"]
    models = np.array([case.name for case in item.runs.cases])
    mixture = np.array([interval.group(case) == "mixture" for case in item.runs.cases])
    others = [other for name, other in prepared.items() if name != item.runs.source]
    tables = []
    for model in np.unique(models[mixture]):
        judged = item.take(models == model)
        error = np.exp(judged.log_error(fit.fit([*others, item.take(models != model)]))) - 1
        tables.append(pd.DataFrame({"model": model, "error": error}))
    return pd.concat(tables, ignore_index=True)


def predictions(item: Prepared, shares: Floats, stretched: Mapping[str, tuple[float, float]]) -> pd.DataFrame:
    """Predicted step, interval and parts of every run of a source."""
    parts = step(item.parts, item.plans, shares)
    doubt = interval.doubt(item.parts, item.plans, shares)
    bounds = np.array([stretched[interval.group(case)] for case in item.runs.cases])
    frame = pd.DataFrame(
        {
            "row_id": [f"{item.runs.source}:{index}" for index in range(len(item.runs.cases))],
            "source": item.runs.source,
            "model": [case.name for case in item.runs.cases],
            "device": [case.machine.device for case in item.runs.cases],
            "gpus": [case.gpus for case in item.runs.cases],
            "global_batch": [case.global_batch for case in item.runs.cases],
            "micro_batch": [case.micro_batch for case in item.runs.cases],
            "sequence_length": [case.sequence for case in item.runs.cases],
            "tensor_parallel": [case.tensor for case in item.runs.cases],
            "pipeline_parallel": [case.pipeline for case in item.runs.cases],
            "context_parallel": [case.context for case in item.runs.cases],
            "expert_parallel": [case.expert for case in item.runs.cases],
            "virtual_pipeline": [case.virtual for case in item.runs.cases],
            "precision": [case.precision for case in item.runs.cases],
            "recompute": [case.recompute for case in item.runs.cases],
            "repeats": item.runs.repeats,
            "spread_of_repeats": item.runs.spread,
            "measured_s": item.runs.step_s,
            "predicted_s": parts["total"],
            "lower_s": parts["total"] * np.exp(bounds[:, 0] * doubt),
            "upper_s": parts["total"] * np.exp(bounds[:, 1] * doubt),
            "flop_s": [roofline_s(case) for case in item.runs.cases],
        }
    )
    for name, values in parts.items():
        if name != "total":
            frame[f"{name}_s"] = values
    return frame


def roofline_s(case: Any) -> float:
    """Model arithmetic, and what is recomputed, at the data sheet's peak on all GPUs (s): the trivial baseline, before its constant."""
    return (4 / 3 if case.recompute == "full" else 1.0) * arithmetic_s(case)


def left_out(prepared: Mapping[str, Prepared]) -> pd.DataFrame:
    """Every run predicted with its source left out of shares and interval, and the roofline times the other sources' constant."""
    tables = []
    for together in sources.LEFT_OUT_TOGETHER:
        others = [item for name, item in prepared.items() if name not in together]
        shares, stretched = fit.fit(others), stretches(prepared, together)
        constants = [np.median(np.log(item.runs.step_s / [roofline_s(case) for case in item.runs.cases])) for item in others]
        for name in together:
            frame = predictions(prepared[name], shares, stretched)
            frame["baseline_s"] = frame["flop_s"] * np.exp(np.mean(constants))
            tables.append(frame)
    return pd.concat(tables, ignore_index=True)


HALF_SINGLE = ((1024, 12), (1024, 20), (2048, 16), (2048, 24))
"""Model sizes of vTrain's single-node runs that are given (hidden size, layers); data/measured_suite/splits.yaml."""


def half_given(prepared: Mapping[str, Prepared]) -> pd.DataFrame:
    """vTrain with half of its model sizes given besides the other sources; the other half judged."""
    tables = []
    single, multi = prepared["vtrain_single_node"], prepared["vtrain_multi_node"]
    rest = [item for name, item in prepared.items() if not name.startswith("vtrain")]
    given = np.array([(case.shape.hidden, case.shape.blocks) in HALF_SINGLE for case in single.runs.cases])
    halves = [("vtrain_single_node", single, given, "given: 1024 x 12, 1024 x 20, 2048 x 16, 2048 x 24")]
    hidden = np.array([case.shape.hidden for case in multi.runs.cases])
    halves += [("vtrain_multi_node", multi, hidden == size, f"given: hidden size {size}") for size in (3072, 8192)]
    for name, item, chosen, words in halves:
        shares = fit.fit([*rest, item.take(chosen)])
        judged = item.take(~chosen)
        frame = predictions(judged, shares, dict.fromkeys(interval.GROUPS, (-2.0, 2.0)))
        tables.append(frame.assign(source=name, given=words))
    return pd.concat(tables, ignore_index=True)


def hashes() -> dict[str, str]:
    """SHA-256 of every table that the shares are fitted on."""
    return digests({name: find(name) for name in HASHED} | {f"published/{name}": DATA / "published" / name for name in PUBLISHED})


def freeze(prepared: Mapping[str, Prepared]) -> None:
    """Write the shipped shares: fitted on every source, intervals stretched on each with itself left out; then those of TPUs."""
    shares, stretched = fit.fit(list(prepared.values())), stretches(prepared)
    split = "shares: every source of data/measured_suite/splits.yaml (shipped); stretch: each source predicted with itself left out"
    write(
        MODEL,
        split,
        SHARES,
        shares,
        stretched,
        hashes(),
        "analysis.composition.training.study.freeze (full tier of the notebook measured_suite)",
    )
    fitted.cache_clear()
    tpus.freeze()
