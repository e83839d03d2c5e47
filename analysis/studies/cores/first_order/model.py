"""About how long does each instruction take on a design: one pass over the trace, no cycles, nothing fitted.

Every instruction gets the cycle in which it is fetched, dispatched, started, done and retired from those of the instructions before
it; widths, queues, ports and misses in flight are limits on these five. A few dozen nanoseconds an instruction; the cycle-by-cycle
model (analysis.cores.timing.simulation) is the truth that it is compared with. Its steps are inputs of our network, and a baseline by
themselves.
Source: the interval view of Karkhanis and Smith, A first-order superscalar processor model, 2004; latencies follow from the stages of
gem5's O3 core as analysis.cores.timing.simulation restates them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.compiled import inner, outer
from analysis.cores.riscv.trace import ATOMIC, FLOAT_MEM_READ, FLOAT_MEM_WRITE, MEM_READ, MEM_WRITE, PLAIN_INSTRUCTIONS
from analysis.cores.timing.designs import Design
from analysis.cores.timing.simulation import core_state
from analysis.cores.timing.state import NO_UNIT, UNITS
from analysis.studies.cores.first_order.inputs import HIT, MEMORY, NEXT_LEVEL, WRONG_AT_DECODE, WRONG_AT_EXECUTION, FirstOrderInputs, levels

RING = 1 << 13
ISSUE = UNITS
"""Place of the issue slots behind those of the units."""
FETCH_TO_DISPATCH = 4
"""Cycles from fetch over decode and rename (two) to dispatch; issue may follow in the same cycle."""
RESTART = 3
"""Cycles from a signal to fetch, over the restart, until it asks for a block; less the block's own."""
COMMIT = 2
"""Cycles from the execution of an instruction until it can retire, and from retirement until a store is written."""
EXECUTE = 1
"""Cycles from issue to execution."""
IN_FLIGHT_STAGES = 5
"""Groups of instructions between fetch queue and dispatch."""


class Sizes(NamedTuple):
    """A design as numbers: widths, queues, and latencies (cycles) that its stages and caches add up to."""

    width: int
    rob: int
    waiting: int
    loads: int
    stores: int
    misses: int
    fetched: int
    hit: int
    restart: int
    targets: int
    squash_width: int
    forwarded: int
    next_level: int
    memory: int
    closed_row: int
    conflict: int
    code_hit: int
    row_bits: int
    bank_bits: int
    channel: int
    clear_period: int
    speculates: bool


