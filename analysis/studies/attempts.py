"""The log of every configuration that was tried: one row a try, whatever came of it.

`data/evaluation/attempts.csv` is written only by experiments of the full tier; everything else reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.paths import DATA
from analysis.tables import read_csv, write_csv

PATH = DATA / "evaluation" / "attempts.csv"
COLUMNS = [
    "room",
    "experiment",
    "attempt",
    "configuration",
    "fitted_on",
    "selection_metric",
    "selection_value",
    "tested_on",
    "test_metric",
    "test_value",
    "test_max",
    "chosen",
    "note",
]


UNSAID = {"selection_metric": "none", "selection_value": np.nan, "tested_on": "", "test_metric": "", "test_value": np.nan}
UNSAID |= {"test_max": np.nan, "chosen": False, "note": ""}


def rows(tries: Iterable[Mapping[str, Any]], **common: Any) -> pd.DataFrame:
    """Rows for the log, numbered: what each try says, what all have in common, and `UNSAID` for the rest."""
    numbered = [{"attempt": number, **UNSAID, **common, **one} for number, one in enumerate(tries, start=1)]
    return pd.DataFrame(numbered, columns=COLUMNS)


def read(room: str | None = None) -> pd.DataFrame:
    """Rows of the log, all or one room's."""
    frame = read_csv(PATH, required=COLUMNS)
    return frame if room is None else frame[frame["room"] == room].reset_index(drop=True)


def record(rows: pd.DataFrame) -> None:
    """Put rows into the log in place of those of the same room and experiment; the others stay."""
    old = read_csv(PATH, required=COLUMNS) if PATH.exists() else pd.DataFrame(columns=COLUMNS)
    renewed = set(zip(rows["room"], rows["experiment"], strict=True))
    kept = old[[key not in renewed for key in zip(old["room"], old["experiment"], strict=True)]]
    merged = pd.concat([kept, rows[COLUMNS]], ignore_index=True) if len(kept) else rows[COLUMNS]
    write_csv(merged.sort_values(["room", "experiment", "attempt"], kind="stable"), PATH)
