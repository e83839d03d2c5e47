"""Replay of an execution trace on a network: wall, compute, communication and exposed communication of every rank."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.commands.common.answers import check_header

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main(
    nodes: Annotated[
        Path, typer.Argument(help="trace: a CSV of nodes, or a Chakra file NAME.0.et or NAME.0.json with the other ranks beside it")
    ],
    network: Annotated[
        Path,
        typer.Option(help="YAML: columns of `collectives`, peak_TFLOPS and groups (`data schema network`)"),
    ],
    out: Annotated[Path, typer.Option(help="CSV to write: rank, cycles, exposed_comm_cycles, gpu_cycles, comm_cycles")],
    timeline: Annotated[Path | None, typer.Option(help="CSV to write besides: start and end of every node")] = None,
    system: Annotated[Path | None, typer.Option(help="ASTRA-sim's system JSON; --network is then ASTRA-sim's own network YAML")] = None,
    groups: Annotated[Path | None, typer.Option(help="with --system: JSON of process groups")] = None,
    ranks: Annotated[int, typer.Option(help="replay on so many ranks, with more data-parallel replicas; 0: the trace's own")] = 0,
    data_parallel: Annotated[str, typer.Option(help="with --ranks: groups that grow, by number; all: those of all ranks")] = "",
    backend: Annotated[str, typer.Option(help="with --system: Congestion_Unaware or Congestion_Aware")] = "Congestion_Unaware",
) -> None:
    """Replay the trace; the answer is ASTRA-sim's to the cycle."""
    from analysis.networks.native import read_native
    from analysis.networks.network_file import read_network
    from analysis.networks.replay import prepare, replay
    from analysis.networks.trace import read_groups, read_nodes
    from analysis.tables import write_csv
    from analysis.workloads.chakra.rescale import rescaled
    from analysis.workloads.chakra.traces import read_trace

    chakra = nodes.suffix in (".et", ".json")
    if not chakra:
        check_header("replay", nodes)
    algorithms = None
    if system is None:
        net, peak, members = read_network(network)
    else:
        net, algorithms, peak = read_native(network, system, backend=backend)
        members = read_groups(groups) if groups else {}
    trace = read_trace(nodes) if chakra else read_nodes(nodes)
    if ranks or data_parallel:
        trace, members = rescaled(trace, members, ranks, data_parallel.replace(",", " ").split())
    result = replay(prepare(trace, net, members, peak, algorithms, nodes), nodes)
    write_csv(result.ranks, out)
    if timeline is not None:
        write_csv(result.timeline, timeline)
    typer.echo(f"{len(result.ranks)} ranks, {int(result.ranks['cycles'].max())} cycles, in {out}")
