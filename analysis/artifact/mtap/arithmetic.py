"""Small questions about MTAP that a printed claim asks."""

from __future__ import annotations

from analysis.artifact.mtap.evidence import DIMENSIONS
from analysis.artifact.mtap.gaps import component_gaps
from analysis.artifact.mtap.rubric import Rubric
from analysis.artifact.mtap.scoring import Printed
from analysis.configs import read_yaml
from analysis.paths import DATA
from analysis.studies.checkable import checkable
from analysis.studies.composition.gap import composition_gap
from analysis.tables import read_csv


@checkable
def gamma_of_overprediction() -> float:
    """The printed gap of a whole of 0.8 s whose parts were predicted as 1.0 s: above zero without any overhead."""
    return round(composition_gap(0.8, [1.0]).gamma, 12)


@checkable
def largest_printed_error(tool: str) -> float:
    """Upper end of the error that the survey draft's table 5 prints for a tool (%)."""
    return read_yaml(DATA / "mtap" / "printed.yaml", Printed).tools[tool].reported_error["high"]


@checkable
def holes(dimension: str, holding: str) -> int:
    """Kinds of evidence without a level in a dimension, counted where their description holds a text.

    Args:
        holding: text that the description must contain; validated compositions only, for D2.
    """
    part = read_yaml(DATA / "mtap" / "rubric.yaml", Rubric).dimensions[dimension]
    found = [g for name, component in part.components.items() for g in component_gaps(dimension, name, component) if g.kind == "no level"]
    return sum(holding in g.where and "validated: no" not in g.where for g in found)


@checkable
def thresholds(dimension: str, grade: int) -> list[float]:
    """Numbers that the rubric names for a grade of a dimension, sorted from large to small for a pair of different items.

    Args:
        dimension: D1..D5; for D4 the times of all grades are given.
    """
    part = read_yaml(DATA / "mtap" / "rubric.yaml", Rubric).dimensions[dimension]
    numbers: list[float] = []
    for component in part.components.values():
        for level in component.levels:
            for leaf in level.when.leaves():
                bound = next((b for b in (leaf.below, leaf.above) if b is not None), None)
                timed = dimension == "D4" and leaf.item == "minutes_to_first_prediction"
                if bound is not None and (timed or (dimension != "D4" and level.grade == grade)) and bound not in numbers:
                    numbers.append(bound)
    return numbers if grade == 3 else sorted(numbers)


@checkable
def graded_without_a_cell() -> int:
    """Printed grades of a dimension that no cell of the design (table 4) assesses for that tool."""
    planned = read_csv(DATA / "claims" / "printed" / "survey_table4.csv", required=["tool", "dimension"])
    tools = read_yaml(DATA / "mtap" / "printed.yaml", Printed).tools
    return sum(d not in set(planned[planned.tool == tool].dimension) for tool in tools for d in DIMENSIONS)
