"""Event-driven simulation of collectives and traces: the system, workload and network layers of ASTRA-sim, one event at a time.
The reference path of this subpackage: it follows the tool's order of events (chunks, queues of each dimension, endpoint delays, reductions,
store-and-forward links, hardware slots), so that ties fall as they fall there. The closed forms of `closed_forms` are tested against it.

State is held in plain arrays because numba compiles functions over named tuples of arrays, and caches the result.
Rules: `data/recorded/astra-sim/SEMANTICS.md`.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analysis.networks.codes import (
    ALL_GATHER,
    ALL_REDUCE,
    DIRECT,
    DOUBLE_BINARY_TREE,
    FULLY_CONNECTED,
    HALVING_DOUBLING,
    REDUCE_SCATTER,
    RING,
    light,
)


class SimulatedSystem(NamedTuple):
    """The network and system settings that the compiled functions see (scalars, and arrays with one entry a dimension)."""

    aware: int
    npus: int
    dimensions: int
    size: np.ndarray
    stride: np.ndarray
    kind: np.ndarray
    algorithm: np.ndarray  # (4 collectives, dimensions)
    window: np.ndarray  # (4, dimensions), -1: all peers at once
    latency_ns: np.ndarray
    bytes_per_ns: np.ndarray
    endpoint_ns: int
    memory_bytes_per_ns: float
    splits: int
    queues: int
    running_limit: int
    baseline: int


class TraceNodes(NamedTuple):
    """The nodes of all ranks: one row a node, sorted by rank and node number."""

    first: np.ndarray  # (ranks + 1) first row of each rank
    kind: np.ndarray
    duration_ns: np.ndarray
    collective: np.ndarray
    bytes: np.ndarray
    group: np.ndarray  # index of a group, -1: all ranks
    peer: np.ndarray  # other end of a send or receive
    pair: np.ndarray  # number of the send-receive pair
    parents: np.ndarray  # how many nodes each waits for
    child_first: np.ndarray
    child: np.ndarray
    group_first: np.ndarray
    group_member: np.ndarray


class State(NamedTuple):
    """Everything that changes during a run."""

    control: np.ndarray
    event: np.ndarray
    bucket: np.ndarray
    item: np.ndarray
    tick: np.ndarray
    ticks: np.ndarray
    message: np.ndarray
    link: np.ndarray
    slot: np.ndarray
    slot_key: np.ndarray
    stream: np.ndarray
    phase: np.ndarray
    queue: np.ndarray
    allocator: np.ndarray
    tree_turn: np.ndarray
    group_count: np.ndarray
    node_left: np.ndarray
    node_done: np.ndarray
    waiting: np.ndarray
    waiting_count: np.ndarray
    busy: np.ndarray
    rank_total: np.ndarray
    started: np.ndarray
    ended: np.ndarray


# control words
NOW, EVENT_FREE, BUCKETS, ITEM_FREE, MESSAGE_FREE, STREAMS, SLOTS, FAILED, EVENTS = range(9)
CONTROL_WORDS = 9
# what a failed run ran out of
FULL_EVENTS, FULL_BUCKETS, FULL_ITEMS, FULL_TICKS, FULL_MESSAGES, FULL_STREAMS, FULL_SLOTS = range(1, 8)
# kinds of event
RANK_TICK, NEXT_DEVICE, LINK_FREE, RECEIVE_NOW, DELIVERED = range(5)
# kinds of item in a rank's tick
BUNDLE, NODE_ENDS, BROADCAST_ENDS = range(3)
# columns of a stream
(
    RANK,
    TAG,
    NODE,
    PHASES,
    CURRENT,
    QUEUE,
    NEXT,
    ALGORITHM,
    COLLECTIVE,
    NODES,
    INDEX,
    BYTES,
    STEPS,
    PARALLEL,
    RECEIVED,
    FREE,
    ZERO,
    NONZERO,
) = range(18)
(TOGGLE, INSERTED, SENT, DIRECTION, STAGE, REDUCTIONS, PARENT, LEFT, RIGHT, ENDPOINT, BASE, STRIDE, MEMBERS, SHIFT, STREAM_WORDS) = range(
    18, 33
)
# columns of a phase
P_COLLECTIVE, P_DIMENSION, P_ALGORITHM, P_BYTES, P_QUEUE, P_CLOCKWISE, P_TREE, P_WORDS = range(8)
MOST_PHASES = 9
GENERAL, ARRIVED = range(2)
TO_PARENT, FROM_PARENT, TWO_CHILDREN, ONE_CHILD, TO_CHILDREN, AT_END = range(6)
# columns of a message and of a matching slot
M_TAG, M_SOURCE, M_TARGET, M_BYTES, M_DEVICE, M_NEXT, M_WORDS = range(7)
S_ARRIVED, S_POSTED, S_STREAM, S_WORDS = range(4)
# slots of a rank's hardware
SLOT_COMPUTE, SLOT_COMMUNICATE, SLOT_CPU = range(3)


@light
def schedule(state, time, kind, first, second):
    """Put an event behind all others of its tick."""
    control, event, bucket = state.control, state.event, state.bucket
    control[EVENTS] += 1
    here = control[EVENT_FREE]
    if here < 0:
        control[FAILED] = FULL_EVENTS
        return
    control[EVENT_FREE] = event[here, 3]
    event[here, 0], event[here, 1], event[here, 2], event[here, 3] = kind, first, second, -1
    count = control[BUCKETS]
    low, high = 0, count  # times fall with the index, the next tick is last
    while low < high:
        middle = (low + high) // 2
        if bucket[middle, 0] > time:
            low = middle + 1
        else:
            high = middle
    if low < count and bucket[low, 0] == time:
        event[bucket[low, 2], 3] = here
        bucket[low, 2] = here
        return
    if count == bucket.shape[0]:
        control[FAILED] = FULL_BUCKETS
        return
    for k in range(count, low, -1):
        bucket[k, 0], bucket[k, 1], bucket[k, 2] = bucket[k - 1, 0], bucket[k - 1, 1], bucket[k - 1, 2]
    bucket[low, 0], bucket[low, 1], bucket[low, 2] = time, here, here
    control[BUCKETS] = count + 1


@light
def register(state, rank, delay, kind, first, processing, size):
    """Put an item into a rank's list of a tick; the first one of a tick brings the event with it."""
    control, item, tick, ticks = state.control, state.item, state.tick, state.ticks
    here = control[ITEM_FREE]
    if here < 0:
        control[FAILED] = FULL_ITEMS
        return
    control[ITEM_FREE] = item[here, 4]
    item[here, 0], item[here, 1], item[here, 2], item[here, 3], item[here, 4] = kind, first, processing, size, -1
    time = control[NOW] + delay
    for k in range(ticks[rank]):
        if tick[rank, k, 0] == time:
            if tick[rank, k, 2] < 0:
                tick[rank, k, 1] = here
            else:
                item[tick[rank, k, 2], 4] = here
            tick[rank, k, 2] = here
            return
    k = ticks[rank]
    if k == tick.shape[1]:
        control[FAILED] = FULL_TICKS
        return
    tick[rank, k, 0], tick[rank, k, 1], tick[rank, k, 2] = time, here, here
    ticks[rank] = k + 1
    schedule(state, time, RANK_TICK, rank, 0)


