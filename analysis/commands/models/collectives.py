"""Cycles of the collectives in a file, as ASTRA-sim's analytical network backends count them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.commands.common.answers import answer_cases
from analysis.commands.common.options import Out, Records, Scheduler

COLUMNS = (
    "CSV: backend (Congestion_Unaware, Congestion_Aware), collective (all_reduce, all_gather, reduce_scatter, all_to_all), size_bytes, "
    "topology (Ring, Switch, FullyConnected), npus_per_dim, bandwidth_gib_per_s (of a link), latency_ns, "
    "algorithm_per_dim (ring, direct, halvingDoubling, doubleBinaryTree); several dimensions: names joined by +, numbers by x. "
    "May be left out (default): "
    "preferred_dataset_splits (4), scheduling_policy (LIFO), active_chunks_per_dim (1), queues_per_dim (1), endpoint_delay in ns (10), "
    "local_mem_bw_GBps in 1e9 bytes/s (3350), collective_optimization (localBWAware)"
)
app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main(
    cases: Annotated[Path, typer.Argument(help=COLUMNS)], out: Out = None, scheduler: Scheduler = "", as_json: Records = False
) -> None:
    """Answer each case; one outside the model has an empty cycles_max and its reason."""
    from functools import partial

    from analysis.networks import case_table

    answer_cases("collectives", cases, out, partial(case_table.answer_cases, path=cases), scheduler, as_json, beside=False)
