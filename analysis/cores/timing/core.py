"""How many cycles does an instruction trace take on an out-of-order core: the cycle loop."""

from __future__ import annotations

from numpy.typing import NDArray

from analysis.compiled import inner, outer
from analysis.cores.timing import state as st
from analysis.cores.timing.backend import back_end, cache_unblocked, load_answered, store_answered
from analysis.cores.timing.commit import commit
from analysis.cores.timing.dram import send_to_memory, step
from analysis.cores.timing.frontend import decode, fetch
from analysis.cores.timing.memory import L1D, L1I, fill, fill_l2, l2_answer, send_to_l2
from analysis.cores.timing.rename import rename
from analysis.cores.timing.state import Record

IDLE_CYCLES = 8
"""Cycles without activity after which all eight rows of the pipeline registers have been written anew."""


@inner(_nrt=False)
def take_events(s: Record, m: Record, cycle: int) -> None:
    """Answers of the memory system that arrive before this cycle starts."""
    node = m.event_head[cycle & (st.EVENT_HORIZON - 1)]
    if node < 0:
        return
    m.event_head[cycle & (st.EVENT_HORIZON - 1)] = -1
    s.active = 1
    ordered = -1
    while node >= 0:
        following = m.event_next[node]
        m.event_next[node] = ordered
        ordered = node
        node = following
    while ordered >= 0:
        node = ordered
        ordered = m.event_next[node]
        kind = m.event_kind[node]
        argument = m.event_argument[node]
        m.event_next[node] = m.event_free
        m.event_free = node
        m.events -= 1
        if kind == st.EVENT_LOAD:
            load_answered(s, argument, cycle)
        elif kind == st.EVENT_STORE:
            store_answered(s, argument)
        elif kind == st.EVENT_DATA_FILL:
            fill(m, L1D, argument, cycle)
        elif kind == st.EVENT_CODE_FILL:
            fill(m, L1I, argument, cycle)
        elif kind == st.EVENT_L2_FILL:
            fill_l2(m, argument, cycle)
        elif kind == st.EVENT_L1_SEND:
            send_to_l2(m, argument, cycle)
        elif kind == st.EVENT_L2_ANSWER:
            l2_answer(m, argument, cycle)
        elif kind == st.EVENT_L2_SEND:
            send_to_memory(m, cycle)
        elif kind == st.EVENT_DRAM_NEXT:
            step(m, m.dram_next_ps, cycle)
        elif kind == st.EVENT_FETCH:
            if s.fetch_status == st.WAIT_CACHE and argument == s.fetch_request:
                s.buffer_valid = 1
                s.fetch_status = st.CACHE_DONE
        elif kind == st.EVENT_RETRY:
            cache_unblocked(s, m, cycle)
        elif kind == st.EVENT_CODE_RETRY and s.fetch_status == st.WAIT_RETRY:
            s.fetch_status = st.RUNNING


@inner(_nrt=False)
def next_event(m: Record, cycle: int) -> int:
    """First cycle after `cycle` with an event, -1 when there is none."""
    if m.events == 0:
        return -1
    for ahead in range(1, st.EVENT_HORIZON):
        if m.event_head[(cycle + ahead) & (st.EVENT_HORIZON - 1)] >= 0:
            return cycle + ahead
    return -1


@outer(_nrt=False)
def run(s: Record, code: Record, index: NDArray, addresses: NDArray, m: Record, p: Record, retire: NDArray, cycle: int) -> int:
    """Simulate until every instruction of the trace has retired; returns the cycles, or -1 when nothing can move any more."""
    total = len(index)
    idle = 0
    while s.committed < total:
        cur = cycle & 1
        nxt = 1 - cur
        for k in range(st.SIGNALS):
            s.signal[nxt, k] = 0
        s.active = 0
        take_events(s, m, cycle)
        fetch(s, code, index, addresses, m, p, cycle, cur)
        decode(s, code, cycle, cur, nxt)
        rename(s, code, cycle, cur, nxt)
        back_end(s, code, m, cycle, cur, nxt)
        commit(s, retire, cycle, cur, nxt)
        if s.active or s.executing > 0:
            idle = 0
        else:
            idle += 1
            if idle >= IDLE_CYCLES:
                following = next_event(m, cycle)
                if following < 0:
                    return -1
                for k in range(st.SIGNALS):
                    s.signal[cur, k] = s.signal[nxt, k]
                cycle = following - 1
                idle = 0
        cycle += 1
    return cycle