def sizes(design: Design) -> Sizes:
    """The first-order model's numbers of a design."""
    memory = design.memory
    cycle = 1e12 / design.clock_hz
    l1, l2 = design.l1d, design.l2
    request = l1.tag_cycles + memory.l2_bus_request_cycles
    back = memory.l2_bus_response_cycles + l1.response_cycles
    bus = (memory.bus_request_cycles + memory.bus_response_cycles) * memory.bus_period_ps
    dram = (memory.read_to_data_ps + memory.burst_ps + memory.controller_front_ps + memory.controller_back_ps + bus) / cycle
    return Sizes(
        width=design.width,
        rob=design.rob_entries,
        waiting=design.issue_queue_entries,
        loads=design.load_queue_entries,
        stores=design.store_queue_entries,
        misses=l1.mshrs,
        fetched=design.fetch_queue_entries + IN_FLIGHT_STAGES * design.width,
        hit=EXECUTE + max(l1.tag_cycles, l1.data_cycles),
        restart=RESTART + max(design.l1i.tag_cycles, design.l1i.data_cycles),
        targets=l1.targets_per_mshr,
        squash_width=design.squash_width or design.width,
        forwarded=EXECUTE + design.forwarding_cycles,
        next_level=EXECUTE + request + max(l2.tag_cycles, l2.data_cycles) + back,
        memory=EXECUTE + request + l2.tag_cycles + round(dram) + l2.response_cycles + back,
        closed_row=round(memory.activate_to_read_ps / cycle),
        conflict=round((memory.precharge_ps + memory.activate_to_read_ps) / cycle),
        code_hit=max(design.l1i.tag_cycles, design.l1i.data_cycles),
        row_bits=max(0, (memory.row_bytes // design.line_bytes).bit_length() - 1),
        bank_bits=memory.banks.bit_length() - 1,
        channel=round(memory.burst_ps / cycle),
        clear_period=design.store_set_clear_period,
        speculates=design.memory_speculation,
    )


@inner(_nrt=False)
def take(used: NDArray, cycle_of: NDArray, cycle: int, most: int) -> int:
    """First cycle, not before `cycle`, in which fewer than `most` uses were taken; takes one.

    Args:
        used, cycle_of: uses and the cycle they are about, rings of `RING` entries.
    """
    while True:
        k = cycle & (RING - 1)
        if cycle_of[k] != cycle:
            cycle_of[k] = cycle
            used[k] = 0
        if used[k] < most:
            used[k] += 1
            return cycle
        cycle += 1


@inner(_nrt=False)
def replace_least(heap: NDArray, value: int) -> None:
    """Put `value` in the place of the least of a binary heap."""
    n = len(heap)
    at = 0
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value


@inner(_nrt=False)
def unblocked(cycle: int, begin: NDArray, end: NDArray) -> int:
    """First cycle from `cycle` on in which a miss slot is free: with none, the cache takes nothing."""
    first = end[0]
    for k in range(len(end)):
        if not begin[k] <= cycle < end[k]:
            return cycle
        first = min(first, end[k])
    return first


@inner(_nrt=False)
def memory_cycles(z: Sizes, line: int, cycle: int, open_row: NDArray, channel: NDArray) -> int:
    """Cycles of a line from DRAM: more where its row is not open or the channel is busy."""
    above = line >> z.row_bits
    bank, row = above & ((1 << z.bank_bits) - 1), above >> z.bank_bits
    cycles = z.memory
    if open_row[bank] < 0:
        cycles += z.closed_row
    elif open_row[bank] != row:
        cycles += z.conflict
    open_row[bank] = row
    cycles += max(0, channel[0] - cycle)
    channel[0] = max(channel[0], cycle) + z.channel
    return cycles


@inner(_nrt=False)
def miss(
    z: Sizes,
    far: bool,
    line: int,
    cycle: int,
    begin: NDArray,
    end: NDArray,
    open_row: NDArray,
    channel: NDArray,
) -> int:
    """Cycle in which a line arrives that is asked for at `cycle`, in the miss slot that is free first; `far`: from DRAM."""
    slot = 0
    for k in range(len(end)):
        if end[k] < end[slot]:
            slot = k
    begin[slot] = max(cycle, end[slot])
    end[slot] = begin[slot] + (memory_cycles(z, line, begin[slot], open_row, channel) if far else z.next_level)
    return end[slot]


@inner(_nrt=False)
def join(group: NDArray, load: int, store: int) -> None:
    """Put the rows of a load and a store into one store set."""
    a, b = group[load], group[store]
    if a < 0 and b < 0:
        a = b = load
    elif a < 0:
        a = b
    elif b < 0:
        b = a
    group[load] = group[store] = min(a, b)


@outer
def walk(
    z: Sizes,
    unit_of: NDArray,
    unit_count: NDArray,
    latency: NDArray,
    pipelined: NDArray,
    row: NDArray,
    rows: int,
    opclass: NDArray,
    sources: NDArray,
    destination: NDArray,
    near_store: NDArray,
    word_store: NDArray,
    wrong: NDArray,
    taken: NDArray,
    code_line: NDArray,
    code_level: NDArray,
    line: NDArray,
    lines: int,
    line_address: NDArray,
    level: NDArray,
) -> NDArray:
    """The pass over the trace; see `first_order_times`. Arguments as in `FirstOrderInputs`, levels by instruction."""
    # More than 100 lines: one loop whose two dozen counters every step reads and writes; passed about, they would hide what limits what.
    n = len(opclass)
    start, done, retire, dispatch = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    load_at, store_done = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    loads = stores = accesses = 0
    ready = np.zeros(256, np.int64)
    arrives, targets = np.zeros(lines, np.int64), np.zeros(lines, np.int64)
    begin, end = np.zeros(z.misses, np.int64), np.zeros(z.misses, np.int64)
    open_row, channel = np.full(1 << z.bank_bits, np.int64(-1)), np.zeros(1, np.int64)
    used, cycle_of = np.zeros((UNITS + 1, RING), np.int16), np.full((UNITS + 1, RING), np.int64(-1))
    waiting = np.zeros(z.waiting, np.int64)
    group, last_of_group = np.full(rows, np.int64(-1)), np.full(rows, np.int64(-1))
    result = np.empty((n, 2), np.int32)
    fetch: Any = np.int64(0)
    dispatched = frontier = barrier = emptied = full = last_write = fetch
    fetched = sent = retired = 0
    for i in range(n):
        op, here = opclass[i], row[i]
        is_load = op in (MEM_READ, FLOAT_MEM_READ, ATOMIC)
        is_store = op in (MEM_WRITE, FLOAT_MEM_WRITE, ATOMIC)
        # fetch: a block at a time, up to a taken branch
        if i > 0 and code_line[i] != code_line[i - 1]:
            fetch += z.code_hit
            if code_level[i] == NEXT_LEVEL:
                fetch += z.next_level - z.hit
            elif code_level[i] == MEMORY:
                fetch += z.memory - z.hit
            fetched = 0
        elif i > 0 and (taken[i - 1] or fetched >= z.width):
            fetch += 1
            fetched = 0
        limit = max(barrier, dispatch[i - z.fetched] if i >= z.fetched else 0)
        if limit > fetch:
            fetch, fetched = limit, 0
        fetched += 1
        if wrong[i] == WRONG_AT_DECODE:
            barrier = max(barrier, fetch + z.restart)
        # dispatch: in order, with room in every queue
        at = max(fetch + FETCH_TO_DISPATCH, dispatched, emptied)
        if i >= z.rob:
            at = max(at, retire[i - z.rob] + 1)
        if is_load:
            if loads >= z.loads:
                at = max(at, retire[load_at[loads - z.loads]] + 1)
            load_at[loads] = i
            loads += 1
        if is_store and stores >= z.stores:
            at = max(at, store_done[stores - z.stores] + 1)
        if i >= z.waiting:
            at = max(at, waiting[0] + 1)
        if at > dispatched:
            sent = 0
        elif sent >= z.width:
            at += 1
            sent = 0
        sent += 1
        dispatched = dispatch[i] = at
        # start: operands, the store set, a unit
        for k in range(3):
            register = sources[i, k]
            if register < 64:
                at = max(at, ready[register])
        if is_load or is_store:
            accesses += 1
            if accesses % z.clear_period == 0:
                group[:] = -1
            if group[here] >= 0:
                before = last_of_group[group[here]]
                if before >= 0 and i - before < z.rob:
                    at = max(at, done[before])
        if is_load and not z.speculates and near_store[i] >= 0:
            at = max(at, done[near_store[i]])
        at = take(used[ISSUE], cycle_of[ISSUE], at, z.width)
        unit = unit_of[op]
        if unit != NO_UNIT:
            at = take(used[unit], cycle_of[unit], at, unit_count[unit])
            if not pipelined[op]:  # one unit fewer until it is done
                for later in range(at + 1, at + latency[op]):
                    take(used[unit], cycle_of[unit], later, 1 << 14)
        start[i] = at
        finish = at + latency[op]
        # loads: order, forwarding, cache
        if is_load:
            before = near_store[i]
            if z.speculates and before >= 0 and i - before < z.rob and start[before] > at:
                join(group, here, row[before])
                again = start[before] + EXECUTE + 1 + z.restart
                barrier = max(barrier, again)
                at = again + FETCH_TO_DISPATCH
            before = word_store[i]
            if before >= 0 and i - before < z.rob and retire[before] >= at:
                finish = at + z.forwarded
            else:
                at = unblocked(max(at, full), begin, end)
                if arrives[line[i]] > at:
                    finish = arrives[line[i]]
                    targets[line[i]] += 1
                    if targets[line[i]] >= z.targets:
                        full = max(full, finish)
                elif level[i] == HIT:
                    finish = at + z.hit
                else:
                    finish = miss(z, level[i] == MEMORY, line_address[i], at, begin, end, open_row, channel)
                    arrives[line[i]] = finish
                    targets[line[i]] = 1
        if is_store and group[here] >= 0:
            last_of_group[group[here]] = i
        leaves = finish if is_load else at + is_store
        replace_least(waiting, leaves)
        done[i] = finish
        if destination[i] < 64:
            ready[destination[i]] = finish
        if wrong[i] == WRONG_AT_EXECUTION:
            barrier = max(barrier, finish + 1 + z.restart)
            room = min(z.rob, z.loads * (i + 1) // max(loads, 1), z.stores * (i + 1) // max(stores, 1))  # where the wrong path ends
            squashed = min(room, z.width * (finish - dispatch[i]))
            emptied = max(emptied, finish + 1 + squashed // z.squash_width)
        # retire: in order, as many as the core is wide, and not while the reorder buffer is being emptied
        settled = finish + COMMIT
        if wrong[i] == WRONG_AT_EXECUTION:
            settled = max(settled, emptied + 1)
        if settled > frontier:
            moved, retired = settled, 0
        elif retired >= z.width:
            moved, retired = frontier + 1, 0
        else:
            moved = frontier
        retired += 1
        result[i, 0] = moved - frontier
        result[i, 1] = moved - finish
        frontier = retire[i] = moved
        if is_store:  # written behind retirement, in order
            at = unblocked(max(moved + COMMIT, last_write, full), begin, end)
            last_write = at
            if arrives[line[i]] > at:
                at = arrives[line[i]]
                targets[line[i]] += 1
                if targets[line[i]] >= z.targets:
                    full = max(full, at)
            elif level[i] == HIT:
                at += z.hit - EXECUTE
            else:
                at = miss(z, level[i] == MEMORY, line_address[i], at, begin, end, open_row, channel)
                arrives[line[i]] = at
                targets[line[i]] = 1
            store_done[stores] = at
            stores += 1
    return result


def first_order_times(inputs: FirstOrderInputs, design: Design) -> NDArray[np.int32]:
    """First-order retirement of each instruction of a trace on a design.

    Args:
        inputs: of the trace.
        design: with the predictor, line and dependence block that the inputs were made for.
    Returns:
        shape (n, 2): cycles since the previous instruction retired, and cycles from done to retired.
    """
    s = core_state(design)[0]
    level = np.zeros(len(inputs.row), np.uint8)
    level[inputs.memory] = levels(inputs.line_address[inputs.memory], design.l1d, design.l2, design.line_bytes)
    code_level = np.zeros(len(inputs.row), np.uint8)
    changes = np.flatnonzero(np.diff(inputs.code_line, prepend=-1) != 0)
    code_level[changes] = levels(inputs.code_line[changes], design.l1i, design.l2, design.line_bytes)
    return walk.chosen(len(inputs.row) <= PLAIN_INSTRUCTIONS, patience_s=3.0)(
        sizes(design),
        np.array(s["unit_of"], np.uint8),
        np.array(s["unit_count"], np.int64),
        np.array(s["latency"], np.int64),
        np.array(s["pipelined"], np.uint8),
        inputs.row,
        inputs.rows,
        inputs.opclass,
        inputs.sources,
        inputs.destination,
        inputs.near_store,
        inputs.word_store,
        inputs.wrong,
        inputs.taken,
        inputs.code_line,
        code_level,
        inputs.line,
        inputs.lines,
        inputs.line_address,
        level,
    )
