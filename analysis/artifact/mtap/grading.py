"""From evidence to grades, mechanically, with the reason for each."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from analysis.artifact.mtap.evidence import DIMENSIONS, Evidence, facts, items
from analysis.artifact.mtap.rubric import GRADES, Component, Condition, Dimension, Rubric, holds


@dataclass(frozen=True)
class DimensionGrade:
    """A grade, why, what was not known, and the grades it could be.

    Attributes:
        grade: the least that is shown. low, high: within the ranges of the evidence and whatever is not known turns out to be.
        decided: whether the grade is the same whatever is not known turns out to be.
    """

    dimension: str
    grade: int
    reasons: tuple[str, ...]
    unknown: tuple[str, ...]
    low: int
    high: int
    decided: bool = True

    @property
    def points(self) -> int | Fraction:
        """0..3; of a grade that nobody knows the middle of what it could be, always a fraction."""
        return self.grade if self.decided else Fraction(self.low + self.high, 2)

    @property
    def letter(self) -> str:
        """F, L, M or H; ? where nobody knows."""
        return mark(self.points)


def mark(points: int | Fraction) -> str:
    """The letter of a grade's points: F, L, M or H; ? for a fraction, which stands for a grade that nobody knows."""
    return "?" if isinstance(points, Fraction) else GRADES[points]


@dataclass(frozen=True)
class Assessment:
    """The five grades of one tool."""

    tool: str
    grades: tuple[DimensionGrade, ...]

    @property
    def vector(self) -> tuple[int | Fraction, ...]:
        """Points 0..3 of D1..D5."""
        return tuple(g.points for g in self.grades)

    @property
    def shown(self) -> tuple[int, ...]:
        """The least that is shown of D1..D5, for a document judged by its own words."""
        return tuple(g.grade for g in self.grades)


def _text(condition: Condition, known: Mapping[str, Any]) -> str:
    parts = []
    for leaf in condition.leaves():
        value = known[str(leaf.item)]
        shown = "unknown" if value is None else {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value
        parts.append(f"{leaf.item} = {shown}")
    return ", ".join(dict.fromkeys(parts))


def grade_component(component: Component, known: Mapping[str, Any]) -> tuple[int, str]:
    """Grade of one component and the reason.

    Levels are asked in order (those marked first, then from High down); the first that holds gives the grade. Where none
    is known to hold, the lowest level that is not ruled out gives it, at most the grade for "no level": what is
    not shown does not raise a grade. Where all are ruled out, the print has no level and the reading stands.
    """
    open_levels = []
    for level in component.in_order():
        truth = holds(level.when, known)
        if truth:
            return level.grade, f"{GRADES[level.grade]}: {level.says} ({_text(level.when, known)})"
        if truth is None:
            open_levels.append(level)
    if open_levels:
        lowest = min(open_levels, key=lambda level: level.grade)
        grade = min(lowest.grade, component.no_level.grade)
        return grade, f"{GRADES[grade]}: no level is shown to hold; the lowest not ruled out ({_text(lowest.when, known)})"
    return component.no_level.grade, f"{GRADES[component.no_level.grade]}: no level fits; {component.no_level.reading}"


def grade_dimension(dimension: Dimension, known: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Least grade of the components, under the cap; and the reasons, the deciding ones first."""
    graded = [(name, *grade_component(component, known)) for name, component in dimension.components.items()]
    grade = min(g for _, g, _ in graded)
    many = len(graded) > 1
    reasons = [f"{name} {text}" if many else text for name, _, text in sorted(graded, key=lambda row: row[1])]
    cap = dimension.cap
    if cap is not None and grade > cap.grade and not holds(cap.unless, known):
        grade = cap.grade
        reasons.insert(0, f"capped at {GRADES[cap.grade]}: {cap.says}")
    return grade, reasons


def possible_grades(dimension: Dimension, known: Mapping[str, Any]) -> tuple[int, int]:
    """Least and greatest grade of a dimension over all that its unknown items can be."""
    ends = []
    for component in dimension.components.values():
        found = []
        for level in component.in_order():
            truth = holds(level.when, known)
            if truth is not False:
                found.append(level.grade)
            if truth:
                break
        else:
            found.append(component.no_level.grade)
        ends.append((min(found), max(found)))
    low, high = min(end[0] for end in ends), min(end[1] for end in ends)
    if dimension.cap is not None:
        lifted = holds(dimension.cap.unless, known)
        low = low if lifted else min(low, dimension.cap.grade)
        high = high if lifted is not False else min(high, dimension.cap.grade)
    return low, high


def _after_failures(dimension: str, grade: int, evidence: Evidence, rubric: Rubric) -> tuple[int, list[str]]:
    notes = []
    classes = sorted({f.failure for f in evidence.failures if not f.resolved})
    for name in classes:
        rule = rubric.failures[name]
        if rule.lowers != dimension or rule.by == 0:
            continue
        if rule.above_percent is not None and not any(
            (f.disagreement_percent or 0) > rule.above_percent for f in evidence.failures if f.failure == name and not f.resolved
        ):
            continue
        lowered = max(0, grade - rule.by)
        if lowered < grade:
            notes.append(f"lowered from {GRADES[grade]} to {GRADES[lowered]}: {name} {rule.name}")
        grade = lowered
    return grade, notes


def _corners(evidence: Evidence, dimension: str) -> list[dict[str, Any]]:
    """The facts at every combination of the ends of the ranges given."""
    ranges = {name: item.range for d, name, item in items(evidence) if d == dimension and item is not None and item.range is not None}
    return [facts(evidence, dimension, dict(zip(ranges, ends, strict=True))) for ends in itertools.product(*ranges.values())]


def grade_tool(evidence: Evidence, rubric: Rubric) -> Assessment:
    """Grade one tool on all five dimensions."""
    grades = []
    for name in DIMENSIONS:
        dimension, known = rubric.dimensions[name], facts(evidence, name)
        grade, reasons = grade_dimension(dimension, known)
        grade, notes = _after_failures(name, grade, evidence, rubric)
        corners = [end for corner in _corners(evidence, name) for end in possible_grades(dimension, corner)]
        ends = [_after_failures(name, end, evidence, rubric)[0] for end in corners]
        open_low, open_high = (_after_failures(name, end, evidence, rubric)[0] for end in possible_grades(dimension, known))

        unknown = tuple(sorted({str(leaf.item) for leaf in dimension.leaves() if known[str(leaf.item)] is None}))
        grades.append(
            DimensionGrade(name, grade, tuple(notes + reasons), unknown, min([*ends, grade]), max([*ends, grade]), open_low == open_high)
        )
    return Assessment(evidence.tool, tuple(grades))