@light
def memory_ns(machine, size):
    """A write and two reads of a message, each rounded down; sizes pass through a 32-bit integer there."""
    wrapped = (size + 2147483648) % 4294967296 - 2147483648
    return 3 * np.int64(wrapped / machine.memory_bytes_per_ns) if wrapped > 0 else np.int64(0)


@light
def find_slot(state, tag, source, target, npus):
    """Place where the messages of a chunk between two ranks are matched with the receives."""
    key = (tag * npus + source) * npus + target + 1
    mask = state.slot_key.shape[0] - 1
    place = ((key * np.int64(-7046029254386353131)) >> 20) & mask
    while state.slot_key[place] != key:
        if state.slot_key[place] == 0:
            state.control[SLOTS] += 1
            if 2 * state.control[SLOTS] > mask:
                state.control[FAILED] = FULL_SLOTS
                state.control[SLOTS] = 0
            state.slot_key[place] = key
            return place
        place = (place + 1) & mask
    return place


@light
def wire(machine, state, number):
    """Send a message over the next link of its route, or queue it there."""
    message, link = state.message, state.link
    n = machine.npus
    device, target = message[number, M_DEVICE], message[number, M_TARGET]
    kind = machine.kind[0]
    if kind == FULLY_CONNECTED:
        edge, onward = device * n + target, target
    elif kind == RING:
        ahead = target - message[number, M_SOURCE]
        if ahead < 0:
            ahead += n
        if n - ahead < ahead:
            edge, onward = n + device, (device - 1 + n) % n
        else:
            edge, onward = device, (device + 1) % n
    elif device < n:
        edge, onward = device, n
    else:
        edge, onward = n + target, target
    if link[edge, 0]:
        message[number, M_NEXT] = -1
        if link[edge, 1] < 0:
            link[edge, 1] = number
        else:
            message[link[edge, 2], M_NEXT] = number
        link[edge, 2] = number
        return
    transmit(machine, state, number, edge, onward)


