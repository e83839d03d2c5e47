"""What do we find in the documents that none of them claims: does the value got contradict what they say, agree with it, or add to it?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import RootModel, model_validator

from analysis.artifact.claims.check import show, value_of
from analysis.artifact.claims.check_files import Comparison
from analysis.artifact.claims.ledger import DOCUMENTS
from analysis.artifact.claims.results import Results
from analysis.artifact.claims.verdicts import as_expected, holds
from analysis.configs import read_yaml
from analysis.errors import InputError

OUTCOMES = ("contradicts", "agrees", "adds")


class Finding(Comparison):
    """One finding of ours about a document: not a printed claim, and counted apart from them.

    `about` names the claims of the ledger that it concerns. A finding *contradicts* or *agrees* with what the document says; it *adds*
    where the document gives nothing to compare with.
    """

    document: str
    location: str
    statement: str
    about: tuple[str, ...] = ()
    outcome: Literal["contradicts", "agrees", "adds"]

    @model_validator(mode="after")
    def _complete(self) -> Finding:
        if self.document not in DOCUMENTS:
            raise ValueError(f"unknown document {self.document!r}; expected {', '.join(DOCUMENTS)}")
        if self.check is None or self.expect is None:
            raise ValueError("a finding needs a `check` and `expect`")
        if (self.outcome == "adds") != (self.reference is None):
            raise ValueError("a finding `adds` when, and only when, there is no `printed` value and no `criterion`")
        return self


class FindingsFile(RootModel[dict[str, Finding]]):
    """`data/claims/findings.yaml`: identifier -> finding."""


@dataclass(frozen=True)
class FindingOutcome:
    """One finding: the value got, the outcome, and what is wrong (empty: all as expected)."""

    finding_id: str
    finding: Finding
    got: Any
    outcome: str
    problem: str


def read_findings(path: str | Path) -> dict[str, Finding]:
    """Read the findings."""
    return read_yaml(path, FindingsFile).root


def judge_finding(finding_id: str, finding: Finding, results: Results) -> FindingOutcome:
    """The outcome of one finding from the value got now."""
    try:
        assert finding.check is not None
        got = value_of(finding.check, results)
    except InputError as error:
        return FindingOutcome(finding_id, finding, None, "", str(error))
    outcome = "adds" if finding.reference is None else "agrees" if holds(got, finding) else "contradicts"
    problem = ""
    if outcome != finding.outcome:
        problem = f"outcome is {outcome!r}, expected {finding.outcome!r} (got {show(got)})"
    elif not as_expected(got, finding):
        problem = f"value is {show(got)}, expected {show(finding.expect)}"
    return FindingOutcome(finding_id, finding, got, outcome, problem)


def judge_findings(results: str | Path, path: str | Path) -> list[FindingOutcome]:
    """The outcome of every finding."""
    store = Results(Path(results))
    return [judge_finding(name, finding, store) for name, finding in read_findings(path).items()]
