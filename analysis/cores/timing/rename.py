"""Which instructions get a physical register and a place in the back end in a cycle: rename.

The rules are those of gem5's O3 model (src/cpu/o3/rename.cc), restated: rename counts the free places it was told of a cycle ago, less
what it has sent and not yet seen arrive.
"""

from __future__ import annotations

from numpy.typing import NDArray

from analysis.compiled import inner
from analysis.cores.timing import state as st
from analysis.cores.timing.frontend import drop_first, keep, resume
from analysis.cores.timing.state import Record


@inner(_nrt=False)
def rename_block(s: Record, nxt: int, came: NDArray, first: int, n: int) -> None:
    """Keep what came, from place `first` on, in the skid buffer and tell decode, in the signals' row `nxt`, to stop (rename.cc: block)."""
    s.rename_skid_n = keep(s.rename_skid, s.rename_skid_n, came, first, n)
    if s.rename_status != st.BLOCKED:
        s.active = 1
        if s.rename_status != st.UNBLOCKING:
            s.signal[nxt, st.RENAME_BLOCK] = 1
            s.signal[nxt, st.RENAME_UNBLOCK] = 0
        s.rename_status = st.BLOCKED


@inner(_nrt=False)
def undo_renames(s: Record, seq: int) -> None:
    """Give the register map back the producers that squashed instructions replaced."""
    at = s.next_seq - 1
    while at > seq:
        e = s.window[at & st.WINDOW_MASK]
        if e.renamed and e.seq == at:
            if e.destination >= 0:
                s.map[e.destination] = e.previous
                if e.destination < 32:
                    s.freeing_int += 1
                else:
                    s.freeing_float += 1
            e.renamed = 0
        at -= 1


@inner(_nrt=False)
def rename_some(s: Record, code: Record, queue: NDArray, n: int, cycle: int, cur: int) -> tuple[int, bool]:
    """Rename from a queue; returns (how many were taken from it, whether the stage must block)."""
    waiting = s.in_progress - s.signal[cur, st.DISPATCHED]
    room = min(s.seen_free_rob - waiting, s.seen_free_iq - waiting)
    block = False
    available = n
    if room <= 0:
        return 0, True
    if room < available:
        available = room
        block = True
    taken = 0
    sent = 0
    now = cycle & 7
    while available > 0 and sent < s.rename_width:
        slot = queue[taken]
        e = s.window[slot]
        if e.is_load and s.seen_free_lq - (s.loads_in_progress - s.signal[cur, st.DISPATCHED_LOADS]) <= 0:
            break
        if e.is_store and s.seen_free_sq - (s.stores_in_progress - s.signal[cur, st.DISPATCHED_STORES]) <= 0:
            break
        if e.squashed:
            taken += 1
            available -= 1
            continue
        if (e.destination >= 0 and e.destination < 32 and s.free_int <= 0) or (e.destination >= 32 and s.free_float <= 0):
            block = True
            break
        if (e.serial or s.serialize_next) and (not s.seen_empty_rob or s.in_progress > 0 or sent > 0):
            block = True
            break
        s.serialize_next = e.serial
        taken += 1
        c = code.rows[e.row]
        for k in range(3):
            register = c.source[k]
            e.producer[k] = s.map[register] if register >= 0 else -1
        if e.destination >= 0:
            e.previous = s.map[e.destination]
            s.map[e.destination] = e.seq
            if e.destination < 32:
                s.free_int -= 1
            else:
                s.free_float -= 1
        e.renamed = 1
        if e.is_store:
            s.stores_in_progress += 1
        elif e.is_load:
            s.loads_in_progress += 1
        s.to_dispatch[now, sent] = slot
        sent += 1
        available -= 1
    s.in_progress += sent
    s.to_dispatch_n[now] = sent
    if available > 0:
        block = True
    return taken, block


@inner(_nrt=False)
def rename_stalls(s: Record, cur: int) -> bool:
    """Whether rename stops: dispatch blocks, or ROB, issue queue, load and store queue, or registers are full (checkStall)."""
    waiting = s.in_progress - s.signal[cur, st.DISPATCHED]
    return (
        s.rename_stalled
        or s.seen_free_rob - waiting <= 0
        or s.seen_free_iq - waiting <= 0
        or (
            s.seen_free_lq - (s.loads_in_progress - s.signal[cur, st.DISPATCHED_LOADS]) <= 0
            and s.seen_free_sq - (s.stores_in_progress - s.signal[cur, st.DISPATCHED_STORES]) <= 0
        )
        or s.free_int <= 0
        or s.free_float <= 0
    )


