"""How long does a memory access take: L1I, L1D and L2 with MSHRs and write buffers, and the bus between them, event by event.

The rules are those of gem5's classic caches and crossbars (src/mem/cache/base.cc, cache.cc, src/mem/packet_queue.cc, xbar.cc,
coherent_xbar.cc), restated:
- a hit answers after the tag (and data) latency, or when the line just filled is ready; a miss takes an MSHR or joins one; a cache
  whose MSHRs or write buffers are all taken refuses everything, hits included, until one is free; a fill answers the waiting accesses
  after the response latency;
- of several answers due in one cycle a port sends the first in time, and the core sees the others one cycle later;
- a cache sends misses before evicted lines, unless its write buffer is full. Clean lines that leave are announced as well. Each packet
  takes the bus for a cycle and for those of its data;
- a line that is modified in L2 comes to L1 modified, and is clean in L2 from then on.
"""

from __future__ import annotations

from analysis.compiled import inner
from analysis.cores.timing import state as st
from analysis.cores.timing.state import Record

L1I, L1D, L2 = 0, 1, 2
REFUSED = -1


@inner(_nrt=False)
def schedule(m: Record, cycle: int, kind: int, argument: int) -> None:
    """Put an event into the calendar at `cycle` (events of a cycle are read last in, first out: `take_events` turns them round)."""
    node = m.event_free
    m.event_free = m.event_next[node]
    m.event_kind[node] = kind
    m.event_argument[node] = argument
    slot = cycle & (st.EVENT_HORIZON - 1)
    m.event_next[node] = m.event_head[slot]
    m.event_head[slot] = node
    m.events += 1


@inner(_nrt=False)
def find_line(m: Record, cache: int, line: int) -> int:
    """Index into `lines` of the line with number `line`, or -1."""
    first = m.first_line[cache] + (line & (m.sets[cache] - 1)) * m.ways[cache]
    for way in range(first, first + m.ways[cache]):
        if m.lines[way].tag == line:
            return way
    return -1


@inner(_nrt=False)
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


@inner(_nrt=False)
def schedule_send(m: Record, cache: int, cycle: int) -> None:
    """Let a cache look at `cycle` for something to send, unless it will look earlier or waits for its turn."""
    if m.waiting[cache] == 0 and (m.send_at[cache] < 0 or cycle < m.send_at[cache]):
        m.send_at[cache] = cycle
        schedule(m, cycle, st.EVENT_L2_SEND if cache == L2 else st.EVENT_L1_SEND, cache)


@inner(_nrt=False)
def queue_miss(m: Record, cache: int, slot: int, ready: int) -> None:
    """A miss is to be sent to the next level from cycle `ready` on."""
    m.miss_queue[cache, m.miss_n[cache]] = slot
    m.miss_ready[cache, m.miss_n[cache]] = ready
    m.miss_n[cache] += 1
    schedule_send(m, cache, ready)


@inner(_nrt=False)
def queue_write(m: Record, cache: int, line: int, dirty: int, ready: int) -> None:
    """An evicted line is to be sent to the next level from cycle `ready` on; a full write buffer blocks the cache."""
    at = m.write_n[cache]
    while at > 0 and m.write_ready[cache, at - 1] > ready:
        m.write_line[cache, at] = m.write_line[cache, at - 1]
        m.write_ready[cache, at] = m.write_ready[cache, at - 1]
        m.write_dirty[cache, at] = m.write_dirty[cache, at - 1]
        at -= 1
    m.write_line[cache, at] = line
    m.write_ready[cache, at] = ready
    m.write_dirty[cache, at] = dirty
    m.write_n[cache] += 1
    m.writebacks[cache] += dirty
    if m.write_n[cache] >= m.write_buffers[cache]:
        m.blocked[cache] = 1
    schedule_send(m, cache, ready)


@inner(_nrt=False)
def find_write(m: Record, cache: int, line: int) -> int:
    """Place of a line in the write buffer, or -1."""
    for at in range(m.write_n[cache]):
        if m.write_line[cache, at] == line:
            return at
    return -1


@inner(_nrt=False)
def next_to_send(m: Record, cache: int, cycle: int) -> int:
    """What a cache sends now: 0 for the first miss, 1 + place for an evicted line, -1 for nothing."""
    miss = m.miss_n[cache] > 0 and m.miss_ready[cache, 0] <= cycle
    write = m.write_n[cache] > 0 and m.write_ready[cache, 0] <= cycle
    if write and (not miss or m.write_n[cache] >= m.write_buffers[cache]):
        return 1
    if not miss:
        return -1
    slot = m.miss_queue[cache, 0]
    line = m.request_line[slot] if cache == L2 else m.mshr_line[cache, slot]
    return 1 + find_write(m, cache, line)


