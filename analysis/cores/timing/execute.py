"""What does an instruction do when it executes: loads look into older stores and the cache, stores look for loads that came too early.

The rules are those of gem5's O3 model (src/cpu/o3: iew.cc, lsq_unit.cc, store_set.cc), restated.
"""

from __future__ import annotations

from analysis.compiled import inner
from analysis.cores.timing import state as st
from analysis.cores.timing.memory import L1D, REFUSED, access, schedule
from analysis.cores.timing.state import Record


@inner(_nrt=False)
def to_writeback(s: Record, slot: int, cycle: int) -> None:
    """Take the next free write-back port; it is kept how many cycles ahead that is until the stage starts again (iew.cc: wbCycle)."""
    at = cycle + s.writeback_ahead
    while s.writeback_n[at & st.WRITEBACK_MASK] >= s.writeback_width:
        at += 1
    s.writeback[at & st.WRITEBACK_MASK, s.writeback_n[at & st.WRITEBACK_MASK]] = slot
    s.writeback_n[at & st.WRITEBACK_MASK] += 1
    s.writeback_ahead = at - cycle


@inner(_nrt=False)
def redirect(s: Record, e: Record, nxt: int, pc: int, trace: int, branch: int, taken: int) -> None:
    """Tell commit to squash behind (a branch) or from (a memory order violation) an instruction; the oldest of a cycle wins."""
    if s.signal[nxt, st.REDIRECT] and s.signal[nxt, st.REDIRECT_SEQ] < e.seq:
        return
    s.signal[nxt, st.REDIRECT] = 1
    s.signal[nxt, st.REDIRECT_SEQ] = e.seq
    s.signal[nxt, st.REDIRECT_PC] = pc
    s.signal[nxt, st.REDIRECT_TRACE] = trace
    s.signal[nxt, st.REDIRECT_BRANCH] = branch
    s.signal[nxt, st.REDIRECT_TAKEN] = taken
    s.signal[nxt, st.REDIRECT_INCLUDE] = not branch


@inner(_nrt=False)
def execute_load(s: Record, m: Record, e: Record, cycle: int) -> None:
    """Look for the data in older stores, then in the cache."""
    e.address_valid = 1
    at = e.store_index - 1
    while at >= s.sq_send:
        store = s.window[s.sq[at & st.LSQ_MASK] & st.WINDOW_MASK]
        if store.address_valid and e.address < store.address + store.size and e.address + e.size > store.address:
            if e.address >= store.address and e.address + e.size <= store.address + store.size:
                s.forwarded_loads += 1
                schedule(m, cycle + s.forwarding_cycles, st.EVENT_LOAD, e.seq)
                return
            # partial overlap: wait until the store is on its way to the cache
            if s.stalled_load < 0 or e.seq < s.stalled_load:
                s.stalled_load = e.seq
                s.stalling_store = at
            e.address_valid = 0
            e.issued = 0
            s.replay_loads[s.replay_loads_n] = e.seq
            s.replay_loads_n += 1
            return
        at -= 1
    if s.cache_blocked or access(m, L1D, e.address, 0, st.EVENT_LOAD, e.seq, cycle) == REFUSED:
        s.cache_blocked = 1
        e.issued = 0
        s.blocked_loads[s.blocked_loads_n] = e.seq
        s.blocked_loads_n += 1


@inner(_nrt=False)
def find_violation(s: Record, e: Record) -> int:
    """Oldest younger load that read the block of `e`, a store, too early; -1 when there is none."""
    first = e.address >> s.dependence_shift
    last = (e.address + e.size - 1) >> s.dependence_shift
    at = max(e.load_index, s.lq_head)
    while at < s.lq_tail:
        seq = s.lq[at & st.LSQ_MASK]
        load = s.window[seq & st.WINDOW_MASK]
        low, high = load.address >> s.dependence_shift, (load.address + load.size - 1) >> s.dependence_shift
        if load.address_valid and last >= low and first <= high:
            return seq
        at += 1
    return -1


@inner(_nrt=False)
def join_store_set(s: Record, store_pc: int, load_pc: int) -> None:
    """A violation puts the store and the load into one store set."""
    at_load = (load_pc >> 2) & 1023
    at_store = (store_pc >> 2) & 1023
    if s.ssit[at_load] < 0 and s.ssit[at_store] < 0:
        group = (load_pc ^ (load_pc >> 10)) & 1023
        s.ssit[at_load] = group
        s.ssit[at_store] = group
    elif s.ssit[at_store] < 0:
        s.ssit[at_store] = s.ssit[at_load]
    elif s.ssit[at_load] < 0:
        s.ssit[at_load] = s.ssit[at_store]
    elif s.ssit[at_store] > s.ssit[at_load]:
        s.ssit[at_store] = s.ssit[at_load]
    else:
        s.ssit[at_load] = s.ssit[at_store]


@inner(_nrt=False)
def execute(s: Record, code: Record, m: Record, cycle: int, nxt: int) -> None:
    """Execute what was issued for this cycle: what takes one cycle first, then longer operations, the last issued first.

    Source: inst_queue.cc (scheduleReadyInsts, FUCompletion: an event after the tick, last in, first out), iew.cc (executeInsts).
    """
    now = cycle & st.EXECUTE_MASK
    n = s.execute_n[now]
    s.execute_n[now] = 0
    s.executing -= n
    s.writeback_ahead = 0
    if n:
        s.active = 1
        s.queues_changed = 1
    for k in range(n):
        place = s.execute_long + k
        slot = s.execute[now, place if place < n else n - 1 - k]
        e = s.window[slot]
        if e.squashed:
            continue
        if e.is_load:
            execute_load(s, m, e, cycle)
        else:
            e.executed = 1
            to_writeback(s, slot, cycle)
        if e.is_store:
            e.address_valid = 1
            seq = find_violation(s, e)
            if seq >= 0 and not (s.signal[nxt, st.REDIRECT] and s.signal[nxt, st.REDIRECT_SEQ] <= e.seq):
                load = s.window[seq & st.WINDOW_MASK]
                join_store_set(s, code.rows[e.row].pc, code.rows[load.row].pc)
                s.memory_order_violations += 1
                redirect(s, load, nxt, code.rows[load.row].pc, load.place, 0, 0)
        if e.is_control and e.predicted != e.actual and (e.place >= 0 or e.opclass == 15):
            taken = 1 if e.opclass > 15 else e.actual != code.rows[e.row].pc + code.rows[e.row].length
            redirect(s, e, nxt, e.actual, e.place + 1 if e.place >= 0 else -1, 1, taken)