@light
def transmit(machine, state, number, edge, onward):
    """Occupy a free link: arrival after latency and serialisation, free after serialisation, each rounded down."""
    state.link[edge, 0] = 1
    serial = state.message[number, M_BYTES] / machine.bytes_per_ns[0]
    now = state.control[NOW]
    schedule(state, now + np.int64(machine.latency_ns[0] + serial), NEXT_DEVICE, number, onward)
    schedule(state, now + np.int64(serial), LINK_FREE, edge, onward)


@light
def send(machine, state, tag, source, target, size):
    """Start a message; on the congestion-unaware network it only waits out its delay."""
    if machine.aware:
        number = state.control[MESSAGE_FREE]
        if number < 0:
            state.control[FAILED] = FULL_MESSAGES
            return
        message = state.message
        state.control[MESSAGE_FREE] = message[number, M_NEXT]
        message[number, M_TAG], message[number, M_SOURCE], message[number, M_TARGET] = tag, source, target
        message[number, M_BYTES], message[number, M_DEVICE] = size, source
        wire(machine, state, number)
        return
    for dim in range(machine.dimensions):
        here = (source // machine.stride[dim]) % machine.size[dim]
        there = (target // machine.stride[dim]) % machine.size[dim]
        if here != there:
            hops = 1
            if machine.kind[dim] == RING:
                apart = abs(here - there)
                hops = min(apart, machine.size[dim] - apart)
            elif machine.kind[dim] != FULLY_CONNECTED:
                hops = 2
            delay = np.int64(hops * machine.latency_ns[dim] + size / machine.bytes_per_ns[dim])
            schedule(state, state.control[NOW] + delay, DELIVERED, tag, source * machine.npus + target)
            return


@light
def post_receive(machine, state, tag, source, target, stream):
    """A rank waits for a message; one that is already there is taken at once (as an event of this tick)."""
    place = find_slot(state, tag, source, target, machine.npus)
    slot = state.slot[place]
    slot[S_STREAM] = stream
    slot[S_POSTED] += 1
    if slot[S_ARRIVED] >= slot[S_POSTED]:
        schedule(state, state.control[NOW], RECEIVE_NOW, stream, 0)


@light
def member(work, stream, index):
    """Rank at a place of a stream's ring."""
    if stream[MEMBERS] >= 0:
        return work.group_member[stream[MEMBERS] + index]
    return stream[BASE] + index * stream[STRIDE]


@light
def bundle(state, number, processing, size):
    """Hand a packet to the endpoint: its delay, then the reduction if there is one."""
    stream = state.stream[number]
    register(state, stream[RANK], stream[ENDPOINT], BUNDLE, number, processing, size)


@light
def insert_packet(state, number):
    """A packet enters the algorithm: the first of each round is never reduced, the others are where the collective reduces."""
    stream = state.stream[number]
    if stream[ZERO] == 0 and stream[NONZERO] == 0:
        stream[ZERO] = stream[PARALLEL]
        if stream[ALGORITHM] == DIRECT:
            stream[NONZERO] = stream[PARALLEL]
        elif stream[ALGORITHM] == RING:
            stream[NONZERO] = stream[NODES] - 1
        else:
            stream[NONZERO] = stream[SHIFT] - 1
        stream[TOGGLE] = 1 - stream[TOGGLE]
    # the message size that the endpoint sees; halving-doubling changes it from packet to packet
    size = stream[BYTES]
    if stream[ALGORITHM] == HALVING_DOUBLING:
        size, _ = halving_step(stream, stream[INSERTED])
    stream[INSERTED] += 1
    if stream[ZERO] > 0:
        stream[ZERO] -= 1
        bundle(state, number, 0, size)
        return
    reduces = stream[COLLECTIVE] == REDUCE_SCATTER or (stream[COLLECTIVE] == ALL_REDUCE and stream[TOGGLE] == 1)
    stream[NONZERO] -= 1
    bundle(state, number, 1 if reduces else 0, size)


@light
def halving_step(stream, packet):
    """Bytes and distance of a packet of halving-doubling: halves outward, doubles back; all-gather only doubles."""
    rounds = stream[SHIFT]
    if stream[COLLECTIVE] == ALL_GATHER:
        return stream[BYTES] << packet, (stream[NODES] // 2) >> packet
    if packet < rounds or stream[COLLECTIVE] != ALL_REDUCE:
        return stream[BYTES] >> packet, 1 << packet
    back = packet - rounds  # the tool halves once more and doubles again: a size that halves unevenly stays rounded down
    return (stream[BYTES] >> rounds) << (back + 1), (stream[NODES] // 2) >> back


@light
def send_packet(machine, work, state, number):
    """Send the oldest packet and wait for its counterpart, if steps are left."""
    stream = state.stream[number]
    if stream[INSERTED] == stream[SENT] or stream[STEPS] == 0 or stream[FREE] == 0:
        return
    packet, n, index = stream[SENT], stream[NODES], stream[INDEX]
    size = stream[BYTES]
    if stream[ALGORITHM] == HALVING_DOUBLING:
        size, distance = halving_step(stream, packet)
        other = index + distance if (index // max(distance, 1)) % 2 == 0 else index - distance
        target = source = other % n
    else:
        step = 1 if stream[ALGORITHM] == RING else 1 + packet % (n - 1)
        target = (index + stream[DIRECTION] * step) % n
        source = (index - stream[DIRECTION] * step) % n
    rank = stream[RANK]
    send(machine, state, stream[TAG], rank, member(work, stream, target), size)
    post_receive(machine, state, stream[TAG], member(work, stream, source), rank, number)
    stream[STEPS] -= 1
    stream[SENT] += 1
    stream[FREE] -= 1


@light
def run_algorithm(machine, work, state, number, event):
    """One event of a stream's algorithm; True when the phase is over."""
    stream = state.stream[number]
    if stream[ALGORITHM] == DOUBLE_BINARY_TREE:
        return run_tree(machine, state, number, event)
    if event == ARRIVED:
        stream[RECEIVED] += 1
        insert_packet(state, number)
        return False
    stream[FREE] += 1
    if stream[ALGORITHM] == DIRECT and stream[COLLECTIVE] == ALL_REDUCE and stream[STEPS] <= stream[NODES] - 1:
        if stream[RECEIVED] < stream[NODES] - 1:
            return False
        for _ in range(stream[PARALLEL]):
            send_packet(machine, work, state, number)
    else:
        send_packet(machine, work, state, number)
    return stream[STEPS] == 0 and stream[FREE] == stream[PARALLEL]


@light
def place_in_tree(stream, minimum, nodes):
    """Parent and children of a rank: a perfect tree numbered in order, with the root left over at its end (or start, `minimum`)."""
    index = stream[INDEX]
    root = 0 if minimum else nodes - 1
    first = 1 if minimum else 0
    stream[PARENT] = stream[LEFT] = stream[RIGHT] = -1
    top = first + (nodes - 1) // 2
    base, stride = stream[BASE], stream[STRIDE]
    if index == root:
        if minimum:
            stream[RIGHT] = base + top * stride
        else:
            stream[LEFT] = base + top * stride
        return
    place = index - first + 1  # 1 ... nodes-1: its lowest set bit is its height
    low = place & -place
    if low * 2 == nodes:
        stream[PARENT] = base + root * stride
    elif place & (2 * low):
        stream[PARENT] = base + (index - low) * stride
    else:
        stream[PARENT] = base + (index + low) * stride
    if low > 1:
        stream[LEFT] = base + (index - low // 2) * stride
        stream[RIGHT] = base + (index + low // 2) * stride


@light
def run_tree(machine, state, number, event):
    """One event of the double binary tree: up to the root reducing, down again; leaf, inner node or root."""
    stream = state.stream[number]
    stage, parent, left, right = stream[STAGE], stream[PARENT], stream[LEFT], stream[RIGHT]
    rank, tag, size = stream[RANK], stream[TAG], stream[BYTES]
    if parent >= 0 and left < 0 and right < 0:  # leaf
        if stage == TO_PARENT:
            send(machine, state, tag, rank, parent, size)
            post_receive(machine, state, tag, parent, rank, number)
            stream[STAGE] = FROM_PARENT
        elif stage == FROM_PARENT:
            bundle(state, number, 0, size)
            stream[STAGE] = AT_END
        else:
            return True
    elif parent >= 0:  # inner node
        if stage == TWO_CHILDREN and event == ARRIVED:
            bundle(state, number, 1, size)
            stream[STAGE] = ONE_CHILD
        elif stage == ONE_CHILD and event == ARRIVED:
            bundle(state, number, 1, size)
            stream[STAGE] = TO_PARENT
        elif stream[REDUCTIONS] < 1 and event == GENERAL:
            stream[REDUCTIONS] += 1
        elif stage == TO_PARENT:
            stream[STAGE] = FROM_PARENT
            send(machine, state, tag, rank, parent, size)
            post_receive(machine, state, tag, parent, rank, number)
        elif stage == FROM_PARENT and event == ARRIVED:
            bundle(state, number, 1, size)
            stream[STAGE] = TO_CHILDREN
        elif stage == TO_CHILDREN:
            send(machine, state, tag, rank, left, size)
            send(machine, state, tag, rank, right, size)
            return True
    else:  # root
        child = left if left >= 0 else right
        if stage == ONE_CHILD:
            bundle(state, number, 1, size)
            stream[STAGE] = TO_CHILDREN
        elif stage == TO_CHILDREN:
            send(machine, state, tag, rank, child, size)
            return True
    return False


@light
def begin(machine, state, number):
    """A chunk starts a phase: first packets to the endpoint, or in a tree the leaves' data, and receives where others wait."""
    stream = state.stream[number]
    if stream[ALGORITHM] != DOUBLE_BINARY_TREE:
        for _ in range(stream[PARALLEL]):
            insert_packet(state, number)
        return
    rank, tag = stream[RANK], stream[TAG]
    if stream[PARENT] >= 0 and stream[LEFT] < 0 and stream[RIGHT] < 0:
        stream[STAGE] = TO_PARENT
        bundle(state, number, 0, stream[BYTES])
        return
    stream[STAGE] = TWO_CHILDREN if stream[PARENT] >= 0 else ONE_CHILD
    for side in (LEFT, RIGHT):
        if stream[side] >= 0:
            post_receive(machine, state, tag, stream[side], rank, number)