@inner(_nrt=False)
def drop_miss(m: Record, cache: int) -> None:
    """The first miss was sent."""
    m.miss_n[cache] -= 1
    for at in range(m.miss_n[cache]):
        m.miss_queue[cache, at] = m.miss_queue[cache, at + 1]
        m.miss_ready[cache, at] = m.miss_ready[cache, at + 1]


@inner(_nrt=False)
def drop_write(m: Record, cache: int, place: int, cycle: int) -> None:
    """An evicted line was sent: its write buffer is free."""
    m.write_n[cache] -= 1
    for at in range(place, m.write_n[cache]):
        m.write_line[cache, at] = m.write_line[cache, at + 1]
        m.write_ready[cache, at] = m.write_ready[cache, at + 1]
        m.write_dirty[cache, at] = m.write_dirty[cache, at + 1]
    unblock(m, cache, cycle)


@inner(_nrt=False)
def send_again(m: Record, cache: int, cycle: int) -> None:
    """Look for something to send when the next of both queues is ready, not before `cycle`."""
    ready = -1
    if m.miss_n[cache] > 0:
        ready = m.miss_ready[cache, 0]
    if m.write_n[cache] > 0 and (ready < 0 or m.write_ready[cache, 0] < ready):
        ready = m.write_ready[cache, 0]
    if ready >= 0:
        schedule_send(m, cache, max(ready, cycle))


@inner(_nrt=False)
def unblock(m: Record, cache: int, cycle: int) -> None:
    """Take requests again when MSHRs, their targets and write buffers allow; whoever was refused tries again a cycle later."""
    if not m.blocked[cache] or m.write_n[cache] >= m.write_buffers[cache]:
        return
    if cache == L2:
        if m.requests_used >= m.mshrs[L2]:
            return
    else:
        if m.mshr_used[cache] >= m.mshrs[cache]:
            return
        for slot in range(m.mshrs[cache]):
            if m.mshr_line[cache, slot] != -1 and m.mshr_targets[cache, slot] >= m.targets_per_mshr[cache]:
                return
    m.blocked[cache] = 0
    if m.refused[cache]:
        m.refused[cache] = 0
        if cache == L2:
            for above in range(L2):
                if m.waiting[above]:
                    m.waiting[above] = 0
                    schedule_send(m, above, cycle + 1)
        else:
            schedule(m, cycle + 1, st.EVENT_RETRY if cache == L1D else st.EVENT_CODE_RETRY, 0)


@inner(_nrt=False)
def send_to_l2(m: Record, cache: int, cycle: int) -> None:
    """An L1 cache sends one packet over the bus to L2, when the bus is free and L2 takes it."""
    if m.send_at[cache] != cycle:  # it looked earlier than this
        return
    m.send_at[cache] = -1
    if cycle < m.l2_bus_free:
        schedule_send(m, cache, m.l2_bus_free)
        return
    what = next_to_send(m, cache, cycle)
    if what < 0:
        send_again(m, cache, cycle)
        return
    m.l2_bus_free = cycle + 1
    if m.blocked[L2]:
        m.refused[L2] = 1
        m.waiting[cache] = 1
        return
    if what == 0:
        slot = m.miss_queue[cache, 0]
        drop_miss(m, cache)
        l2_read(m, m.mshr_line[cache, slot], cache * st.MAX_MSHR + slot, cycle)
    else:
        line, dirty = m.write_line[cache, what - 1], m.write_dirty[cache, what - 1]
        if dirty:
            m.l2_bus_free += l2_bus_payload(m)
        drop_write(m, cache, what - 1, cycle)
        l2_take(m, line, dirty, cycle)
    send_again(m, cache, m.l2_bus_free)


@inner(_nrt=False)
def l2_bus_payload(m: Record) -> int:
    """Cycles of a line's data on the bus between L1 and L2."""
    return ((1 << m.line_bits) + m.l2_bus_bytes - 1) // m.l2_bus_bytes


@inner(_nrt=False)
def in_l1(m: Record, line: int) -> bool:
    """Whether an L1 cache or its write buffer has a line."""
    in_lines = find_line(m, L1D, line) >= 0 or find_line(m, L1I, line) >= 0
    return in_lines or find_write(m, L1D, line) >= 0 or find_write(m, L1I, line) >= 0


