"""When does an instruction issue: dispatch, issue queue, units, store buffer and write-back of an out-of-order core.

The rules are those of gem5's O3 model (src/cpu/o3: iew.cc, inst_queue.cc, lsq_unit.cc, mem_dep_unit.cc, store_set.cc, commit.cc, rob.cc),
restated: an instruction issued in cycle t executes in t + 1 (+ its latency - 1) and wakes its dependents in that cycle; it can commit two
cycles later; a load may pass older stores whose address is unknown and is squashed when one of them turns out to overlap.
"""

from __future__ import annotations

from numpy.typing import NDArray

from analysis.compiled import inner
from analysis.cores.timing import state as st
from analysis.cores.timing.execute import execute, to_writeback
from analysis.cores.timing.frontend import drop_first, keep, resume
from analysis.cores.timing.memory import L1D, REFUSED, access
from analysis.cores.timing.state import Record


@inner(_nrt=False)
def make_ready(s: Record, seq: int) -> None:
    """Put instruction number `seq` into the ready list, oldest first (inst_queue.cc: addIfReady)."""
    at = s.ready_n
    s.ready_n += 1
    while at > 0 and s.ready[at - 1] > seq:
        s.ready[at] = s.ready[at - 1]
        at -= 1
    s.ready[at] = seq


@inner(_nrt=False)
def load_answered(s: Record, seq: int, cycle: int) -> None:
    """Load number `seq` has its data: it takes a write-back port from `cycle` on (lsq_unit.cc: writeback)."""
    e = s.window[seq & st.WINDOW_MASK]
    if e.seq == seq and not e.squashed:
        e.executed = 1
        to_writeback(s, seq & st.WINDOW_MASK, cycle)


@inner(_nrt=False)
def store_answered(s: Record, position: int) -> None:
    """The cache has done the store at `position`: finished stores at the head leave the store queue (lsq_unit.cc: completeStore)."""
    s.sq_done[position & st.LSQ_MASK] = 1
    s.stores_to_write -= 1
    while s.sq_head < s.sq_send and s.sq_done[s.sq_head & st.LSQ_MASK]:
        s.sq_head += 1
        s.lsq_changed = 1


@inner(_nrt=False)
def send_store(s: Record, m: Record, cycle: int) -> bool:
    """Send the oldest committed store to the data cache; whether the cache took it (lsq_unit.cc: writebackStores, storePostSend)."""
    e = s.window[s.sq[s.sq_send & st.LSQ_MASK] & st.WINDOW_MASK]
    if s.cache_blocked or access(m, L1D, e.address, 1, st.EVENT_STORE, s.sq_send, cycle) == REFUSED:
        s.cache_blocked = 1
        s.store_blocked = 1
        return False
    s.store_blocked = 0
    s.active = 1
    if s.stalled_load >= 0 and s.stalling_store == s.sq_send:
        s.stalled_load = -1
        for k in range(s.replay_loads_n):
            make_ready(s, s.replay_loads[k])
        s.replay_loads_n = 0
    s.sq_send += 1
    return True


@inner(_nrt=False)
def cache_unblocked(s: Record, m: Record, cycle: int) -> None:
    """The data cache takes requests again: the store that it refused goes at once, refused loads issue again (lsq.cc: recvReqRetry)."""
    s.cache_blocked = 0
    for k in range(s.blocked_loads_n):
        s.retry_loads[s.retry_loads_n] = s.blocked_loads[k]
        s.retry_loads_n += 1
    s.blocked_loads_n = 0
    if s.store_blocked:
        send_store(s, m, cycle)


@inner(_nrt=False)
def count_dispatched(s: Record, e: Record, nxt: int) -> None:
    """Tell rename, in the signals' row `nxt`, that one instruction it sent has arrived (iew.cc: dispatched, dispatchedToLQ, -SQ)."""
    s.signal[nxt, st.DISPATCHED] += 1
    if e.is_load:
        s.signal[nxt, st.DISPATCHED_LOADS] += 1
    elif e.is_store:
        s.signal[nxt, st.DISPATCHED_STORES] += 1


@inner(_nrt=False)
def keep_older(queue: NDArray, n: int, seq: int) -> int:
    """Drop the instructions younger than `seq` from the first `n` of a queue, in place; how many are left."""
    kept = 0
    for k in range(n):
        if queue[k] <= seq:
            queue[kept] = queue[k]
            kept += 1
    return kept


