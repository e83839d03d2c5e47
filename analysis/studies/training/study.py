"""How right is the training predictor on runs of a source that it has never seen? Scores with it left out, and the shipped shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.kernels.library import Hide
from analysis.paths import DATA
from analysis.studies.datasets import find
from analysis.studies.freezing import digests
from analysis.studies.training import fit, sources, tpus
from analysis.studies.training.fit import Learned, Prepared
from analysis.training import interval
from analysis.training.answers import arithmetic_s, fitted
from analysis.training.cases import COLUMNS, Case, read
from analysis.training.memory import GIB, fits, memory
from analysis.training.shares import ShareFile
from analysis.training.step import SHARES, step

Floats = NDArray[np.float64]

MODEL = DATA / "models" / "training_step.yaml"
SMALL = 8
HASHED = ("vtrain/single_node", "vtrain/multi_node", "llm_foundry/mpt_training", "megatron_bridge/pretraining")


def prepare(hide: Hide = "none") -> dict[str, Prepared]:
    """Every source with its parts worked out.

    Args:
        hide: what of a GPU's own kernel timings the kernel library may use.
    """
    return {runs.source: Prepared.of(runs, hide) for runs in sources.all_runs()}


def scores_of(item: Prepared, learned: Learned) -> dict[str, Floats]:
    """log(measured / predicted) over doubt, by group."""
    z = -item.log_error(learned.shares) / interval.doubt(item.parts, item.plans, *learned)
    groups = np.array([interval.group(case) for case in item.runs.cases])
    return {name: z[groups == name] for name in interval.GROUPS if (groups == name).any()}


def fits_left_out(prepared: Mapping[str, Prepared]) -> dict[frozenset[str], Learned]:
    """Shares fitted without each of `sources.LEFT_OUT_TOGETHER`, and without each two of them."""
    groups = [frozenset(together) for together in sources.LEFT_OUT_TOGETHER]
    taught: dict[frozenset[str], Learned] = {}
    found = {}
    for hidden in {one | other for one in groups for other in groups}:
        teachers = hidden.difference(sources.PLAN_ASSUMED)
        if teachers not in taught:
            taught[teachers] = fit.fit([item for name, item in prepared.items() if name not in teachers])
        found[hidden] = taught[teachers]
    return found


def without(fits: Mapping[frozenset[str], Learned], *judged: str) -> dict[str, Learned]:
    """Shares of every source, fitted without it, without those that count as one with it, and without those that are judged."""
    return {name: fits[frozenset((*together, *judged))] for together in sources.LEFT_OUT_TOGETHER for name in together}


def scores_of_dense(prepared: Mapping[str, Prepared], learned: Mapping[str, Learned]) -> dict[str, list[Floats]]:
    """log(measured / predicted) over doubt of every source under its own shares, by group; mixtures, which lie in one source, left out."""
    found: dict[str, list[Floats]] = {name: [] for name in interval.GROUPS}
    for name, item in prepared.items():
        for group, values in scores_of(item, learned[name]).items():
            if group != "mixture":
                found[group].append(values)
    return found


def scores_left_out(
    prepared: Mapping[str, Prepared], fits: Mapping[frozenset[str], Learned], mixtures: Mapping[str, tuple[Prepared, Learned]]
) -> dict[str, list[Floats]]:
    """log(measured / predicted) over doubt with the source left out, by group; of mixtures one array a model (`mixtures_left_out`)."""
    each = [scores_of(item, learned)["mixture"] for item, learned in mixtures.values()]
    return scores_of_dense(prepared, without(fits)) | {"mixture": each}


def stretches(scores: Mapping[str, list[Floats]]) -> dict[str, tuple[float, float]]:
    """Stretch of each group; a group of fewer than three sources takes the wider of its own and all.

    Args:
        scores: one array a source (of mixtures: a model) of each group.
    """
    seen = {group: arrays if group == "mixture" else _pooled(arrays) for group, arrays in scores.items()}
    every = [values for group, arrays in seen.items() if group != "mixture" for values in arrays]
    overall = fit.stretch(every, len(every))
    found = {}
    for group, arrays in seen.items():
        if len(arrays) >= 3:
            found[group] = fit.stretch(arrays, len(arrays))
        else:
            own = fit.stretch(arrays, len(every)) if arrays else overall
            low, high = min(own[0], overall[0]), max(own[1], overall[1])
            found[group] = (interval.UNSEEN * low, interval.UNSEEN * high) if not arrays else (low, high)
    return found


def _pooled(arrays: list[Floats]) -> list[Floats]:
    """Sources of fewer than `SMALL` rows as one (data/measured_suite/splits.yaml)."""
    small = [values for values in arrays if len(values) < SMALL]
    return [values for values in arrays if len(values) >= SMALL] + ([np.concatenate(small)] if small else [])


def mixtures_left_out(prepared: Mapping[str, Prepared]) -> dict[str, tuple[Prepared, Learned]]:
    """Every mixture or hybrid of Megatron-Bridge, and the shares with that model left out, all else given: what forms are chosen by.

    Args:
        prepared: all sources (`mixture_left_out` in data/measured_suite/splits.yaml).
    """
    item = prepared["megatron_bridge_other"]
    models = np.array([case.name for case in item.runs.cases])
    mixture = np.array([interval.group(case) == "mixture" for case in item.runs.cases])
    others = [other for name, other in prepared.items() if name != item.runs.source]
    return {
        str(model): (item.take(models == model), fit.fit([*others, item.take(models != model)])) for model in np.unique(models[mixture])
    }


def predictions(item: Prepared, learned: Learned, ends: Callable[[Case], tuple[float, float]]) -> pd.DataFrame:
    """Predicted step, interval and parts of every run of a source."""
    parts = step(item.parts, item.plans, learned.shares)
    doubt = interval.doubt(item.parts, item.plans, *learned)
    bounds = np.array([ends(case) for case in item.runs.cases])
    frame = pd.DataFrame(
        {
            "row_id": [f"{item.runs.source}:{index}" for index in range(len(item.runs.cases))],
            "source": item.runs.source,
            "model": [case.name for case in item.runs.cases],
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


def _of_group(stretched: Mapping[str, tuple[float, float]], case: Case) -> tuple[float, float]:
    return stretched[interval.group(case)]


def roofline_s(case: Any) -> float:
    """Model arithmetic, and what is recomputed, at the data sheet's peak on all GPUs (s): the trivial baseline, before its constant."""
    return (4 / 3 if case.recompute == "full" else 1.0) * arithmetic_s(case)


