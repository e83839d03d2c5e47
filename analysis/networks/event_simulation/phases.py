"""The steps of each collective algorithm, and the phases that a chunk passes: over which dimension, in which queue."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from analysis.networks import codes
from analysis.networks.closed_forms import chunking, halving_step, visit, visits_of
from analysis.networks.codes import light
from analysis.networks.event_simulation import records as rec
from analysis.networks.event_simulation.messages import post_receive, register, send


@light
def member(work, stream, index):
    """Rank at a place of a stream's ring."""
    if stream[rec.MEMBERS] >= 0:
        return work.group_member[stream[rec.MEMBERS] + index]
    return stream[rec.BASE] + index * stream[rec.STRIDE]


@light
def bundle(state, number, processing, size):
    """Hand a packet to the endpoint: its delay, then the reduction if there is one."""
    stream = state.stream[number]
    register(state, stream[rec.RANK], stream[rec.ENDPOINT], rec.BUNDLE, number, processing, size)


@light
def insert_packet(state, number):
    """A packet enters the algorithm: the first of each round is never reduced, the others are where the collective reduces."""
    stream = state.stream[number]
    if stream[rec.ZERO] == 0 and stream[rec.NONZERO] == 0:
        stream[rec.ZERO] = stream[rec.PARALLEL]
        if stream[rec.ALGORITHM] == codes.DIRECT:
            stream[rec.NONZERO] = stream[rec.PARALLEL]
        elif stream[rec.ALGORITHM] == codes.RING:
            stream[rec.NONZERO] = stream[rec.NODES] - 1
        else:
            stream[rec.NONZERO] = stream[rec.SHIFT] - 1
        stream[rec.TOGGLE] = 1 - stream[rec.TOGGLE]
    # the message size that the endpoint sees; halving-doubling changes it from packet to packet
    size = stream[rec.BYTES]
    if stream[rec.ALGORITHM] == codes.HALVING_DOUBLING:
        size, _ = halving_step(stream[rec.COLLECTIVE], stream[rec.NODES], stream[rec.SHIFT], size, stream[rec.INSERTED])
    stream[rec.INSERTED] += 1
    if stream[rec.ZERO] > 0:
        stream[rec.ZERO] -= 1
        bundle(state, number, 0, size)
        return
    reduces = stream[rec.COLLECTIVE] == codes.REDUCE_SCATTER or (stream[rec.COLLECTIVE] == codes.ALL_REDUCE and stream[rec.TOGGLE] == 1)
    stream[rec.NONZERO] -= 1
    bundle(state, number, 1 if reduces else 0, size)


