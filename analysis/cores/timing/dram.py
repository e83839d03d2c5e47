"""When does a line come from DRAM: the memory bus, a controller with read and write queues, and a DDR3 channel.

The rules are those of gem5 (src/mem/mem_ctrl.cc, dram_interface.cc, coherent_xbar.cc), restated: open rows, first-ready scheduling,
refresh; writes wait in their queue until it is fuller than a low mark while no read waits, or fuller than a high mark, and are then
written in one go; the channel pays for each change of direction and of rank. A read of a line that waits to be written is answered by
the queue. Times are in ps.
"""

from __future__ import annotations

from analysis.compiled import inner
from analysis.cores.timing.memory import L2, drop_miss, drop_write, next_to_send, schedule, schedule_send, send_again
from analysis.cores.timing.state import EVENT_DRAM_NEXT, EVENT_L2_FILL, MAX_REQUESTS, QUEUED, SERVED, Record

NEVER = 1 << 62
IDLE, SERVING, RESTING = 0, 1, 2


@inner(_nrt=False)
def bank_and_row(m: Record, line: int) -> tuple[int, int]:
    """Columns are the lowest bits of a line number, then the bank, then the row (RoRaBaCoCh)."""
    above = line >> m.row_bits
    return above & ((1 << m.bank_bits) - 1), above >> m.bank_bits


@inner(_nrt=False)
def refresh(m: Record, now: int, served: bool) -> None:
    """Close the banks of a rank whose refresh is due, and let it rest; the next one is due an interval less a precharge later, as in gem5.

    A rank whose turn it is finishes first (at `now`, when requests are `served`); then its rows close, and its last data are out.
    """
    if m.t_refi <= 0:
        return
    for rank in range(m.ranks):
        while now >= m.next_refresh[rank]:
            start = now if served and rank == m.active_rank else m.next_refresh[rank]
            opened = False
            first = rank * m.banks_per_rank
            for bank in range(first, first + m.banks_per_rank):
                if m.open_row[bank] >= 0:
                    opened = True
            if opened:
                for bank in range(first, first + m.banks_per_rank):
                    start = max(start, m.precharge_at[bank])
                    m.open_row[bank] = -1
                start += m.t_rp
            start = max(start, m.rank_closed[rank], m.rank_ready[rank])
            m.rank_rests[rank] = start + m.t_rfc
            for bank in range(first, first + m.banks_per_rank):
                m.activate_at[bank] = start + m.t_rfc
            m.next_refresh[rank] += m.t_refi - m.t_rp


