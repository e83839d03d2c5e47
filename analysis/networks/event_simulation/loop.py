"""Nodes in hardware slots, the main loop, and `simulate`, which sets up the arrays, enlarges them where needed, and reads the answer."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.networks import codes
from analysis.networks.closed_forms import reduction_cycles
from analysis.networks.codes import light, light_outer
from analysis.networks.event_simulation import records as rec
from analysis.networks.event_simulation.messages import find_slot, post_receive, register, send, transmit, wire
from analysis.networks.event_simulation.phases import fill_queue, join_queue, run_algorithm, start_collective
from analysis.networks.event_simulation.records import SimulatedSystem, State, TraceNodes


@light
def hardware_slot(kind):
    """Slot that a node occupies; a rank has one for computing, one for communicating, one for its host."""
    if kind in (codes.NODE_COMPUTE, codes.NODE_SKIP):
        return rec.SLOT_COMPUTE
    return rec.SLOT_CPU if kind == codes.NODE_CPU else rec.SLOT_COMMUNICATE


@light
def issue_ready(machine, work, state, rank):
    """Try all nodes without open dependencies in ascending order; a slot taken by one is closed to the next."""
    waiting = state.waiting[rank]
    count = state.waiting_count[rank]
    now = state.control[rec.NOW]
    base = work.first[rank]
    kept = 0
    skipped = False
    for k in range(count):
        row = base + waiting[k]
        kind = work.kind[row]
        slot = hardware_slot(kind)
        if kind != codes.NODE_RECEIVE and state.busy[rank, slot]:
            waiting[kept] = waiting[k]
            kept += 1
            continue
        state.started[row] = now
        if kind == codes.NODE_SKIP:
            state.ended[row] = now
            state.node_done[row] = 1
            state.rank_total[rank, 3] = now
            skipped = True
            continue
        if kind != codes.NODE_RECEIVE:
            state.busy[rank, slot] = 1
        if kind in (codes.NODE_COMPUTE, codes.NODE_CPU):
            state.rank_total[rank, slot] += work.duration_ns[row]
            register(state, rank, work.duration_ns[row], rec.NODE_ENDS, row, 0, 0)
        elif kind == codes.NODE_COLLECTIVE:
            start_collective(machine, work, state, row, rank)
        elif kind == codes.NODE_BROADCAST:
            register(state, rank, work.duration_ns[row], rec.BROADCAST_ENDS, row, 0, 0)
        elif kind == codes.NODE_SEND:
            send(machine, state, -1 - row, rank, work.peer[row], work.bytes[row])
        else:
            post_receive(machine, state, -1 - work.pair[row], work.peer[row], rank, -2 - row)
    state.waiting_count[rank] = kept
    if skipped:
        for k in range(base, work.first[rank + 1]):
            if state.node_done[k] == 1:
                state.node_done[k] = 2
                free_children(work, state, rank, k)


@light
def free_children(work, state, rank, row):
    """Nodes that waited for this one only join the ready ones, which stay sorted."""
    waiting = state.waiting[rank]
    base = work.first[rank]
    for c in range(work.child_first[row], work.child_first[row + 1]):
        child = work.child[c]
        state.node_left[child] -= 1
        if state.node_left[child] == 0:
            k = state.waiting_count[rank]
            while k > 0 and waiting[k - 1] > child - base:
                waiting[k] = waiting[k - 1]
                k -= 1
            waiting[k] = child - base
            state.waiting_count[rank] += 1


@light
def finish_node(machine, work, state, row, rank):
    """A node ends: its slot is free, its children may start."""
    kind = work.kind[row]
    state.ended[row] = state.control[rec.NOW]
    state.node_done[row] = 2
    state.rank_total[rank, 3] = state.control[rec.NOW]
    state.rank_total[rank, 4] += 1
    if kind != codes.NODE_RECEIVE:
        state.busy[rank, hardware_slot(kind)] = 0
    free_children(work, state, rank, row)
    issue_ready(machine, work, state, rank)


@light
def close_phase(machine, work, state, number):
    """A chunk leaves a phase; returns (its queue, the node that this ends or -1). With phases left it joins its next queue."""
    stream = state.stream[number]
    queue, row = stream[rec.QUEUE], stream[rec.NODE]
    stream[rec.CURRENT] += 1
    if stream[rec.CURRENT] < stream[rec.PHASES]:
        join_queue(machine, work, state, number)
        return queue, -1
    state.node_left[row] -= 1
    return queue, row if state.node_left[row] == 0 else -1


@light
def next_item(machine, state, rank):
    """Take the next item of a rank's tick: (more, node that ends or -1, stream that goes on or -1)."""
    tick, item, control = state.tick, state.item, state.control
    place = 0
    while tick[rank, place, 0] != control[rec.NOW]:
        place += 1
    here = tick[rank, place, 1]
    if here < 0:
        last = state.ticks[rank] - 1
        for k in range(3):
            tick[rank, place, k] = tick[rank, last, k]
        state.ticks[rank] = last
        return False, -1, -1
    tick[rank, place, 1] = item[here, 4]
    if item[here, 4] < 0:
        tick[rank, place, 2] = -1
    kind, first, processing, size = item[here, 0], item[here, 1], item[here, 2], item[here, 3]
    item[here, 4] = control[rec.ITEM_FREE]
    control[rec.ITEM_FREE] = here
    if kind != rec.BUNDLE:
        return True, first, -1
    if processing:
        register(state, rank, reduction_cycles(size, machine.memory_bytes_per_ns), rec.BUNDLE, first, 0, size)
        return True, -1, -1
    return True, -1, first


