"""A table of collectives, one a row, answered all at once: what `python -m analysis collectives` does.

The rows have the columns of `data/recorded/astra-sim/collectives.csv`; values of several dimensions are joined by `x` (numbers) or `+`
(names), as they are there. `bandwidth_gib_per_s` may have its recorded name, `bandwidth_GBps`, which holds GiB/s as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.case_columns import Columns
from analysis.case_rows import Rows, alike
from analysis.errors import InputError, together
from analysis.networks import columns
from analysis.networks.cases import COLUMNS, RECORDED_AS, CollectiveCase, Network, cell_number, check_case, outside_model
from analysis.networks.collectives import closed_forms, closed_forms_of, simulate_collective

# Columns that tune the tool and may be left out.
DEFAULTS = {name: str(getattr(Network, name)) for name in COLUMNS[COLUMNS.index("preferred_dataset_splits") :]}
READS = Columns(
    names=(*COLUMNS, "npus"),
    required=tuple(name for name in COLUMNS if name not in DEFAULTS),
    aliases={theirs: ours for ours, theirs in RECORDED_AS.items()},
    kept=("backend",),
)
"""Columns of a table of collectives."""
INTEGERS = ("preferred_dataset_splits", "active_chunks_per_dim", "queues_per_dim", "endpoint_delay")


def parse_case(row: Mapping[Any, str], *, path: str | Path | None = None, line: int | None = None) -> CollectiveCase:
    """One row of text as a checked case."""

    def many(key: str, kind: type) -> tuple:
        given = key if key in row else RECORDED_AS.get(key, key)
        return tuple(cell_number(part, kind, given, path, line) for part in row[given].split("x"))

    def one(key: str, kind: type) -> float:
        return cell_number(row[key], kind, key, path, line)

    settings: dict[str, Any] = {key: row[key] for key in ("backend", "scheduling_policy", "collective_optimization")}
    settings |= {key: tuple(row[key].split("+")) for key in ("topology", "algorithm_per_dim")}
    settings |= {"npus_per_dim": many("npus_per_dim", int), **{key: many(key, float) for key in ("bandwidth_gib_per_s", "latency_ns")}}
    settings |= {"local_mem_bw_GBps": one("local_mem_bw_GBps", float), **{key: int(one(key, int)) for key in INTEGERS}}
    network = Network(**settings)
    case = CollectiveCase(row["collective"], int(one("size_bytes", int)), network)
    try:
        check_case(case, path=path, line=line)
    except InputError as error:
        given = error.key if error.key is None or error.key in row else RECORDED_AS.get(error.key, error.key)
        raise InputError(error.message, path=path, line=line, key=given) from None
    if row.get("npus") and one("npus", int) != network.npus:
        raise InputError(f"expected {network.npus}, the product of npus_per_dim, got {row['npus']}", path=path, line=line, key="npus")
    return case


def answer_cases(frame: pd.DataFrame, path: str | Path | None = None) -> pd.DataFrame:
    """Cycles of every row; rows, order and columns stay, `cycles_max` and `reason` are added.

    A case outside the model has an empty `cycles_max` and its `reason`. A `cycles_max` that was there already (a recorded one) is kept
    as `cycles_max_given`.
    """
    here = set(frame.columns)
    missing = [column for column in COLUMNS if not here & {column, RECORDED_AS.get(column, column)} and column not in DEFAULTS]
    if missing:
        needed = [column for column in COLUMNS if column not in DEFAULTS]
        raise InputError(f"missing column; expected {', '.join(needed)}", path=path, line=1, key=", ".join(missing))
    given = [column for column in ("npus", *COLUMNS, *RECORDED_AS.values()) if column in here]
    cycles, reasons = np.full(len(frame), -1, np.int64), np.full(len(frame), "", dtype=object)
    if len(frame):
        arrays, plain = columns.side_by_side(frame, DEFAULTS)
        cycles[plain] = closed_forms_of(arrays)
    rest = np.flatnonzero(cycles < 0)
    if len(rest):
        cycles[rest], reasons[rest] = _row_by_row(frame.iloc[rest], given, path)
    answers = pd.array(cycles, dtype="Int64")
    answers[cycles < 0] = pd.NA
    result = frame.rename(columns={"cycles_max": "cycles_max_given", "reason": "reason_given"})
    return result.assign(cycles_max=answers, reason=reasons)


def _row_by_row(frame: pd.DataFrame, given: list[str], path: str | Path | None) -> tuple[NDArray[np.int64], NDArray[np.object_]]:
    """Cycles (-1: none) and reasons of rows, by formula or event by event; rows of equal text are one case."""
    numbers, first = alike(*(Rows(frame[given]).columns.values()))
    cases, wrong = [], []
    for number, row in zip(first, frame.iloc[first][given].to_dict("records"), strict=True):
        try:
            cases.append(
                parse_case({**DEFAULTS, **{key: text.strip() for key, text in row.items()}}, path=path, line=int(frame.index[number]) + 2)
            )
        except InputError as error:
            wrong.append(error)
    if wrong:
        raise together(sorted(wrong, key=lambda error: error.line or 0))
    said = [outside_model(case) for case in cases]
    distinct = list(dict.fromkeys(case for case, reason in zip(cases, said, strict=True) if not reason))
    known = dict(zip(distinct, closed_forms(distinct).tolist(), strict=True))
    for case, cycles in known.items():
        if cycles < 0:
            known[case] = int(simulate_collective(case).cycles.max())
    found = np.array([-1 if reason else known[case] for case, reason in zip(cases, said, strict=True)], np.int64)
    return found[numbers], np.array(said, dtype=object)[numbers]
