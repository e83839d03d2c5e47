"""An oracle for the event-driven simulation: a replay in which each node's duration is known before it starts, by the closed forms.

Holds while all ranks of a collective enter it in the same cycle, and no two work items of a rank end in an order that only the
simulation knows. `run_known` returns None as soon as that is not so.
"""

from typing import NamedTuple

import numpy as np

from analysis.networks.cases import CollectiveCase, Network
from analysis.networks.closed_forms import one_dimension_cycles, reduction_cycles, several_dimensions_cycles
from analysis.networks.codes import (
    NODE_COLLECTIVE,
    NODE_COMPUTE,
    NODE_CPU,
    NODE_RECEIVE,
    NODE_SEND,
    NODE_SKIP,
    REDUCE_SCATTER,
    RING,
    inner,
    outer,
)
from analysis.networks.columns import of_cases
from analysis.networks.replay import Prepared

COMPUTE, COMMUNICATE, HOST = range(3)
UNKNOWN = -1  # order among the items of a cycle that no formula gives


class ReplayState(NamedTuple):
    """State of a replay: ready nodes of each rank; end, order and node of each hardware slot; collectives under way by group and turn."""

    ready: np.ndarray
    ready_count: np.ndarray
    free: np.ndarray
    finish: np.ndarray
    registered: np.ndarray
    slot_row: np.ndarray
    started: np.ndarray
    totals: np.ndarray
    serial: np.ndarray
    left: np.ndarray
    entered: np.ndarray
    cache: np.ndarray
    cache_wait: np.ndarray
    first_row: np.ndarray