def left_out(prepared: Mapping[str, Prepared], fits: Mapping[frozenset[str], Learned]) -> pd.DataFrame:
    """Every run predicted with its source left out, and the roofline times the other sources' constant.

    The stretch of its interval comes from the other sources' errors, each under shares that were fitted without it and the judged source.

    Args:
        fits: `fits_left_out`.
    """
    tables = []
    for together in sources.LEFT_OUT_TOGETHER:
        others = {name: item for name, item in prepared.items() if name not in together}
        stretched = stretches(scores_of_dense(others, without(fits, *together)))
        constants = [np.median(np.log(item.runs.step_s / [roofline_s(case) for case in item.runs.cases])) for item in others.values()]
        for name in together:
            frame = predictions(prepared[name], fits[frozenset(together)], partial(_of_group, stretched))
            frame["baseline_s"] = frame["flop_s"] * np.exp(np.mean(constants))
            tables.append(frame)
    constant = np.mean([np.median(frame["measured_s"] / frame["flop_s"]) for frame in tables])
    tables += [frame.assign(baseline_s=frame["flop_s"] * constant) for frame in tpu_left_out()]
    return pd.concat(tables, ignore_index=True)


def tpu_left_out() -> list[pd.DataFrame]:
    """Runs on TPUs, each with the share that the other devices give it."""
    learned = Learned(fitted().shares, fitted().spread)
    return [predictions(item, learned, fitted().ends) for item in tpus.others_shares()]


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
        learned = fit.fit([*rest, item.take(chosen)])
        judged = item.take(~chosen)
        frame = predictions(judged, learned, lambda _: (-2.0, 2.0))
        tables.append(frame.assign(source=name, given=words))
    return pd.concat(tables, ignore_index=True)


def hashes() -> dict[str, str]:
    """SHA-256 of every table that the shares are fitted on."""
    own = {name: DATA / name for name in ("published/older_training_steps.csv", "measured_suite/panel_training.csv")}
    return digests({name: find(name) for name in HASHED} | own)


def freeze(prepared: Mapping[str, Prepared], scores: Mapping[str, list[Floats]]) -> None:
    """Write the shipped shares: fitted on every source, intervals stretched on each with itself left out; then those of TPUs."""
    learned = fit.fit(list(prepared.values()))
    content = ShareFile(
        split="shares: every source of data/measured_suite/splits.yaml (shipped); stretch: each source predicted with itself left out",
        shares=fit.as_fitted(SHARES, learned.shares, learned.spread),
        stretch=stretches(scores),
        hashes=hashes(),
        measured=measured_in([case for item in prepared.values() for case in item.runs.cases]),
    )
    fit.write(MODEL, content, "analysis.studies.training.study.freeze (full tier of the notebook measured_suite)")
    fitted.cache_clear()
    tpus.freeze()


def measured_in(cases: list[Case]) -> dict[str, tuple[str, ...]]:
    """On GPUs: programs with a measured run, those of adapters and of mixtures, and the devices of each group of `interval.GROUPS`."""
    found = {
        "programs": {case.program for case in cases},
        "adapters_by": {case.program for case in cases if not case.trained},
        "mixtures_by": {case.program for case in cases if interval.group(case) == "mixture"},
        **{group: {case.machine.device for case in cases if interval.group(case) == group} for group in interval.GROUPS},
    }
    return {name: tuple(sorted(names)) for name, names in found.items() if names}


def memory_scores() -> pd.DataFrame:
    """Estimate over measured peak by source; shares of plans that ran, and of those that failed, by what is said of them."""
    rows = sources.panel_rows()
    tables = [rows[rows["measured_memory_gib"] != ""], sources.published_rows("torchtitan_h100").assign(source="torchtitan_h100")]
    tables.append(sources.failed_plans().assign(source="ultrascale, failed plans"))
    given = pd.concat(tables, ignore_index=True).fillna("")
    runs, _, refused = read(given[[name for name in COLUMNS if name in given.columns]])
    if refused:
        raise next(iter(refused.values()))
    held, peak = memory(runs, runs.defaults.log), pd.to_numeric(given["measured_memory_gib"]).to_numpy() * GIB
    said = {"ratio": held.total / peak, "lower": held.ends[0] / peak, "upper": held.ends[1] / peak, "fits": fits(runs, memory(runs))}
    table = pd.DataFrame({"source": given["source"], **said})
    by_source = table.groupby("source", sort=False)
    out = by_source.agg(rows=("fits", "size"), ratio_median=("ratio", "median"))
    measured = table["ratio"].notna()
    for name, values in (
        ("within_15", (table["ratio"] - 1).abs() <= 0.15),
        ("covered", (table["lower"] <= 1) & (table["upper"] >= 1)),
        *((word, table["fits"] == word) for word in ("yes", "tight", "no")),
    ):
        shares = 100 * values.astype(float)
        out[name] = shares.where(measured | (name in ("yes", "tight", "no"))).groupby(table["source"], sort=False).mean()
    return out.reset_index()
