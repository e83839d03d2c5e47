"""Which instructions are fetched and decoded in a cycle: the front end of an out-of-order core.

The rules are those of gem5's O3 model (src/cpu/o3: fetch.cc, decode.cc), restated: a stage that stalls keeps its input in a skid
buffer and tells the stage before it one cycle later; fetch reads one aligned block at a time and ends at a branch predicted taken.
"""

from __future__ import annotations

from numpy.typing import NDArray

from analysis.compiled import inner
from analysis.cores.riscv.trace import ATOMIC, FLOAT_MEM_READ, FLOAT_MEM_WRITE, MEM_READ, MEM_WRITE
from analysis.cores.timing import state as st
from analysis.cores.timing.memory import L1I, REFUSED, access
from analysis.cores.timing.predictor import BRANCH, CALL, JUMP, correct, learn, predict, squash_after
from analysis.cores.timing.state import Record


@inner(_nrt=False)
def start(s: Record, code: Record, row: int, address: int, trace: int) -> Record:
    """Give an instruction a sequence number and a row of the window."""
    seq = s.next_seq
    s.next_seq += 1
    e = s.window[seq & st.WINDOW_MASK]
    c = code.rows[row]
    e.seq = seq
    e.row = row
    e.place = trace
    e.address = address
    e.opclass = c.opclass
    e.unit = s.unit_of[c.opclass]
    e.size = c.size
    e.destination = c.destination
    e.is_load = c.opclass == MEM_READ or c.opclass == FLOAT_MEM_READ or c.opclass == ATOMIC
    e.is_store = c.opclass == MEM_WRITE or c.opclass == FLOAT_MEM_WRITE
    e.is_control = c.opclass >= 15 and c.opclass <= 20
    e.serial = c.opclass >= 21
    e.predicted_taken = 0
    e.squashed = 0
    e.renamed = 0
    e.in_queue = 0
    e.issued = 0
    e.executed = 0
    e.written = 0
    e.can_commit = 0
    e.address_valid = 0
    e.cleared = 0
    e.pending = 0
    e.memory_pending = 0
    e.waiters = -1
    e.memory_waiters = -1
    return e


@inner(_nrt=False)
def redirect_fetch(s: Record, pc: int, trace: int) -> None:
    """Start again at `pc`: what is queued or on its way from the cache is dropped."""
    s.fetch_pc = pc
    s.fetch_trace = trace
    s.on_wrong_path = trace < 0
    s.fetch_request += 1
    s.fetch_status = st.SQUASHING
    s.fetch_queue_head = s.fetch_queue_tail


@inner(_nrt=False)
def mark_squashed(s: Record, seq: int) -> None:
    """Everything younger than `seq` will not commit."""
    at = s.next_seq - 1
    while at > seq:
        s.window[at & st.WINDOW_MASK].squashed = 1
        at -= 1


@inner(_nrt=False)
def ask_for_block(s: Record, m: Record, pc: int, cycle: int) -> None:
    """Read the aligned block that holds `pc` from L1I."""
    s.buffer_pc = pc & ~(s.fetch_bytes - 1)
    s.buffer_valid = 0
    s.fetch_request += 1
    if access(m, L1I, s.buffer_pc + s.code_distance, 0, st.EVENT_FETCH, s.fetch_request, cycle) == REFUSED:
        s.fetch_status = st.WAIT_RETRY
    else:
        s.fetch_status = st.WAIT_CACHE


@inner(_nrt=False)
def fetch_signals(s: Record, p: Record, cur: int) -> None:
    """What decode and commit said a cycle ago."""
    if s.signal[cur, st.DECODE_BLOCK]:
        s.fetch_stalled = 1
    if s.signal[cur, st.DECODE_UNBLOCK]:
        s.fetch_stalled = 0
    if s.signal[cur, st.SQUASH]:
        seq = s.signal[cur, st.SQUASH_SEQ]
        redirect_fetch(s, s.signal[cur, st.SQUASH_PC], s.signal[cur, st.SQUASH_TRACE])
        if s.signal[cur, st.SQUASH_BRANCH]:
            correct(p, seq, s.signal[cur, st.SQUASH_TAKEN], s.signal[cur, st.SQUASH_PC])
        else:
            squash_after(p, seq)
        s.active = 1
        return
    if s.signal[cur, st.DONE_SEQ]:
        learn(p, s.signal[cur, st.DONE_SEQ])
    if s.signal[cur, st.DECODE_SQUASH]:
        seq = s.signal[cur, st.DECODE_SQUASH_SEQ]
        correct(p, seq, s.signal[cur, st.DECODE_SQUASH_TAKEN], s.signal[cur, st.DECODE_SQUASH_PC])
        mark_squashed(s, seq)
        s.active = 1
        if s.fetch_status != st.SQUASHING:
            redirect_fetch(s, s.signal[cur, st.DECODE_SQUASH_PC], s.signal[cur, st.DECODE_SQUASH_TRACE])
            return
    if s.fetch_status == st.SQUASHING or s.fetch_status == st.BLOCKED:
        s.fetch_status = st.RUNNING
        s.active = 1


