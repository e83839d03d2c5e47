"""A run as tables, with VIDUR's recorded column names."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.serving.metrics import tpot_s, tpot_vidur_s
from analysis.serving.requests import Ints
from analysis.serving.simulate import Result
from analysis.tables import write_csv


def requests_table(result: Result) -> pd.DataFrame:
    """One row a request, in the order given; the columns recorded of VIDUR, then ours."""
    requests, records = result.requests, result.records
    return pd.DataFrame(
        {
            "request_id": requests.request_id,
            "arrived_at": requests.arrived_at_s,
            "num_prefill_tokens": requests.prefill_tokens,
            "num_decode_tokens": requests.decode_tokens,
            "scheduled_at": records["scheduled_at"],
            "ttft": result.ttft_s,
            "e2e": result.e2e_s,
            "completed_at": records["completed_at"],
            "prefill_completed_at": records["prefill_completed_at"],
            "num_restarts": records["restarts"],
            "tpot_vidur": tpot_vidur_s(result),
            "tpot_nm1": tpot_s(result),
            "replica": records["replica"],
            "cached_tokens": records["cached"],
        }
    )


def joined(values: Ints, offsets: Ints) -> list[str]:
    """Each slice of values as one text, its numbers separated by spaces."""
    texts = [str(value) for value in values.tolist()]
    bounds = offsets.tolist()
    return [" ".join(texts[first:last]) for first, last in itertools.pairwise(bounds)]


def batches_table(result: Result) -> pd.DataFrame:
    """One row a batch by start time; needs a run with `record_batches=True`."""
    batches = result.batches
    assert batches is not None, "the run did not record its batches"
    rows = batches.rows
    blocks = result.limits.kv_blocks * (result.limits.block_size if result.scheduler == "lightllm" else 1)
    return pd.DataFrame(
        {
            "batch_id": np.arange(len(rows)),
            "t_sched": rows["start"],
            "size": rows["size"],
            "request_ids": joined(result.requests.request_id[batches.members], batches.offsets),
            "num_tokens": joined(batches.tokens, batches.offsets),
            "total_tokens": rows["tokens"],
            "n_prefill": rows["prefills"],
            "n_decode": rows["size"] - rows["prefills"],
            "total_time_s": rows["duration"],
            "kv_mem_pct": rows["blocks"] * 100 / blocks,
            "replica": rows["replica"],
            "num_waiting": rows["waiting"],
        }
    )


def write_run(result: Result, out: str | Path) -> None:
    """Write `requests.csv` and, of a run that kept its batches, `batches.csv` into a folder."""
    write_csv(requests_table(result), Path(out) / "requests.csv")
    if result.batches is not None:
        write_csv(batches_table(result), Path(out) / "batches.csv")
