"""What is the verdict on every claim, and is it the expected one?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.artifact.claims.check_files import Check, Comparison, Source, read_checks
from analysis.artifact.claims.ledger import Claim, read_ledger
from analysis.artifact.claims.results import Results
from analysis.artifact.claims.verdicts import as_expected, difference, verdict_of
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.studies.checkable import call


@dataclass(frozen=True)
class Outcome:
    """The verdict on one claim: the value got, what was expected, and what is wrong (empty: all as expected)."""

    claim: Claim
    check: Check | None
    got: Any
    verdict: str
    problem: str
    file: str
    reason: str = ""

    @property
    def note(self) -> str:
        """Why: from the row that gave the value where the check says so, else as typed in the check, else the ledger's."""
        return self.reason or (self.check.note if self.check is not None else "") or self.claim.note


def describe(source: Source | None) -> str:
    """How a claim is checked, in one line."""
    if source is None:
        return ""
    if source.table is not None:
        where = ", ".join(f"{key}={show(value)}" for key, value in source.where.items())
        return f"{source.table}.csv [{where}] {show(source.column)}"
    arguments = ", ".join(f"{key}={value}" for key, value in source.args.items())
    return f"{str(source.function).removeprefix('analysis.').removeprefix('artifact.')}({arguments})"


def plain(value: Any) -> Any:
    """A value as plain Python: numpy scalars and arrays, tuples and series become numbers and lists."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (tuple, list, np.ndarray, pd.Series)):
        return [plain(item) for item in value]
    return value


def value_of(source: Source, results: Results) -> Any:
    """The value that a check gets now."""
    if source.table is not None:
        return plain(results.cells(source.table, source.where, source.column or ""))
    return plain(call(str(source.function), source.args))


def judge(claim: Claim, entry: tuple[Check, Path] | None, results: Results) -> Outcome:
    """The verdict on one claim.

    A claim without an entry is *not yet run* and must name what it waits for.
    """
    if entry is None:
        problem = "" if claim.waits_for else "has neither a check nor the name of an experiment that it waits for"
        return Outcome(claim, None, None, "not yet run", problem, "ledger.csv")
    check, path = entry
    if check.check is None:
        return Outcome(claim, check, None, check.verdict, "", path.name)
    try:
        got = value_of(check.check, results)
    except InputError as error:
        return Outcome(claim, check, None, "not yet run", str(error), path.name)
    verdict = verdict_of(got, check)
    problem = ""
    if verdict != check.verdict:
        problem = f"verdict is {verdict!r}, expected {check.verdict!r} (got {show(got)}, {show_reference(check)})"
    elif not as_expected(got, check):
        problem = f"value is {show(got)}, expected {show(check.expect)}"
    reason = str(results.cells(str(check.check.table), check.check.where, check.check.reason)) if check.check.reason else ""
    return Outcome(claim, check, got, verdict, problem, path.name, reason)


def check_all(results: str | Path, claims_folder: str | Path = DATA / "claims") -> list[Outcome]:
    """The verdict on every claim of the ledger."""
    claims_folder = Path(claims_folder)
    claims = read_ledger(claims_folder / "ledger.csv")
    checks = read_checks(claims_folder / "checks")
    for claim_id, (_, path) in checks.items():
        if claim_id not in claims:
            raise InputError("no such claim in ledger.csv", path=path, key=claim_id)
    store = Results(Path(results))
    return [judge(claim, checks.get(claim_id), store) for claim_id, claim in claims.items()]


def show(value: Any, like: Any = None) -> str:
    """A value for a reader: numbers to six significant digits, lists with semicolons; whole numbers as `like` is written."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "; ".join(show(item) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if isinstance(like, int) and value.is_integer():
            return str(int(value))
        return f"{value:.1f}" if value.is_integer() and abs(value) < 1000 else f"{value:.6g}"
    return str(value)


def show_reference(check: Comparison) -> str:
    """What the value got is held against: `printed 2.1`, `printed at most 20`, `criterion at least 1`."""
    origin = "printed" if check.printed is not None else "criterion"
    return f"{origin} {'' if check.relation == 'equal' else check.relation + ' '}{show(check.reference)}"


def show_criterion(check: Comparison | None) -> str:
    """The test that a claim has to pass: how close counts as equal, the relation, and the value where it is ours and not printed."""
    if check is None or check.check is None:
        return ""
    parts = [f"{check.tolerance:g}"] if check.tolerance is not None else []
    parts += [f"{100 * check.relative:g} %"] if check.relative is not None else []
    slack = " or ".join(parts)
    equal = f"equal within {slack}" if slack and slack != "0" else "exact"
    test = equal if check.relation == "equal" else f"{check.relation} the printed"
    if check.criterion is not None:
        relation = "equal to" if check.relation == "equal" else check.relation
        test = f"ours: {relation} {show(check.criterion)}"
    return test


def to_frame(outcomes: list[Outcome]) -> pd.DataFrame:
    """Outcomes as a table, one row a claim, in the ledger's order."""
    rows = []
    for one in outcomes:
        check = one.check
        rows.append(
            {
                "claim": one.claim.claim_id,
                "document": one.claim.document,
                "location": one.claim.location,
                "statement": one.claim.statement,
                "printed": show(check.printed) if check is not None and check.printed is not None else one.claim.value,
                "unit": one.claim.unit,
                "got": show(one.got, check.printed if check is not None else None),
                "difference": difference(one.got, check.printed) if check is not None and check.relation == "equal" else "",
                "verdict": one.verdict,
                "kind": one.claim.kind,
                "check": describe(check.check) if check is not None else one.claim.how_to_check,
                "criterion": show_criterion(check),
                "expected": show(check.expect) if check is not None else "",
                "waits_for": one.claim.waits_for if one.verdict == "not yet run" and check is None else "",
                "note": one.note,
                "first_pass": one.claim.first_pass,
                "as_expected": "no" if one.problem else "yes",
            }
        )
    return pd.DataFrame(rows)