@inner(_nrt=False)
def rename(s: Record, code: Record, cycle: int, cur: int, nxt: int) -> None:
    """One cycle of rename."""
    s.to_dispatch_n[cycle & 7] = 0
    came = s.to_rename[(cycle - 1) & 7]
    n = s.to_rename_n[(cycle - 1) & 7]
    if s.signal[cur, st.FREE_TOLD]:
        s.seen_free_iq = s.signal[cur, st.FREE_IQ]
        s.seen_free_lq = s.signal[cur, st.FREE_LQ]
        s.seen_free_sq = s.signal[cur, st.FREE_SQ]
    if s.signal[cur, st.FREE_ROB_USED]:
        s.seen_free_rob = s.signal[cur, st.FREE_ROB]
        s.seen_empty_rob = s.signal[cur, st.ROB_EMPTY]
    if s.signal[cur, st.IEW_BLOCK]:
        s.rename_stalled = 1
    if s.signal[cur, st.IEW_UNBLOCK]:
        s.rename_stalled = 0
    if s.signal[cur, st.SQUASH]:
        if s.rename_status == st.BLOCKED or s.rename_status == st.UNBLOCKING or s.rename_status == st.SERIALIZING:
            s.signal[nxt, st.RENAME_UNBLOCK] = 1
        s.rename_status = st.SQUASHING
        s.rename_skid_n = 0
        s.serialize_next = 0
        undo_renames(s, s.signal[cur, st.SQUASH_SEQ])
        s.active = 1
    else:
        if not s.signal[cur, st.ROB_SQUASHING]:
            s.free_int += s.freeing_int
            s.free_float += s.freeing_float
            s.freeing_int = 0
            s.freeing_float = 0
        if rename_stalls(s, cur):
            rename_block(s, nxt, came, 0, n)
        else:
            s.rename_status = resume(s, nxt, s.rename_status, s.rename_skid_n, st.RENAME_UNBLOCK)
            rename_work(s, code, came, n, cycle, cur, nxt)
        # registers that committed instructions replaced are free again
        done = s.signal[cur, st.DONE_SEQ]
        if done:
            while s.freed_until < done:
                s.freed_until += 1
                e = s.window[s.freed_until & st.WINDOW_MASK]
                if e.seq == s.freed_until and e.renamed and not e.squashed and e.destination >= 0:
                    if e.destination < 32:
                        s.free_int += 1
                    else:
                        s.free_float += 1
    s.in_progress -= s.signal[cur, st.DISPATCHED]
    s.loads_in_progress -= s.signal[cur, st.DISPATCHED_LOADS]
    s.stores_in_progress -= s.signal[cur, st.DISPATCHED_STORES]


@inner(_nrt=False)
def rename_work(s: Record, code: Record, came: NDArray, n: int, cycle: int, cur: int, nxt: int) -> None:
    """Rename what came, or the skid buffer first (rename.cc: rename, renameInsts)."""
    if s.rename_status == st.RUNNING:
        if n == 0:
            return
        s.active = 1
        taken, block = rename_some(s, code, came, n, cycle, cur)
        if block:
            rename_block(s, nxt, came, taken, n)
            s.signal[nxt, st.RENAME_UNBLOCK] = 0
    elif s.rename_status == st.UNBLOCKING:
        s.active = 1
        block = False
        if s.rename_skid_n > 0:
            taken, block = rename_some(s, code, s.rename_skid, s.rename_skid_n, cycle, cur)
            s.rename_skid_n = drop_first(s.rename_skid, s.rename_skid_n, taken)
        if block:
            rename_block(s, nxt, came, 0, n)
            s.signal[nxt, st.RENAME_UNBLOCK] = 0
            return
        s.rename_skid_n = keep(s.rename_skid, s.rename_skid_n, came, 0, n)
        if s.rename_skid_n == 0:
            s.signal[nxt, st.RENAME_UNBLOCK] = 1
            s.rename_status = st.RUNNING
