"""Scores side by side, and the reasons and evidence behind them, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from analysis.artifact.mtap import scoring
from analysis.artifact.mtap.evidence import Evidence, evidence_files
from analysis.artifact.mtap.grading import Assessment, grade_tool
from analysis.artifact.mtap.measured import measure_all, measured_wholes, with_measured
from analysis.artifact.mtap.readings import Readings, apply_reading
from analysis.artifact.mtap.rubric import Rubric
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
