"""Cycles of the collectives in a file, as ASTRA-sim's analytical network backends count them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

COLUMNS = (
    "CSV: backend (Congestion_Unaware, Congestion_Aware), collective (all_reduce, all_gather, reduce_scatter, all_to_all), size_bytes, "
    "topology (Ring, Switch, FullyConnected), npus_per_dim, bandwidth_gib_per_s (of a link), latency_ns, "
    "algorithm_per_dim (ring, direct, halvingDoubling, doubleBinaryTree); several dimensions: names joined by +, numbers by x. "
    "May be left out (default): "
    "preferred_dataset_splits, scheduling_policy (LIFO), active_chunks_per_dim, queues_per_dim, endpoint_delay (ns), local_mem_bw_GBps, "
    "collective_optimization (localBWAware)"
)
app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main(
    cases: Annotated[Path, typer.Argument(help=COLUMNS)],
    out: Annotated[Path, typer.Option(help="CSV to write: the cases with cycles_max and reason added")],
) -> None:
    """Answer each case; one outside the model has an empty cycles_max and its reason."""
    from analysis.networks.case_table import answer_cases
    from analysis.tables import read_csv, write_csv

    frame = read_csv(cases, dtype=str, keep_default_na=False)
    result = answer_cases(frame, cases)
    write_csv(result, out)
    unanswered = int(result["cycles_max"].isna().sum())
    typer.echo(f"{len(result) - unanswered} cases answered, {unanswered} not, in {out}")
