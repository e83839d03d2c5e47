"""The upper half of the event-driven simulation: chunks in queues, the workload's nodes in hardware slots, the main loop.

`event_simulation` has the lower half (events, links, messages, the steps of each algorithm) and the layout of the arrays.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np

from analysis.networks.codes import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    DIRECT,
    DOUBLE_BINARY_TREE,
    HALVING_DOUBLING,
    NODE_BROADCAST,
    NODE_COLLECTIVE,
    NODE_COMPUTE,
    NODE_CPU,
    NODE_RECEIVE,
    NODE_SEND,
    NODE_SKIP,
    RING,
    light,
    light_outer,
)
from analysis.networks.events.plan import plan_phases
from analysis.networks.events.simulation import (
    ALGORITHM,
    ARRIVED,
    BASE,
    BROADCAST_ENDS,
    BUCKETS,
    BUNDLE,
    BYTES,
    COLLECTIVE,
    CURRENT,
    DIRECTION,
    ENDPOINT,
    EVENT_FREE,
    FAILED,
    FULL_STREAMS,
    GENERAL,
    INDEX,
    ITEM_FREE,
    LINK_FREE,
    M_DEVICE,
    M_NEXT,
    M_SOURCE,
    M_TAG,
    M_TARGET,
    MEMBERS,
    MESSAGE_FREE,
    NEXT,
    NEXT_DEVICE,
    NODE,
    NODE_ENDS,
    NODES,
    NOW,
    P_ALGORITHM,
    P_BYTES,
    P_CLOCKWISE,
    P_COLLECTIVE,
    P_DIMENSION,
    P_QUEUE,
    P_TREE,
    PARALLEL,
    PHASES,
    QUEUE,
    RANK,
    RANK_TICK,
    RECEIVE_NOW,
    S_ARRIVED,
    S_POSTED,
    S_STREAM,
    SHIFT,
    SLOT_COMMUNICATE,
    SLOT_COMPUTE,
    SLOT_CPU,
    STEPS,
    STREAMS,
    STRIDE,
    TAG,
    begin,
    find_slot,
    memory_ns,
    place_in_tree,
    post_receive,
    register,
    run_algorithm,
    send,
    transmit,
    wire,
)


@light
def load_phase(machine, work, state, number):
    """Set a stream up for its current phase."""
    stream = state.stream[number]
    phase = state.phase[number, stream[CURRENT]]
    keep = stream[MEMBERS]  # where the group's ranks are listed, -1: all ranks
    row, rank = stream[NODE], stream[RANK]
    collective, dim, algorithm = phase[P_COLLECTIVE], phase[P_DIMENSION], phase[P_ALGORITHM]
    stream[QUEUE] = phase[P_QUEUE]
    stream[ALGORITHM] = algorithm
    original = work.collective[row]
    stream[BYTES + 1 :] = 0
    stream[NODE], stream[RANK], stream[NEXT], stream[MEMBERS] = row, rank, -1, keep
    stream[COLLECTIVE] = collective
    if keep >= 0:
        group = work.group[row]
        nodes = work.group_first[group + 1] - work.group_first[group]
        for k in range(nodes):
            if work.group_member[keep + k] == rank:
                stream[INDEX] = k
        stream[ENDPOINT] = 10  # inside a group the endpoint is the tool's fast one
    else:
        nodes = machine.size[dim]
        stride = machine.stride[dim]
        stream[INDEX] = (rank // stride) % nodes
        stream[BASE] = rank - stream[INDEX] * stride
        stream[STRIDE] = stride
        stream[ENDPOINT] = machine.endpoint_ns
    stream[NODES] = nodes
    size = phase[P_BYTES]
    stream[DIRECTION] = 1 if phase[P_CLOCKWISE] else -1
    stream[PARALLEL] = 1
    stream[STEPS] = 2 * (nodes - 1) if collective == ALL_REDUCE else nodes - 1
    if algorithm == DOUBLE_BINARY_TREE:
        stream[BYTES] = size
        place_in_tree(stream, phase[P_TREE] == 1, nodes)
        return
    stream[BYTES] = size if collective == ALL_GATHER else size // nodes
    if algorithm == RING:
        if collective == ALL_TO_ALL:
            stream[STEPS] = nodes * (nodes - 1) // 2
    elif algorithm == DIRECT:
        window = machine.window[original, dim]
        stream[PARALLEL] = nodes - 1 if window < 0 else min(window, nodes - 1)
    elif algorithm == HALVING_DOUBLING:
        rounds = 0
        while (2 << rounds) <= nodes:
            rounds += 1
        stream[SHIFT] = rounds
        stream[STEPS] = 2 * rounds if collective == ALL_REDUCE else rounds
        stream[BYTES] = size if collective == ALL_GATHER else size // 2


@light
def fill_queue(machine, work, state, rank, queue):
    """Start waiting chunks while the queue may run more."""
    line = state.queue[rank, queue]
    while line[1] >= 0 and line[0] < machine.running_limit:
        number = line[1]
        line[1] = state.stream[number, NEXT]
        if line[1] < 0:
            line[2] = -1
        line[0] += 1
        begin(machine, state, number)


@light
def join_queue(machine, work, state, number):
    """A chunk joins the queue of its current phase."""
    load_phase(machine, work, state, number)
    stream = state.stream[number]
    line = state.queue[stream[RANK], stream[QUEUE]]
    if line[1] < 0:
        line[1] = number
    else:
        state.stream[line[2], NEXT] = number
    line[2] = number


@light
def start_collective(machine, work, state, row, rank):
    """Cut a collective into chunks and queue them."""
    control = state.control
    size, collective, group = work.bytes[row], work.collective[row], work.group[row]
    nodes, whole = machine.npus, True
    if group >= 0:
        nodes = work.group_first[group + 1] - work.group_first[group]
        whole = nodes == machine.npus
    chunk = size // machine.splits
    if collective != ALL_GATHER and machine.npus > chunk:
        chunk = machine.npus
        size = machine.splits * chunk
    count = (size + chunk - 1) // chunk
    state.node_left[row] = count
    for _ in range(count):
        number = control[STREAMS]
        if number == state.stream.shape[0]:
            control[FAILED] = FULL_STREAMS
            return
        control[STREAMS] += 1
        stream = state.stream[number]
        stream[:] = 0
        stream[RANK], stream[NODE], stream[COLLECTIVE], stream[CURRENT] = rank, row, collective, 0
        tag_group = group + 1
        serial = state.group_count[rank, tag_group]
        state.group_count[rank, tag_group] += 1
        stream[TAG] = serial * state.group_count.shape[1] + tag_group
        stream[MEMBERS] = -1 if whole else work.group_first[group]
        stream[PHASES] = plan_phases(machine, state, number, chunk, whole, nodes)
        join_queue(machine, work, state, number)
        fill_queue(machine, work, state, rank, stream[QUEUE])


@light
def hardware_slot(kind):
    """Slot that a node occupies; a rank has one for computing, one for communicating, one for its host."""
    if kind in (NODE_COMPUTE, NODE_SKIP):
        return SLOT_COMPUTE
    return SLOT_CPU if kind == NODE_CPU else SLOT_COMMUNICATE


@light
def issue_ready(machine, work, state, rank):
    """Try all nodes without open dependencies in ascending order; a slot taken by one is closed to the next."""
    waiting = state.waiting[rank]
    count = state.waiting_count[rank]
    now = state.control[NOW]
    base = work.first[rank]
    kept = 0
    skipped = False
    for k in range(count):
        row = base + waiting[k]
        kind = work.kind[row]
        slot = hardware_slot(kind)
        if kind != NODE_RECEIVE and state.busy[rank, slot]:
            waiting[kept] = waiting[k]
            kept += 1
            continue
        state.started[row] = now
        if kind == NODE_SKIP:
            state.ended[row] = now
            state.node_done[row] = 1
            state.rank_total[rank, 3] = now
            skipped = True
            continue
        if kind != NODE_RECEIVE:
            state.busy[rank, slot] = 1
        if kind in (NODE_COMPUTE, NODE_CPU):
            state.rank_total[rank, slot] += work.duration_ns[row]
            register(state, rank, work.duration_ns[row], NODE_ENDS, row, 0, 0)
        elif kind == NODE_COLLECTIVE:
            start_collective(machine, work, state, row, rank)
        elif kind == NODE_BROADCAST:
            register(state, rank, work.duration_ns[row], BROADCAST_ENDS, row, 0, 0)
        elif kind == NODE_SEND:
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
    state.ended[row] = state.control[NOW]
    state.node_done[row] = 2
    state.rank_total[rank, 3] = state.control[NOW]
    state.rank_total[rank, 4] += 1
    if kind != NODE_RECEIVE:
        state.busy[rank, hardware_slot(kind)] = 0
    free_children(work, state, rank, row)
    issue_ready(machine, work, state, rank)


@light
def close_phase(machine, work, state, number):
    """A chunk leaves a phase; returns (its queue, the node that this ends or -1). With phases left it joins its next queue."""
    stream = state.stream[number]
    queue, row = stream[QUEUE], stream[NODE]
    stream[CURRENT] += 1
    if stream[CURRENT] < stream[PHASES]:
        join_queue(machine, work, state, number)
        return queue, -1
    state.node_left[row] -= 1
    return queue, row if state.node_left[row] == 0 else -1


@light
def next_item(machine, state, rank):
    """Take the next item of a rank's tick: (more, node that ends or -1, stream that goes on or -1)."""
    tick, item, control = state.tick, state.item, state.control
    place = 0
    while tick[rank, place, 0] != control[NOW]:
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
    item[here, 4] = control[ITEM_FREE]
    control[ITEM_FREE] = here
    if kind != BUNDLE:
        return True, first, -1
    if processing:
        register(state, rank, memory_ns(machine, size), BUNDLE, first, 0, size)
        return True, -1, -1
    return True, -1, first


