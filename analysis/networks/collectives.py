"""How many cycles does a collective take? To the cycle what ASTRA-sim's analytical backends print: by formula where there is one, else
event by event. The two are tested equal to each other, and both to the recorded runs of the real tool in `data/recorded/astra-sim`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.networks import columns
from analysis.networks.cases import CollectiveCase, machine_of
from analysis.networks.closed_forms import CaseArrays, closed_form_cycles
from analysis.networks.codes import COLLECTIVES, NODE_COLLECTIVE
from analysis.networks.event_simulation.loop import Run, simulate
from analysis.networks.event_simulation.records import SimulatedSystem, TraceNodes

PLAIN_CASES = 2000
"""So many cases take plain Python a tenth of a second; compiling for them takes two, once."""


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


def closed_forms(cases: Sequence[CollectiveCase]) -> np.ndarray:
    """Cycles of each case by formula, -1 where there is none."""
    result = np.full(len(cases), -1, np.int64)
    if cases:
        arrays, there = columns.of_cases(cases)
        result[there] = closed_forms_of(arrays)
    return result


def closed_forms_of(arrays: CaseArrays) -> np.ndarray:
    """The same for cases side by side."""
    result = np.empty(len(arrays.aware), np.int64)
    answer = closed_form_cycles if len(result) > PLAIN_CASES else closed_form_cycles.plain
    answer(arrays, result)
    return result
