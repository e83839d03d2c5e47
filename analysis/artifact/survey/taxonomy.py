"""The two taxonomies as tables computed from the tools, their gaps, and what the documents say of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.artifact.survey.tools import METHODOLOGIES, PLATFORMS, Tool

CELL_PLATFORMS = ("accelerator", "gpu", "distributed", "edge", "cpu")


def coverage(tools: Iterable[Tool], platforms: Sequence[str] = CELL_PLATFORMS) -> pd.DataFrame:
    """Number of tools by methodology (rows) and platform (columns)."""
    found = Counter((tool.methodology, tool.platform) for tool in tools)
    return pd.DataFrame({p: [found[m, p] for m in METHODOLOGIES] for p in platforms}, index=list(METHODOLOGIES))


def cell_members(tools: Iterable[Tool], methodology: str, platform: str) -> tuple[str, ...]:
    """Names of the tools in one cell of the matrix."""
    return tuple(tool.name for tool in tools if (tool.methodology, tool.platform) == (methodology, platform))


def compare(printed: pd.DataFrame, counted: pd.DataFrame) -> pd.DataFrame:
    """Printed and counted matrix cell by cell.

    Returns:
        One row a cell: methodology, platform, printed, counted, difference (counted - printed).
    """
    rows = [
        {
            "methodology": METHODOLOGIES[row],
            "platform": PLATFORMS[column],
            "printed": int(printed.loc[row, column]),
            "counted": int(counted.loc[row, column]),
        }
        for row in printed.index
        for column in printed.columns
    ]
    frame = pd.DataFrame(rows)
    frame["difference"] = frame["counted"] - frame["printed"]
    return frame


def gaps(tools: Iterable[Tool], platforms: Sequence[str] = CELL_PLATFORMS) -> tuple[tuple[str, str], ...]:
    """Pairs (methodology, platform) that no tool covers."""
    counts = coverage(tools, platforms)
    return tuple((row, column) for row in counts.index for column in counts.columns if counts.loc[row, column] == 0)


def reconstruction(printed: pd.DataFrame, tools: Sequence[Tool]) -> pd.DataFrame:
    """What the printed matrix holds beyond the survey's own table, and which tools named in the text could fill it.

    Returns:
        One row a cell that is not as counted or that has candidates: methodology, platform, missing (printed - counted in the
        survey's table), candidates (number), names, verdict (forced, a choice, too few, left out).
    """
    counted = coverage([tool for tool in tools if tool.group == "table 2"], list(printed.columns))
    text = [tool for tool in tools if tool.group == "named in text"]
    rows = []
    for row in printed.index:
        for column in printed.columns:
            missing = int(printed.loc[row, column] - counted.loc[row, column])
            names = cell_members(text, row, column)
            if not missing and not names:
                continue
            verdict = (
                "left out" if missing == 0 else "too few" if missing > len(names) else "forced" if missing == len(names) else "a choice"
            )
            rows.append(
                {
                    "methodology": METHODOLOGIES[row],
                    "platform": PLATFORMS[column],
                    "missing": missing,
                    "candidates": len(names),
                    "names": ", ".join(names),
                    "verdict": verdict,
                }
            )
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class Finding:
    """A statement of the survey about its own table, and what the table says.

    Attributes:
        key, statement, location: the statement in our words and where it stands.
        holds: whether the tool table agrees.
        evidence: the count or the names that decide it.
    """

    key: str
    statement: str
    location: str
    holds: bool
    evidence: str


def findings(tools: Sequence[Tool]) -> tuple[Finding, ...]:
    """The survey's statements about gaps and pairings, asked of the tool table.

    Args:
        tools: the whole table; a statement is decided on the tools that the survey names (its table and its text).
    """
    named = [tool for tool in tools if tool.group != "other document"]
    table = [tool for tool in named if tool.group == "table 2"]

    def names(chosen: Iterable[Tool]) -> str:
        return ", ".join(tool.name for tool in chosen) or "none"

    elsewhere = [tool for tool in named if tool.methodology == "T" and tool.platform != "distributed"]
    replaying = [tool for tool in named if tool.methodology != "T" and "trace" in tool.capability.lower()]
    edge_hybrid = [tool for tool in named if tool.platform == "edge" and tool.methodology == "H"]
    learned = [tool for tool in named if tool.platform == "distributed" and tool.methodology == "M"]
    gpu = sorted({tool.methodology for tool in named if tool.platform == "gpu" and tool.methodology})
    accelerators = [tool for tool in table if tool.platform == "accelerator"]
    analytical = [tool for tool in accelerators if tool.methodology == "A"]
    distributed = [tool for tool in named if tool.platform == "distributed" and tool.methodology]
    traced = [tool for tool in distributed if tool.methodology == "T"]
    per_platform = {platform: sum(tool.platform == platform for tool in named) for platform in CELL_PLATFORMS}
    least = min(per_platform, key=lambda platform: (per_platform[platform], platform))
    fast = [tool for tool in table if tool.methodology in ("A", "M", "H") and tool.speed_s is not None]
    slow = [tool for tool in fast if tool.speed_s is not None and tool.speed_s[1] > 1e-3]
    return (
        Finding(
            "trace_only_distributed",
            "execution traces are replayed for distributed systems only",
            "s000 4",
            not elsewhere and not replaying,
            f"outside: {names(elsewhere)}; replay traces though filed elsewhere: {names(replaying)}",
        ),
        Finding("edge_no_hybrid", "no hybrid tool for edge devices", "s000 4", not edge_hybrid, names(edge_hybrid)),
        Finding("distributed_no_learned", "no ML-augmented tool for distributed systems", "s000 4", not learned, names(learned)),
        Finding(
            "gpu_all_five",
            "GPUs are covered by all five methodologies",
            "s000 4.1",
            len(gpu) == len(METHODOLOGIES),
            "found: " + ", ".join(METHODOLOGIES[m] for m in gpu),
        ),
        Finding(
            "accelerators_analytical",
            "accelerators use analytical models",
            "s000 4.1",
            2 * len(analytical) > len(accelerators),
            f"{len(analytical)} of {len(accelerators)} in the survey's table",
        ),
        Finding(
            "distributed_require_traces",
            "distributed systems require trace-driven simulation",
            "s000 4.1",
            len(traced) == len(distributed),
            f"{len(traced)} of {len(distributed)} named; others: {names(t for t in distributed if t.methodology != 'T')}",
        ),
        Finding(
            "cpu_least_studied",
            "CPUs are the least studied platform",
            "s000 4.1",
            least == "cpu",
            ", ".join(f"{platform} {count}" for platform, count in per_platform.items()),
        ),
        Finding(
            "submillisecond",
            "analytical, ML-augmented and hybrid tools answer in less than a millisecond",
            "s000 4",
            not slow,
            f"printed as milliseconds, not less: {names(slow)}",
        ),
    )
