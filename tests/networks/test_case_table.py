"""Rows of equal text are answered once, and every row gets its own answer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.commands.models.collectives import COLUMNS as told
from analysis.networks import case_table
from analysis.networks.cases import outside_model
from analysis.paths import DATA


def test_every_row_gets_the_answer_of_its_own_case(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = pd.read_csv(DATA / "recorded" / "astra-sim" / "collectives.csv", dtype=str, keep_default_na=False)
    frame = recorded.sample(400, replace=True, random_state=1).reset_index(drop=True)
    frame.loc[::7, "collective"] = "all_to_none"
    asked: list[int] = []

    def marks(cases: list) -> np.ndarray:
        asked.append(len(cases))
        return np.array([hash(case) % 10**9 for case in cases])

    monkeypatch.setattr(case_table, "closed_forms", marks)
    found = case_table.answer_cases(frame)
    cases = [case_table.parse_case(row) for row in frame.to_dict("records")]
    reasons = [outside_model(case) for case in cases]
    expected = [pd.NA if reason else hash(case) % 10**9 for case, reason in zip(cases, reasons, strict=True)]
    assert found["reason"].tolist() == reasons and found["cycles_max"].tolist() == expected
    assert asked == [len({case for case, reason in zip(cases, reasons, strict=True) if not reason})] and asked[0] < 400
    assert found.drop(columns=["cycles_max", "reason"]).rename(columns={"cycles_max_given": "cycles_max"}).equals(frame)
    assert case_table.answer_cases(frame.iloc[:0]).empty


def test_the_help_names_every_default() -> None:
    assert all(name in told and f"({value.removesuffix('.0')})" in told for name, value in case_table.DEFAULTS.items())