@inner(_nrt=False)
def is_waiting(m: Record, place: int, writes: int, now: int) -> bool:
    """Whether a place of a queue holds a request whose rank does not rest."""
    if not writes and m.request_state[place] != QUEUED:
        return False
    bank, _ = bank_and_row(m, m.dram_write_line[place] if writes else m.request_line[place])
    return now >= m.rank_rests[bank // m.banks_per_rank]


@inner(_nrt=False)
def column_at(m: Record, bank: int, writes: int) -> int:
    """When a bank may read or write next."""
    return m.write_at[bank] if writes else m.read_at[bank]


@inner(_nrt=False)
def choose(m: Record, now: int, writes: int, gap: int) -> int:
    """The request to serve, by its place in the queue; -1 when none waits.

    The oldest whose row is open and that fits right behind the last burst; else the oldest of a bank that can be prepared behind the
    scenes; else the oldest whose row is open; else the oldest of the banks that can be activated first.

    Args:
        writes: which queue: 0 reads (places are those of L2's misses), 1 writes.
        gap: what the channel needs to change direction, ps.
    """
    seamless_at = max(m.channel_at + gap, now)
    places = m.dram_write_n if writes else MAX_REQUESTS
    # the banks that can be activated first, or in time for a seamless burst
    mask = 0
    seamless_bank = False
    hidden = False
    first_at = NEVER
    waiting = 0
    for place in range(places):
        if is_waiting(m, place, writes, now):
            bank, _ = bank_and_row(m, m.dram_write_line[place] if writes else m.request_line[place])
            waiting |= 1 << bank
    for bank in range(1 << m.bank_bits):
        if not waiting >> bank & 1:
            continue
        at = max(m.activate_at[bank], now) if m.open_row[bank] < 0 else max(m.precharge_at[bank], now) + m.t_rp
        seamless = max(column_at(m, bank, writes), at + m.t_rcd) <= seamless_at
        if seamless or (not seamless_bank and at <= first_at):
            if not seamless_bank and (seamless or at < first_at):
                mask = 0
            seamless_bank |= seamless
            hidden = at <= max(seamless_at - m.t_rcd, now)
            mask |= 1 << bank
            first_at = at
    best = best_hit = best_first = -1
    best_order = hit_order = first_order = NEVER
    for place in range(places):
        if not is_waiting(m, place, writes, now):
            continue
        bank, row = bank_and_row(m, m.dram_write_line[place] if writes else m.request_line[place])
        order = place if writes else m.request_count[place]
        if m.open_row[bank] == row:
            if column_at(m, bank, writes) <= seamless_at:
                if order < best_order:
                    best, best_order = place, order
            elif order < hit_order:
                best_hit, hit_order = place, order
        elif mask >> bank & 1 and order < first_order:
            best_first, first_order = place, order
    if best >= 0:
        return best
    return best_first if best_first >= 0 and (hidden or best_hit < 0) else best_hit


@inner(_nrt=False)
def close_row(m: Record, bank: int, now: int) -> None:
    """Precharge a bank."""
    m.open_row[bank] = -1
    closed = max(now, m.precharge_at[bank]) + m.t_rp
    m.activate_at[bank] = max(m.activate_at[bank], closed)
    rank = bank // m.banks_per_rank
    m.rank_closed[rank] = max(m.rank_closed[rank], closed)


@inner(_nrt=False)
def open_row(m: Record, bank: int, row: int, now: int) -> None:
    """Activate a row; the banks of a rank are activated some time after one another, and a few at most in a window."""
    activate = max(now, m.activate_at[bank])
    m.open_row[bank] = row
    m.row_accesses[bank] = 0
    m.precharge_at[bank] = activate + m.t_ras
    m.read_at[bank] = max(m.read_at[bank], activate + m.t_rcd)
    m.write_at[bank] = max(m.write_at[bank], activate + m.t_rcd)
    rank = bank // m.banks_per_rank
    earliest = activate + m.t_rrd
    if m.activation_limit > 0:
        for k in range(m.activation_limit - 1, 0, -1):
            m.activations[rank, k] = m.activations[rank, k - 1]
        m.activations[rank, 0] = activate
        oldest = m.activations[rank, m.activation_limit - 1]
        if oldest > 0:
            earliest = max(earliest, oldest + m.t_xaw)
    for other in range(rank * m.banks_per_rank, (rank + 1) * m.banks_per_rank):
        m.activate_at[other] = max(m.activate_at[other], earliest)


@inner(_nrt=False)
def burst(m: Record, line: int, place: int, writes: int, now: int) -> int:
    """Read or write a line: open its row if needed, close it when only conflicts wait for the bank; when the command is given (ps)."""
    bank, row = bank_and_row(m, line)
    if m.open_row[bank] == row:
        m.row_hits += 1 - writes
    else:
        if m.open_row[bank] >= 0:
            close_row(m, bank, now)
        open_row(m, bank, row, now)
    command = max(now, column_at(m, bank, writes), m.channel_at)
    m.channel_at = command + m.t_burst
    rank = bank // m.banks_per_rank
    m.active_rank = rank
    m.rank_ready[rank] = max(m.rank_ready[rank], command + m.t_cl + m.t_burst)
    for other in range(1 << m.bank_bits):
        to_read = to_write = m.t_burst + m.t_cs
        if other // m.banks_per_rank == rank:
            to_read = m.t_cl + m.t_burst + m.t_wtr if writes else m.t_burst
            to_write = m.t_burst if writes else m.t_burst + m.t_rtw
        m.read_at[other] = max(m.read_at[other], command + to_read)
        m.write_at[other] = max(m.write_at[other], command + to_write)
    rest = m.t_cl + m.t_burst + m.t_wr if writes else m.t_rtp
    m.precharge_at[bank] = max(m.precharge_at[bank], command + rest)
    m.row_accesses[bank] += 1
    more_hits = False
    conflict = False
    for other in range(m.dram_write_n if writes else MAX_REQUESTS):
        if other != place and (writes or m.request_state[other] == QUEUED):
            other_bank, other_row = bank_and_row(m, m.dram_write_line[other] if writes else m.request_line[other])
            if other_bank == bank:
                if other_row == row:
                    more_hits = True
                else:
                    conflict = True
    if (conflict and not more_hits) or m.row_accesses[bank] == m.row_accesses_limit:
        close_row(m, bank, now)
    return command


@inner(_nrt=False)
def respond(m: Record, request: int, ready: int) -> None:
    """The answer to a read crosses the controller and the memory bus; the request's time on the bus is paid for here."""
    answer = ready + m.request_header[request]
    sent = max((answer + m.bus_ps - 1) // m.bus_ps * m.bus_ps, m.bus_answer_free_ps)
    m.bus_answer_free_ps = sent + (1 + (1 << m.line_bits) // m.bus_bytes) * m.bus_ps
    arrives = sent + m.bus_response * m.bus_ps
    schedule(m, (arrives + m.cycle_ps - 1) // m.cycle_ps, EVENT_L2_FILL, request)


@inner(_nrt=False)
def serve(m: Record, now: int, cycle: int, served: bool) -> int:
    """Serve one read or write, and choose the direction of the next; returns when to look again (ps), -1 when nothing waits."""
    gap = min(m.t_rtw, m.t_cs) if m.bus_writes_next else min(m.t_wtr, m.t_cs)
    if m.bus_writes == m.bus_writes_next:
        gap = 0
    elif m.bus_writes_next:
        m.reads_this_time = 0
    else:
        m.writes_this_time = 0
    m.bus_writes = m.bus_writes_next
    refresh(m, now, served)
    if not m.bus_writes:
        if m.reads_queued == 0:
            if m.dram_write_n <= m.write_low:
                return -1
            m.bus_writes_next = 1
            return max(now, m.channel_at - m.t_rp - m.t_rcd)
        request = choose(m, now, 0, gap)
        if request < 0:
            return first_rested(m, now)
        command = burst(m, m.request_line[request], request, 0, now)
        m.request_state[request] = SERVED
        m.reads_queued -= 1
        m.dram_reads += 1
        m.reads_this_time += 1
        respond(m, request, command + m.t_cl + m.t_burst + m.t_front + m.t_back)
        if m.dram_write_n > m.write_high and (m.reads_this_time >= m.reads_per_switch or m.reads_queued == 0):
            m.bus_writes_next = 1
        return max(now, m.channel_at - m.t_rp - m.t_rcd)
    place = choose(m, now, 1, gap)
    if place < 0:
        return first_rested(m, now)
    burst(m, m.dram_write_line[place], place, 1, now)
    m.dram_write_n -= 1
    m.dram_writes += 1
    m.writes_this_time += 1
    for at in range(place, m.dram_write_n):
        m.dram_write_line[at] = m.dram_write_line[at + 1]
    enough = m.dram_write_n + m.writes_per_switch < m.write_low
    if m.dram_write_n == 0 or enough or (m.reads_queued > 0 and m.writes_this_time >= m.writes_per_switch):
        m.bus_writes_next = 0
    if m.dram_write_refused:
        m.dram_write_refused = 0
        m.waiting[L2] = 0
        schedule_send(m, L2, max(cycle + 1, (now + m.cycle_ps - 1) // m.cycle_ps))
    return max(now, m.channel_at - m.t_rp - m.t_rcd)


@inner(_nrt=False)
def first_rested(m: Record, now: int) -> int:
    """When the first of the ranks that rest has rested."""
    first = NEVER
    for rank in range(m.ranks):
        if m.rank_rests[rank] > now:
            first = min(first, m.rank_rests[rank])
    return first


@inner(_nrt=False)
def step(m: Record, now: int, cycle: int) -> None:
    """Serve what waits, one after the other, each when the channel can be prepared for it or its rank has rested."""
    if (now + m.cycle_ps - 1) // m.cycle_ps != cycle:  # it was looked at earlier, for a request that came while others waited for rest
        return
    following = cycle
    while following == cycle:
        now = serve(m, now, cycle, m.dram_scheduled == SERVING)
        if now < 0:
            m.dram_scheduled = IDLE
            return
        m.dram_scheduled = SERVING
        for rank in range(m.ranks):
            if now == m.rank_rests[rank]:
                m.dram_scheduled = RESTING
        following = (now + m.cycle_ps - 1) // m.cycle_ps
    m.dram_next_ps = now
    schedule(m, following, EVENT_DRAM_NEXT, 0)


@inner(_nrt=False)
def send_to_memory(m: Record, cycle: int) -> None:
    """L2 sends one packet over the memory bus, when the bus is free and, for a write, the controller has room for it."""
    if m.send_at[L2] != cycle:  # it looked earlier than this
        return
    m.send_at[L2] = -1
    now = cycle * m.cycle_ps
    if now < m.bus_free_ps:
        schedule_send(m, L2, (m.bus_free_ps + m.cycle_ps - 1) // m.cycle_ps)
        return
    what = next_to_send(m, L2, cycle)
    if what < 0:
        send_again(m, L2, cycle)
        return
    edge = (now + m.bus_ps - 1) // m.bus_ps * m.bus_ps
    m.bus_free_ps = edge + m.bus_ps
    look = False
    if what == 0:
        look = take_read(m, m.miss_queue[L2, 0], now, edge - now + m.bus_request * m.bus_ps)
        drop_miss(m, L2)
    else:
        line, dirty = m.write_line[L2, what - 1], m.write_dirty[L2, what - 1]
        if dirty:  # a clean line that leaves is of no interest to memory
            known = False
            for place in range(m.dram_write_n):
                known |= m.dram_write_line[place] == line
            if not known:
                if m.dram_write_n >= m.dram_write_entries:
                    m.dram_write_refused = 1
                    m.waiting[L2] = 1
                    return
                m.dram_write_line[m.dram_write_n] = line
                m.dram_write_n += 1
            m.bus_free_ps += (1 << m.line_bits) // m.bus_bytes * m.bus_ps
            look = True
        drop_write(m, L2, what - 1, cycle)
    send_again(m, L2, (m.bus_free_ps + m.cycle_ps - 1) // m.cycle_ps)
    if look and m.dram_scheduled != SERVING:
        step(m, now, cycle)


@inner(_nrt=False)
def take_read(m: Record, request: int, now: int, header: int) -> bool:
    """A miss of L2 reaches the controller; whether it has to be read, and not only fetched from the write queue."""
    m.request_header[request] = header
    for place in range(m.dram_write_n):
        if m.dram_write_line[place] == m.request_line[request]:
            m.request_state[request] = SERVED
            respond(m, request, now + m.t_front)
            return False
    m.request_state[request] = QUEUED
    m.request_count[request] = m.request_order
    m.request_order += 1
    m.reads_queued += 1
    return True