@light
def arrive(machine, state, tag, source, target):
    """A message is there: (node of its sender that ends or -1, stream or receive node that waited for it or -1)."""
    place = find_slot(state, tag, source, target, machine.npus)
    slot = state.slot[place]
    slot[rec.S_ARRIVED] += 1
    return -1 - tag if tag < 0 else -1, slot[rec.S_STREAM] if slot[rec.S_POSTED] >= slot[rec.S_ARRIVED] else -1


@light
def handle(machine, work, state, kind, first, second):
    """One event of the network or one item of a rank's tick: (stay at this event, node that ends, stream that goes on, what it meets).

    A receive node that goes on is given as a stream numbered below -1.
    """
    if kind == rec.RANK_TICK:
        more, node, stream = next_item(machine, state, first)
        return more, node, stream, rec.GENERAL
    if kind == rec.RECEIVE_NOW:
        return False, -1, first, rec.ARRIVED
    if kind == rec.LINK_FREE:
        link = state.link[first]
        link[0] = 0
        number = link[1]
        if number >= 0:
            link[1] = state.message[number, rec.M_NEXT]
            transmit(machine, state, number, first, second)
        return False, -1, -1, rec.ARRIVED
    tag, source, target = first, second // machine.npus, second % machine.npus
    if kind == rec.NEXT_DEVICE:
        message = state.message[first]
        tag, source, target = message[rec.M_TAG], message[rec.M_SOURCE], message[rec.M_TARGET]
        if second != target:
            message[rec.M_DEVICE] = second
            wire(machine, state, first)
            return False, -1, -1, rec.ARRIVED
        message[rec.M_NEXT] = state.control[rec.MESSAGE_FREE]
        state.control[rec.MESSAGE_FREE] = first
    node, stream = arrive(machine, state, tag, source, target)
    return False, node, stream, rec.ARRIVED


@light
def rank_of(machine, work, node):
    """The rank that has a node, by halving."""
    rank, beyond = 0, machine.npus
    while beyond - rank > 1:
        middle = (rank + beyond) // 2
        if work.first[middle] <= node:
            rank = middle
        else:
            beyond = middle
    return rank


