"""How long does a memory access take: L1I, L1D and L2 with MSHRs, event by event.

The rules are those of gem5's classic caches, crossbars and memory controller (src/mem/cache/base.cc, xbar.cc, mem_ctrl.cc), restated:
a hit answers after the tag (and data) latency, or when the line just filled is ready; a miss takes an MSHR or joins one; a cache
whose MSHRs are all taken refuses everything, hits included, until one is free; a fill answers the waiting accesses after the
response latency.
"""

from __future__ import annotations

from numba import njit

from analysis.cores.timing_state import (
    EVENT_CODE_FILL,
    EVENT_CODE_RETRY,
    EVENT_DATA_FILL,
    EVENT_DRAM_ARRIVAL,
    EVENT_HORIZON,
    EVENT_RETRY,
    FREE,
    MAX_MSHR,
    MAX_REQUESTS,
    ON_THE_WAY,
    Record,
)

L1I, L1D, L2 = 0, 1, 2
REFUSED = -1


@njit(cache=True)
def schedule(m: Record, cycle: int, kind: int, argument: int) -> None:
    """Put an event into the calendar at `cycle` (events of a cycle are read last in, first out: `take_events` turns them round)."""
    node = m.event_free
    m.event_free = m.event_next[node]
    m.event_kind[node] = kind
    m.event_argument[node] = argument
    slot = cycle & (EVENT_HORIZON - 1)
    m.event_next[node] = m.event_head[slot]
    m.event_head[slot] = node
    m.events += 1


@njit(cache=True)
def find_line(m: Record, cache: int, line: int) -> int:
    """Index into `lines` of the line with number `line`, or -1."""
    first = m.first_line[cache] + (line & (m.sets[cache] - 1)) * m.ways[cache]
    for way in range(first, first + m.ways[cache]):
        if m.lines[way].tag == line:
            return way
    return -1


@njit(cache=True)
def victim(m: Record, cache: int, line: int) -> int:
    """Index of the line to replace: an invalid one, else the least recently used."""
    first = m.first_line[cache] + (line & (m.sets[cache] - 1)) * m.ways[cache]
    best = first
    for way in range(first, first + m.ways[cache]):
        if m.lines[way].tag == -1:
            return way
        if m.lines[way].last < m.lines[best].last:
            best = way
    return best


@njit(cache=True)
def hit_cycles(m: Record, way: int, cache: int, cycle: int) -> int:
    """Cycles of a hit: tag and data in parallel; a line still being filled adds what is missing (calculateAccessLatency)."""
    cycles = max(m.tag_cycles[cache], m.data_cycles[cache])
    missing = m.lines[way].ready - cycle
    if missing > cycles:
        cycles += missing
    return cycles


@njit(cache=True)
def l2_insert(m: Record, line: int, cycle: int) -> int:
    """Take a line into L2 in place of the least recently used of its set."""
    way = victim(m, L2, line)
    if m.lines[way].tag != -1 and m.lines[way].dirty:
        m.writebacks[L2] += 1
    m.lines[way].tag = line
    m.lines[way].last = cycle
    m.lines[way].ready = cycle
    m.lines[way].dirty = 0
    return way


@njit(cache=True)
def l2_read(m: Record, line: int, waiter: int, cycle: int) -> None:
    """Ask L2 for a line; the answer comes as a fill of L1, at once scheduled on a hit.

    Args:
        waiter: the MSHR of L1 that waits (cache * MAX_MSHR + slot), -1 for a prefetch into L2.
        cycle: when the request enters the bus between L1 and L2.
    """
    m.accesses[L2] += waiter >= 0
    seen = cycle + m.l2_bus_request
    way = find_line(m, L2, line)
    if way >= 0 or m.perfect[L2]:
        cycles = max(m.tag_cycles[L2], m.data_cycles[L2])
        if way >= 0:
            cycles = hit_cycles(m, way, L2, seen)
            m.lines[way].last = cycle
        if waiter >= 0:
            fill_l1(m, waiter, seen + cycles + m.l2_bus_response)
        return
    m.misses[L2] += waiter >= 0
    free = -1
    for request in range(MAX_REQUESTS):
        if m.request_state[request] == FREE:
            if free < 0:
                free = request
        elif m.request_line[request] == line:
            if waiter >= 0:
                m.request_waiter[request, m.request_waiters[request]] = waiter
                m.request_waiters[request] += 1
            return
    m.request_state[free] = ON_THE_WAY
    m.request_line[free] = line
    m.request_waiters[free] = 0
    if waiter >= 0:
        m.request_waiter[free, 0] = waiter
        m.request_waiters[free] = 1
    schedule(m, seen + m.tag_cycles[L2], EVENT_DRAM_ARRIVAL, free)


@njit(cache=True)
def fill_l1(m: Record, waiter: int, cycle: int) -> None:
    kind = EVENT_DATA_FILL if waiter // MAX_MSHR == L1D else EVENT_CODE_FILL
    schedule(m, cycle, kind, waiter % MAX_MSHR)