@inner(_nrt=False)
def drop_younger(s: Record, code: Record, seq: int) -> None:
    """Squash in the issue, load and store queues."""
    at = s.next_seq - 1
    while at > seq:
        e = s.window[at & st.WINDOW_MASK]
        if e.seq == at and not e.cleared:
            e.cleared = 1
            if e.in_queue:
                e.in_queue = 0
                s.free_iq += 1
                if e.is_store:
                    group = s.ssit[(code.rows[e.row].pc >> 2) & 1023]
                    if group >= 0 and s.lfst[group] > seq:
                        s.lfst[group] = -1
        at -= 1
    while s.lq_tail > s.lq_head and s.lq[(s.lq_tail - 1) & st.LSQ_MASK] > seq:
        s.lq_tail -= 1
    while s.sq_tail > s.sq_committed and s.sq[(s.sq_tail - 1) & st.LSQ_MASK] > seq:
        s.sq_tail -= 1
    if s.stalled_load > seq:
        s.stalled_load = -1
        s.stalling_store = -1
    s.ready_n = keep_older(s.ready, s.ready_n, seq)
    s.blocked_loads_n = keep_older(s.blocked_loads, s.blocked_loads_n, seq)
    s.retry_loads_n = keep_older(s.retry_loads, s.retry_loads_n, seq)
    s.replay_loads_n = keep_older(s.replay_loads, s.replay_loads_n, seq)


@inner(_nrt=False)
def depend_on_store(s: Record, e: Record, slot: int, pc: int) -> None:
    """Store sets: a load or store waits for the last store of its set in flight; every store counts towards the next clearing.

    Source: store_set.cc (checkInst, insertStore, checkClear), mem_dep_unit.cc (insert).
    """
    group = s.ssit[(pc >> 2) & 1023]
    seq = s.lfst[group] if group >= 0 else -1
    if seq >= 0:
        store = s.window[seq & st.WINDOW_MASK]
        if store.seq == seq and not store.written and not store.squashed:
            e.memory_pending = 1
            e.next_waiter[3] = store.memory_waiters
            store.memory_waiters = slot
    if e.is_store:
        s.store_set_accesses += 1
        if s.store_set_accesses > s.store_set_period:
            s.ssit[:] = -1
            s.lfst[:] = -1
            s.store_set_accesses = 0
        elif group >= 0:
            s.lfst[group] = e.seq


@inner(_nrt=False)
def insert(s: Record, code: Record, e: Record, slot: int) -> None:
    """Put an instruction into the issue queue (and the load or store queue)."""
    if e.is_load:
        e.load_index = s.lq_tail
        e.store_index = s.sq_tail
        s.lq[s.lq_tail & st.LSQ_MASK] = e.seq
        s.lq_tail += 1
    elif e.is_store:
        e.load_index = s.lq_tail
        e.store_index = s.sq_tail
        s.sq[s.sq_tail & st.LSQ_MASK] = e.seq
        s.sq_done[s.sq_tail & st.LSQ_MASK] = 0
        s.sq_tail += 1
    e.in_queue = 1
    s.free_iq -= 1
    pending = 0
    for k in range(3):
        seq = e.producer[k]
        if seq >= s.oldest_seq:
            source = s.window[seq & st.WINDOW_MASK]
            if source.seq == seq and not source.written:
                e.next_waiter[k] = source.waiters
                source.waiters = slot * 4 + k
                pending += 1
    e.pending = pending
    if e.serial:
        e.can_commit = 1
        return
    if e.is_load or e.is_store:
        if s.memory_speculation:
            depend_on_store(s, e, slot, code.rows[e.row].pc)
        elif e.is_load and s.sq_tail > s.sq_send:
            older = s.window[s.sq[(s.sq_tail - 1) & st.LSQ_MASK] & st.WINDOW_MASK]
            if not older.written and not older.squashed and older.seq < e.seq:
                e.memory_pending = 1
                e.next_waiter[3] = older.memory_waiters
                older.memory_waiters = slot
    if pending == 0 and e.memory_pending == 0:
        make_ready(s, e.seq)


