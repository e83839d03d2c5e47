"""Score other sources and freeze what they say: the last step of `python -m analysis predict calibrate SAMPLE`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.composition.energy import published
from analysis.composition.service.constants import load
from analysis.composition.service.freeze import FROZEN, write_parameters
from analysis.composition.service.study import fit_parameters, fitted_rows, read_sample, simulate_sample
from analysis.composition.sources.rows import ml_energy, offline, pipeweave, vendor
from analysis.composition.sources.spread import answered, score, scores, spread
from analysis.tables import write_csv

UNSEEN = "ml.energy problems"


def freeze(sample_path: str | Path, recorded: str | Path) -> pd.DataFrame:
    """Answers of the public benchmark's fit on every other source; writes their scores, and the spread into the shipped parameters."""
    from analysis.operators.kernels.library import KernelLibrary

    library = KernelLibrary.load()
    sample = read_sample(sample_path, recorded)
    raw = simulate_sample(sample, library)
    public = np.array([case is not None and case.origin == "benchmark" for case in sample.cases])
    parameters = fit_parameters(sample, raw, fitted_rows(sample, raw) & public, "the public benchmark's")
    parts = [vendor(sample, raw), *(source(library) for source in (pipeweave, offline, ml_energy))]
    rows = pd.concat([answered(part, parameters) for part in parts], ignore_index=True)
    problems = answered(ml_energy(library, published.rows(published.PROBLEMS), published.PROBLEM_TOKENS), parameters)
    others = spread(rows[rows["source"] != "ml.energy"])
    found = pd.concat([scores(rows), pd.DataFrame([{"source": UNSEEN, **score(problems, others)}])], ignore_index=True)
    write_csv(found.round(4), FROZEN / "sources.csv")
    write_parameters(load().model_copy(update={"spread": spread(rows)}))
    return found
