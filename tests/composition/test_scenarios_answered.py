"""Each of the 36 scenarios of the survey's later version has an answer between two ends, or a reason."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.paths import ROOT
from analysis.studies.training.fit import SPREAD
from analysis.training.cases import read
from analysis.training.interval import FLOOR, doubt, doubt_of
from analysis.training.step import NAMES, PRIOR, Plans, step
from analysis.training.work import parts


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The notebook's cells, run here."""
    folder = tmp_path_factory.mktemp("scenarios_answered")
    notebook = json.loads((ROOT / "notebooks" / "scenarios_answered.ipynb").read_text(encoding="utf-8"))
    known: dict[str, object] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), known)
        if "parameters" in cell["metadata"].get("tags", []):
            known.update(tier="quick", out=str(folder), requests=200)
    return folder


def test_each_scenario_has_values_between_ends_or_a_reason(results: Path) -> None:
    scenarios = pd.read_csv(results / "scenarios.csv", keep_default_na=False)
    answers = pd.read_csv(results / "answers.csv", keep_default_na=False)
    assert len(scenarios) == 36  # data/published/survey_public_repository.md
    assert np.isfinite(answers[["value", "lower", "upper"]].to_numpy()).all()
    assert ((answers["lower"] <= answers["value"]) & (answers["value"] <= answers["upper"])).all()
    assert (answers["interval"] != "").all() and not answers.duplicated(["scenario", "metric"]).any()
    answered = scenarios["scenario"].isin(answers["scenario"])
    assert ((scenarios["here"] == "yes") == answered).all() and ((scenarios["reason"] == "") == answered).all()
    assert (scenarios.loc[answered, "command"] != "").all()
    numbers = json.loads((results / "numbers.json").read_text())
    assert numbers["answered"]["value"] == answered.sum() == 33 and numbers["not_answered"]["value"] == 3
    assert numbers["five_tools"]["value"] == 16  # syifan/ml-perf-survey@ad7cdaa


def test_a_bubble_is_near_its_closed_form_and_service_obeys_its_load(results: Path) -> None:
    found = pd.read_csv(results / "answers.csv").set_index(["scenario", "metric"])
    for scenario, stages, microbatches in (("T3.1", 4, 16), ("T3.2", 8, 32), ("T4.5", 4, 32)):
        ideal = 100 * (stages - 1) / (microbatches + stages - 1)  # of a step that is pipeline alone (arXiv:2104.04473, section 2.2)
        assert 0.85 * ideal < found.loc[(scenario, "pipeline bubble"), "value"] < ideal
    assert found.loc[("T2.2", "pipeline bubble"), "upper"] == 0
    for scenario in ("I4.1", "I4.2"):
        assert 1 <= found.loc[(scenario, "slowdown of each beside the other"), "value"] <= 2  # half the device is the worst
    rounds = found.loc[("I5.1", "tokens a round")]
    assert rounds["value"] == pytest.approx(sum(0.6**k for k in range(6))) and 1 < rounds["lower"] < rounds["upper"] < 6
    gain = found.loc[("I5.3", "throughput a GPU over 16 bits on two")]
    assert 1 < gain["value"] < 16 / 4.125 + 1  # bytes of the weights, and all-reduces that one GPU does not need
    assert found.loc[("I5.2", "prompt tokens found in the cache"), "value"] <= 80  # 1,024 of 1,280 are shared
    assert found.loc[("I2.3", "throughput"), "value"] <= found.loc[("I2.3", "throughput ceiling"), "value"]


def test_common_doubt_cancels_in_a_ratio() -> None:
    """A ratio of a step to itself is as sure as the floor; the doubt of log time is `doubt_of` it; a share itself has its own spread."""
    row = {"model": "llama-2-7b", "device": "h100", "gpus": "8", "sequence_length": "4096", "global_batch": "16", "precision": "bf16"}
    cases, _, errors = read(pd.DataFrame([row]))
    assert not errors
    work, plans = parts(cases), Plans.of(cases)

    def log(shares: np.ndarray) -> np.ndarray:
        return np.log(step(work, plans, shares)["total"])

    assert doubt_of(lambda shares: log(shares) - log(shares), PRIOR, SPREAD) == pytest.approx([FLOOR])
    assert doubt_of(log, PRIOR, SPREAD) == pytest.approx(doubt(work, plans, PRIOR, SPREAD)) and doubt_of(log, PRIOR, SPREAD)[0] > FLOOR
    one = NAMES.index("attention")
    assert doubt_of(lambda shares: np.log(shares[[one]]), PRIOR, SPREAD) == pytest.approx([np.hypot(FLOOR, SPREAD[one])])
