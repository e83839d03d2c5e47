"""The few-shot study in full: settings chosen on sources alone, then the new devices, ten seeds, one to a hundred samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.paths import DATA
from analysis.studies import attempts as log
from analysis.studies.freezing import origin
from analysis.studies.kernels.networks import few_shot_trial as trial
from analysis.studies.kernels.networks.few_shot import FewShotSettings
from analysis.studies.kernels.networks.few_shot_spaces import Space, load
from analysis.tables import read_csv, write_csv

SPACES = ("nasbench201", "fbnet")
COUNTS = (1, 2, 3, 5, 10, 20, 50, 100)
SAMPLES = 10
SELECTION_SEEDS = (100, 101)


@dataclass(frozen=True)
class Study:
    """Results of the study.

    Attributes:
        settings: the chosen ones.
        scores: one row a space, new device, method, number of samples and seed.
        paired: each method against the trivial ridge at ten samples.
        attempts: rows for the log.
    """

    settings: FewShotSettings
    scores: pd.DataFrame
    paired: pd.DataFrame
    attempts: pd.DataFrame


def described(settings: FewShotSettings) -> str:
    """Settings in a line."""
    return ", ".join(f"{name} {value:g}" for name, value in vars(settings).items())


def select(spaces: list[Space], seeds: tuple[int, ...] = SELECTION_SEEDS) -> tuple[FewShotSettings, list[dict[str, Any]]]:
    """The settings with the highest rank correlation on sources left out in turn, mean over both spaces, and how all did."""
    variants = trial.grid()
    found = pd.concat(
        [trial.left_out_scores(space, seed, variants, [SAMPLES]).assign(space=space.name) for space in spaces for seed in seeds]
    )
    means = found.groupby(["variant", "space"])["spearman"].mean().groupby("variant").mean()
    best = int(means.to_numpy().argmax())
    tries = [
        {
            "configuration": "prior from sources, chosen samples: " + described(settings),
            "fitted_on": "sources of NAS-Bench-201 and FBNet but one; 900 architectures each",
            "selection_metric": "Spearman at 10 samples on the source left out, mean over 9 sources, 2 seeds, 2 spaces",
            "selection_value": float(means[number]),
            "chosen": number == best,
        }
        for number, settings in enumerate(variants)
    ]
    return variants[best], tries


def meta_learned() -> pd.DataFrame:
    """Scores of the baseline network after HELP, which is retired: as frozen."""
    found = read_csv(DATA / "frozen" / "few_shot" / "ten_samples.csv")
    return found[found["method"] == "meta"].assign(samples=SAMPLES)


def study(seeds: range = range(10)) -> Study:
    """Everything, from the datasets."""
    spaces = [load(name) for name in SPACES]
    settings, tries = select(spaces)
    scores = []
    for space in spaces:
        quantiles = trial.conformal_quantiles(space, SELECTION_SEEDS[0], settings, COUNTS)
        for seed in seeds:
            scores.append(trial.new_device_scores(space, seed, settings, COUNTS, quantiles=quantiles))
    table = pd.concat([*scores, meta_learned()], ignore_index=True)
    compared = trial.paired(table[table["samples"] == SAMPLES])
    tested = table[table["samples"] == SAMPLES].groupby("method", sort=False)["spearman"]
    tries += [
        {
            "configuration": method,
            "fitted_on": "nine sources, 900 architectures each; 10 samples of the new device",
            "tested_on": f"new devices of both spaces, {len(seeds)} seeds",
            "test_metric": "Spearman, mean over devices of both spaces",
            "test_value": float(values.mean()),
            "test_max": float((1 - values).max()),
            "chosen": method == "prior_chosen",
            "note": "test_max is the largest 1 - Spearman",
        }
        for method, values in tested
    ]
    return Study(settings, table, compared, log.rows(tries, room="operators", experiment="few_shot"))


def checks(settings: FewShotSettings, seeds: range = range(5)) -> pd.DataFrame:
    """Ten samples elsewhere: the devices of each table that HELP lists neither as source nor as new, and NAS-Bench-201 without the feature
    that says whether an edge is on a path.

    Returns:
        one row a check (unlisted devices, with path, without path), space, device and method: spearman, median_error, means over seeds.
    """
    methods = ("nearest", "ridge", "ridge_chosen", "prior", "prior_chosen")
    parts = []
    for name in SPACES:
        space = load(name)
        others = tuple(device for device in space.latency_ms if device not in space.sources + space.new)
        variants = {"unlisted devices": replace(space, new=others)}
        if name == "nasbench201":
            variants |= {"with path": space, "without path": replace(space, features=space.features[:, : space.features.shape[1] // 2])}
        for label, variant in variants.items():
            parts += [trial.new_device_scores(variant, seed, settings, [SAMPLES], methods).assign(check=label) for seed in seeds]
    by = ["check", "space", "device", "method"]
    return pd.concat(parts).groupby(by, sort=False)[["spearman", "median_error"]].mean().reset_index()


def write(found: Study, folder: Path) -> None:
    """Keep what the pages show: means over seeds at every number of samples, every seed at ten samples, and the comparison."""
    by = ["space", "device", "method", "samples"]
    curve = found.scores.groupby(by, sort=False)[["spearman", "median_error", "coverage", "half_width"]].mean().reset_index()
    spread = found.scores.groupby(by, sort=False)["spearman"].std().reset_index(drop=True)
    write_csv(curve.assign(spearman_deviation=spread), folder / "curve.csv")
    write_csv(found.scores[found.scores["samples"] == SAMPLES].drop(columns=["samples"]), folder / "ten_samples.csv")
    write_csv(found.paired, folder / "paired.csv")
    write_csv(pd.DataFrame([vars(found.settings)]), folder / "settings.csv")
    write_csv(checks(found.settings), folder / "checks.csv")
    write_csv(origin([f"help/{name}_latency_ms" for name in SPACES]), folder / "origin.csv")
