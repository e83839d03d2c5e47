"""A table of serving points -> answers with 90 % intervals; what `predict serving` runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.composition.service import cases as case_rows
from analysis.composition.service.cases import Case
from analysis.composition.service.constants import Parameters, apply, bounds, load, widened
from analysis.composition.service.points import Points, features, points

COLUMNS = ("ttft_ms", "ttft_lower_ms", "ttft_upper_ms", "tpot_ms", "tpot_lower_ms", "tpot_upper_ms", "status")


@dataclass(frozen=True)
class Answers:
    """Answers of many cases: the table (`COLUMNS`), and what it was made from."""

    table: pd.DataFrame
    raw: Points
    features: pd.DataFrame


def answer(cases: list[Case | None], parameters: Parameters, library: Any, hide: str = "none", raw: Points | None = None) -> Answers:
    """Answers of cases (None: no case; its status stays empty).

    Args:
        parameters: fitted constants and intervals; library: kernels; hide: see `step_table.step_tables`; raw: simulated before.
    """
    raw = points(cases, library, hide) if raw is None else raw
    frame = features(cases, raw)
    table = pd.DataFrame({name: np.full(len(cases), np.nan) for name in COLUMNS[:-1]})
    live = np.isfinite(raw.result[:, 0])
    if not live.any():
        return Answers(table.assign(status=raw.status), raw, frame)
    for target, constants, found in (
        ("ttft", parameters.ttft, parameters.ttft_interval),
        ("tpot", parameters.tpot, parameters.tpot_interval),
    ):
        central = apply(frame[live], constants)
        low, high = bounds(frame[live], central, found)
        if target == "tpot":
            high = widened(central, high, parameters.spread * frame[live]["elsewhere"].to_numpy(dtype=np.float64))
        for name, values in ((f"{target}_ms", central), (f"{target}_lower_ms", low), (f"{target}_upper_ms", high)):
            table.loc[live, name] = 1e3 * values
    return Answers(table.assign(status=raw.status), raw, frame)


def answers(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a row of the table, in its order, with `COLUMNS`; a row that cannot be answered has its reason in `status`."""
    from analysis.operators.kernels.library import KernelLibrary

    cases, reasons = case_rows.read(frame)
    table = answer(cases, load(), KernelLibrary.load()).table
    status = [reason or mine for reason, mine in zip(reasons, table["status"], strict=True)]
    return table.assign(status=status)[list(COLUMNS)]