@inner(_nrt=False)
def dispatch_some(s: Record, code: Record, queue: NDArray, n: int, nxt: int) -> int:
    """Dispatch from the first `n` of a queue as far as width and free places allow; how many were taken (iew.cc: dispatchInsts)."""
    taken = 0
    while taken < n and taken < s.dispatch_width:
        slot = queue[taken]
        e = s.window[slot]
        if not e.squashed:
            if s.free_iq <= 0:
                break
            if (e.is_load and s.lq_tail - s.lq_head >= s.lq_entries) or (e.is_store and s.sq_tail - s.sq_head >= s.sq_entries):
                break
            insert(s, code, e, slot)
        count_dispatched(s, e, nxt)
        taken += 1
    return taken


@inner(_nrt=False)
def dispatch_block(s: Record, nxt: int, came: NDArray, first: int, n: int) -> None:
    """Keep what came, from place `first` on, and tell rename to stop (iew.cc: block)."""
    if s.dispatch_status != st.BLOCKED and s.dispatch_status != st.UNBLOCKING:
        s.signal[nxt, st.IEW_BLOCK] = 1
        s.active = 1
    s.dispatch_skid_n = keep(s.dispatch_skid, s.dispatch_skid_n, came, first, n)
    s.dispatch_status = st.BLOCKED


@inner(_nrt=False)
def dispatch(s: Record, code: Record, cycle: int, cur: int, nxt: int) -> None:
    """Signals and dispatch of one cycle."""
    came = s.to_dispatch[(cycle - 2) & 7]
    n = s.to_dispatch_n[(cycle - 2) & 7]
    if n:
        s.active = 1
    if s.signal[cur, st.SQUASH]:
        s.active = 1
        s.queues_changed = 1
        drop_younger(s, code, s.signal[cur, st.SQUASH_SEQ])
        for k in range(s.dispatch_skid_n):
            count_dispatched(s, s.window[s.dispatch_skid[k]], nxt)
        for k in range(n):
            count_dispatched(s, s.window[came[k]], nxt)
        s.dispatch_skid_n = 0
        if s.dispatch_status == st.BLOCKED or s.dispatch_status == st.UNBLOCKING:
            s.signal[nxt, st.IEW_UNBLOCK] = 1
        s.dispatch_status = st.SQUASHING
        return
    if s.signal[cur, st.ROB_SQUASHING]:
        s.active = 1
        s.dispatch_status = st.SQUASHING if s.dispatch_status != st.BLOCKED else st.BLOCKED
        for k in range(n):
            count_dispatched(s, s.window[came[k]], nxt)
        dispatch_block(s, nxt, came, 0, 0)
        return
    if s.free_iq <= 0:
        dispatch_block(s, nxt, came, 0, n)
        return
    s.dispatch_status = resume(s, nxt, s.dispatch_status, s.dispatch_skid_n, st.IEW_UNBLOCK)
    if s.dispatch_status == st.RUNNING:
        taken = dispatch_some(s, code, came, n, nxt)
        if taken < n:
            dispatch_block(s, nxt, came, taken, n)
            s.signal[nxt, st.IEW_UNBLOCK] = 0
    elif s.dispatch_status == st.UNBLOCKING:
        s.active = 1
        taken = dispatch_some(s, code, s.dispatch_skid, s.dispatch_skid_n, nxt)
        s.dispatch_skid_n = drop_first(s.dispatch_skid, s.dispatch_skid_n, taken)
        blocked = s.dispatch_skid_n > 0
        s.dispatch_skid_n = keep(s.dispatch_skid, s.dispatch_skid_n, came, 0, n)
        if blocked:
            s.dispatch_status = st.BLOCKED
        elif s.dispatch_skid_n == 0:
            s.signal[nxt, st.IEW_UNBLOCK] = 1
            s.dispatch_status = st.RUNNING


@inner(_nrt=False)
def wake(s: Record, e: Record) -> None:
    """Results are there: count down what waits for them."""
    edge = e.waiters
    while edge >= 0:
        c = s.window[edge >> 2]
        following = c.next_waiter[edge & 3]
        c.pending -= 1
        if c.pending == 0 and c.memory_pending == 0 and not c.squashed and not c.serial:
            make_ready(s, c.seq)
        edge = following
    e.waiters = -1
    slot = e.memory_waiters
    while slot >= 0:
        c = s.window[slot]
        following = c.next_waiter[3]
        c.memory_pending = 0
        if c.pending == 0 and not c.squashed:
            make_ready(s, c.seq)
        slot = following
    e.memory_waiters = -1


