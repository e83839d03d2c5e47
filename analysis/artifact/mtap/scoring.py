"""Composite scores, ranks with ties, and what happens when a dimension is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from pydantic import Field

from analysis.artifact.mtap.evidence import DIMENSIONS
from analysis.artifact.mtap.rubric import GRADES
from analysis.configs import Strict

Vector = Sequence[int | Fraction]


def composite(grades: Vector, weights: Sequence[Fraction]) -> Fraction:
    """MTAP's composite score: S = sum_i w_i d_i, exactly.

    Source: survey draft, section 6.
    """
    return sum((w * d for w, d in zip(weights, grades, strict=True)), Fraction(0))


def ranks(scores: Mapping[str, Fraction]) -> dict[str, float]:
    """Ranks from 1 (best score); equal scores share the mean of their ranks."""
    order = sorted(scores.values(), reverse=True)
    return {tool: order.index(s) + (order.count(s) + 1) / 2 for tool, s in scores.items()}


def order_text(scores: Mapping[str, Fraction]) -> str:
    """The order as text: `ASTRA-sim > VIDUR = Timeloop > ...`, names in alphabetical order within a tie."""
    groups = [sorted(t for t, s in scores.items() if s == level) for level in sorted(set(scores.values()), reverse=True)]
    return " > ".join(" = ".join(group) for group in groups)


def spread(scores: Mapping[str, Fraction], tools: Sequence[str]) -> Fraction:
    """Largest minus smallest score among some tools."""
    chosen = [scores[tool] for tool in tools]
    return max(chosen) - min(chosen)


def without(weights: Sequence[Fraction], dropped: int) -> tuple[Fraction, ...]:
    """Weights with one dimension left out and the others scaled to sum to one."""
    rest = 1 - weights[dropped]
    if rest == 0:
        raise ValueError("the dimension left out carries all the weight")
    return tuple(Fraction(0) if i == dropped else w / rest for i, w in enumerate(weights))


def highest_attainable(cap: Mapping[str, int], weights: Sequence[Fraction]) -> Fraction:
    """Best score there can be when some dimensions are capped.

    Args:
        cap: dimension -> highest grade it can get; others get 3.
    """
    return composite([cap.get(d, 3) for d in DIMENSIONS], weights)


class PrintedTool(Strict):
    """Grades and scores as printed."""

    grades: dict[str, Annotated[str, Field(pattern="^[FLMH]$")]]
    scores: dict[str, float]
    reported_error: dict[str, float]

    @property
    def vector(self) -> tuple[int, ...]:
        """Grades 0..3 of D1..D5."""
        return tuple(GRADES.index(self.grades[d]) for d in DIMENSIONS)


class PrintedDeployment(Strict):
    """A row of the printed deployment table; `minutes` is the bound printed."""

    time_to_first_prediction: str
    minutes: float
    docker: str
    failure: str


class Printed(Strict):
    """What the survey draft prints about MTAP."""

    source: str
    tools: dict[str, PrintedTool]
    deployment: dict[str, PrintedDeployment]


@dataclass(frozen=True)
class Mapped:
    """Whether two printed scores of one tool can both come from one set of grades."""

    tool: str
    uniform: Fraction
    deployment_heavy: Fraction
    needed_d4_minus_d3: Fraction


def consistency(tool: str, uniform: float, deployment_heavy: float) -> Mapped:
    """What a printed pair of scores asks of the grades.

    The two schemes differ by 0.1 (d4 - d3) exactly, so a pair asks for d4 - d3 = 10 (S_dep - S_uni).
    """
    u, d = Fraction(str(uniform)), Fraction(str(deployment_heavy))
    return Mapped(tool, u, d, 10 * (d - u))
