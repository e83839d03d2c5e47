"""How long does a workload take, event by event? Arrays in and out of the compiled simulation.

`simulate` sets up the arrays of `event_simulation`, gives them more room when a run needs it, and reads the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.networks.codes import DIRECT, RING
from analysis.networks.events.run import run
from analysis.networks.events.simulation import (
    CONTROL_WORDS,
    EVENT_FREE,
    EVENTS,
    FULL_BUCKETS,
    FULL_EVENTS,
    FULL_ITEMS,
    FULL_MESSAGES,
    FULL_SLOTS,
    FULL_STREAMS,
    FULL_TICKS,
    ITEM_FREE,
    M_NEXT,
    M_WORDS,
    MESSAGE_FREE,
    MOST_PHASES,
    P_WORDS,
    S_WORDS,
    STREAM_WORDS,
    SimulatedSystem,
    State,
    TraceNodes,
)


@dataclass(frozen=True)
class Run:
    """What a simulation leaves: times are cycles of 1 ns.

    `started` and `ended` have one entry a node, `cycles` and `busy` one a rank (`busy`: summed compute, host), `unfinished` lists nodes
    that never ran, `events` counts what was simulated.
    """

    started: np.ndarray
    ended: np.ndarray
    cycles: np.ndarray
    compute: np.ndarray
    unfinished: np.ndarray
    events: int


def _chain(length: int, column: int, words: int) -> np.ndarray:
    pool = np.zeros((length, words), np.int64)
    pool[:, column] = np.arange(1, length + 1)
    pool[-1, column] = -1
    return pool


def _state(machine: SimulatedSystem, work: TraceNodes, room: dict[int, int]) -> State:
    npus, rows = machine.npus, len(work.kind)
    control = np.zeros(CONTROL_WORDS, np.int64)
    control[[EVENT_FREE, ITEM_FREE, MESSAGE_FREE]] = 0
    queue = np.full((npus, machine.dimensions * machine.queues, 3), -1, np.int64)
    queue[:, :, 0] = 0
    links = npus * npus if machine.kind[0] not in (RING, 1) else 2 * npus
    link = np.full((links, 3), -1, np.int64)
    link[:, 0] = 0
    allocator = np.zeros((npus, machine.dimensions, 3), np.int64)
    allocator[:, :, 2] = machine.queues // 2
    longest = int(np.diff(work.first).max(initial=1))
    waiting = np.zeros((npus, longest + 1), np.int64)
    waiting_count = np.zeros(npus, np.int64)
    for rank in range(npus):
        free = np.flatnonzero(work.parents[work.first[rank] : work.first[rank + 1]] == 0)
        waiting[rank, : len(free)] = free
        waiting_count[rank] = len(free)
    return State(
        control=control,
        event=_chain(room[FULL_EVENTS], 3, 4),
        bucket=np.zeros((room[FULL_BUCKETS], 3), np.int64),
        item=_chain(room[FULL_ITEMS], 4, 5),
        tick=np.zeros((npus, room[FULL_TICKS], 3), np.int64),
        ticks=np.zeros(npus, np.int64),
        message=_chain(room[FULL_MESSAGES], M_NEXT, M_WORDS),
        link=link,
        slot=np.zeros((room[FULL_SLOTS], S_WORDS), np.int64),
        slot_key=np.zeros(room[FULL_SLOTS], np.int64),
        stream=np.zeros((room[FULL_STREAMS], STREAM_WORDS), np.int64),
        phase=np.zeros((room[FULL_STREAMS], MOST_PHASES, P_WORDS), np.int64),
        queue=queue,
        allocator=allocator,
        tree_turn=np.zeros((npus, machine.dimensions), np.int64),
        group_count=np.zeros((npus, len(work.group_first)), np.int64),
        node_left=work.parents.copy(),
        node_done=np.zeros(rows, np.int64),
        waiting=waiting,
        waiting_count=waiting_count,
        busy=np.zeros((npus, 3), np.int64),
        rank_total=np.zeros((npus, 5), np.int64),
        started=np.full(rows, -1, np.int64),
        ended=np.full(rows, -1, np.int64),
    )


def simulate(machine: SimulatedSystem, work: TraceNodes) -> Run:
    """Simulate all ranks to the end."""
    wide = max(machine.npus, 8)
    active = machine.npus * machine.dimensions * machine.queues * machine.running_limit
    fan = wide if (machine.algorithm == DIRECT).any() else 2
    room = {
        FULL_EVENTS: min(4 * active * fan + 1024, 1 << 16),
        FULL_BUCKETS: 1024,
        FULL_ITEMS: min(active * fan + 1024, 1 << 16),
        FULL_TICKS: 32,
        FULL_MESSAGES: min(active * fan + 1024, 1 << 16) if machine.aware else 1,
        FULL_STREAMS: max(int((work.kind == 3).sum()) * (machine.splits + 1), 1),
        FULL_SLOTS: 1 << max(12, int(np.ceil(np.log2(4 * machine.npus * machine.splits * fan)))),
    }
    while True:
        state = _state(machine, work, room)
        full = int(run(machine, work, state))
        if not full:
            break
        room[full] *= 4
    done = state.node_done == 2
    return Run(
        started=state.started,
        ended=state.ended,
        cycles=state.rank_total[:, 3],
        compute=state.rank_total[:, 0],
        unfinished=np.flatnonzero(~done),
        events=int(state.control[EVENTS]),
    )
