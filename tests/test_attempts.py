"""The log of what was tried: renewed by experiment, whole, one choice where a choice was made."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis import attempts


def test_a_renewed_experiment_replaces_its_own_rows_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "PATH", tmp_path / "attempts.csv")

    def rows(experiment: str, values: list[float]) -> pd.DataFrame:
        frame = pd.DataFrame({"attempt": range(1, len(values) + 1), "test_value": values})
        return frame.assign(room="r", experiment=experiment).reindex(columns=attempts.COLUMNS)

    attempts.record(rows("one", [1.0, 2.0]))
    attempts.record(rows("two", [3.0]))
    attempts.record(rows("one", [4.0]))
    assert attempts.read("r")[["experiment", "test_value"]].to_numpy().tolist() == [["one", 4.0], ["two", 3.0]]
    assert attempts.read("elsewhere").empty


def test_the_committed_log_names_each_try_once() -> None:
    frame = attempts.read()
    assert not frame.duplicated(["room", "experiment", "attempt", "configuration", "fitted_on", "tested_on"]).any()
    assert set(frame["room"]) >= {"training", "networks", "serving", "accelerators"}