@inner(_nrt=False)
def write_back_results(s: Record, cycle: int) -> None:
    """What writes back in `cycle` wakes its dependents; loads and stores leave the issue queue (iew.cc: writebackInsts)."""
    now = cycle & st.WRITEBACK_MASK
    n = s.writeback_n[now]
    if n:
        s.active = 1
    for k in range(n):
        e = s.window[s.writeback[now, k]]
        if e.squashed or not e.executed:
            continue
        e.written = 1
        if (e.is_load or e.is_store) and e.in_queue:
            e.in_queue = 0
            s.free_iq += 1
        wake(s, e)


@inner(_nrt=False)
def issue(s: Record, code: Record, cycle: int) -> None:
    """Issue ready instructions, oldest first, as far as units and width allow."""
    s.execute_long = s.execute_n[(cycle + 1) & st.EXECUTE_MASK]
    for k in range(s.retry_loads_n):
        make_ready(s, s.retry_loads[k])
    s.retry_loads_n = 0
    if s.ready_n == 0:
        return
    s.active = 1
    for u in range(st.UNITS):
        s.unit_used[u] = 0
        if s.busy_until > cycle:
            for j in range(min(s.unit_count[u], 16)):
                if s.unit_busy[u, j] > cycle:
                    s.unit_used[u] += 1
    kept = 0
    issued = 0
    for k in range(s.ready_n):
        seq = s.ready[k]
        slot = seq & st.WINDOW_MASK
        e = s.window[slot]
        if e.squashed or e.seq != seq:
            continue
        u = e.unit
        if issued >= s.issue_width or (u != st.NO_UNIT and s.unit_used[u] >= s.unit_count[u]):
            s.ready[kept] = seq
            kept += 1
            continue
        issued += 1
        latency = s.latency[e.opclass]
        if u != st.NO_UNIT:
            s.unit_used[u] += 1
            if not s.pipelined[e.opclass]:
                s.busy_until = max(s.busy_until, cycle + latency)
                for j in range(min(s.unit_count[u], 16)):
                    if s.unit_busy[u, j] <= cycle:
                        s.unit_busy[u, j] = cycle + latency
                        break
        at = (cycle + latency) & st.EXECUTE_MASK
        s.execute[at, s.execute_n[at]] = slot
        s.execute_n[at] += 1
        s.executing += 1
        e.issued = 1
        if u != st.MEMORY_UNIT:
            e.in_queue = 0
            s.free_iq += 1
        elif e.is_store:
            group = s.ssit[(code.rows[e.row].pc >> 2) & 1023]
            if group >= 0 and s.lfst[group] == seq:
                s.lfst[group] = -1
    s.ready_n = kept


@inner(_nrt=False)
def back_end(s: Record, code: Record, m: Record, cycle: int, cur: int, nxt: int) -> None:
    """One cycle of dispatch, execution, write-back and issue.

    Free places are told to rename only in a cycle that executes or squashes something, or after loads and stores left their queues
    (iew.cc: tick, broadcast_free_entries); rename goes on with what it last heard.
    """
    s.queues_changed = s.lsq_changed
    s.lsq_changed = 0
    dispatch(s, code, cycle, cur, nxt)
    execute(s, code, m, cycle, nxt)
    write_back_results(s, cycle)
    issue(s, code, cycle)
    while s.sq_send < s.sq_committed and send_store(s, m, cycle):  # committed stores, in order
        pass
    if s.signal[cur, st.DONE_SEQ] and not s.signal[cur, st.SQUASH] and not s.signal[cur, st.ROB_SQUASHING]:
        done = s.signal[cur, st.DONE_SEQ]
        s.lsq_changed = 1
        while s.sq_committed < s.sq_tail and s.sq[s.sq_committed & st.LSQ_MASK] <= done:
            s.sq_committed += 1
            s.stores_to_write += 1
        while s.lq_head < s.lq_tail and s.lq[s.lq_head & st.LSQ_MASK] <= done:
            s.lq_head += 1
    if s.signal[cur, st.NONSPECULATIVE]:
        make_ready(s, s.signal[cur, st.NONSPECULATIVE])
    if s.queues_changed:
        s.signal[nxt, st.FREE_TOLD] = 1
        s.signal[nxt, st.FREE_IQ] = s.free_iq
        s.signal[nxt, st.FREE_LQ] = s.lq_entries - (s.lq_tail - s.lq_head)
        s.signal[nxt, st.FREE_SQ] = s.sq_entries - (s.sq_tail - s.sq_head)
