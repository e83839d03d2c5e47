"""How long does a memory access take: L1I, L1D and L2 with MSHRs, two buses and DDR3, event by event.

The rules are those of gem5's classic caches, crossbars and memory controller (src/mem/cache/base.cc, xbar.cc, mem_ctrl.cc), restated:
a hit answers after the tag (and data) latency, or when the line just filled is ready; a miss takes an MSHR or joins one; a cache whose MSHRs
are all taken refuses everything, hits included, until one is free; a fill answers the waiting accesses after the response latency.
"""

from __future__ import annotations

from numba import njit

from analysis.cores.timing_state import (
    EVENT_CODE_FILL,
    EVENT_CODE_RETRY,
    EVENT_DATA_FILL,
    EVENT_HORIZON,
    EVENT_RETRY,
)

L1I, L1D, L2 = 0, 1, 2
REFUSED = -1


@njit(cache=True)
def schedule(m, cycle, kind, argument):
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
def find_line(m, lines, cache, line):
    """Index into `lines` of the line with number `line`, or -1."""
    first = m.base[cache] + (line & (m.sets[cache] - 1)) * m.ways[cache]
    for way in range(first, first + m.ways[cache]):
        if lines[way].tag == line:
            return way
    return -1


@njit(cache=True)
def victim(m, lines, cache, line):
    """Index of the line to replace: an invalid one, else the least recently used."""
    first = m.base[cache] + (line & (m.sets[cache] - 1)) * m.ways[cache]
    best = first
    for way in range(first, first + m.ways[cache]):
        if lines[way].tag == -1:
            return way
        if lines[way].last < lines[best].last:
            best = way
    return best


@njit(cache=True)
def hit_cycles(m, lines, way, cache, cycle):
    """Cycles of a hit: tag and data in parallel; a line still being filled adds what is missing (calculateAccessLatency)."""
    cycles = max(m.tag_cycles[cache], m.data_cycles[cache])
    missing = lines[way].ready - cycle
    if missing > cycles:
        cycles += missing
    return cycles


@njit(cache=True)
def dram_read(m, line, at_ps):
    """When the last beat of a line is on the DRAM bus (ps): open rows, banks in parallel, one channel, refresh.

    Args:
        line: line number; columns are the lowest bits, then the bank, then the row (RoRaBaCoCh).
        at_ps: arrival at the controller.
    """
    start = at_ps
    if m.t_refi > 0:
        while start >= m.next_refresh + m.t_refi:  # refreshes nobody waited for
            m.next_refresh += m.t_refi
            m.open_row[:] = -1
        if start >= m.next_refresh:
            refreshed = m.next_refresh + m.t_rfc
            m.next_refresh += m.t_refi
            m.open_row[:] = -1
            m.activate_at[:] = refreshed
    columns = line >> m.row_bits
    bank = columns & ((1 << m.bank_bits) - 1)
    row = columns >> m.bank_bits
    m.dram_reads += 1
    if m.open_row[bank] != row:
        activate = max(start, m.activate_at[bank])
        if m.open_row[bank] >= 0:
            activate = max(activate, max(start, m.precharge_at[bank]) + m.t_rp)
        m.open_row[bank] = row
        m.read_at[bank] = activate + m.t_rcd
        m.precharge_at[bank] = activate + m.t_ras
    else:
        m.row_hits += 1
    command = max(start, m.read_at[bank], m.channel_at)
    m.channel_at = command + m.t_burst
    m.precharge_at[bank] = max(m.precharge_at[bank], command + m.t_rtp)
    return command + m.t_cl + m.t_burst


@njit(cache=True)
def l2_evict(m, lines, way):
    if lines[way].tag != -1 and lines[way].dirty:
        m.writebacks[L2] += 1


