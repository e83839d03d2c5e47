"""The steps of each collective algorithm, and the phases that a chunk passes: over which dimension, in which queue."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from analysis.networks.codes import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    DIRECT,
    DOUBLE_BINARY_TREE,
    HALVING_DOUBLING,
    REDUCE_SCATTER,
    RING,
    light,
)
from analysis.networks.event_simulation.messages import post_receive, register, send
from analysis.networks.event_simulation.records import (
    ALGORITHM,
    ARRIVED,
    AT_END,
    BASE,
    BUNDLE,
    BYTES,
    COLLECTIVE,
    CURRENT,
    DIRECTION,
    ENDPOINT,
    FAILED,
    FREE,
    FROM_PARENT,
    FULL_STREAMS,
    GENERAL,
    INDEX,
    INSERTED,
    LEFT,
    MEMBERS,
    NEXT,
    NODE,
    NODES,
    NONZERO,
    ONE_CHILD,
    P_ALGORITHM,
    P_BYTES,
    P_CLOCKWISE,
    P_COLLECTIVE,
    P_DIMENSION,
    P_QUEUE,
    P_TREE,
    PARALLEL,
    PARENT,
    PHASES,
    QUEUE,
    RANK,
    RECEIVED,
    REDUCTIONS,
    RIGHT,
    SENT,
    SHIFT,
    STAGE,
    STEPS,
    STREAM_WORDS,
    STREAMS,
    STRIDE,
    TAG,
    TO_CHILDREN,
    TO_PARENT,
    TOGGLE,
    TWO_CHILDREN,
    ZERO,
)


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
