"""Score other sources and freeze what they say: the last step of `python -m analysis freeze serving SAMPLE`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.serving.points.constants import load
from analysis.studies.serving.energy_per_token import published
from analysis.studies.serving.points.freeze import FROZEN, write_parameters
from analysis.studies.serving.points.study import fit_parameters, fitted_rows, read_sample, simulate_sample
from analysis.studies.serving.sources.rows import ml_energy, offline, panel, pipeweave, vendor
from analysis.studies.serving.sources.spread import answered, fit, score, scores
from analysis.tables import write_csv

UNSEEN = "ml.energy problems"


def freeze(sample_path: str | Path, recorded: str | Path) -> pd.DataFrame:
    """Answers of the public benchmark's fit on every other source; writes their scores, and what they tell into the shipped parameters."""
    from analysis.kernels.library import KernelLibrary

    library = KernelLibrary.load()
    sample = read_sample(sample_path, recorded)
    raw = simulate_sample(sample, library)
    public = np.array([case is not None and case.origin == "benchmark" for case in sample.cases])
    parameters = fit_parameters(sample, raw, fitted_rows(sample, raw) & public, "the public benchmark's")
    parts = [*(source(library) for source in (pipeweave, offline, ml_energy)), panel(library, parameters)]
    token = pd.concat([answered(part, parameters) for part in parts], ignore_index=True)
    first = answered(panel(library, parameters, "ttft"), parameters, "ttft").reset_index(drop=True)
    # One source alone has first tokens of engines at their defaults: its model families stand for sources.
    families = first.assign(source=first["source"] + ", " + first["family"])
    own = answered(vendor(sample, raw), parameters)
    problems = answered(ml_energy(library, published.rows(published.PROBLEMS), published.PROBLEM_TOKENS), parameters)
    interval, suite = parameters.tpot_interval, sorted(set(sample.rows["model_family"]))
    others = {"tpot": fit(token, interval, suite), "ttft": fit(families, parameters.ttft_interval, suite, "ttft")}
    unseen = score(problems, interval, fit(token[token["source"] != "ml.energy"], interval, suite))
    found = pd.concat(
        [
            pd.DataFrame([{"source": "vendor", **score(own, interval, others["tpot"]), "target": "tpot"}]),
            scores(token, interval, suite).assign(target="tpot"),
            pd.DataFrame([{"source": UNSEEN, **unseen, "target": "tpot"}]),
            scores(families, parameters.ttft_interval, suite, "ttft").assign(target="ttft"),
        ],
        ignore_index=True,
    )
    write_csv(found.round(4), FROZEN / "sources.csv")
    write_parameters(load().model_copy(update={"elsewhere": others}))
    return found
