"""How long does a trace take on a network, and how much of its communication is exposed?

`replay` first tries the replay with known durations and falls back to the full event-driven simulation where collectives disturb each
other; both give the same answer where both apply (tested). Agrees with ASTRA-sim to the cycle in wall time, exposed communication,
compute and communication of every rank of the recorded traces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.errors import InputError
from analysis.networks.cases import CollectiveCase, Network, check_network, machine_of, network_reason, outside_model
from analysis.networks.closed_forms import CaseArrays, case_arrays
from analysis.networks.codes import COLLECTIVES, NODE_COLLECTIVE, NODE_COMPUTE, NODE_CPU, NODE_RECEIVE, NODE_SEND, NODE_SKIP
from analysis.networks.event_simulation import SimulatedSystem, TraceNodes, simulate
from analysis.networks.replay_fast import replay_known
from analysis.networks.trace import Node, work_of

PLAIN_NODES = 2000
"""So many nodes are replayed in plain Python sooner than compiled code is read from disk."""


@dataclass(frozen=True)
class Replay:
    """Answer for a trace: all times are cycles of 1 ns.

    ranks: one row a rank with rank, cycles (when it is done), exposed_comm_cycles (cycles less summed GPU compute), gpu_cycles,
    comm_cycles (cycles in which at least one communication is open); timeline: one row a node with rank, node_id, name, slot
    (compute, communication, host), start and end; method: `known durations` or `event simulation`.
    """

    ranks: pd.DataFrame
    timeline: pd.DataFrame
    method: str


@dataclass(frozen=True)
class Prepared:
    """A checked trace on a network, laid out; `run_prepared` is what is timed."""

    machine: SimulatedSystem
    arrays: CaseArrays
    work: TraceNodes
    nodes: list[Node]
    most_collectives: int


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
        network: the network; its algorithms serve all collectives.
        peak_tflops: roofline peak (1e12 flop/s); None: compute nodes take their durations.
        algorithms: algorithms for single collectives, where they differ.
    Raises:
        InputError: anything wrong with either, or a network outside the model.
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
    machine = machine_of(network, algorithms)
    arrays = case_arrays([CollectiveCase("all_reduce", 1, network)])
    collectives = [node.rank for node, kind in zip(ordered, work.kind, strict=True) if kind == NODE_COLLECTIVE]
    most = max(np.bincount(collectives).max(initial=0), 1) if collectives else 1
    return Prepared(machine, arrays, work, ordered, int(most))


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


def run_known(prepared: Prepared) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """Replay with known durations: (start and end of each node, cycles and summed compute of each rank); None where that does not hold."""
    work, machine = prepared.work, prepared.machine
    if np.isin(work.kind, (NODE_SEND, NODE_RECEIVE, NODE_SKIP)).any() or (machine.algorithm != machine.algorithm[0]).any():
        return None
    started, ended = np.zeros(len(work.kind), np.int64), np.zeros(len(work.kind), np.int64)
    cycles, totals = np.zeros(machine.npus, np.int64), np.zeros((machine.npus, 3), np.int64)
    replayed = replay_known if len(work.kind) > PLAIN_NODES else replay_known.plain
    if not replayed(machine, prepared.arrays, work, prepared.most_collectives, started, ended, cycles, totals):
        return None
    return started, ended, cycles, totals[:, 0]


def run_events(prepared: Prepared, path: str | Path | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Replay event by event; same answer as `run_known`.

    Raises:
        InputError: the trace stalls (ranks of a group do not issue the same collectives, or a skipped node's children wait for ever).
    """
    run = simulate(prepared.machine, prepared.work)
    if len(run.unfinished):
        node = prepared.nodes[int(run.unfinished[0])]
        raise InputError(
            f"the trace stalls: node {node.node_id} of rank {node.rank} never ends (do all ranks of its group issue the same collectives?)",
            path=path,
            line=node.line,
        )
    return run.started, run.ended, run.cycles, run.compute


def union_cycles(start: np.ndarray, end: np.ndarray) -> int:
    """Length of the union of intervals."""
    total, reached = 0, -1
    for low, high in sorted(zip(start.tolist(), end.tolist(), strict=True)):
        if high > reached:
            total += high - max(low, reached)
            reached = high
    return total


def summarise(prepared: Prepared, answer: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], method: str) -> Replay:
    """Tables of a replay."""
    started, ended, cycles, compute = answer
    work = prepared.work
    slot = np.where(work.kind == NODE_COMPUTE, "compute", np.where(work.kind == NODE_CPU, "host", "communication"))
    slot[work.kind == NODE_SKIP] = "skipped"
    timeline = pd.DataFrame(
        {
            "rank": [node.rank for node in prepared.nodes],
            "node_id": [node.node_id for node in prepared.nodes],
            "name": [node.name for node in prepared.nodes],
            "slot": slot,
            "start": started,
            "end": ended,
        }
    )
    rows = []
    for rank in range(prepared.machine.npus):
        part = slice(work.first[rank], work.first[rank + 1])
        talks = slot[part] == "communication"
        busy = union_cycles(started[part][talks], ended[part][talks])
        rows.append((rank, int(cycles[rank]), int(cycles[rank] - compute[rank]), int(compute[rank]), busy))
    ranks = pd.DataFrame(rows, columns=["rank", "cycles", "exposed_comm_cycles", "gpu_cycles", "comm_cycles"])
    return Replay(ranks, timeline, method)


def replay(prepared: Prepared, path: str | Path | None = None) -> Replay:
    """Replay a prepared trace."""
    answer = run_known(prepared)
    if answer is not None:
        return summarise(prepared, answer, "known durations")
    return summarise(prepared, run_events(prepared, path), "event simulation")