@inner(_nrt=False)
def l2_insert(m: Record, line: int, cycle: int, evicted_ready: int) -> int:
    """Take a line into L2 in place of the least recently used of its set, which leaves; a clean one is not announced while L1 has it."""
    way = victim(m, L2, line)
    old = m.lines[way].tag
    if old != -1 and (m.lines[way].dirty or not in_l1(m, old)):
        queue_write(m, L2, old, m.lines[way].dirty, evicted_ready)
    m.lines[way].tag = line
    m.lines[way].last = cycle
    m.lines[way].ready = cycle
    m.lines[way].dirty = 0
    return way


@inner(_nrt=False)
def find_request(m: Record, line: int) -> int:
    """Miss of L2 in flight for a line, or -1."""
    if m.requests_used > 0:
        for request in range(st.MAX_REQUESTS):
            if m.request_state[request] != st.FREE and m.request_line[request] == line:
                return request
    return -1


@inner(_nrt=False)
def l2_take(m: Record, line: int, dirty: int, cycle: int) -> None:
    """A line that left L1 reaches L2: modified ones are written, in place of another line if need be; clean ones only count as a use."""
    way = find_line(m, L2, line)
    if way >= 0:
        m.lines[way].last = cycle
    elif not dirty:
        if find_request(m, line) < 0:
            queue_write(m, L2, line, 0, cycle + m.l2_bus_request + m.tag_cycles[L2])
        return
    if not dirty:
        return
    arrives = cycle + m.l2_bus_request
    if way < 0:
        way = l2_insert(m, line, cycle, arrives + 2 * m.tag_cycles[L2])
    m.lines[way].dirty = 1
    m.lines[way].ready = arrives + m.data_cycles[L2] + max(m.tag_cycles[L2], l2_bus_payload(m))


