"""The claims of the five documents and their verdicts; in the page, what is returned here (see `bundle`)."""

from __future__ import annotations

from functools import cache

from analysis.paths import DATA

BARE = ("count", "year", "params", "tools")


@cache
def claims() -> list[list[str]]:
    """Of each claim: identifier, document, place, statement, printed value, verdict, why; in the order of the ledger."""
    from analysis.artifact.claims.check_files import read_checks
    from analysis.artifact.claims.ledger import read_ledger

    checks = read_checks(DATA / "claims" / "checks")
    found = []
    for name, claim in read_ledger(DATA / "claims" / "ledger.csv").items():
        check = checks[name][0]
        found.append(
            [
                name,
                claim.document,
                claim.location,
                claim.statement,
                claim.value if claim.unit in BARE else f"{claim.value} {claim.unit}".strip(),
                check.verdict,
                check.note or ("the grade that the rubric gives our evidence" if check.check and check.check.reason else ""),
            ]
        )
    return found


@cache
def documents() -> list[tuple[str, str]]:
    """Key and name of each document."""
    from analysis.artifact.claims.ledger import DOCUMENTS

    return list(DOCUMENTS.items())


@cache
def verdicts() -> list[str]:
    """The verdicts in the order of the tables."""
    from analysis.artifact.claims.check_files import VERDICTS

    return list(VERDICTS)
