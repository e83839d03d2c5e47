"""Which claims do the five documents make?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from analysis.errors import InputError
from analysis.tables import read_csv

DOCUMENTS = {
    "survey": "survey draft with MTAP",
    "ml_survey": "earlier survey of ML-based models",
    "plan": "project plan",
    "stablehlo": "StableHLO study, public page",
    "neuroscalar": "NeuroScalar paper",
}
COLUMNS = (
    "claim_id",
    "document",
    "location",
    "statement",
    "quantity",
    "value",
    "unit",
    "kind",
    "how_to_check",
    "waits_for",
    "first_pass",
    "note",
)


@dataclass(frozen=True)
class Claim:
    """One statement of a document that somebody could check.

    `waits_for` names the experiment that will check it where none has run yet; `first_pass` is what a reading of the documents alone said.
    """

    claim_id: str
    document: str
    location: str
    statement: str
    quantity: str
    value: str
    unit: str
    kind: str
    how_to_check: str
    waits_for: str
    first_pass: str
    note: str


def read_ledger(path: str | Path) -> dict[str, Claim]:
    """Read the ledger, one row a claim.

    Raises:
        InputError: a missing column, an identifier given twice or empty, a document that is none of the five.
    """
    frame = read_csv(path, required=COLUMNS, dtype=str, keep_default_na=False)
    claims: dict[str, Claim] = {}
    for line, row in enumerate(frame[list(COLUMNS)].itertuples(index=False), start=2):
        claim = Claim(*row)
        if not claim.claim_id:
            raise InputError("empty identifier", path=path, line=line, key="claim_id")
        if claim.claim_id in claims:
            raise InputError("claim given twice", path=path, key=claim.claim_id)
        if claim.document not in DOCUMENTS:
            raise InputError(f"unknown document {claim.document!r}; expected {', '.join(DOCUMENTS)}", path=path, key=claim.claim_id)
        claims[claim.claim_id] = claim
    return claims