@inner
def collective_duration(machine, arrays, work, row):
    """(cycles, wait after its last registered piece of work) of a collective node; -1: no formula, or links that others share."""
    collective, size, group = work.collective[row], work.bytes[row], work.group[row]
    nodes = machine.npus
    if group >= 0:
        nodes = work.group_first[group + 1] - work.group_first[group]
    whole = nodes == machine.npus
    if not whole and (machine.dimensions > 1 or machine.kind[0] == RING):
        return -1, 0
    arrays.collective[0] = collective
    arrays.size_bytes[0] = size
    if machine.dimensions > 1:
        return (-1 if machine.aware else several_dimensions_cycles(arrays, 0)), -1
    algorithm = machine.algorithm[collective, 0] if whole else RING
    endpoint = machine.endpoint_ns if whole else 10
    if whole and machine.window[collective, 0] >= 0:
        return -1, 0
    arrays.algorithm[0, 0], arrays.npus[0, 0], arrays.endpoint_ns[0] = algorithm, nodes, endpoint
    cycles = one_dimension_cycles(arrays, 0, machine.npus)
    wait = endpoint
    if collective == REDUCE_SCATTER:
        chunk = max(size // machine.splits, machine.npus)
        wait = reduction_cycles(chunk // nodes, machine.memory_bytes_per_ns)
    return cycles, wait


@inner
def issue(machine, arrays, work, state, rank, now):
    """Try a rank's ready nodes in ascending order; returns False when only the full simulation can go on."""
    kept = 0
    count = state.ready_count[rank]
    for k in range(count):
        row = state.ready[rank, k]
        kind = work.kind[row]
        slot = COMPUTE if kind == NODE_COMPUTE else HOST if kind == NODE_CPU else COMMUNICATE
        if kind == NODE_SKIP:
            return False
        if not state.free[rank, slot]:
            state.ready[rank, kept] = row
            kept += 1
            continue
        state.free[rank, slot] = 0
        state.started[row] = now
        state.slot_row[rank, slot] = row
        if kind in (NODE_COMPUTE, NODE_CPU):
            state.totals[rank, slot] += work.duration_ns[row]
        if kind != NODE_COLLECTIVE:
            state.finish[rank, slot] = now + work.duration_ns[row]
            state.registered[rank, slot] = now
            continue
        group = work.group[row] + 1
        turn = state.serial[rank, group]
        state.serial[rank, group] += 1
        if turn >= state.entered.shape[1]:
            return False
        if state.left[group, turn] == 0:
            state.entered[group, turn] = now
            state.cache[group, turn], state.cache_wait[group, turn] = collective_duration(machine, arrays, work, row)
            if state.cache[group, turn] < 0:
                return False
            state.first_row[group, turn] = row
        other = state.first_row[group, turn]
        if state.entered[group, turn] != now or work.bytes[other] != work.bytes[row] or work.collective[other] != work.collective[row]:
            return False
        state.left[group, turn] += 1
        state.finish[rank, slot] = now + state.cache[group, turn]
        wait = state.cache_wait[group, turn]
        state.registered[rank, slot] = state.finish[rank, slot] - wait if wait >= 0 else UNKNOWN
    state.ready_count[rank] = kept
    return True


@outer
def replay_known(machine, arrays, work, most_collectives, started, ended, cycles, totals):
    """Replay with known durations; fills start and end of each node, cycles of each rank and its summed compute and host time.

    Returns False when the trace needs the event-driven simulation.
    """
    ranks = machine.npus
    groups = work.group_first.shape[0]
    longest = 1
    for rank in range(ranks):
        longest = max(longest, work.first[rank + 1] - work.first[rank])
    ready, ready_count = np.zeros((ranks, longest), np.int64), np.zeros(ranks, np.int64)
    finish, registered = np.full((ranks, 3), -1, np.int64), np.zeros((ranks, 3), np.int64)
    free, slot_row = np.ones((ranks, 3), np.int64), np.zeros((ranks, 3), np.int64)
    open_parents = work.parents.copy()
    left = np.zeros((groups, most_collectives), np.int64)
    state = ReplayState(
        ready,
        ready_count,
        free,
        finish,
        registered,
        slot_row,
        started,
        totals,
        np.zeros((ranks, groups), np.int64),
        left,
        np.zeros_like(left),
        np.zeros_like(left),
        np.zeros_like(left),
        np.zeros_like(left),
    )
    done = 0
    for rank in range(ranks):
        for row in range(work.first[rank], work.first[rank + 1]):
            if work.parents[row] == 0:
                ready[rank, ready_count[rank]] = row
                ready_count[rank] += 1
        if not issue(machine, arrays, work, state, rank, 0):
            return False
    while True:
        now = -1
        for rank in range(ranks):
            for slot in range(3):
                if finish[rank, slot] >= 0 and (now < 0 or finish[rank, slot] < now):
                    now = finish[rank, slot]
        if now < 0:
            break
        for rank in range(ranks):
            while True:
                slot = -1
                for k in range(3):
                    if finish[rank, k] == now:
                        if slot < 0:
                            slot = k
                        elif registered[rank, k] == registered[rank, slot] or UNKNOWN in (registered[rank, k], registered[rank, slot]):
                            return False
                        elif registered[rank, k] < registered[rank, slot]:
                            slot = k
                if slot < 0:
                    break
                row = slot_row[rank, slot]
                finish[rank, slot] = -1
                free[rank, slot] = 1
                ended[row] = now
                cycles[rank] = now
                done += 1
                for c in range(work.child_first[row], work.child_first[row + 1]):
                    child = work.child[c]
                    open_parents[child] -= 1
                    if open_parents[child] == 0:
                        k = ready_count[rank]
                        while k > 0 and ready[rank, k - 1] > child:
                            ready[rank, k] = ready[rank, k - 1]
                            k -= 1
                        ready[rank, k] = child
                        ready_count[rank] += 1
                if not issue(machine, arrays, work, state, rank, now):
                    return False
    for group in range(groups):
        size = ranks if group == 0 else work.group_first[group] - work.group_first[group - 1]
        for turn in range(most_collectives):
            if left[group, turn] != 0 and left[group, turn] != size:
                return False
    return done == work.kind.shape[0]


def run_known(prepared: Prepared, network: Network) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """Start and end of each node, cycles and summed compute of each rank; None where durations are not known beforehand."""
    work, machine = prepared.work, prepared.machine
    if np.isin(work.kind, (NODE_SEND, NODE_RECEIVE, NODE_SKIP)).any() or (machine.algorithm != machine.algorithm[0]).any():
        return None
    started, ended = np.zeros(len(work.kind), np.int64), np.zeros(len(work.kind), np.int64)
    cycles, totals = np.zeros(machine.npus, np.int64), np.zeros((machine.npus, 3), np.int64)
    collectives = [node.rank for node, kind in zip(prepared.nodes, work.kind, strict=True) if kind == NODE_COLLECTIVE]
    most = int(np.bincount(collectives or [0]).max())
    arrays, _ = of_cases([CollectiveCase("all_reduce", 1, network)])
    if not replay_known(machine, arrays, work, most, started, ended, cycles, totals):
        return None
    return started, ended, cycles, totals[:, 0]