@inner(_nrt=False)
def l2_read(m: Record, line: int, waiter: int, cycle: int) -> None:
    """Ask L2 for a line.

    Args:
        waiter: the MSHR of L1 that waits (cache * MAX_MSHR + slot), -1 for a prefetch into L2.
    """
    m.accesses[L2] += waiter >= 0
    way = find_line(m, L2, line)
    if way >= 0 or m.perfect[L2]:
        cycles = m.l2_bus_request + max(m.tag_cycles[L2], m.data_cycles[L2])
        if way >= 0:
            missing = m.lines[way].ready - (cycle + m.l2_bus_request)
            if missing > cycles:
                cycles += missing
            m.lines[way].last = cycle
            if waiter >= 0 and m.lines[way].dirty:
                m.lines[way].dirty = 0
                m.mshr_modified[waiter // st.MAX_MSHR, waiter % st.MAX_MSHR] = 1
        if waiter >= 0:
            schedule(m, cycle + cycles, st.EVENT_L2_ANSWER, waiter)
        return
    request = find_request(m, line)
    m.misses[L2] += waiter >= 0
    if request < 0:
        if waiter < 0 and m.requests_used >= m.mshrs[L2] - 1:
            return
        request = 0
        while m.request_state[request] != st.FREE:
            request += 1
        m.request_state[request] = st.ON_THE_WAY
        m.request_line[request] = line
        m.request_waiters[request] = 0
        m.requests_used += 1
        if m.requests_used >= m.mshrs[L2]:
            m.blocked[L2] = 1
        queue_miss(m, L2, request, cycle + m.l2_bus_request + m.tag_cycles[L2])
    if waiter >= 0:
        m.request_waiter[request, m.request_waiters[request]] = waiter
        m.request_waiters[request] += 1


@inner(_nrt=False)
def l2_answer(m: Record, waiter: int, cycle: int) -> None:
    """L2 sends a line to L1: in order, one a cycle, when the bus to that L1 is free; it is busy a cycle and those of the data."""
    cache = waiter // st.MAX_MSHR
    sent = max(cycle, m.l2_answer_free[cache], m.l2_answer_last + 1)
    m.l2_answer_last = sent
    m.l2_answer_free[cache] = sent + 1 + l2_bus_payload(m)
    schedule(m, sent + m.l2_bus_response, st.EVENT_DATA_FILL if cache == L1D else st.EVENT_CODE_FILL, waiter % st.MAX_MSHR)


@inner(_nrt=False)
def fill_l2(m: Record, request: int, cycle: int) -> None:
    """A line comes from DRAM: L2 takes it in and passes it on to the L1 caches that wait."""
    payload = ((1 << m.line_bits) // m.bus_bytes * m.bus_ps + m.cycle_ps - 1) // m.cycle_ps
    line = m.request_line[request]
    way = find_line(m, L2, line)
    if way < 0:
        way = l2_insert(m, line, cycle, cycle + m.tag_cycles[L2])
    m.lines[way].ready = cycle + m.data_cycles[L2] + payload
    for k in range(m.request_waiters[request]):
        schedule(m, cycle + m.response_cycles[L2], st.EVENT_L2_ANSWER, m.request_waiter[request, k])
    m.request_state[request] = st.FREE
    m.requests_used -= 1
    unblock(m, L2, cycle)


@inner(_nrt=False)
def add_target(m: Record, cache: int, slot: int, kind: int, argument: int, offset: int, write: int) -> None:
    """An access joins the miss in an MSHR."""
    node = m.target_free
    m.target_free = m.target_next[node]
    m.target_kind[node] = kind
    m.target_argument[node] = argument
    m.target_offset[node] = offset
    m.target_write[node] = write
    m.target_next[node] = m.mshr_target[cache, slot]
    m.mshr_target[cache, slot] = node
    m.mshr_targets[cache, slot] += 1


@inner(_nrt=False)
def answer(m: Record, cache: int, kind: int, argument: int, cycle: int) -> None:
    """Answer an access: the first of a cycle in time, the others of that cycle are seen one later."""
    if m.answered[cache, cycle & 63] == cycle:
        schedule(m, cycle + 1, kind, argument)
    else:
        m.answered[cache, cycle & 63] = cycle
        schedule(m, cycle, kind, argument)


@inner(_nrt=False)
def access(m: Record, cache: int, address: int, write: int, kind: int, argument: int, cycle: int) -> int:
    """Ask an L1 cache for an address; the answer comes as an event of the given kind.

    Returns:
        0 when it was taken, `REFUSED` when the cache is blocked.
    """
    if m.blocked[cache]:
        m.refused[cache] = 1
        return REFUSED
    m.accesses[cache] += 1
    line = address >> m.line_bits
    way = find_line(m, cache, line)
    if way >= 0 or m.perfect[cache]:
        cycles = m.tag_cycles[cache]
        if not write:  # a line still being filled adds what is missing (calculateAccessLatency)
            cycles = max(cycles, m.data_cycles[cache])
            if way >= 0 and m.lines[way].ready - cycle > cycles:
                cycles += m.lines[way].ready - cycle
        if way >= 0:
            m.lines[way].last = cycle
            m.lines[way].dirty |= write
        if kind >= 0:
            answer(m, cache, kind, argument, cycle + cycles)
        return 0
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
    m.mshr_modified[cache, slot] = 0
    add_target(m, cache, slot, kind, argument, offset, write)
    m.mshr_used[cache] += 1
    if m.mshr_used[cache] >= m.mshrs[cache]:
        m.blocked[cache] = 1
    queue_miss(m, cache, slot, cycle + m.tag_cycles[cache])
    if cache == L1D:
        for ahead in range(1, m.prefetch_degree + 1):  # next-line prefetch into L2
            if find_line(m, L2, line + ahead) < 0:
                l2_read(m, line + ahead, -1, cycle + m.tag_cycles[cache])
    return 0


@inner(_nrt=False)
def fill(m: Record, cache: int, slot: int, cycle: int) -> None:
    """A line arrives: replace a line, answer the accesses that wait for it, free the MSHR, take requests again."""
    line = m.mshr_line[cache, slot]
    payload = l2_bus_payload(m)
    way = victim(m, cache, line)
    if m.lines[way].tag != -1:
        queue_write(m, cache, m.lines[way].tag, m.lines[way].dirty, cycle + m.tag_cycles[cache])
    m.lines[way].tag = line
    m.lines[way].last = cycle
    m.lines[way].ready = cycle + m.data_cycles[cache] + payload
    m.lines[way].dirty = m.mshr_modified[cache, slot]
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
            answer(m, cache, m.target_kind[node], m.target_argument[node], done)
        following = m.target_next[node]
        m.target_next[node] = m.target_free
        m.target_free = node
        node = following
    m.mshr_line[cache, slot] = -1
    m.mshr_used[cache] -= 1
    unblock(m, cache, cycle)