@inner(_nrt=False)
def fetch(s: Record, code: Record, index: NDArray, addresses: NDArray, m: Record, p: Record, cycle: int, cur: int) -> None:
    """One cycle of fetch."""
    fetch_signals(s, p, cur)
    count = 0
    fetching = False
    mask = ~(s.fetch_bytes - 1)
    if s.fetch_status == st.CACHE_DONE:
        s.fetch_status = st.RUNNING
        fetching = True
    elif s.fetch_status == st.RUNNING:
        if not (s.buffer_valid and s.fetch_pc & mask == s.buffer_pc):
            ask_for_block(s, m, s.fetch_pc, cycle)
            s.active = 1
        else:
            fetching = True
    if fetching:
        s.active = 1
        pc = s.fetch_pc
        end = len(index)
        taken = False
        while count < s.fetch_width and s.fetch_queue_tail - s.fetch_queue_head < s.fetch_queue_entries and not taken:
            if pc & mask != s.buffer_pc:
                break
            if s.next_seq - s.oldest_seq >= st.WINDOW - 64:
                break
            if s.on_wrong_path:
                at = (pc - s.base_pc) >> 1
                if at < 0 or at >= s.map_size or code.rows[at].length == 0 or not s.wrong_path:
                    s.fetch_status = st.NO_INSTRUCTIONS
                    break
                row = at
                c = code.rows[row]
                if c.wrong_path_met != s.wrong_paths:
                    c.wrong_path_met = s.wrong_paths
                    c.speculative_address = c.last_address
                c.speculative_address += c.stride
                address = c.speculative_address
                e = start(s, code, row, address, -1)
            else:
                if s.fetch_trace >= end:
                    s.fetch_status = st.NO_INSTRUCTIONS
                    break
                row = index[s.fetch_trace]
                address = addresses[s.fetch_trace]
                c = code.rows[row]
                if c.size > 0:
                    c.stride = address - c.last_address
                    c.last_address = address
                e = start(s, code, row, address, s.fetch_trace)
            following = pc + c.length
            e.actual = following
            if not s.on_wrong_path:
                s.fetch_trace += 1
                if s.fetch_trace < end:
                    e.actual = code.rows[index[s.fetch_trace]].pc
            if e.is_control:
                if s.perfect_branches and not s.on_wrong_path:
                    following = e.actual
                    e.predicted_taken = following != pc + c.length
                else:
                    took, following = predict(p, e.seq, pc, c.length, c.opclass)
                    e.predicted_taken = took
                taken = e.predicted_taken != 0
            e.predicted = following
            if s.on_wrong_path:  # no values there: a branch goes where it last went, other jumps where they are predicted to go
                e.actual = following
                if c.opclass == JUMP or c.opclass == CALL:
                    e.actual = c.target
                elif c.opclass == BRANCH and c.last_taken != 0:
                    e.actual = c.target if c.last_taken > 0 else pc + c.length
            elif e.is_control and s.fetch_trace < end:
                c.last_taken = 1 if e.actual != pc + c.length else -1
                if following != e.actual:
                    s.on_wrong_path = 1
                    s.wrong_paths += 1
            s.fetch_queue[s.fetch_queue_tail & st.WINDOW_MASK] = e.seq & st.WINDOW_MASK
            s.fetch_queue_tail += 1
            count += 1
            pc = following
        s.fetch_pc = pc
        if pc & mask != s.buffer_pc and s.fetch_status == st.RUNNING:
            ask_for_block(s, m, pc, cycle)
    # the oldest of the queue go to decode
    sent = 0
    now = cycle & 7
    if not s.fetch_stalled:
        while s.fetch_queue_head < s.fetch_queue_tail and sent < s.decode_width:
            s.to_decode[now, sent] = s.fetch_queue[s.fetch_queue_head & st.WINDOW_MASK]
            s.fetch_queue_head += 1
            sent += 1
    s.to_decode_n[now] = sent
    if sent:
        s.active = 1


@inner(_nrt=False)
def resume(s: Record, nxt: int, status: int, skid: int, unblock: int) -> int:
    """Status of a stage that nothing holds up any more: it empties its skid buffer first, or says at once that it goes on."""
    if status in (st.BLOCKED, st.SQUASHING):
        s.active = 1
        if status == st.BLOCKED and skid > 0:
            return st.UNBLOCKING
        if status == st.BLOCKED:
            s.signal[nxt, unblock] = 1
        return st.RUNNING
    return status


