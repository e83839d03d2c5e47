"""How does a file of cases become a file of answers? One row in, one row out, order and columns kept, on this machine or a cluster."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd

from analysis.errors import InputError
from analysis.sweeps import sweep
from analysis.tables import check_output, numeric, read_csv, write_csv

ROWS_A_TASK = 2000

Case = TypeVar("Case")

Answer = Callable[[pd.DataFrame], pd.DataFrame]
"""Cases (every cell as text) -> answers: as many rows, in the same order, with a `status` that is empty where the case was answered."""


def answer_file(cases: str | Path, out: str | Path, answer: Answer, scheduler: str = "") -> tuple[int, int]:
    """Answer every row of a file; returns how many were answered and how many not.

    Args:
        cases: CSV; out: CSV to write: the cases as they are, with the answer's columns behind them; one whose name the cases have already
            is called `predicted_` and that name.
        answer: see `Answer`; importable by name on every worker.
        scheduler: address of a dask scheduler over whose workers the rows are spread; empty: this process.
    Raises:
        InputError: an unreadable table, one without rows, or one that has a column and its `predicted_` name.
    """
    check_output(out, cases)
    frame = read_csv(cases, dtype=str, keep_default_na=False)
    if frame.empty:
        raise InputError("has no rows", path=cases, line=2)
    if scheduler:
        parts = [frame.iloc[start : start + ROWS_A_TASK] for start in range(0, len(frame), ROWS_A_TASK)]
        answers = pd.concat(sweep(answer, parts, scheduler=scheduler))
    else:
        answers = answer(frame)
    done = int((answers["status"] == "").sum())
    answers = answers.rename(columns={name: f"predicted_{name}" for name in answers.columns if name in frame.columns})
    for name in answers.columns:
        if name in frame.columns:
            raise InputError(
                f"has the columns {name} and {name.removeprefix('predicted_')}: no name is left for the answer", path=cases, line=1
            )
    write_csv(pd.concat([frame.reset_index(drop=True), answers.reset_index(drop=True)], axis=1), out)
    return done, len(frame) - done


def number(row: dict[str, str], key: str) -> float | None:
    """A cell as a number: None where it is empty or n/a.

    Raises:
        InputError: it is no finite number of at least 0.
    """
    text = str(row.get(key, "") or "").strip().replace(",", "")
    if text.lower() in ("", "n/a", "na", "nan", "none", "-"):
        return None
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{key} {text!r} is not a number") from None
    if not math.isfinite(value) or value < 0:
        raise InputError(f"{key} {text!r} must be a finite number, not negative")
    return value


def count(row: dict[str, str], key: str, least: int = 1) -> int | None:
    """A cell as a whole number of at least `least`: None where it is empty or n/a.

    Raises:
        InputError: it is none.
    """
    value = number(row, key)
    if value is None:
        return None
    if value != int(value) or value < least:
        raise InputError(f"{key} {value:g} must be a whole number, at least {least}")
    return int(value)


def read_rows(frame: pd.DataFrame, case: Callable[[dict[str, str]], Case]) -> tuple[list[Case | None], list[str]]:
    """Every row of a table (cells as text) as a case, and why those that could not be read could not."""
    cases: list[Case | None] = []
    reasons: list[str] = []
    for row in frame.astype(str).to_dict("records"):
        try:
            cases.append(case({str(key): str(value) for key, value in row.items()}))
            reasons.append("")
        except InputError as error:
            cases.append(None)
            reasons.append(error.message)
    return cases, reasons


def numbers(column: pd.Series) -> np.ndarray:
    """Text cells as numbers; empty, `n/a` and unreadable ones as NaN."""
    return numeric(column.replace({"n/a": "", "N/A": "", "-": ""})).to_numpy(dtype=float)
