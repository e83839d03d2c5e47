"""Which claims do the five documents make?"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from analysis.studies.written_tables import Row, read_rows

DOCUMENTS = {
    "survey": "survey draft with MTAP",
    "ml_survey": "earlier survey of ML-based models",
    "plan": "project plan",
    "stablehlo": "StableHLO study, public page",
    "neuroscalar": "NeuroScalar paper",
}


class Claim(Row):
    """One statement of a document that somebody could check.

    `waits_for` names the experiment that will check it where none has run yet; `first_pass` is what a reading of the documents alone said.
    """

    claim_id: str = Field(min_length=1)
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
    """Read the ledger, one row a claim."""
    return {claim.claim_id: claim for claim in read_rows(path, Claim, unique=("claim_id",), known={"document": DOCUMENTS})}
