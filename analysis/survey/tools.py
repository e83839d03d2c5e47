"""The table of tools: what each predicts, for which platform, by which method, and where it was named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.errors import InputError
from analysis.tables import read_csv

METHODOLOGIES = {"A": "analytical", "S": "cycle-accurate", "T": "trace-driven", "M": "ML-augmented", "H": "hybrid"}
PLATFORMS = {
    "accelerator": "DNN accelerator",
    "gpu": "GPU",
    "distributed": "distributed system",
    "edge": "edge device",
    "cpu": "CPU",
    "memory": "memory",
}
GROUPS = ("table 2", "named in text", "other document")
LEVELS = ("kernel", "model", "system")


@dataclass(frozen=True)
class Tool:
    """One tool that predicts performance.

    Attributes:
        name, key: as printed, and its key in bib/references.bib (empty for the companion draft itself).
        group: in the survey's Table 2, only named in its text, or in another document.
        platform, methodology: keys of `PLATFORMS` and `METHODOLOGIES`; methodology is empty where no document gives one.
        year, venue, target, capability, domain, section: as normalised.
        levels: abstraction levels that it predicts at.
        speed_printed: as printed; speed_s: range of the printed order of magnitude (s), None where none is printed.
        documents: source documents that name it.
        source: where this row comes from.
    """

    name: str
    key: str
    group: str
    section: str
    platform: str
    methodology: str
    year: int
    venue: str
    target: str
    speed_printed: str
    speed_s: tuple[float, float] | None
    capability: str
    levels: tuple[str, ...]
    domain: str
    documents: tuple[str, ...]
    source: str


COLUMNS = (
    *("tool", "key", "group", "section", "platform_printed", "platform", "methodology", "year", "venue", "target", "speed_printed"),
    *("speed_low_s", "speed_high_s", "capability", "level", "domain", "ref_000", "ref_001", "ref_003", "ref_004", "source"),
)


def load_tools(path: str | Path, keys: Iterable[str] | None = None) -> tuple[Tool, ...]:
    """Read the tool table and check every row.

    Args:
        keys: citation keys that exist; when given, an unknown key is an error.
    Raises:
        InputError: a name given twice, a value outside its list, a speed range that is no range, a missing source.
    """
    frame = read_csv(path, required=COLUMNS, dtype=str, keep_default_na=False)
    known = None if keys is None else set(keys)
    seen: set[str] = set()
    tools = []
    for line, row in enumerate(frame.to_dict("records"), start=2):

        def check(condition: bool, column: str, expected: str, row: dict[Any, Any] = row, line: int = line) -> None:
            if not condition:
                raise InputError(f"{expected} (got {row[column]!r})", path=path, line=line, key=column)

        check(bool(row["tool"]) and row["tool"] not in seen, "tool", "expected a name not given before")
        check(row["group"] in GROUPS, "group", f"must be one of {', '.join(GROUPS)}")
        check(row["platform"] in PLATFORMS, "platform", f"must be one of {', '.join(PLATFORMS)}")
        check(row["methodology"] in {"", *METHODOLOGIES}, "methodology", f"must be empty or one of {', '.join(METHODOLOGIES)}")
        check(row["year"].isdigit() and 1990 < int(row["year"]) < 2100, "year", "must be a year")
        levels = tuple(row["level"].split(";"))
        check(all(level in LEVELS for level in levels), "level", f"must be from {', '.join(LEVELS)}")
        check(bool(row["source"]), "source", "must say where the row comes from")
        check(known is None or not row["key"] or row["key"] in known, "key", "is not in the bibliography")
        speed = None
        if row["speed_low_s"] or row["speed_high_s"]:
            try:
                speed = (float(row["speed_low_s"]), float(row["speed_high_s"]))
            except ValueError:
                raise InputError("expected two numbers of seconds", path=path, line=line, key="speed_low_s") from None
            check(0 < speed[0] <= speed[1], "speed_low_s", "must be positive and not above speed_high_s")
        seen.add(row["tool"])
        tools.append(
            Tool(
                name=row["tool"],
                key=row["key"],
                group=row["group"],
                section=row["section"],
                platform=row["platform"],
                methodology=row["methodology"],
                year=int(row["year"]),
                venue=row["venue"],
                target=row["target"],
                speed_printed=row["speed_printed"],
                speed_s=speed,
                capability=row["capability"],
                levels=levels,
                domain=row["domain"],
                documents=tuple(f"s{name[-3:]}" for name in ("ref_000", "ref_001", "ref_003", "ref_004") if row[name]),
                source=row["source"],
            )
        )
    return tuple(tools)


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
