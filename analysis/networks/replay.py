"""How long does a trace take on a network, and how much of its communication is exposed?

Event by event (`event_simulation`). Agrees with ASTRA-sim to the cycle in wall time, exposed communication, compute and communication of
every rank of the recorded traces; on random traces, where collectives do not disturb each other, with a replay of known durations (tests).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.errors import InputError
from analysis.networks.cases import CollectiveCase, Network, check_network, machine_of, network_reason, outside_model
from analysis.networks.codes import COLLECTIVES, NODE_COLLECTIVE, NODE_COMPUTE, NODE_CPU, NODE_SKIP
from analysis.networks.event_simulation.loop import Run, simulate
from analysis.networks.event_simulation.records import SimulatedSystem, TraceNodes
from analysis.networks.trace import Node, work_of


@dataclass(frozen=True)
class Replay:
    """Answer for a trace: all times are cycles of 1 ns.

    ranks: one row a rank with rank, cycles (when it is done), exposed_comm_cycles (cycles less summed GPU compute), gpu_cycles,
    comm_cycles (cycles in which at least one communication is open); timeline: one row a node with rank, node_id, name, slot
    (compute, communication, host), start and end.
    """

    ranks: pd.DataFrame
    timeline: pd.DataFrame


@dataclass(frozen=True)
class Prepared:
    """A checked trace on a network, laid out; `simulated` is what is timed."""

    machine: SimulatedSystem
    work: TraceNodes
    nodes: list[Node]


def prepare(
    nodes: Sequence[Node],
    network: Network,
    groups: Mapping[str, tuple[int, ...]],
    peak_tflops: float | None = None,
    algorithms: Mapping[str, tuple[str, ...]] | None = None,
    path: str | Path | None = None,
) -> Prepared:
    """Check a trace and a network and lay them out.

    Args:
        peak_tflops: roofline peak (1e12 flop/s); None: compute nodes take their durations.
        algorithms: algorithms for single collectives, where they differ.
    """
    check_network(network)
    named = {name: replace(network, algorithm_per_dim=given) for name, given in (algorithms or {}).items()}
    reason = next(filter(None, map(network_reason, (network, *named.values()))), "")
    if reason:
        raise InputError(f"outside the model: {reason}")
    if peak_tflops is not None and not 0 < peak_tflops < float("inf"):
        raise InputError(f"expected a peak above 0, got {peak_tflops}", key="peak_TFLOPS")
    work, ordered = work_of(nodes, network, groups, peak_tflops, path)
    _refuse_collectives(work, ordered, network, named, path)
    return Prepared(machine_of(network, algorithms), work, ordered)


def _refuse_collectives(
    work: TraceNodes, nodes: list[Node], network: Network, named: Mapping[str, Network], path: str | Path | None
) -> None:
    """Refuse collectives that the tool has no answer for; a group that is not the whole machine always runs a ring."""
    names = list(COLLECTIVES)
    for row in np.flatnonzero(work.kind == NODE_COLLECTIVE).tolist():
        name, group = names[work.collective[row]], work.group[row]
        whole = group < 0 or work.group_first[group + 1] - work.group_first[group] == network.npus
        on = named.get(name, network) if whole else replace(network, algorithm_per_dim=("ring",) * len(network.topology))
        reason = outside_model(CollectiveCase(name, int(work.bytes[row]), on))
        if reason:
            node = nodes[row]
            raise InputError(f"node {node.node_id} of rank {node.rank} is outside the model: {reason}", path=path, line=node.line)


def simulated(prepared: Prepared, path: str | Path | None = None) -> Run:
    """Replay event by event."""
    run = simulate(prepared.machine, prepared.work)
    if len(run.unfinished):
        node = prepared.nodes[int(run.unfinished[0])]
        raise InputError(
            f"the trace stalls: node {node.node_id} of rank {node.rank} never ends (do all ranks of its group issue the same collectives?)",
            path=path,
            line=node.line,
        )
    return run


def union_cycles(start: np.ndarray, end: np.ndarray) -> int:
    """Length of the union of intervals."""
    total, reached = 0, -1
    for low, high in sorted(zip(start.tolist(), end.tolist(), strict=True)):
        if high > reached:
            total += high - max(low, reached)
            reached = high
    return total


def replay(prepared: Prepared, path: str | Path | None = None) -> Replay:
    """Replay a prepared trace."""
    run, work = simulated(prepared, path), prepared.work
    slot = np.where(work.kind == NODE_COMPUTE, "compute", np.where(work.kind == NODE_CPU, "host", "communication"))
    slot[work.kind == NODE_SKIP] = "skipped"
    timeline = pd.DataFrame(
        {
            **{name: [getattr(node, name) for node in prepared.nodes] for name in ("rank", "node_id", "name")},
            "slot": slot,
            "start": run.started,
            "end": run.ended,
        }
    )
    rows = []
    for rank in range(prepared.machine.npus):
        part = slice(work.first[rank], work.first[rank + 1])
        talks = slot[part] == "communication"
        busy = union_cycles(run.started[part][talks], run.ended[part][talks])
        rows.append((rank, int(run.cycles[rank]), int(run.cycles[rank] - run.compute[rank]), int(run.compute[rank]), busy))
    ranks = pd.DataFrame(rows, columns=["rank", "cycles", "exposed_comm_cycles", "gpu_cycles", "comm_cycles"])
    return Replay(ranks, timeline)
