"""Which phases does a chunk pass, over which dimension, in which queue? The first step of the event-driven simulation.

A collective over several dimensions visits them in order: reduce-scatter and all-to-all ascending, all-gather descending, an all-reduce
out and back (reduce-scatter, all-reduce at the turning point, all-gather) or, as `baseline`, once in each at full size.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from analysis.networks.codes import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, DOUBLE_BINARY_TREE, REDUCE_SCATTER, RING, light
from analysis.networks.events.simulation import (
    COLLECTIVE,
    P_ALGORITHM,
    P_BYTES,
    P_CLOCKWISE,
    P_COLLECTIVE,
    P_DIMENSION,
    P_QUEUE,
    P_TREE,
    RANK,
)


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
    """Phases of one chunk; returns how many. A group that is not the whole machine is one ring, whatever the dimensions."""
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
