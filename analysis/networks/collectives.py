"""How many cycles does a collective take? To the cycle what ASTRA-sim's analytical backends print.

`collective_cycles` answers for one case. It takes the closed form where there is one and otherwise simulates event by event;
the two are tested equal to each other, and both to the recorded runs of the real tool in `data/recorded/astra-sim`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.errors import InputError
from analysis.networks.cases import CollectiveCase, check_case, machine_of, outside_model
from analysis.networks.closed_forms import MOST_DIMENSIONS, CaseArrays, case_arrays, closed_form_cycles
from analysis.networks.codes import COLLECTIVES, NODE_COLLECTIVE
from analysis.networks.event_simulation.loop import Run, simulate
from analysis.networks.event_simulation.records import SimulatedSystem, TraceNodes

PLAIN_CASES = 200
"""So many cases are answered in plain Python sooner than compiled code is read from disk."""


@dataclass(frozen=True)
class CollectiveResult:
    """Answer for one collective.

    cycles: when the last NPU is done (cycles = ns); per_npu: when each is, in order of rank;
    method: `closed form` or `event simulation`; bandwidth_bound_cycles: (n-1)/n x bytes / bandwidth, which nothing beats;
    bus_bytes_per_s: bytes of the collective over time, times 2(n-1)/n or (n-1)/n, as NCCL's tests report it.
    """

    cycles: int
    per_npu: tuple[int, ...]
    method: str
    bandwidth_bound_cycles: float
    bus_bytes_per_s: float


def single_collective(collective: int, size_bytes: int, npus: int) -> TraceNodes:
    """A workload of one collective over all NPUs and nothing else."""
    zero = np.zeros(npus, np.int64)
    none = np.zeros(0, np.int64)
    return TraceNodes(
        first=np.arange(npus + 1),
        kind=zero + NODE_COLLECTIVE,
        duration_ns=zero,
        collective=zero + collective,
        bytes=zero + size_bytes,
        group=zero - 1,
        peer=zero,
        pair=zero - 1,
        parents=zero,
        child_first=np.zeros(npus + 1, np.int64),
        child=none,
        group_first=np.zeros(1, np.int64),
        group_member=none,
    )


def simulate_collective(case: CollectiveCase) -> Run:
    """Simulate one collective event by event, whether or not it has a closed form."""
    machine: SimulatedSystem = machine_of(case.network)
    return simulate(machine, single_collective(COLLECTIVES[case.collective], case.size_bytes, machine.npus))


def bandwidth_bound_cycles(case: CollectiveCase) -> float:
    """Least time to move the bytes that must leave an NPU through its links: sum over dimensions of (n-1)/n x bytes / bandwidth.

    For an all-gather, where the bytes given are an NPU's share, each NPU receives (n-1) shares. A ring or fully connected NPU has more
    than one link; the bound takes all of them.
    """
    total, network = 0.0, case.network
    npus = network.npus
    moved = case.size_bytes * (npus - 1) if case.collective == "all_gather" else case.size_bytes * (npus - 1) / npus
    for name, n, bandwidth in zip(network.topology, network.npus_per_dim, network.bandwidth_gib_per_s, strict=True):
        links = {"Ring": min(2, n - 1), "FullyConnected": n - 1, "Switch": 1}[name]
        total += links * bandwidth * 2**30 / 1e9
    return moved / total


def closed_forms(cases: Sequence[CollectiveCase]) -> np.ndarray:
    """Cycles of each case by formula, -1 where there is none."""
    result = np.full(len(cases), -1, np.int64)
    short = [k for k, case in enumerate(cases) if len(case.network.topology) <= MOST_DIMENSIONS]
    if short:
        result[short] = closed_forms_of(case_arrays([cases[k] for k in short]))
    return result


def closed_forms_of(arrays: CaseArrays) -> np.ndarray:
    """The same for cases side by side, at least one."""
    result = np.empty(len(arrays.aware), np.int64)
    answer = closed_form_cycles if len(result) > PLAIN_CASES else closed_form_cycles.plain
    answer(arrays, result)
    return result


def collective_cycles(case: CollectiveCase) -> CollectiveResult:
    """Cycles of one collective.

    Source: data/recorded/astra-sim/SEMANTICS.md.
    """
    check_case(case)
    reason = outside_model(case)
    if reason:
        raise InputError(f"outside the model: {reason}")
    npus = case.network.npus
    cycles = int(closed_forms([case])[0])
    per_npu, method = (cycles,) * npus, "closed form"
    if cycles < 0:
        per_npu, method = tuple(simulate_collective(case).cycles.tolist()), "event simulation"
        cycles = max(per_npu)
    total = case.size_bytes * (npus if case.collective == "all_gather" else 1)
    speed = total / (cycles * 1e-9) if cycles else float("inf")  # every delay may round down to nothing
    share = (npus - 1) / npus * (2 if case.collective == "all_reduce" else 1)
    return CollectiveResult(cycles, per_npu, method, bandwidth_bound_cycles(case), speed * share)