@light
def arrive(machine, state, tag, source, target):
    """A message is there: (node of its sender that ends or -1, stream or receive node that waited for it or -1)."""
    place = find_slot(state, tag, source, target, machine.npus)
    slot = state.slot[place]
    slot[S_ARRIVED] += 1
    return -1 - tag if tag < 0 else -1, slot[S_STREAM] if slot[S_POSTED] >= slot[S_ARRIVED] else -1


@light
def handle(machine, work, state, kind, first, second):
    """One event of the network or one item of a rank's tick: (stay at this event, node that ends, stream that goes on, what it meets).

    A receive node that goes on is given as a stream numbered below -1.
    """
    if kind == RANK_TICK:
        more, node, stream = next_item(machine, state, first)
        return more, node, stream, GENERAL
    if kind == RECEIVE_NOW:
        return False, -1, first, ARRIVED
    if kind == LINK_FREE:
        link = state.link[first]
        link[0] = 0
        number = link[1]
        if number >= 0:
            link[1] = state.message[number, M_NEXT]
            transmit(machine, state, number, first, second)
        return False, -1, -1, ARRIVED
    tag, source, target = first, second // machine.npus, second % machine.npus
    if kind == NEXT_DEVICE:
        message = state.message[first]
        tag, source, target = message[M_TAG], message[M_SOURCE], message[M_TARGET]
        if second != target:
            message[M_DEVICE] = second
            wire(machine, state, first)
            return False, -1, -1, ARRIVED
        message[M_NEXT] = state.control[MESSAGE_FREE]
        state.control[MESSAGE_FREE] = first
    node, stream = arrive(machine, state, tag, source, target)
    return False, node, stream, ARRIVED