@light
def send_packet(machine, work, state, number):
    """Send the oldest packet and wait for its counterpart, if steps are left."""
    stream = state.stream[number]
    if stream[rec.INSERTED] == stream[rec.SENT] or stream[rec.STEPS] == 0 or stream[rec.FREE] == 0:
        return
    packet, n, index = stream[rec.SENT], stream[rec.NODES], stream[rec.INDEX]
    size = stream[rec.BYTES]
    if stream[rec.ALGORITHM] == codes.HALVING_DOUBLING:
        size, distance = halving_step(stream[rec.COLLECTIVE], n, stream[rec.SHIFT], size, packet)
        other = index + distance if (index // max(distance, 1)) % 2 == 0 else index - distance
        target = source = other % n
    else:
        step = 1 if stream[rec.ALGORITHM] == codes.RING else 1 + packet % (n - 1)
        target = (index + stream[rec.DIRECTION] * step) % n
        source = (index - stream[rec.DIRECTION] * step) % n
    rank = stream[rec.RANK]
    send(machine, state, stream[rec.TAG], rank, member(work, stream, target), size)
    post_receive(machine, state, stream[rec.TAG], member(work, stream, source), rank, number)
    stream[rec.STEPS] -= 1
    stream[rec.SENT] += 1
    stream[rec.FREE] -= 1


@light
def run_algorithm(machine, work, state, number, event):
    """One event of a stream's algorithm; True when the phase is over."""
    stream = state.stream[number]
    if stream[rec.ALGORITHM] == codes.DOUBLE_BINARY_TREE:
        return run_tree(machine, state, number, event)
    if event == rec.ARRIVED:
        stream[rec.RECEIVED] += 1
        insert_packet(state, number)
        return False
    stream[rec.FREE] += 1
    if stream[rec.ALGORITHM] == codes.DIRECT and stream[rec.COLLECTIVE] == codes.ALL_REDUCE and stream[rec.STEPS] <= stream[rec.NODES] - 1:
        if stream[rec.RECEIVED] < stream[rec.NODES] - 1:
            return False
        for _ in range(stream[rec.PARALLEL]):
            send_packet(machine, work, state, number)
    else:
        send_packet(machine, work, state, number)
    return stream[rec.STEPS] == 0 and stream[rec.FREE] == stream[rec.PARALLEL]


@light
def place_in_tree(stream, minimum, nodes):
    """Parent and children of a rank: a perfect tree numbered in order, with the root left over at its end (or start, `minimum`)."""
    index = stream[rec.INDEX]
    root = 0 if minimum else nodes - 1
    first = 1 if minimum else 0
    stream[rec.PARENT] = stream[rec.LEFT] = stream[rec.RIGHT] = -1
    top = first + (nodes - 1) // 2
    base, stride = stream[rec.BASE], stream[rec.STRIDE]
    if index == root:
        if minimum:
            stream[rec.RIGHT] = base + top * stride
        else:
            stream[rec.LEFT] = base + top * stride
        return
    place = index - first + 1  # 1 ... nodes-1: its lowest set bit is its height
    low = place & -place
    if low * 2 == nodes:
        stream[rec.PARENT] = base + root * stride
    elif place & (2 * low):
        stream[rec.PARENT] = base + (index - low) * stride
    else:
        stream[rec.PARENT] = base + (index + low) * stride
    if low > 1:
        stream[rec.LEFT] = base + (index - low // 2) * stride
        stream[rec.RIGHT] = base + (index + low // 2) * stride


@light
def run_tree(machine, state, number, event):
    """One event of the double binary tree: up to the root reducing, down again; leaf, inner node or root."""
    stream = state.stream[number]
    stage, parent, left, right = stream[rec.STAGE], stream[rec.PARENT], stream[rec.LEFT], stream[rec.RIGHT]
    rank, tag, size = stream[rec.RANK], stream[rec.TAG], stream[rec.BYTES]
    if parent >= 0 and left < 0 and right < 0:  # leaf
        if stage == rec.TO_PARENT:
            send(machine, state, tag, rank, parent, size)
            post_receive(machine, state, tag, parent, rank, number)
            stream[rec.STAGE] = rec.FROM_PARENT
        elif stage == rec.FROM_PARENT:
            bundle(state, number, 0, size)
            stream[rec.STAGE] = rec.AT_END
        else:
            return True
    elif parent >= 0:  # inner node
        if stage == rec.TWO_CHILDREN and event == rec.ARRIVED:
            bundle(state, number, 1, size)
            stream[rec.STAGE] = rec.ONE_CHILD
        elif stage == rec.ONE_CHILD and event == rec.ARRIVED:
            bundle(state, number, 1, size)
            stream[rec.STAGE] = rec.TO_PARENT
        elif stream[rec.REDUCTIONS] < 1 and event == rec.GENERAL:
            stream[rec.REDUCTIONS] += 1
        elif stage == rec.TO_PARENT:
            stream[rec.STAGE] = rec.FROM_PARENT
            send(machine, state, tag, rank, parent, size)
            post_receive(machine, state, tag, parent, rank, number)
        elif stage == rec.FROM_PARENT and event == rec.ARRIVED:
            bundle(state, number, 1, size)
            stream[rec.STAGE] = rec.TO_CHILDREN
        elif stage == rec.TO_CHILDREN:
            send(machine, state, tag, rank, left, size)
            send(machine, state, tag, rank, right, size)
            return True
    else:  # root
        child = left if left >= 0 else right
        if stage == rec.ONE_CHILD:
            bundle(state, number, 1, size)
            stream[rec.STAGE] = rec.TO_CHILDREN
        elif stage == rec.TO_CHILDREN:
            send(machine, state, tag, rank, child, size)
            return True
    return False


@light
def begin(machine, state, number):
    """A chunk starts a phase: first packets to the endpoint, or in a tree the leaves' data, and receives where others wait."""
    stream = state.stream[number]
    if stream[rec.ALGORITHM] != codes.DOUBLE_BINARY_TREE:
        for _ in range(stream[rec.PARALLEL]):
            insert_packet(state, number)
        return
    rank, tag = stream[rec.RANK], stream[rec.TAG]
    if stream[rec.PARENT] >= 0 and stream[rec.LEFT] < 0 and stream[rec.RIGHT] < 0:
        stream[rec.STAGE] = rec.TO_PARENT
        bundle(state, number, 0, stream[rec.BYTES])
        return
    stream[rec.STAGE] = rec.TWO_CHILDREN if stream[rec.PARENT] >= 0 else rec.ONE_CHILD
    for side in (rec.LEFT, rec.RIGHT):
        if stream[side] >= 0:
            post_receive(machine, state, tag, stream[side], rank, number)


@light
def out_bytes(collective, algorithm, size, nodes):
    """Bytes that leave a phase and enter the next."""
    if algorithm == codes.DOUBLE_BINARY_TREE or collective in (codes.ALL_REDUCE, codes.ALL_TO_ALL):
        return size
    return size * nodes if collective == codes.ALL_GATHER else size // nodes


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
    rank = state.stream[number, rec.RANK]
    queue, clockwise = next_queue(machine, state, rank, dim, half)
    algorithm = machine.algorithm[state.stream[number, rec.COLLECTIVE], dim] if whole else codes.RING
    phase[rec.P_COLLECTIVE], phase[rec.P_DIMENSION], phase[rec.P_ALGORITHM], phase[rec.P_BYTES] = collective, dim, algorithm, size
    phase[rec.P_QUEUE], phase[rec.P_CLOCKWISE], phase[rec.P_TREE] = queue, clockwise, 0
    if algorithm == codes.DOUBLE_BINARY_TREE:
        phase[rec.P_TREE] = state.tree_turn[rank, dim] % 2
        state.tree_turn[rank, dim] += 1
    return out_bytes(collective, algorithm, size, nodes)


@light
def plan_phases(machine, state, number, size, whole, nodes):
    """Phases of one chunk; returns how many. A group that is not the whole machine is one ring, whatever the dimensions.

    A collective over several dimensions visits them in order: reduce-scatter and all-to-all ascending, all-gather descending, an
    all-reduce out and back (reduce-scatter, all-reduce at the turning point, all-gather) or, as `baseline`, once in each at full size.
    """
    collective = state.stream[number, rec.COLLECTIVE]
    count = 0
    if not whole:
        if nodes > 1:
            half = 1 if collective == codes.ALL_REDUCE and not machine.baseline else 0
            add_phase(machine, state, number, 0, collective, 0, half, size, False, nodes)
            count = 1
        return count
    visits, last = visits_of(collective, machine.baseline, machine.dimensions, machine.size)
    for k in range(visits):
        dim, what = visit(collective, k, visits, last)
        if machine.size[dim] > 1:
            half = 0 if last < 0 else 1 if k <= last else 2
            size = add_phase(machine, state, number, count, what, dim, half, size, True, machine.size[dim])
            count += 1
    return count


@light
def load_phase(machine, work, state, number):
    """Set a stream up for its current phase."""
    stream = state.stream[number]
    phase = state.phase[number, stream[rec.CURRENT]]
    keep = stream[rec.MEMBERS]  # where the group's ranks are listed, -1: all ranks
    row, rank = stream[rec.NODE], stream[rec.RANK]
    collective, dim, algorithm = phase[rec.P_COLLECTIVE], phase[rec.P_DIMENSION], phase[rec.P_ALGORITHM]
    stream[rec.QUEUE] = phase[rec.P_QUEUE]
    stream[rec.ALGORITHM] = algorithm
    original = work.collective[row]
    for word in range(rec.BYTES + 1, rec.STREAM_WORDS):
        stream[word] = 0
    stream[rec.NODE], stream[rec.RANK], stream[rec.NEXT], stream[rec.MEMBERS] = row, rank, -1, keep
    stream[rec.COLLECTIVE] = collective
    if keep >= 0:
        group = work.group[row]
        nodes = work.group_first[group + 1] - work.group_first[group]
        for k in range(nodes):
            if work.group_member[keep + k] == rank:
                stream[rec.INDEX] = k
        stream[rec.ENDPOINT] = 10  # inside a group the endpoint is the tool's fast one
    else:
        nodes = machine.size[dim]
        stride = machine.stride[dim]
        stream[rec.INDEX] = (rank // stride) % nodes
        stream[rec.BASE] = rank - stream[rec.INDEX] * stride
        stream[rec.STRIDE] = stride
        stream[rec.ENDPOINT] = machine.endpoint_ns
    stream[rec.NODES] = nodes
    size = phase[rec.P_BYTES]
    stream[rec.DIRECTION] = 1 if phase[rec.P_CLOCKWISE] else -1
    stream[rec.PARALLEL] = 1
    stream[rec.STEPS] = 2 * (nodes - 1) if collective == codes.ALL_REDUCE else nodes - 1
    if algorithm == codes.DOUBLE_BINARY_TREE:
        stream[rec.BYTES] = size
        place_in_tree(stream, phase[rec.P_TREE] == 1, nodes)
        return
    stream[rec.BYTES] = size if collective == codes.ALL_GATHER else size // nodes
    if algorithm == codes.RING:
        if collective == codes.ALL_TO_ALL:
            stream[rec.STEPS] = nodes * (nodes - 1) // 2
    elif algorithm == codes.DIRECT:
        window = machine.window[original, dim]
        stream[rec.PARALLEL] = nodes - 1 if window < 0 else min(window, nodes - 1)
    elif algorithm == codes.HALVING_DOUBLING:
        rounds = 0
        while (2 << rounds) <= nodes:
            rounds += 1
        stream[rec.SHIFT] = rounds
        stream[rec.STEPS] = 2 * rounds if collective == codes.ALL_REDUCE else rounds
        stream[rec.BYTES] = size if collective == codes.ALL_GATHER else size // 2


@light
def fill_queue(machine, work, state, rank, queue):
    """Start waiting chunks while the queue may run more."""
    line = state.queue[rank, queue]
    while line[1] >= 0 and line[0] < machine.running_limit:
        number = line[1]
        line[1] = state.stream[number, rec.NEXT]
        if line[1] < 0:
            line[2] = -1
        line[0] += 1
        begin(machine, state, number)


@light
def join_queue(machine, work, state, number):
    """A chunk joins the queue of its current phase."""
    load_phase(machine, work, state, number)
    stream = state.stream[number]
    line = state.queue[stream[rec.RANK], stream[rec.QUEUE]]
    if line[1] < 0:
        line[1] = number
    else:
        state.stream[line[2], rec.NEXT] = number
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
    chunk, count = chunking(collective, size, machine.splits, machine.npus)
    state.node_left[row] = count
    for _ in range(count):
        number = control[rec.STREAMS]
        if number == state.stream.shape[0]:
            control[rec.FAILED] = rec.FULL_STREAMS
            return
        control[rec.STREAMS] += 1
        stream = state.stream[number]
        for word in range(rec.STREAM_WORDS):
            stream[word] = 0
        stream[rec.RANK], stream[rec.NODE], stream[rec.COLLECTIVE], stream[rec.CURRENT] = rank, row, collective, 0
        tag_group = group + 1
        serial = state.group_count[rank, tag_group]
        state.group_count[rank, tag_group] += 1
        stream[rec.TAG] = serial * state.group_count.shape[1] + tag_group
        stream[rec.MEMBERS] = -1 if whole else work.group_first[group]
        stream[rec.PHASES] = plan_phases(machine, state, number, chunk, whole, nodes)
        join_queue(machine, work, state, number)
        fill_queue(machine, work, state, rank, stream[rec.QUEUE])
