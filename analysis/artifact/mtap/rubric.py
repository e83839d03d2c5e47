"""The rubric as data: levels with conditions, evaluated in three-valued logic (true, false, not known)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from analysis.artifact.mtap.evidence import DIMENSIONS
from analysis.configs import Strict

GRADES = "FLMH"
FAILURES = ("F1", "F2", "F3", "F4")
Truth = bool | None
Grade = Annotated[int, Field(ge=0, le=3)]
_COMPARISONS = ("below", "at_most", "above", "at_least", "equals", "among")


class Condition(Strict):
    """One test of one item (`below`, `at_most`, `above`, `at_least`, `is`, `in`), or `all` / `any` of several."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    item: str | None = None
    below: float | None = None
    at_most: float | None = None
    above: float | None = None
    at_least: float | None = None
    equals: bool | str | None = Field(None, alias="is")
    among: tuple[str, ...] | None = Field(None, alias="in")
    every: tuple[Condition, ...] | None = Field(None, alias="all")
    some: tuple[Condition, ...] | None = Field(None, alias="any")

    @model_validator(mode="after")
    def _one_test(self) -> Condition:
        tests = [name for name in _COMPARISONS if getattr(self, name) is not None]
        groups = [name for name in ("every", "some") if getattr(self, name) is not None]
        if self.item is not None and (len(tests) != 1 or groups):
            raise ValueError("a test of an item needs exactly one of below, at_most, above, at_least, is, in")
        if self.item is None and (tests or len(groups) != 1):
            raise ValueError("expected `item` with one test, or one of all, any")
        return self

    def leaves(self) -> Iterator[Condition]:
        """The single tests inside."""
        if self.item is not None:
            yield self
        for inner in (*(self.every or ()), *(self.some or ())):
            yield from inner.leaves()


def holds(condition: Condition, known: Mapping[str, Any]) -> Truth:
    """Whether a condition holds, by Kleene's three-valued logic: None where that depends on what is not known."""
    if condition.every is not None or condition.some is not None:
        truths = [holds(inner, known) for inner in (condition.every or condition.some or ())]
        decisive = condition.every is None
        if decisive in truths:
            return decisive
        return None if None in truths else not decisive
    assert condition.item is not None
    value = known[condition.item]
    if value is None:
        return None
    if condition.below is not None:
        return bool(value < condition.below)
    if condition.at_most is not None:
        return bool(value <= condition.at_most)
    if condition.above is not None:
        return bool(value > condition.above)
    if condition.at_least is not None:
        return bool(value >= condition.at_least)
    if condition.among is not None:
        return value in condition.among
    return bool(value == condition.equals)


class Level(Strict):
    """One grade and when it is earned. Levels marked `first` are asked before all others; then the highest grade wins."""

    grade: Grade
    says: str
    when: Condition
    first: bool = False
    reading: str = ""


class NoLevel(Strict):
    """The grade where no level applies, and why that one: the print is silent."""

    grade: Grade
    reading: str


class Component(Strict):
    """One threshold function of a dimension (D1 has two)."""

    levels: tuple[Level, ...]
    no_level: NoLevel

    def leaves(self) -> Iterator[Condition]:
        """The single tests of all its levels."""
        for level in self.levels:
            yield from level.when.leaves()

    def in_order(self) -> list[Level]:
        """Levels in the order they are asked."""
        return sorted(self.levels, key=lambda level: (not level.first, -level.grade))


class Cap(Strict):
    """A ceiling on the grade unless a condition holds."""

    grade: Grade
    says: str
    unless: Condition


class Dimension(Strict):
    """One of D1..D5: the least of its components, under its cap."""

    name: str
    says: str
    components: dict[str, Component]
    cap: Cap | None = None

    def leaves(self) -> Iterator[Condition]:
        """The single tests of its components and of its cap."""
        for component in self.components.values():
            yield from component.leaves()
        if self.cap is not None:
            yield from self.cap.unless.leaves()


class FailureRule(Strict):
    """What a failure class does to a grade."""

    name: str
    lowers: Literal["D1", "D4"] | None
    by: Annotated[int, Field(ge=0, le=3)]
    above_percent: float | None = None
    reading: str = ""


class Rubric(Strict):
    """The whole rubric."""

    source: str
    dimensions: dict[str, Dimension]
    failures: dict[str, FailureRule]

    @model_validator(mode="after")
    def _complete(self) -> Rubric:
        for given, expected in ((self.dimensions, DIMENSIONS), (self.failures, FAILURES)):
            if sorted(given) != list(expected):
                raise ValueError(f"expected {', '.join(expected)}, got {', '.join(given)}")
        return self


class Weights(Strict):
    """Weight schemes, each summing to one exactly."""

    source: str
    schemes: dict[str, dict[str, Annotated[float, Field(ge=0, le=1)]]]

    @model_validator(mode="after")
    def _sum_to_one(self) -> Weights:
        for name, weights in self.schemes.items():
            if sorted(weights) != list(DIMENSIONS):
                raise ValueError(f"scheme {name}: expected a weight for each of D1..D5")
            total = sum(Fraction(str(w)) for w in weights.values())
            if total != 1:
                raise ValueError(f"scheme {name}: weights sum to {float(total)}, expected 1")
        return self

    def exact(self, scheme: str) -> tuple[Fraction, ...]:
        """Weights of one scheme, in the order D1..D5, as exact fractions."""
        return tuple(Fraction(str(self.schemes[scheme][d])) for d in DIMENSIONS)