@light_outer
def run(machine, work, state):
    """Run all ranks to the end; returns 0, or what ran out of room."""
    control, event, bucket = state.control, state.event, state.bucket
    for rank in range(machine.npus):
        issue_ready(machine, work, state, rank)
    while control[BUCKETS] > 0 and control[FAILED] == 0:
        control[NOW] = bucket[control[BUCKETS] - 1, 0]
        here = bucket[control[BUCKETS] - 1, 1]
        while here >= 0 and control[FAILED] == 0:
            stay, node, stream, meets = handle(machine, work, state, event[here, 0], event[here, 1], event[here, 2])
            rank, left, entered = -1, -1, -1
            while True:  # what one event sets off, in the tool's order: nodes that end, queues that move up, streams that go on
                if node >= 0:
                    finish_node(machine, work, state, node, np.searchsorted(work.first, node, side="right") - 1)
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
                    rank = state.stream[stream, RANK]
                    left, node = close_phase(machine, work, state, stream)
                    if state.stream[stream, CURRENT] < state.stream[stream, PHASES]:
                        entered = state.stream[stream, QUEUE]
                    stream = -1
                    continue
                else:
                    break
            if not stay:
                following = event[here, 3]
                event[here, 3] = control[EVENT_FREE]
                control[EVENT_FREE] = here
                here = following
        control[BUCKETS] -= 1
    return control[FAILED]