@njit(cache=True)
def fill_l2(m: Record, request: int, cycle: int) -> None:
    """A line comes from DRAM: L2 takes it in and passes it on to the L1 caches that wait."""
    payload = ((1 << m.line_bits) // m.bus_bytes * m.bus_ps + m.cycle_ps - 1) // m.cycle_ps
    way = l2_insert(m, m.request_line[request], cycle)
    m.lines[way].ready = cycle + m.data_cycles[L2] + payload
    for k in range(m.request_waiters[request]):
        fill_l1(m, m.request_waiter[request, k], cycle + m.response_cycles[L2] + m.l2_bus_response)
    m.request_state[request] = FREE


@njit(cache=True)
def write_back(m: Record, line: int, cycle: int) -> None:
    """A dirty line of L1 goes to L2, which takes it in when it does not hold it."""
    m.writebacks[L1D] += 1
    way = find_line(m, L2, line)
    if way < 0:
        way = l2_insert(m, line, cycle)
    m.lines[way].last = cycle
    m.lines[way].dirty = 1


@njit(cache=True)
def add_target(m: Record, cache: int, slot: int, kind: int, argument: int, offset: int, write: int) -> None:
    node = m.target_free
    m.target_free = m.target_next[node]
    m.target_kind[node] = kind
    m.target_argument[node] = argument
    m.target_offset[node] = offset
    m.target_write[node] = write
    m.target_next[node] = m.mshr_target[cache, slot]
    m.mshr_target[cache, slot] = node
    m.mshr_targets[cache, slot] += 1


@njit(cache=True)
def access(m: Record, cache: int, address: int, write: int, kind: int, argument: int, cycle: int) -> int:
    """Ask an L1 cache for an address; the answer comes as an event of the given kind.

    Returns:
        the cycle of the answer, 0 when it waits for a fill, `REFUSED` when the cache is blocked.
    """
    if m.blocked[cache]:
        m.refused[cache] = 1
        return REFUSED
    m.accesses[cache] += 1
    line = address >> m.line_bits
    way = find_line(m, cache, line)
    if way >= 0 or m.perfect[cache]:
        cycles = max(m.tag_cycles[cache], m.data_cycles[cache])
        if way >= 0:
            cycles = hit_cycles(m, way, cache, cycle)
            m.lines[way].last = cycle
            m.lines[way].dirty |= write
        if kind >= 0:
            schedule(m, cycle + cycles, kind, argument)
        return cycle + cycles
    m.misses[cache] += 1
    offset = address & ((1 << m.line_bits) - 1)
    slot = -1
    for candidate in range(m.mshrs[cache]):
        if m.mshr_line[cache, candidate] == line:
            add_target(m, cache, candidate, kind, argument, offset, write)
            if m.mshr_targets[cache, candidate] >= m.targets_per_mshr[cache]:
                m.blocked[cache] = 1
            return 0
        if m.mshr_line[cache, candidate] == -1 and slot < 0:
            slot = candidate
    m.mshr_line[cache, slot] = line
    m.mshr_target[cache, slot] = -1
    m.mshr_targets[cache, slot] = 0
    m.mshr_offset[cache, slot] = offset
    m.mshr_payload[cache, slot] = (1 << m.line_bits) // m.l2_bus_bytes
    add_target(m, cache, slot, kind, argument, offset, write)
    m.mshr_used[cache] += 1
    if m.mshr_used[cache] >= m.mshrs[cache]:
        m.blocked[cache] = 1
    l2_read(m, line, cache * MAX_MSHR + slot, cycle + m.tag_cycles[cache])
    if cache == L1D:
        for ahead in range(1, m.prefetch_degree + 1):  # next-line prefetch into L2
            if find_line(m, L2, line + ahead) < 0:
                m.prefetches += 1
                l2_read(m, line + ahead, -1, cycle + m.tag_cycles[cache])
    return 0


@njit(cache=True)
def fill(m: Record, cache: int, slot: int, cycle: int) -> None:
    """A line arrives: replace a line, answer the accesses that wait for it, free the MSHR, take requests again."""
    line = m.mshr_line[cache, slot]
    payload = m.mshr_payload[cache, slot]
    way = victim(m, cache, line)
    if m.lines[way].tag != -1 and m.lines[way].dirty:
        write_back(m, m.lines[way].tag, cycle)
    m.lines[way].tag = line
    m.lines[way].last = cycle
    m.lines[way].ready = cycle + m.data_cycles[cache] + payload
    m.lines[way].dirty = 0
    # targets were linked newest first: turn the list round
    node = m.mshr_target[cache, slot]
    ordered = -1
    while node >= 0:
        following = m.target_next[node]
        m.target_next[node] = ordered
        ordered = node
        node = following
    node = ordered
    while node >= 0:
        done = cycle + m.response_cycles[cache]
        if m.target_offset[node] != m.mshr_offset[cache, slot]:
            done += payload
        if m.target_write[node]:
            m.lines[way].dirty = 1
        if m.target_kind[node] >= 0:
            schedule(m, done, m.target_kind[node], m.target_argument[node])
        following = m.target_next[node]
        m.target_next[node] = m.target_free
        m.target_free = node
        node = following
    m.mshr_line[cache, slot] = -1
    m.mshr_used[cache] -= 1
    if m.blocked[cache]:
        full = m.mshr_used[cache] >= m.mshrs[cache]
        for candidate in range(m.mshrs[cache]):
            if m.mshr_line[cache, candidate] != -1 and m.mshr_targets[cache, candidate] >= m.targets_per_mshr[cache]:
                full = True
        if not full:
            m.blocked[cache] = 0
            if m.refused[cache]:
                m.refused[cache] = 0
                schedule(m, cycle + 1, EVENT_RETRY if cache == L1D else EVENT_CODE_RETRY, 0)