@inner(_nrt=False)
def keep(skid: NDArray, held: int, came: NDArray, first: int, n: int) -> int:
    """Put what came, from place `first` on, behind what a skid buffer holds; how many it holds then."""
    for k in range(first, n):
        skid[held + k - first] = came[k]
    return held + n - first


@inner(_nrt=False)
def drop_first(skid: NDArray, held: int, taken: int) -> int:
    """Take the first of a skid buffer out of it; how many are left."""
    for k in range(taken, held):
        skid[k - taken] = skid[k]
    return held - taken


@inner(_nrt=False)
def decode_block(s: Record, nxt: int, came: NDArray, first: int, n: int) -> None:
    """Keep what came, from place `first` on, in the skid buffer and tell fetch to wait, or not to go on after all."""
    s.decode_skid_n = keep(s.decode_skid, s.decode_skid_n, came, first, n)
    if s.decode_status != st.BLOCKED:
        s.decode_status = st.BLOCKED
        s.active = 1
        if s.signal[nxt, st.DECODE_UNBLOCK]:
            s.signal[nxt, st.DECODE_UNBLOCK] = 0
        else:
            s.signal[nxt, st.DECODE_BLOCK] = 1


@inner(_nrt=False)
def decode_some(s: Record, code: Record, queue: NDArray, n: int, cycle: int, nxt: int) -> int:
    """Decode from a queue; returns how many were taken from it, -1 when a wrong target empties everything."""
    sent = 0
    taken = 0
    now = cycle & 7
    while taken < n and sent < s.decode_width:
        slot = queue[taken]
        taken += 1
        e = s.window[slot]
        if e.squashed:
            continue
        s.to_rename[now, sent] = slot
        sent += 1
        if (e.opclass == JUMP or e.opclass == CALL) or (e.opclass == BRANCH and e.predicted_taken):
            # the target of a direct jump is known here
            target = code.rows[e.row].target
            if target != e.predicted and target >= 0:
                e.predicted = target
                s.decode_redirects += 1
                s.signal[nxt, st.DECODE_SQUASH] = 1
                s.signal[nxt, st.DECODE_SQUASH_SEQ] = e.seq
                s.signal[nxt, st.DECODE_SQUASH_PC] = target
                s.signal[nxt, st.DECODE_SQUASH_TAKEN] = 1
                right = e.place >= 0 and target == e.actual
                s.signal[nxt, st.DECODE_SQUASH_TRACE] = e.place + 1 if right else -1
                s.to_rename_n[now] = sent
                return -1
    s.to_rename_n[now] = sent
    return taken


@inner(_nrt=False)
def decode(s: Record, code: Record, cycle: int, cur: int, nxt: int) -> None:
    """One cycle of decode."""
    now = cycle & 7
    before = (cycle - 1) & 7
    s.to_rename_n[now] = 0
    came = s.to_decode[before]
    n = s.to_decode_n[before]
    if s.signal[cur, st.RENAME_BLOCK]:
        s.decode_stalled = 1
    if s.signal[cur, st.RENAME_UNBLOCK]:
        s.decode_stalled = 0
    if s.signal[cur, st.SQUASH]:
        if s.decode_status == st.BLOCKED or s.decode_status == st.UNBLOCKING:
            if s.signal[nxt, st.DECODE_BLOCK]:
                s.signal[nxt, st.DECODE_BLOCK] = 0
            else:
                s.signal[nxt, st.DECODE_UNBLOCK] = 1
        s.decode_status = st.SQUASHING
        s.decode_skid_n = 0
        s.active = 1
        return
    if s.decode_stalled:
        decode_block(s, nxt, came, 0, n)
        return
    s.decode_status = resume(s, nxt, s.decode_status, s.decode_skid_n, st.DECODE_UNBLOCK)
    if s.decode_status == st.RUNNING:
        if n == 0:
            return
        s.active = 1
        taken = decode_some(s, code, came, n, cycle, nxt)
        if taken < 0:
            s.decode_status = st.SQUASHING
            s.decode_skid_n = 0
        elif taken < n:
            decode_block(s, nxt, came, taken, n)
    else:  # unblocking: the skid buffer first
        s.active = 1
        taken = decode_some(s, code, s.decode_skid, s.decode_skid_n, cycle, nxt)
        if taken < 0:
            s.signal[nxt, st.DECODE_UNBLOCK] = 1
            s.decode_status = st.SQUASHING
            s.decode_skid_n = 0
            return
        s.decode_skid_n = drop_first(s.decode_skid, s.decode_skid_n, taken)
        if s.decode_skid_n > 0:
            decode_block(s, nxt, came, 0, n)
        else:
            s.decode_skid_n = keep(s.decode_skid, 0, came, 0, n)
        if s.decode_skid_n == 0:
            s.signal[nxt, st.DECODE_UNBLOCK] = 1
            s.decode_status = st.RUNNING
