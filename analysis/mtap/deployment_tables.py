"""The printed deployment table, compared with what was timed here."""

from __future__ import annotations

import pandas as pd

from analysis.mtap import scoring


def deployment_table(printed: scoring.Printed, trials: pd.DataFrame) -> pd.DataFrame:
    """The printed deployment table, compared with what we timed."""
    ours = trials.set_index("tool")
    rows = []
    for tool, row in printed.deployment.items():
        mine = ours.loc[tool]
        rows.append(
            {
                "tool": tool,
                "printed_time": row.time_to_first_prediction,
                "printed_minutes": row.minutes,
                "measured_minutes": mine["minutes_to_first_prediction"],
                "printed_docker": row.docker,
                "source_patches": mine["source_patches"],
                "manual_steps": mine["manual_steps"],
                "printed_failure": row.failure,
                "outcome": mine["outcome"],
                "what": mine["what"],
            }
        )
    return pd.DataFrame(rows)
