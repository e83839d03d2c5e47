"""Which workloads each tool was validated on, by year: the lag between a model's arrival and its validation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.errors import InputError
from analysis.survey.tools import Tool
from analysis.tables import read_csv

WORKLOADS = ("cnn", "rnn", "recommendation", "transformer", "llm", "moe", "diffusion", "dynamic inference")
NAMES = {
    "cnn": "CNN",
    "rnn": "RNN",
    "recommendation": "recommendation",
    "transformer": "transformer",
    "llm": "LLM",
    "moe": "mixture of experts",
    "diffusion": "diffusion",
    "dynamic inference": "dynamic inference",
}
PERIODS = ((2009, 2018), (2019, 2022), (2023, 2026))


@dataclass(frozen=True)
class Validation:
    """A tool was validated on a workload.

    Attributes:
        tool, workload: name, and an entry of `WORKLOADS`.
        evidence: printed (in a source document), own paper or own repository.
        source: where it is said.
    """

    tool: str
    workload: str
    evidence: str
    source: str


def load_validations(path: str | Path, tools: Iterable[str]) -> tuple[Validation, ...]:
    """Read which tool was validated on what."""
    frame = read_csv(path, required=["tool", "workload", "evidence", "source"], dtype=str, keep_default_na=False)
    names = set(tools)
    seen: set[tuple[str, str]] = set()
    found = []
    for line, row in enumerate(frame.to_dict("records"), start=2):
        if row["tool"] not in names:
            raise InputError(f"is not in the tool table (got {row['tool']!r})", path=path, line=line, key="tool")
        if row["workload"] not in WORKLOADS:
            raise InputError(f"must be one of {', '.join(WORKLOADS)} (got {row['workload']!r})", path=path, line=line, key="workload")
        if row["evidence"] not in ("printed", "own paper", "own repository"):
            raise InputError("must be printed, own paper or own repository", path=path, line=line, key="evidence")
        if not row["source"]:
            raise InputError("must say where it is said", path=path, line=line, key="source")
        pair = (row["tool"], row["workload"])
        if pair in seen:
            raise InputError(f"{pair[0]} and {pair[1]} given twice", path=path, line=line)
        seen.add(pair)
        found.append(Validation(row["tool"], row["workload"], row["evidence"], row["source"]))
    return tuple(found)


def by_period(tools: Sequence[Tool], validations: Sequence[Validation], periods: Sequence[tuple[int, int]] = PERIODS) -> pd.DataFrame:
    """Number and share of tools validated on each workload, by period of publication.

    share = tools of the period with the workload / tools of the period with any known validation.
    """
    rows = []
    for first, last in periods:
        known = {v.tool for v in validations}
        present = [tool.name for tool in tools if first <= tool.year <= last and tool.name in known]
        for workload in WORKLOADS:
            on = [name for name in present if any(v.tool == name and v.workload == workload for v in validations)]
            rows.append(
                {
                    "period": f"{first}-{last}",
                    "workload": NAMES[workload],
                    "tools": len(on),
                    "known": len(present),
                    "share": len(on) / len(present) if present else float("nan"),
                    "names": ", ".join(on),
                }
            )
    return pd.DataFrame(rows)


def validated_on(validations: Iterable[Validation], workload: str, tools: Iterable[Tool] | None = None) -> tuple[str, ...]:
    """Names of the tools validated on a workload."""
    allowed = None if tools is None else {tool.name for tool in tools}
    return tuple(v.tool for v in validations if v.workload == workload and (allowed is None or v.tool in allowed))


def exclusively(tools: Iterable[Tool], validations: Sequence[Validation], allowed: Iterable[str]) -> tuple[str, ...]:
    """Names of the tools whose known validations all lie within a set of workloads (and that have at least one)."""
    inside = set(allowed)
    chosen = []
    for tool in tools:
        own = {v.workload for v in validations if v.tool == tool.name}
        if own and own <= inside:
            chosen.append(tool.name)
    return tuple(chosen)
