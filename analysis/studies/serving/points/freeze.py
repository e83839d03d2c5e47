"""Fit the shipped constants and freeze the scores: `python -m analysis freeze serving SAMPLE`, in CPU-minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from analysis.paths import DATA
from analysis.serving.points.answers import TIMES
from analysis.serving.points.constants import PATH, Parameters, load
from analysis.serving.points.points import Points
from analysis.studies.composition.serving_gap import gaps
from analysis.studies.serving.points.study import (
    TARGETS,
    Sample,
    fit_parameters,
    fitted_rows,
    gain,
    held_out,
    rank_ceiling,
    read_sample,
    simulate_sample,
    summary,
)
from analysis.studies.suite.clean import CONFIGURATION
from analysis.tables import write_atomic, write_csv

RECORDED = DATA / "recorded" / "aiconfigurator"
FROZEN = DATA / "frozen" / "predictor_serving"
GAP = DATA / "frozen" / "composition_gap_measured"
SPLITS = ("family", "gpu", "device", "architecture")


def write_parameters(parameters: Parameters, path: Path = PATH) -> None:
    """The parameters as YAML, numbers to seven digits."""

    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.7g}")
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(item) for item in value]
        return value

    head = "# Constants of `predict serving` (analysis/serving/points/constants.py), written by `freeze serving`.\n"
    write_atomic(path, (head + yaml.safe_dump(plain(parameters.model_dump()), sort_keys=False, width=140)).encode())


SETTINGS_FROM = "Qwen3-32B"
"""The family whose measured rows settled the engine settings that a vendor's runs do not publish (`script: inferred`)."""


def selections(sample: Sample, raw: Points) -> dict[str, np.ndarray]:
    """Rows that scores are taken over.

    Selection families are those of odd rank among the judged ones, by name (data/evaluation/serving_split.yaml): what the model and its
    intervals consist of was decided on them. The other families took part in no decision but those that the attempts name.
    """
    rows = sample.rows
    clean = (rows["clean_no_deepseek"] == 1) & (rows["mode"] == "agg")
    answered = rows["peer_tpot_s"].notna()
    public = np.array([case is not None and case.origin == "benchmark" for case in sample.cases])
    chosen_on = rows["model_family"].isin(sorted(rows.loc[clean, "model_family"].unique())[::2])
    return {
        "clean, peer answers": (clean & answered).to_numpy(),
        "selection families": (clean & answered & chosen_on).to_numpy(),
        "other families": (clean & answered & ~chosen_on).to_numpy(),
        "selection families, public benchmark": (clean & answered & chosen_on & public).to_numpy(),
        "other families, public benchmark": (clean & answered & ~chosen_on & public).to_numpy(),
        f"without {SETTINGS_FROM}": (clean & answered & (rows["model_family"] != SETTINGS_FROM)).to_numpy(),
        "all clean": clean.to_numpy(),
        "disaggregated": ((rows["clean"] == 1) & (rows["mode"] == "disagg")).to_numpy() & np.isfinite(raw.result[:, 0]),
        "as shipped, peer answers": answered.to_numpy() & np.isfinite(raw.result[:, 0]),
    }


def freeze(sample_path: str | Path, recorded: str | Path = RECORDED) -> pd.DataFrame:
    """Fit on all rows, score every split, write parameters and frozen tables; returns the scores."""
    from analysis.kernels.library import KernelLibrary

    library = KernelLibrary.load()
    sample = read_sample(sample_path, recorded)
    raw = simulate_sample(sample, library)
    fitted = fit_parameters(sample, raw, fitted_rows(sample, raw), "all of them")
    write_parameters(fitted.model_copy(update={"elsewhere": load().elsewhere}))  # which `sources.freeze` renews
    gap = gaps(sample.cases, raw, np.where(sample.rows["clean"] == 1, sample.rows["tpot_s"], np.nan))
    gap = gap[sample.rows["mode"].to_numpy()[gap["index"]] == "agg"]
    named = gap.assign(id=sample.rows["id"].to_numpy()[gap["index"]]).drop(columns="index")
    write_csv(named.round({name: 5 for name in named.columns if named[name].dtype == float and name != "kernels_s"}), GAP / "gap.csv")
    hidden = {split: simulate_sample(sample, library, split) for split in ("device", "architecture")}
    scores, gains, groups, points = [], [], [], []
    ceilings = {
        (name, target): {"tau_ceiling": rank_ceiling(sample.rows[rows], target, CONFIGURATION)}
        for name, rows in selections(sample, raw).items()
        for target in TARGETS
    }
    for split in SPLITS:
        table = held_out(sample, raw, split, hidden.get(split))
        for name, rows in selections(sample, raw).items():
            for target in TARGETS:
                part, answers = sample.rows[rows], table[rows]
                scores.append(
                    {"split": split, "rows_of": name, "target": target, **summary(part, answers, target), **ceilings[name, target]}
                )
                if name in ("clean, peer answers", "selection families", "other families"):
                    gains.append({"split": split, "rows_of": name, "target": target, **gain(part, answers, target)})
                if name == "clean, peer answers":
                    for key, one in part.groupby(["backend", "model_family", "system"]):
                        groups.append(
                            {
                                "split": split,
                                "target": target,
                                **dict(zip(("engine", "family", "gpu"), key, strict=True)),
                                **summary(one, answers.loc[one.index], target),
                            }
                        )
        clean = (sample.rows["clean"] == 1).to_numpy() & np.isfinite(raw.result[:, 0])
        kept = sample.rows.loc[clean, ["id", "ttft_s", "tpot_s"]].assign(split=split)
        points.append(pd.concat([kept, table.loc[clean, list(TIMES)].astype(float)], axis=1))
    write_csv(pd.DataFrame(scores).round(4), FROZEN / "scores.csv")
    write_csv(pd.DataFrame(gains).round(4), FROZEN / "gains.csv")
    write_csv(pd.DataFrame(groups).round(3), FROZEN / "groups.csv")
    rounded = pd.concat(points)
    for name in rounded.columns[1:]:
        if name != "split":
            rounded[name] = [float(f"{value:.5g}") for value in rounded[name]]
    write_csv(rounded, FROZEN / "points.csv")
    return pd.DataFrame(scores)
