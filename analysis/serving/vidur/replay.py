"""Does our scheduler make the recorded run's batches, given its step times?"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from analysis.errors import InputError
from analysis.serving.limits import Limits
from analysis.serving.requests import read_requests
from analysis.serving.schedulers.names import kind_of
from analysis.serving.simulate import Result, simulate
from analysis.serving.steps import read_recorded
from analysis.serving.tables import batches_table, requests_table
from analysis.tables import write_csv


def replay(
    requests: str | Path, steps: str | Path, scheduler: str, limits: Limits | None = None, max_request_tokens: int | None = None
) -> tuple[Result, int]:
    """Run recorded requests with recorded step times, which are used in order, one a batch.

    Args:
        max_request_tokens: what Orca and FasterTransformer reserve for each request; by default the limits' own, or the longest request's
            tokens if that is more.
    Returns: (the run with its batches, recorded steps not used).
    """
    arrived, recorded, limits = read_requests(requests), read_recorded(steps), limits or Limits()
    if len(arrived.session):
        message = "a recorded run says when each request arrived: turns of sessions wait for answers in `serve simulate`"
        raise InputError(message, path=requests, key="session_id")
    if max_request_tokens is not None:
        limits = dataclasses.replace(limits, max_request_tokens=max_request_tokens)
    elif kind_of(scheduler).reserves and len(arrived):
        longest = int((arrived.prefill_tokens + arrived.decode_tokens).max())
        limits = dataclasses.replace(limits, max_request_tokens=max(limits.max_request_tokens, longest))
    result = simulate(arrived, scheduler, recorded, limits, record_batches=True)
    assert recorded.recorded is not None
    return result, recorded.recorded.size - int(result.replicas["batches"].sum())


def write_run(result: Result, out: str | Path) -> None:
    """Write `requests.csv` and, of a run that kept its batches, `batches.csv` into a folder."""
    write_csv(requests_table(result), Path(out) / "requests.csv")
    if result.batches is not None:
        write_csv(batches_table(result), Path(out) / "batches.csv")
