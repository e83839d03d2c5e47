"""How long does a workload take, event by event? The system, workload and network layers of ASTRA-sim, one event at a time.

The reference path of this subpackage: it follows the tool's order of events (chunks, queues of each dimension, endpoint delays, reductions,
store-and-forward links, hardware slots), so that ties fall as they fall there. The closed forms of `closed_forms` are tested against it.
From the bottom up: events, links and messages, the steps of each algorithm; which phases a chunk passes, over which dimension, in which
queue; chunks in queues, nodes in hardware slots, the main loop; and `simulate`, which sets up the arrays, gives them more room when a run
needs it, and reads the answer.

State is held in plain arrays because numba compiles functions over named tuples of arrays, and caches the result.
Rules: `data/recorded/astra-sim/SEMANTICS.md`.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from analysis.networks.codes import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    DIRECT,
    DOUBLE_BINARY_TREE,
    FULLY_CONNECTED,
    HALVING_DOUBLING,
    NODE_BROADCAST,
    NODE_COLLECTIVE,
    NODE_COMPUTE,
    NODE_CPU,
    NODE_RECEIVE,
    NODE_SEND,
    NODE_SKIP,
    REDUCE_SCATTER,
    RING,
    light,
    light_outer,
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
    place = ((key * -7046029254386353131) >> 20) & mask
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


@light
def out_bytes(collective, algorithm, size, nodes):
    """Bytes that leave a phase and enter the next."""
    if algorithm == DOUBLE_BINARY_TREE or collective in (ALL_REDUCE, ALL_TO_ALL):
        return size
    return size * nodes if collective == ALL_GATHER else size // nodes


@light
def next_queue(machine, state, rank, dim, half):
    """Queue of the next chunk on a dimension (half 0: all in turn, 1: the first half, 2: the second) and whether it runs clockwise."""
    queues = machine.queues
    turn = state.allocator[rank, dim]
    if queues == 1:
        return dim, 1
    if half == 0:
        here = turn[0]
        turn[0] = (here + 1) % queues
        return dim * queues + here, 0 if here >= queues // 2 else 1
    if half == 1:
        here = turn[1]
        turn[1] = (here + 1) % (queues // 2)
        return dim * queues + here, 1
    here = turn[2]
    turn[2] = queues // 2 + (here + 1 - queues // 2) % (queues - queues // 2)
    return dim * queues + here, 0


@light
def add_phase(machine, state, number, count, collective, dim, half, size, whole, nodes):
    """Append a phase to a chunk; returns the bytes that leave it."""
    phase = state.phase[number, count]
    rank = state.stream[number, RANK]
    queue, clockwise = next_queue(machine, state, rank, dim, half)
    algorithm = machine.algorithm[state.stream[number, COLLECTIVE], dim] if whole else RING
    phase[P_COLLECTIVE], phase[P_DIMENSION], phase[P_ALGORITHM], phase[P_BYTES] = collective, dim, algorithm, size
    phase[P_QUEUE], phase[P_CLOCKWISE], phase[P_TREE] = queue, clockwise, 0
    if algorithm == DOUBLE_BINARY_TREE:
        phase[P_TREE] = state.tree_turn[rank, dim] % 2
        state.tree_turn[rank, dim] += 1
    return out_bytes(collective, algorithm, size, nodes)


@light
def plan_phases(machine, state, number, size, whole, nodes):
    """Phases of one chunk; returns how many. A group that is not the whole machine is one ring, whatever the dimensions.

    A collective over several dimensions visits them in order: reduce-scatter and all-to-all ascending, all-gather descending, an
    all-reduce out and back (reduce-scatter, all-reduce at the turning point, all-gather) or, as `baseline`, once in each at full size.
    """
    collective = state.stream[number, COLLECTIVE]
    count = 0
    if not whole:
        if nodes > 1:
            half = 1 if collective == ALL_REDUCE and not machine.baseline else 0
            add_phase(machine, state, number, 0, collective, 0, half, size, False, nodes)
            count = 1
        return count
    dims = machine.dimensions
    if collective != ALL_REDUCE or machine.baseline:
        for k in range(dims):
            dim = dims - 1 - k if collective == ALL_GATHER else k
            if machine.size[dim] > 1:
                size = add_phase(machine, state, number, count, collective, dim, 0, size, True, machine.size[dim])
                count += 1
        return count
    last = 0
    for dim in range(dims):
        if machine.size[dim] > 1:
            last = dim
    for dim in range(last):
        if machine.size[dim] > 1:
            size = add_phase(machine, state, number, count, REDUCE_SCATTER, dim, 1, size, True, machine.size[dim])
            count += 1
    if machine.size[last] > 1:
        size = add_phase(machine, state, number, count, ALL_REDUCE, last, 1, size, True, machine.size[last])
        count += 1
    for dim in range(last - 1, -1, -1):
        if machine.size[dim] > 1:
            size = add_phase(machine, state, number, count, ALL_GATHER, dim, 2, size, True, machine.size[dim])
            count += 1
    return count


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
    for word in range(BYTES + 1, STREAM_WORDS):
        stream[word] = 0
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
        for word in range(STREAM_WORDS):
            stream[word] = 0
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


PLAIN_WORK = 1 << 16
"""Nodes x NPUs x splits that are simulated in plain Python sooner than the simulation is compiled (a second)."""


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
        events=int(state.control[EVENTS]),
    )
