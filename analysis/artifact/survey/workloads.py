"""Which workloads each tool was validated on, by year: the lag between a model's arrival and its validation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import Field

from analysis.artifact.survey.tools import Tool
from analysis.studies.written_tables import Row, read_rows

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


class Validation(Row):
    """A tool was validated on a workload.

    Attributes:
        tool, workload: name, and an entry of `WORKLOADS`.
        evidence: printed (in a source document), own paper or own repository.
        source: where it is said.
    """

    tool: str
    workload: str
    evidence: Literal["printed", "own paper", "own repository"]
    source: str = Field(min_length=1)


def load_validations(path: str | Path, tools: Iterable[str]) -> tuple[Validation, ...]:
    """Read which tool was validated on what."""
    return read_rows(path, Validation, unique=("tool", "workload"), known={"tool": set(tools), "workload": WORKLOADS})


def by_period(tools: Sequence[Tool], validations: Sequence[Validation]) -> pd.DataFrame:
    """Number and share of tools validated on each workload, by period of publication.

    share = tools of the period with the workload / tools of the period with any known validation.
    """
    rows = []
    for first, last in PERIODS:
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
