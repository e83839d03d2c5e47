"""How many claims have which verdict, and which of them are not as expected?"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.artifact.claims.check import Outcome, check_all, show, show_reference, to_frame
from analysis.artifact.claims.check_files import VERDICTS
from analysis.artifact.claims.findings import OUTCOMES, FindingOutcome, judge_findings
from analysis.artifact.claims.ledger import DOCUMENTS


def judge_all(results: Path, claims: Path) -> tuple[list[Outcome], list[FindingOutcome]]:
    """Every claim and every finding of ours, judged on the results that are there: what `claims check` prints."""
    return check_all(results, claims), judge_findings(results, claims / "findings.yaml")


def unexpected(outcomes: list[Outcome], findings: list[FindingOutcome]) -> list[str]:
    """One line for each claim and each finding that is not as its file expects."""
    lines = [f"{one.claim.claim_id} ({one.file}): {one.problem}" for one in outcomes if one.problem]
    return lines + [f"{one.finding_id} (findings.yaml): {one.problem}" for one in findings if one.problem]


def counts(frame: pd.DataFrame, by: str = "document", order: tuple[str, ...] = tuple(DOCUMENTS)) -> pd.DataFrame:
    """Claims by verdict (rows) and by `by` (columns), with totals."""
    table = pd.crosstab(frame["verdict"], frame[by]).reindex(index=list(VERDICTS), columns=list(order), fill_value=0)
    table["all"] = table.sum(axis=1)
    table.loc["all"] = table.sum(axis=0)
    return table.rename_axis(index="verdict", columns=None).reset_index()


def contradicted(outcomes: list[Outcome]) -> list[str]:
    """One line for each claim that a value got here contradicts: identifier, verdict, value got, value printed, statement."""
    lines = []
    for one in outcomes:
        if one.check is None or one.got is None or one.verdict not in ("differs", "disputed", "wrong arithmetic"):
            continue
        values = f"got {show(one.got, one.check.reference)}; {show_reference(one.check)}"
        lines.append(f"{one.claim.claim_id:28} {one.verdict:17} {values}  ({one.claim.statement})")
    return lines


def report(outcomes: list[Outcome], everything: bool = True) -> str:
    """The text of `claims check`: what is contradicted, counts by verdict and document, then every claim that is not as expected."""
    lines = [*contradicted(outcomes), ""] if everything else []
    lines += [counts(to_frame(outcomes)).to_string(index=False), ""]
    changed = [one for one in outcomes if one.problem]
    if not changed:
        lines.append(f"{len(outcomes)} claims, every verdict and value as expected")
        return "\n".join(lines)
    lines += unexpected(outcomes, [])
    lines.append(f"{len(changed)} of {len(outcomes)} claims are not as expected: {', '.join(one.claim.claim_id for one in changed)}")
    return "\n".join(lines)


def report_findings(outcomes: list[FindingOutcome]) -> str:
    """One line on our own findings, and one for each that is not as expected."""
    changed = [one for one in outcomes if one.problem]
    tally = ", ".join(f"{sum(one.outcome == name for one in outcomes)} {name}" for name in OUTCOMES)
    lines = [f"{len(outcomes)} findings of ours: {tally}" + ("" if changed else "; all as expected")]
    lines += unexpected([], outcomes)
    return "\n".join(lines)
