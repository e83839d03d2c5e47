"""Scores side by side, and the reasons and evidence behind them, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pandas as pd

from analysis.artifact.mtap import scoring
from analysis.artifact.mtap.evidence import DIMENSIONS, Evidence, evidence_files, items
from analysis.artifact.mtap.grading import Assessment, grade_tool, mark
from analysis.artifact.mtap.measured import measure_all, measured_wholes, with_measured
from analysis.artifact.mtap.readings import Readings, apply_reading
from analysis.artifact.mtap.rubric import GRADES, Rubric, Weights
from analysis.artifact.mtap.trials.records import last, recorded, with_trial
from analysis.configs import read_yaml
from analysis.paths import DATA

SCORINGS = {"printed": "as printed", "stated": "rubric on the document's words", "evidence": "rubric on the evidence"}


@dataclass(frozen=True)
class Scored:
    """The grades of several tools under one scoring."""

    name: str
    vectors: dict[str, tuple[int | Fraction, ...]]

    def scores(self, weights: tuple[Fraction, ...]) -> dict[str, Fraction]:
        """Composite score of every tool."""
        return {tool: scoring.composite(vector, weights) for tool, vector in self.vectors.items()}


def read_folder(folder: Path) -> dict[str, Evidence]:
    """All evidence files of a folder, by tool."""
    return {e.tool: e for e in (read_yaml(path, Evidence) for path in evidence_files(folder))}


def all_tools(folder: Path = DATA / "mtap") -> dict[str, dict[str, Evidence]]:
    """Every tool's evidence by group (evidence: the survey's five, others, wider), its last recorded trial and all measurements in it."""
    outcomes, found, wholes = last(recorded("outcomes")), measure_all(), measured_wholes()
    return {
        group: {tool: with_measured(with_trial(e, outcomes), found, wholes) for tool, e in read_folder(folder / group).items()}
        for group in ("evidence", "others", "wider")
    }


def rubric_of(folder: Path = DATA / "mtap") -> Rubric:
    """The rubric that tools are scored by: the printed one, an error that others found before the authors' own."""
    readings = read_yaml(folder / "readings.yaml", Readings)
    return apply_reading(read_yaml(folder / "rubric.yaml", Rubric), readings.readings["independent_error_first"])


def assess_all(evidence: Mapping[str, Evidence], rubric: Rubric) -> dict[str, Assessment]:
    """Grade every tool."""
    return {tool: grade_tool(e, rubric) for tool, e in evidence.items()}


def scores_table(scored: list[Scored], weights: Weights, printed: scoring.Printed) -> pd.DataFrame:
    """One row for each scoring, scheme and tool: grades, score, rank, and the score that is printed (if it is)."""
    rows = []
    for one in scored:
        for scheme in weights.schemes:
            scores = one.scores(weights.exact(scheme))
            ranks = scoring.ranks(scores)
            for tool, vector in one.vectors.items():
                said = printed.tools[tool].scores.get(scheme) if tool in printed.tools else None
                rows.append(
                    {"scoring": one.name, "scheme": scheme, "tool": tool}
                    | {d: mark(g) for d, g in zip(DIMENSIONS, vector, strict=True)}
                    | {"score": float(scores[tool]), "rank": ranks[tool], "printed_score": said}
                )
    frame = pd.DataFrame(rows)
    frame["difference"] = (frame["score"] - frame["printed_score"]).round(10)
    return frame


def orders_table(scored: list[Scored], weights: Weights, top_three: tuple[str, ...]) -> pd.DataFrame:
    """One row for each scoring and scheme: the order of the tools, and how far apart the top three lie."""
    rows = []
    for one in scored:
        for scheme in weights.schemes:
            scores = one.scores(weights.exact(scheme))
            gap = float(scoring.spread(scores, top_three))
            rows.append({"scoring": one.name, "scheme": scheme, "order": scoring.order_text(scores), "top_three_spread": gap})
    return pd.DataFrame(rows)


def reasons_table(assessments: Mapping[str, Assessment], printed: scoring.Printed, shown: bool = False) -> pd.DataFrame:
    """One row for each tool and dimension: the grade (or the least that is shown), the printed one, the reason, what was not known."""
    rows = []
    for tool, assessment in assessments.items():
        for g in assessment.grades:
            said = printed.tools[tool].grades[g.dimension] if tool in printed.tools else ""
            rows.append(
                {
                    "tool": tool,
                    "dimension": g.dimension,
                    "grade": GRADES[g.grade] if shown else g.letter,
                    "points": float(g.grade if shown else g.points),
                    "printed": said,
                    "low": GRADES[g.low],
                    "high": GRADES[g.high],
                    "reason": "; ".join(g.reasons),
                    "unknown": ", ".join(g.unknown),
                }
            )
    return pd.DataFrame(rows)


def evidence_table(evidence: Mapping[str, Evidence]) -> pd.DataFrame:
    """Every item of every tool: value, how it was come by, source, note; items without an answer are listed too."""
    rows = []
    for tool, e in evidence.items():
        for dimension, name, item in items(e):
            value = "not given" if item is None else "unknown" if item.value is None else str(item.value)
            rows.append(
                {
                    "tool": tool,
                    "dimension": dimension,
                    "item": name,
                    "value": value,
                    "kind": "" if item is None else item.kind,
                    "source": "" if item is None else item.source,
                    "note": "" if item is None else item.note,
                }
            )
    return pd.DataFrame(rows)


def deployment_table(printed: scoring.Printed, trials: pd.DataFrame) -> pd.DataFrame:
    """The printed deployment table, compared with what we timed."""
    ours = trials.set_index("tool")
    rows = []
    for tool, row in printed.deployment.items():
        mine = ours.loc[tool]
        rows.append(
            {
                "tool": tool,
                "printed_time": row.time_to_first_prediction,
                "printed_minutes": row.minutes,
                "measured_minutes": mine["minutes_to_first_prediction"],
                "printed_docker": row.docker,
                "source_patches": mine["source_patches"],
                "manual_steps": mine["manual_steps"],
                "printed_failure": row.failure,
                "outcome": mine["outcome"],
                "what": mine["what"],
            }
        )
    return pd.DataFrame(rows)
