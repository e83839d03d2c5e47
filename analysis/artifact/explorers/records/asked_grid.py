"""Many questions of `predict one` at once, for the table that the explorer shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.errors import InputError
from analysis.kernels.library import KernelLibrary
from analysis.serving.points.answers import TIMES, answer
from analysis.serving.points.cases import Case
from analysis.serving.points.constants import load
from analysis.serving.points.waterfall import Question, breakdown


def grid(questions: Sequence[Mapping[str, Any]], library: Any = None) -> pd.DataFrame:
    """Many questions at once: a row each with its arguments, answer, intervals, parts of a token's time, status."""
    cases: list[Case | None] = []
    refused: list[str] = []
    for asked in questions:
        try:
            cases.append(Question(**asked).case())
            refused.append("")
        except InputError as error:
            cases.append(None)
            refused.append(str(error))
    parameters = load()
    result = answer(cases, parameters, library or KernelLibrary.load())
    rows = []
    for index, (asked, case, reason) in enumerate(zip(questions, cases, refused, strict=True)):
        found = result.table.iloc[index]
        answered = {name: found[name] for name in TIMES}
        row: dict[str, Any] = {**asked, **answered, "status": reason or found["status"]}
        if case is not None and not row["status"]:
            made = breakdown(index, case, result.raw, result.features, parameters, answered)
            row |= {part: size for target, part, size in zip(made["target"], made["part"], made["ms"], strict=True) if target == "tpot"}
        rows.append(row)
    return pd.DataFrame(rows)
