"""The page on what was tried shows the whole log."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from analysis.artifact.publishing.words import in_words
from analysis.paths import DATA, RESULTS, ROOT
from analysis.studies import attempts
from analysis.tables import read_csv

# chosen rows whose result a notebook computes in every build: experiment -> its number there, in percent of what the log has
NUMBERS = {
    "a100_step_time": "training_validation.ours_mean",
    "step_time_H100-SXM5-80GB": "training_validation.llama3_h100_mean",
    "step_time_TPU-v6e": "training_validation.v6e_mean",
    "step_time_V100-SXM3-32GB": "training_validation.v100_mean",
    "linear_step_time": "serving_replay.held_out_error",
    "step_time": "serving_steps.profile_run",
    "network_fusion": "network_fusion.prefill_fused_removed",
    "energy_per_token": "energy_per_token.power_family",
}


def test_every_try_is_on_the_page(built_book: Path) -> None:
    log = attempts.read()
    shown = read_csv(RESULTS / "evaluation_log" / "attempts.csv")
    assert len(shown) == len(log) and set(shown["experiment"]) == set(log["experiment"])
    text = re.sub("<[^>]*>", "", (built_book / "evaluation_log.html").read_text(encoding="utf-8"))
    assert all(in_words(experiment) in text for experiment in set(log["experiment"]))


def number(name: str) -> Any:
    notebook, _, key = name.partition(".")
    return json.loads((RESULTS / notebook / "numbers.json").read_text(encoding="utf-8"))[key]["value"]


def test_what_was_chosen_is_what_the_build_gives(built_book: Path) -> None:
    """With tests/checks/test_attempts.py, which compares the frozen ones, every chosen row that announces a result."""
    log = attempts.read()
    chosen = log[log["chosen"]].set_index("experiment")
    for experiment, name in NUMBERS.items():
        assert 100 * chosen.loc[experiment, "test_value"] == pytest.approx(number(name), rel=1e-2), experiment


def test_what_was_mended_has_its_test() -> None:
    for row in read_csv(DATA / "evaluation" / "mended.csv", required=["found", "input", "test"]).itertuples():
        path, _, name = row.test.partition("::")
        if row.found == "by eye" and not name:  # a picture has no test but a second look
            assert re.fullmatch(r"looked at again \d{4}-\d\d-\d\d", row.test), row.input
            continue
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), row.input


def test_disturbed_builds_lost_nothing_and_strange_places_gave_the_same_bytes() -> None:
    faults = read_csv(DATA / "evaluation" / "faults.csv", required=["fault", "said", "lost", "same_after"], keep_default_na=False)
    tried = faults[~faults.said.str.startswith("skipped")]
    assert len(tried) >= 14 and set(tried.lost) == {"nothing"} and set(tried.same_after) == {"yes"}
    places = read_csv(DATA / "evaluation" / "environments.csv", required=["environment", "different"], keep_default_na=False)
    assert len(places) >= 6 and set(places.different.astype(str)) == {"0"}
