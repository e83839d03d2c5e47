"""Which instructions retire in a cycle, and what a misprediction squashes: the reorder buffer.

The rules are those of gem5's O3 model (src/cpu/o3: commit.cc, rob.cc), restated: squashed instructions stay in the buffer until they
reach its head and leave it for free; nothing retires while it is being squashed, `squash_width` instructions a cycle.
"""

from __future__ import annotations

from numpy.typing import NDArray

from analysis.compiled import inner
from analysis.cores.timing import state as st
from analysis.cores.timing.frontend import mark_squashed
from analysis.cores.timing.state import Record


@inner(_nrt=False)
def rob_squash_some(s: Record) -> None:
    """Squash `squash_width` instructions from the tail of the ROB towards the head; those may leave it."""
    left = s.squash_width
    while s.squash_at >= s.rob_head and s.window[s.rob[s.squash_at & st.ROB_MASK]].seq > s.squash_seq:
        if left == 0:
            return
        s.window[s.rob[s.squash_at & st.ROB_MASK]].can_commit = 1
        s.squash_at -= 1
        left -= 1
    s.squash_at = -1


@inner(_nrt=False)
def start_squash(s: Record, cur: int, nxt: int) -> None:
    """A redirect from execution: squash everything younger and tell the other stages."""
    seq = s.signal[cur, st.REDIRECT_SEQ]
    if seq > s.youngest_seq:
        return
    if s.signal[cur, st.REDIRECT_INCLUDE]:
        seq -= 1
    s.active = 1
    s.commit_status = st.SQUASHING
    s.youngest_seq = seq
    mark_squashed(s, seq)
    s.squash_seq = seq
    s.squash_at = s.rob_tail - 1
    rob_squash_some(s)
    s.signal[nxt, st.SQUASH] = 1
    s.signal[nxt, st.SQUASH_SEQ] = seq
    s.signal[nxt, st.SQUASH_PC] = s.signal[cur, st.REDIRECT_PC]
    s.signal[nxt, st.SQUASH_TRACE] = s.signal[cur, st.REDIRECT_TRACE]
    s.signal[nxt, st.SQUASH_BRANCH] = s.signal[cur, st.REDIRECT_BRANCH]
    s.signal[nxt, st.SQUASH_TAKEN] = s.signal[cur, st.REDIRECT_TAKEN]
    s.signal[nxt, st.ROB_SQUASHING] = 1
    if s.signal[cur, st.REDIRECT_BRANCH]:
        s.branch_mispredictions += 1


@inner(_nrt=False)
def commit_some(s: Record, retire: NDArray, cycle: int, nxt: int) -> None:
    """Retire finished instructions from the head of the ROB; squashed ones leave for free."""
    committed = 0
    while committed < s.commit_width and s.rob_head < s.rob_tail:
        e = s.window[s.rob[s.rob_head & st.ROB_MASK]]
        if not e.can_commit:
            break
        if not e.squashed:
            if not e.executed:  # must be the oldest, with all stores done, before it may execute
                if committed == 0 and s.stores_to_write == 0:
                    s.signal[nxt, st.NONSPECULATIVE] = e.seq
                    e.can_commit = 0
                    s.active = 1
                break
            retire[e.place] = cycle
            s.committed += 1
            s.branches += e.is_control
            s.committed_stores += e.is_store
            committed += 1
            s.signal[nxt, st.DONE_SEQ] = e.seq
        else:
            s.squashed += 1
        s.oldest_seq = e.seq + 1
        s.rob_head += 1
        s.active = 1


@inner(_nrt=False)
def commit(s: Record, retire: NDArray, cycle: int, cur: int, nxt: int) -> None:
    """One cycle of commit."""
    s.committed_stores = 0
    if s.commit_status == st.SQUASHING:
        s.active = 1
        if s.squash_at < 0:
            s.commit_status = st.RUNNING
        else:
            rob_squash_some(s)
            s.signal[nxt, st.ROB_SQUASHING] = 1
    if s.signal[cur, st.REDIRECT]:
        start_squash(s, cur, nxt)
    before = (cycle - 1) & 7
    if s.commit_status == st.RUNNING:
        tail = s.rob_tail
        for k in range(s.to_dispatch_n[before]):
            slot = s.to_dispatch[before, k]
            if not s.window[slot].squashed:
                s.rob[tail & st.ROB_MASK] = slot
                tail += 1
                s.youngest_seq = s.window[slot].seq
        s.rob_tail = tail
        commit_some(s, retire, cycle, nxt)
    s.signal[nxt, st.FREE_ROB_USED] = 1
    s.signal[nxt, st.FREE_ROB] = s.rob_entries - (s.rob_tail - s.rob_head)
    s.signal[nxt, st.ROB_EMPTY] = s.rob_tail == s.rob_head and s.stores_to_write == 0 and s.committed_stores == 0
    then = (cycle - 1) & st.WRITEBACK_MASK
    for k in range(s.writeback_n[then]):
        s.window[s.writeback[then, k]].can_commit = 1
    s.writeback_n[then] = 0
