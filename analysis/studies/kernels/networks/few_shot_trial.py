"""The few-shot trial: seeds, splits, methods, and the paired comparison with the trivial ridge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.intervals import student_interval
from analysis.studies.kernels.networks.few_shot import (
    ArchitecturePrediction,
    FewShotSettings,
    Prior,
    choose,
    nearest_source,
    predict,
    prior,
    ridge,
    ridge_on_sources,
    source_surfaces,
)
from analysis.studies.kernels.networks.few_shot_spaces import Space
from analysis.studies.statistics import spearman

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MEASURED_PER_SOURCE = 900
"""Architectures measured on each source, as HELP has it."""
POOL = 500
"""Architectures that may be chosen as samples, and as many that errors are judged on."""
LONGEST = 100
METHODS = ("scratch", "nearest", "ridge", "ridge_chosen", "prior", "prior_chosen")


@dataclass(frozen=True)
class Situation:
    """What is known before the new device is touched, for one seed.

    Attributes:
        space: the search space.
        sources: devices learned from.
        log_surfaces: standardized log latencies of the sources, as the trivial ridge wants them.
        known: the prior.
        random: samples drawn at random, of which a trial takes the first.
        chosen: samples chosen one after the other, likewise.
    """

    space: Space
    sources: tuple[str, ...]
    log_surfaces: Floats
    known: Prior
    random: Integers
    chosen: Integers


def situations(
    space: Space, seed: int, variants: Sequence[FewShotSettings], without: str = "", longest: int = LONGEST
) -> Iterator[Situation]:
    """One situation for each of the settings, all with the same measured architectures and the same random samples."""
    rng = np.random.default_rng(seed)
    count = len(space.features)
    measured = {device: rng.permutation(count)[:MEASURED_PER_SOURCE] for device in space.sources}
    random = rng.permutation(count)[:longest]
    pool, judged = rng.permutation(count)[:POOL], rng.permutation(count)[:POOL]
    sources = tuple(device for device in space.sources if device != without)
    latencies = [(measured[device], space.latency_ms[device][measured[device]]) for device in sources]
    logarithmic = source_surfaces(space.features, latencies, logarithmic=True)
    linear = source_surfaces(space.features, latencies)
    for settings in variants:
        known = prior(linear, space.features, settings)
        yield Situation(space, sources, logarithmic, known, random, choose(known, longest, pool, judged))


def answer(situation: Situation, device: str, method: str, count: int) -> tuple[Floats, Floats | None, Integers]:
    """Latencies of all architectures on a device that was sampled, their deviations if the method gives them, and the samples."""
    truth = situation.space.latency_ms[device]
    samples = (situation.chosen if method.endswith("chosen") else situation.random)[:count]
    seen = truth[samples]
    if method.startswith("prior"):
        found: ArchitecturePrediction = predict(situation.known, samples, seen)
        return found.latency, found.deviation, samples
    if method == "scratch":
        weights, bias = ridge(situation.space.features[samples], np.log(seen), 1.0)
        return np.exp(situation.space.features @ weights + bias), None, samples
    if method == "nearest":
        return nearest_source(situation.log_surfaces, samples, seen), None, samples
    return ridge_on_sources(situation.log_surfaces, samples, seen), None, samples


def score(situation: Situation, device: str, method: str, count: int, quantile: float = np.nan) -> dict[str, object]:
    """One trial as a row: rank correlation and errors on every architecture that was not sampled.

    Args:
        quantile: half width of the interval in standard deviations, for methods that give them.
    """
    predicted, deviation, samples = answer(situation, device, method, count)
    rest = np.ones(len(predicted), dtype=bool)
    rest[samples] = False
    truth, predicted_ms = situation.space.latency_ms[device][rest], predicted[rest]
    errors = np.abs(predicted_ms / truth - 1)
    row: dict[str, object] = {
        "space": situation.space.name,
        "device": device,
        "method": method,
        "samples": count,
        "spearman": spearman(truth, predicted_ms),
        "median_error": float(np.median(errors)),
    }
    if deviation is not None and np.isfinite(quantile):
        half = quantile * deviation[rest]
        row["coverage"] = float(np.mean(np.abs(truth - predicted_ms) <= half))
        row["half_width"] = float(np.median(half / np.abs(predicted_ms)))
    return row


def left_out_scores(space: Space, seed: int, variants: Sequence[FewShotSettings], counts: Sequence[int]) -> pd.DataFrame:
    """Selection: every source in turn is the new device and the others are the sources; no test device is looked at.

    Returns:
        one row a variant, source and number of samples.
    """
    rows = []
    for device in space.sources:
        for number, situation in enumerate(situations(space, seed, variants, without=device, longest=max(counts))):
            rows += [score(situation, device, "prior_chosen", count) | {"variant": number, "seed": seed} for count in counts]
    return pd.DataFrame(rows)


def conformal_quantiles(space: Space, seed: int, settings: FewShotSettings, counts: Sequence[int], level: float = 0.9) -> dict[int, float]:
    """Half width in standard deviations that covers `level` of the architectures of the sources, each left out in turn."""
    scores: dict[int, list[Floats]] = {count: [] for count in counts}
    for device in space.sources:
        (situation,) = situations(space, seed, [settings], without=device, longest=max(counts))
        truth = space.latency_ms[device]
        for count in counts:
            predicted, deviation, samples = answer(situation, device, "prior_chosen", count)
            assert deviation is not None
            rest = np.ones(len(truth), dtype=bool)
            rest[samples] = False
            scores[count].append(np.abs(truth - predicted)[rest] / deviation[rest])
    return {count: float(np.quantile(np.concatenate(found), level)) for count, found in scores.items()}


def new_device_scores(
    space: Space,
    seed: int,
    settings: FewShotSettings,
    counts: Sequence[int],
    methods: Sequence[str] = METHODS,
    quantiles: dict[int, float] | None = None,
) -> pd.DataFrame:
    """The new devices: one row a device, method and number of samples."""
    (situation,) = situations(space, seed, [settings], longest=max(counts))
    rows = [
        score(situation, device, method, count, (quantiles or {}).get(count, np.nan) if method == "prior_chosen" else np.nan)
        | {"seed": seed}
        for device in space.new
        for method in methods
        for count in counts
    ]
    return pd.DataFrame(rows)


def paired(scores: pd.DataFrame, baseline: str = "ridge", column: str = "spearman") -> pd.DataFrame:
    """Each method minus the baseline, with two intervals: over seeds (mean over devices first) and over devices (mean over seeds first)."""
    rows = []
    for space, part in scores.groupby("space", sort=False):
        table = part.pivot_table(index=["seed", "device"], columns="method", values=column)
        for method in part["method"].unique():
            apart = table[method] - table[baseline]
            row = {"space": space, "method": method, "mean": float(table[method].mean())}
            for across in ("seed", "device"):
                found = student_interval(apart.groupby(level=across).mean())
                row |= {"difference": found.value, f"low_{across}s": found.low, f"high_{across}s": found.high}
            rows.append(row)
    return pd.DataFrame(rows)


def grid() -> list[FewShotSettings]:
    """The settings that selection tries: all combinations of three parts, and variations of slope and tail around the middle."""
    combined = [
        FewShotSettings(deviation=deviation, architecture=architecture, noise=noise, slope=1.0)
        for deviation in (1.0, 3.0)
        for architecture in (0.0, 0.03, 0.1, 0.3)
        for noise in (0.05, 0.15)
    ]
    middle = FewShotSettings(architecture=0.1, noise=0.15, slope=1.0)
    varied = [replace(middle, slope=100.0), replace(middle, slope=0.3), replace(middle, tail=0.0), replace(middle, tail=2.0)]
    return combined + varied