@njit(cache=True)
def l2_read(m, lines, line, cycle):
    """When a line that L1 asks for reaches L1 (cycle of its fill).

    Args:
        cycle: when the request enters the bus between L1 and L2.
    """
    m.accesses[L2] += 1
    seen = cycle + m.l2_bus_request
    way = find_line(m, lines, L2, line)
    if way >= 0 or m.perfect[L2]:
        cycles = max(m.tag_cycles[L2], m.data_cycles[L2])
        if way >= 0:
            cycles = hit_cycles(m, lines, way, L2, seen)
            lines[way].last = cycle
        return seen + cycles + m.l2_bus_response
    m.misses[L2] += 1
    # to the memory bus, whose requests start on its own clock; its latency is added to the answer, not waited for
    leaves = (seen + m.tag_cycles[L2]) * m.cycle_ps
    edge = (leaves + m.bus_ps - 1) // m.bus_ps * m.bus_ps
    delay = edge - leaves + m.bus_request * m.bus_ps
    answer = dram_read(m, line, leaves) + m.t_static + delay
    edge = (answer + m.bus_ps - 1) // m.bus_ps * m.bus_ps
    arrives = edge + m.bus_response * m.bus_ps
    fill = (arrives + m.cycle_ps - 1) // m.cycle_ps
    payload = ((1 << m.line_bits) // m.bus_bytes * m.bus_ps + m.cycle_ps - 1) // m.cycle_ps
    way = victim(m, lines, L2, line)
    l2_evict(m, lines, way)
    lines[way].tag = line
    lines[way].last = cycle
    lines[way].ready = fill + m.data_cycles[L2] + payload
    lines[way].dirty = 0
    return fill + m.response_cycles[L2] + m.l2_bus_response


@njit(cache=True)
def write_back(m, lines, line, cycle):
    """A dirty line of L1 goes to L2, which takes it in when it does not hold it."""
    m.writebacks[L1D] += 1
    way = find_line(m, lines, L2, line)
    if way < 0:
        way = victim(m, lines, L2, line)
        l2_evict(m, lines, way)
        lines[way].tag = line
        lines[way].ready = cycle
    lines[way].last = cycle
    lines[way].dirty = 1


@njit(cache=True)
def add_target(m, cache, slot, kind, argument, offset, write):
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
def access(m, lines, cache, address, write, kind, argument, cycle):
    """Ask an L1 cache for an address; the answer comes as an event of the given kind.

    Returns:
        the cycle of the answer, 0 when it waits for a fill, `REFUSED` when the cache is blocked.
    """
    if m.blocked[cache]:
        m.refused[cache] = 1
        return REFUSED
    m.accesses[cache] += 1
    line = address >> m.line_bits
    way = find_line(m, lines, cache, line)
    if way >= 0 or m.perfect[cache]:
        cycles = max(m.tag_cycles[cache], m.data_cycles[cache])
        if way >= 0:
            cycles = hit_cycles(m, lines, way, cache, cycle)
            lines[way].last = cycle
            lines[way].dirty |= write
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
    fill = l2_read(m, lines, line, cycle + m.tag_cycles[cache])
    schedule(m, fill, EVENT_DATA_FILL if cache == L1D else EVENT_CODE_FILL, slot)
    if m.prefetch_degree > 0 and cache == L1D:
        for ahead in range(1, m.prefetch_degree + 1):  # next-line prefetch into L2
            if find_line(m, lines, L2, line + ahead) < 0:
                l2_read(m, lines, line + ahead, cycle + m.tag_cycles[cache])
                m.prefetches += 1
                m.accesses[L2] -= 1
                m.misses[L2] -= 1
    return 0


@njit(cache=True)
def fill(m, lines, cache, slot, cycle):
    """A line arrives: replace a line, answer the accesses that wait for it, free the MSHR, take requests again."""
    line = m.mshr_line[cache, slot]
    payload = m.mshr_payload[cache, slot]
    way = victim(m, lines, cache, line)
    if lines[way].tag != -1 and lines[way].dirty:
        write_back(m, lines, lines[way].tag, cycle)
    lines[way].tag = line
    lines[way].last = cycle
    lines[way].ready = cycle + m.data_cycles[cache] + payload
    lines[way].dirty = 0
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
            lines[way].dirty = 1
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
