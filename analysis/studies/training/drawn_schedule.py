"""The pipeline schedule of a predicted run."""

from __future__ import annotations

from analysis.studies.training.schedule import Task, simulate
from analysis.training.views import Answer, forward_share, stage_s

TRACED_MICROBATCHES = 64


def tasks(answer: Answer) -> list[Task]:
    """The schedule of the run's pipeline, at most `TRACED_MICROBATCHES` microbatches."""
    item = answer.case
    p, m = item.pipeline, max(1, round(item.microbatches))
    passes = stage_s(answer.time_s, item, float(forward_share([item])[0]))
    return simulate(*passes, min(m, max(p, TRACED_MICROBATCHES // p * p)), item.virtual)
