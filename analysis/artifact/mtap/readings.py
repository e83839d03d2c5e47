"""Other readings of the printed rubric: what each would change."""

from __future__ import annotations

from fractions import Fraction

from analysis.artifact.mtap.evidence import Evidence
from analysis.artifact.mtap.grading import grade_tool
from analysis.artifact.mtap.rubric import Component, Condition, Grade, Rubric
from analysis.configs import Strict
from analysis.errors import InputError


class Replacement(Strict):
    """Another condition for one level (not for a level asked first)."""

    dimension: str
    component: str
    grade: Grade
    when: Condition


class OtherNoLevel(Strict):
    """Another grade where no level applies."""

    dimension: str
    component: str
    grade: Grade


class Reading(Strict):
    """One other way to read the rubric."""

    says: str
    replace: tuple[Replacement, ...] = ()
    no_level: OtherNoLevel | None = None
    no_output_fails_all: bool = False


class Readings(Strict):
    """All of them, by name."""

    source: str
    readings: dict[str, Reading]


def _component(rubric: Rubric, dimension: str, component: str) -> Component:
    try:
        return rubric.dimensions[dimension].components[component]
    except KeyError:
        raise InputError("the rubric has no such component", key=f"{dimension}.{component}") from None


def _with_component(rubric: Rubric, dimension: str, name: str, component: Component) -> Rubric:
    old = rubric.dimensions[dimension]
    new = old.model_copy(update={"components": {**old.components, name: component}})
    return rubric.model_copy(update={"dimensions": {**rubric.dimensions, dimension: new}})


def apply_reading(rubric: Rubric, reading: Reading) -> Rubric:
    """The rubric under one other reading."""
    for change in reading.replace:
        component = _component(rubric, change.dimension, change.component)
        hit = [level for level in component.levels if level.grade == change.grade and not level.first]
        if len(hit) != 1:
            raise InputError(f"expected one level of grade {change.grade}, found {len(hit)}", key=f"{change.dimension}.{change.component}")
        levels = tuple(level.model_copy(update={"when": change.when}) if level is hit[0] else level for level in component.levels)
        rubric = _with_component(rubric, change.dimension, change.component, component.model_copy(update={"levels": levels}))
    if reading.no_level is not None:
        other = reading.no_level
        component = _component(rubric, other.dimension, other.component)
        fallback = component.no_level.model_copy(update={"grade": other.grade})
        rubric = _with_component(rubric, other.dimension, other.component, component.model_copy(update={"no_level": fallback}))
    return rubric


def vector_under(evidence: Evidence, rubric: Rubric, reading: Reading) -> tuple[int | Fraction, ...]:
    """Grades of one tool under one other reading."""
    if reading.no_output_fails_all and evidence.D1.works.value is False:
        return (0, 0, 0, 0, 0)
    return grade_tool(evidence, apply_reading(rubric, reading)).vector
