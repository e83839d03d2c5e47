"""The table of tools: what each predicts, for which platform, by which method, and where it was named."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import BeforeValidator, Field, model_validator

from analysis.errors import InputError
from analysis.studies.written_tables import Row, read_rows

METHODOLOGIES = {"A": "analytical", "S": "cycle-accurate", "T": "trace-driven", "M": "ML-augmented", "H": "hybrid"}
PLATFORMS = {
    "accelerator": "DNN accelerator",
    "gpu": "GPU",
    "distributed": "distributed system",
    "edge": "edge device",
    "cpu": "CPU",
    "memory": "memory",
}
Level = Literal["kernel", "model", "system"]
GROUPS = ("table 2", "named in text", "other document")


def _several(cell: Any) -> Any:
    return cell.split(";") if isinstance(cell, str) else cell


class Tool(Row):
    """One tool that predicts performance.

    Attributes:
        name, key: as printed, and its key in bib/references.bib (empty for the companion draft itself).
        group: in the survey's Table 2, only named in its text, or in another document.
        platform, methodology: keys of `PLATFORMS` and `METHODOLOGIES`; methodology is empty where no document gives one.
        year, venue, target, capability, domain, section: as normalised.
        levels: abstraction levels that it predicts at.
        ref_000 ... ref_004: number in the reference list of a source document that names it.
        source: where this row comes from.
    """

    name: str = Field(alias="tool", min_length=1)
    key: str
    group: str
    section: str
    platform: str
    methodology: str
    year: int = Field(gt=1990, lt=2100)
    venue: str
    target: str
    speed_printed: str
    speed_low_s: float | None = Field(default=None, gt=0)
    speed_high_s: float | None = None
    capability: str
    levels: Annotated[tuple[Level, ...], BeforeValidator(_several)] = Field(alias="level")
    domain: str
    ref_000: str = ""
    ref_001: str = ""
    ref_003: str = ""
    ref_004: str = ""
    source: str = Field(min_length=1)

    @model_validator(mode="after")
    def _speed_is_a_range(self) -> Tool:
        low, high = self.speed_low_s, self.speed_high_s
        if (low is None) != (high is None) or (low is not None and high is not None and low > high):
            raise InputError("must be given with speed_high_s and not be above it", key="speed_low_s")
        return self

    @property
    def speed_s(self) -> tuple[float, float] | None:
        """Range of the printed order of magnitude (s), None where none is printed."""
        return None if self.speed_low_s is None or self.speed_high_s is None else (self.speed_low_s, self.speed_high_s)

    @property
    def documents(self) -> tuple[str, ...]:
        """Source documents that name it."""
        return tuple(f"s{name[-3:]}" for name in ("ref_000", "ref_001", "ref_003", "ref_004") if getattr(self, name))


def load_tools(path: str | Path, keys: Iterable[str] | None = None) -> tuple[Tool, ...]:
    """Read the tool table and check every row."""
    known = {"group": GROUPS, "platform": PLATFORMS, "methodology": {"", *METHODOLOGIES}} | ({} if keys is None else {"key": {"", *keys}})
    return read_rows(path, Tool, unique=("tool",), known=known)


def surveyed(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """The tools of the survey's own table (its Table 2)."""
    return tuple(tool for tool in tools if tool.group == "table 2")


def frame(tools: Iterable[Tool]) -> pd.DataFrame:
    """The tool table for readers, one row a tool."""
    return pd.DataFrame(
        [
            {
                "tool": tool.name,
                "group": tool.group,
                "platform": PLATFORMS[tool.platform],
                "methodology": METHODOLOGIES.get(tool.methodology, "not given"),
                "year": str(tool.year),
                "venue": tool.venue,
                "target": tool.target,
                "level": ", ".join(tool.levels),
                "domain": tool.domain,
                "speed_printed": tool.speed_printed,
                "capability": tool.capability,
                "documents": " ".join(tool.documents),
                "key": tool.key,
            }
            for tool in tools
        ]
    )
