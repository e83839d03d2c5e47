"""What an event-by-event run holds: settings, the nodes of all ranks, and everything that changes, in plain arrays.

Numba compiles functions over named tuples of arrays, and caches the result; columns of the arrays are named here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


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
    RANK, TAG, NODE, PHASES, CURRENT, QUEUE, NEXT, ALGORITHM, COLLECTIVE, NODES, INDEX, BYTES, STEPS, PARALLEL, RECEIVED, FREE, ZERO,
    NONZERO, TOGGLE, INSERTED, SENT, DIRECTION, STAGE, REDUCTIONS, PARENT, LEFT, RIGHT, ENDPOINT, BASE, STRIDE, MEMBERS, SHIFT,
    STREAM_WORDS,
) = range(33)  # fmt: skip
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
