"""When does a line come from DRAM: a DDR3 channel with open rows, first-ready first-come scheduling and refresh.

The rules are those of gem5's memory controller (src/mem/mem_ctrl.cc, dram_interface.cc), restated for reads. Writes are counted by
the L2 and take no time here. Times are in ps.
"""

from __future__ import annotations

from numba import njit

from analysis.cores.timing_memory import schedule
from analysis.cores.timing_state import EVENT_DRAM_NEXT, EVENT_L2_FILL, MAX_REQUESTS, QUEUED, SERVED, Record


@njit(cache=True)
def bank_and_row(m: Record, line: int) -> tuple[int, int]:
    """Columns are the lowest bits of a line number, then the bank, then the row (RoRaBaCoCh)."""
    above = line >> m.row_bits
    return above & ((1 << m.bank_bits) - 1), above >> m.bank_bits


@njit(cache=True)
def refresh(m: Record, now: int) -> None:
    """All banks close and rest. The next refresh is due an interval less a precharge after the last one was, as in gem5."""
    if m.t_refi <= 0:
        return
    while now >= m.next_refresh:
        rested = m.next_refresh + m.t_rfc
        for bank in range(1 << m.bank_bits):
            if m.open_row[bank] >= 0:
                rested = m.next_refresh + m.t_rp + m.t_rfc
        m.open_row[:] = -1
        for bank in range(1 << m.bank_bits):
            m.activate_at[bank] = max(m.activate_at[bank], rested)
        m.next_refresh += m.t_refi - m.t_rp


@njit(cache=True)
def choose(m: Record, now: int) -> int:
    """The request to serve: the oldest whose row is open, else the oldest of those whose bank is ready first; -1 when none waits."""
    best = -1
    best_hit = False
    best_at = 0
    for request in range(MAX_REQUESTS):
        if m.request_state[request] != QUEUED:
            continue
        bank, row = bank_and_row(m, m.request_line[request])
        hit = m.open_row[bank] == row
        at = 0
        if not hit:
            at = max(now, m.activate_at[bank])
            if m.open_row[bank] >= 0:
                at = max(at, max(now, m.precharge_at[bank]) + m.t_rp)
        better = best < 0 or (hit and not best_hit)
        if best >= 0 and hit == best_hit:
            better = at < best_at or (at == best_at and m.request_count[request] < m.request_count[best])
        if better:
            best, best_hit, best_at = request, hit, at
    return best


@njit(cache=True)
def serve(m: Record, now: int) -> bool:
    """Serve one request: activate its row if needed, read, and close the row when only conflicts wait for it.

    Returns:
        whether there was one.
    """
    refresh(m, now)
    request = choose(m, now)
    if request < 0:
        return False
    m.request_state[request] = SERVED
    m.dram_reads += 1
    bank, row = bank_and_row(m, m.request_line[request])
    if m.open_row[bank] == row:
        m.row_hits += 1
    else:
        if m.open_row[bank] >= 0:
            m.activate_at[bank] = max(m.activate_at[bank], max(now, m.precharge_at[bank]) + m.t_rp)
        activate = max(now, m.activate_at[bank])
        m.open_row[bank] = row
        m.row_accesses[bank] = 0
        m.precharge_at[bank] = activate + m.t_ras
        m.read_at[bank] = max(m.read_at[bank], activate + m.t_rcd)
        first = bank // m.banks_per_rank * m.banks_per_rank
        for other in range(first, first + m.banks_per_rank):
            m.activate_at[other] = max(m.activate_at[other], activate + m.t_rrd)
    command = max(now, m.read_at[bank], m.channel_at)
    m.channel_at = command + m.t_burst
    m.precharge_at[bank] = max(m.precharge_at[bank], command + m.t_rtp)
    m.row_accesses[bank] += 1
    more_hits = False
    conflict = False
    for other in range(MAX_REQUESTS):
        if m.request_state[other] == QUEUED:
            other_bank, other_row = bank_and_row(m, m.request_line[other])
            if other_bank == bank:
                if other_row == row:
                    more_hits = True
                else:
                    conflict = True
    if (conflict and not more_hits) or m.row_accesses[bank] >= m.row_accesses_limit:
        m.open_row[bank] = -1
        m.activate_at[bank] = max(m.activate_at[bank], max(now, m.precharge_at[bank]) + m.t_rp)
    # the answer crosses the controller and the memory bus; the request's time on the bus is added here
    answer = command + m.t_cl + m.t_burst + m.t_static + m.bus_request * m.bus_ps
    arrives = (answer + m.bus_ps - 1) // m.bus_ps * m.bus_ps + m.bus_response * m.bus_ps
    schedule(m, (arrives + m.cycle_ps - 1) // m.cycle_ps, EVENT_L2_FILL, request)
    return True


@njit(cache=True)
def step(m: Record, now: int, cycle: int) -> None:
    """Serve one request and look again when the channel can be prepared for the next, waiting or not yet there."""
    while serve(m, now):
        now = max(now, m.channel_at - m.t_rp - m.t_rcd)
        following = (now + m.cycle_ps - 1) // m.cycle_ps
        if following > cycle:
            m.dram_scheduled = 1
            m.dram_next_ps = now
            schedule(m, following, EVENT_DRAM_NEXT, 0)
            return
    m.dram_scheduled = 0


@njit(cache=True)
def arrive(m: Record, request: int, cycle: int) -> None:
    """A request reaches the controller (after waiting for the memory bus's clock)."""
    m.request_state[request] = QUEUED
    m.request_count[request] = m.request_order
    m.request_order += 1
    if not m.dram_scheduled:
        step(m, (cycle * m.cycle_ps + m.bus_ps - 1) // m.bus_ps * m.bus_ps, cycle)