@light_outer
def run(machine, work, state):
    """Run all ranks to the end; returns 0, or which array was too small."""
    control, event, bucket = state.control, state.event, state.bucket
    for rank in range(machine.npus):
        issue_ready(machine, work, state, rank)
    while control[rec.BUCKETS] > 0 and control[rec.FAILED] == 0:
        control[rec.NOW] = bucket[control[rec.BUCKETS] - 1, 0]
        here = bucket[control[rec.BUCKETS] - 1, 1]
        while here >= 0 and control[rec.FAILED] == 0:
            stay, node, stream, meets = handle(machine, work, state, event[here, 0], event[here, 1], event[here, 2])
            rank, left, entered = -1, -1, -1
            while True:  # what one event sets off, in the tool's order: nodes that end, queues that move up, streams that go on
                if node >= 0:
                    finish_node(machine, work, state, node, rank_of(machine, work, node))
                    node = -1
                if left >= 0:
                    state.queue[rank, left, 0] -= 1
                    fill_queue(machine, work, state, rank, left)
                    left = -1
                if entered >= 0:
                    fill_queue(machine, work, state, rank, entered)
                    entered = -1
                if stream == -1:
                    break
                if stream < -1:
                    node, stream = -2 - stream, -1
                elif run_algorithm(machine, work, state, stream, meets):
                    rank = state.stream[stream, rec.RANK]
                    left, node = close_phase(machine, work, state, stream)
                    if state.stream[stream, rec.CURRENT] < state.stream[stream, rec.PHASES]:
                        entered = state.stream[stream, rec.QUEUE]
                    stream = -1
                    continue
                else:
                    break
            if not stay:
                following = event[here, 3]
                event[here, 3] = control[rec.EVENT_FREE]
                control[rec.EVENT_FREE] = here
                here = following
        control[rec.BUCKETS] -= 1
    return control[rec.FAILED]


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
    queue = np.full((npus, machine.dimensions * machine.queues, 3), -1, np.int64)
    queue[:, :, 0] = 0
    links = npus * npus if machine.kind[0] not in (codes.RING, 1) else 2 * npus
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
        control=np.zeros(rec.CONTROL_WORDS, np.int64),
        event=_chain(room[rec.FULL_EVENTS], 3, 4),
        bucket=np.zeros((room[rec.FULL_BUCKETS], 3), np.int64),
        item=_chain(room[rec.FULL_ITEMS], 4, 5),
        tick=np.zeros((npus, room[rec.FULL_TICKS], 3), np.int64),
        ticks=np.zeros(npus, np.int64),
        message=_chain(room[rec.FULL_MESSAGES], rec.M_NEXT, rec.M_WORDS),
        link=link,
        slot=np.zeros((room[rec.FULL_SLOTS], rec.S_WORDS), np.int64),
        slot_key=np.zeros(room[rec.FULL_SLOTS], np.int64),
        stream=np.zeros((room[rec.FULL_STREAMS], rec.STREAM_WORDS), np.int64),
        phase=np.zeros((room[rec.FULL_STREAMS], rec.MOST_PHASES, rec.P_WORDS), np.int64),
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


PLAIN_WORK = 1 << 16
"""Nodes x NPUs x splits that are simulated in plain Python sooner than the simulation is compiled (a second)."""


def simulate(machine: SimulatedSystem, work: TraceNodes) -> Run:
    """Simulate all ranks to the end."""
    wide = max(machine.npus, 8)
    active = machine.npus * machine.dimensions * machine.queues * machine.running_limit
    fan = wide if (machine.algorithm == codes.DIRECT).any() else 2
    room = {
        rec.FULL_EVENTS: min(4 * active * fan + 1024, 1 << 16),
        rec.FULL_BUCKETS: 1024,
        rec.FULL_ITEMS: min(active * fan + 1024, 1 << 16),
        rec.FULL_TICKS: 32,
        rec.FULL_MESSAGES: min(active * fan + 1024, 1 << 16) if machine.aware else 1,
        rec.FULL_STREAMS: max(int((work.kind == 3).sum()) * (machine.splits + 1), 1),
        rec.FULL_SLOTS: 1 << max(12, int(np.ceil(np.log2(4 * machine.npus * machine.splits * fan)))),
    }
    while True:
        state = _state(machine, work, room)
        full = int(run.chosen(len(work.kind) * machine.npus * machine.splits <= PLAIN_WORK)(machine, work, state))
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
        events=int(state.control[rec.EVENTS]),
    )
