"""What is printed of each tool's accuracy: which figures are errors, where statements disagree, and tiers of error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field, model_validator

from analysis.errors import InputError
from analysis.studies.written_tables import Row, read_rows

Document = Literal["s000", "s001", "s002", "s003", "s004"]
Own = Literal["own paper", "own repository", "own documentation"]
Metric = Literal[
    "error, metric not given",
    "MAPE",
    "mean absolute % error",
    "average error",
    "geometric mean error",
    "average alignment",
    "error of inference latency",
    "discrepancy",
    "RMSE of a surrogate",
    "hit rate within 10%",
    "rank correlation",
    "reduction of squared error",
    "relative improvement",
    "accuracy, not defined",
    "none reported",
]


class Statement(Row):
    """One statement about a tool's accuracy.

    Attributes:
        tool, document, location: of whom, where (a source document, or the tool's own paper, repository or documentation).
        printed: the words of the figure.
        metric: what the figure really is (a `Metric`).
        is_error: whether the figure can be read as an error against hardware at all.
        low, high: percent; low is None for an upper bound, both are None where no figure is given.
        bound: exact, range, below, about or none.
        reference: what the prediction was compared with.
        note, source: remark, and the address where the document itself is not the source.
    """

    tool: str
    document: Document | Own
    location: str
    printed: str
    metric: Metric
    is_error: bool
    low: float | None = Field(default=None, alias="low_percent")
    high: float | None = Field(default=None, alias="high_percent")
    bound: Literal["exact", "range", "below", "about", "none"]
    reference: str
    note: str
    source: str

    @model_validator(mode="after")
    def _figures_go_with_the_bound(self) -> Statement:
        if self.document in get_args(Own) and not self.source:
            raise InputError("a statement of the tool's own needs its address", key="source")
        if (self.high is None) != (self.bound == "none"):
            raise InputError("is needed unless bound is none", key="high_percent")
        if (self.low is None) != (self.bound in ("none", "below")):
            raise InputError("is needed for exact, range and about, and only there", key="low_percent")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise InputError("must not be above high_percent", key="low_percent")
        return self


def load_statements(path: str | Path, tools: Iterable[str]) -> tuple[Statement, ...]:
    """Read the accuracy statements and check every row."""
    return read_rows(path, Statement, known={"tool": set(tools)})


def _first(statements: Sequence[Statement], tool: str, documents: Sequence[str]) -> Statement | None:
    """The first statement on a tool in the first of some documents that has one."""
    return next((one for document in documents for one in statements if one.tool == tool and one.document == document), None)


def headline(statements: Sequence[Statement], tool: str) -> Statement | None:
    """The figure that the survey prints for a tool: its first statement in s000, else in s001, else in another document."""
    return _first(statements, tool, get_args(Document))


def own(statements: Sequence[Statement], tool: str) -> Statement | None:
    """What the tool's own paper, repository or documentation says, if it was seen."""
    return _first(statements, tool, get_args(Own))


def disagree(first: Statement, second: Statement) -> bool:
    """Whether two statements about one tool exclude each other, or say that the figure is another thing.

    An upper bound "< x" is read as the interval from 0 to x, "about x" as exactly x. Two statements agree when their
    intervals are equal; a single value that lies within the other's interval agrees too when both are of one metric.
    """
    if first.high is None or second.high is None:
        return (first.high is None) != (second.high is None)
    a = (0.0 if first.low is None else first.low, first.high)
    b = (0.0 if second.low is None else second.low, second.high)
    if a == b:
        return False
    for inner, outer in ((a, b), (b, a)):
        if inner[0] == inner[1] and outer[0] != outer[1] and outer[0] <= inner[0] <= outer[1]:
            return False
    return abs(a[0] - b[0]) > 0.05 or abs(a[1] - b[1]) > 0.05


def tier(low: float | None, high: float | None, edges: Sequence[tuple[float, float]] = ((0, 5), (5, 15), (15, 25))) -> str:
    """Tier of an error: the number of the band that holds it whole, or why none does.

    Tier k holds an error when edges[k-1][0] <= low and high <= edges[k-1][1]; a value on an edge belongs to the lower tier.

    Args:
        low, high: percent; low None for an upper bound.
    """
    if high is None:
        return "no figure"
    start = 0.0 if low is None else low
    for number, (bottom, top) in enumerate(edges, start=1):
        if bottom <= start and high <= top:
            return f"tier {number}"
    if start >= edges[-1][1]:
        return "above all tiers"
    touched = [str(number) for number, (bottom, top) in enumerate(edges, start=1) if start < top and high > bottom]
    return ("across tiers " if len(touched) > 1 else "tier ") + " and ".join(touched) + (" and above" if high > edges[-1][1] else "")
