"""How many claims have which verdict, and which of them are not as expected?"""

from __future__ import annotations

import pandas as pd

from analysis.claims.check import Outcome, to_frame
from analysis.claims.check_files import VERDICTS
from analysis.claims.ledger import DOCUMENTS


def counts(frame: pd.DataFrame, by: str = "document", order: tuple[str, ...] = tuple(DOCUMENTS)) -> pd.DataFrame:
    """Claims by verdict (rows) and by `by` (columns), with totals.

    Args:
        frame: table of `analysis.claims.check.to_frame`.
        by: column to count by.
        order: order of the columns.
    """
    table = pd.crosstab(frame["verdict"], frame[by]).reindex(index=list(VERDICTS), columns=list(order), fill_value=0)
    table["all"] = table.sum(axis=1)
    table.loc["all"] = table.sum(axis=0)
    return table.rename_axis(index="verdict", columns=None).reset_index()


def report(outcomes: list[Outcome]) -> str:
    """The text of `claims check`: counts by verdict and document, then every claim that is not as expected."""
    lines = [counts(to_frame(outcomes)).to_string(index=False), ""]
    changed = [one for one in outcomes if one.problem]
    if not changed:
        lines.append(f"{len(outcomes)} claims, every verdict and value as expected")
        return "\n".join(lines)
    for one in changed:
        lines.append(f"{one.claim.claim_id} ({one.file}): {one.problem}")
    lines.append(f"{len(changed)} of {len(outcomes)} claims are not as expected: {', '.join(one.claim.claim_id for one in changed)}")
    return "\n".join(lines)
