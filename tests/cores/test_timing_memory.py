"""Caches, buses and DRAM of the timing model against times added up by hand from gem5 24.0's parameters.

L2XBar: 1 cycle each way, a line takes it 1 + 64/32 cycles; L1 2 cycles a step, L2 20; SystemXBar at 2 GHz: 8 cycles to memory, 2 back;
MemCtrl: 10 ns in front, 10 ns behind; DDR3-1600: 13.75 ns from command to data, 5 ns of data, 16 accesses a row (XBar.py, MemCtrl.py,
DRAMInterface.py).
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import ArrayLike

from analysis.cores.riscv.elf import read_elf
from analysis.cores.riscv.emulator import trace_program
from analysis.cores.riscv.trace import NO_REGISTER, OpClass, Trace
from analysis.cores.timing.designs import Design, Memory, Units
from analysis.cores.timing.memory import L1D, L2, access, fill, find_line, l2_take, send_to_l2
from analysis.cores.timing.program import physical_addresses, program_pages
from analysis.cores.timing.simulation import memory_state, simulate
from analysis.cores.timing.state import EVENT_HORIZON, EVENT_LOAD
from analysis.paths import DATA
from analysis.studies.cores.trace_files import trace_of

BASE = Design(name="base", units=Units(load_store_ports=1))
CALM = BASE.model_copy(update={"memory": Memory(refresh_interval_ps=0)})


def accesses(kind: OpClass, address: ArrayLike, chained: bool = False) -> Trace:
    """A loop of one access, two additions and a jump; chained: each access needs the one before it."""
    places = np.asarray(address)
    rows = np.tile(np.arange(4), len(places))
    where = np.zeros(len(rows), np.int64)
    where[::4] = places
    memory = rows == 0
    sources = np.full((len(rows), 3), NO_REGISTER)
    target = np.full(len(rows), NO_REGISTER)
    if chained:
        sources[memory, 0] = 10
        target[memory] = 10
    kinds = np.array([kind, OpClass.INT_ALU, OpClass.INT_ALU, OpClass.JUMP])[rows]
    return trace_of(0x10000 + 4 * rows, kinds, where, sources, target, np.where(memory, 8, 0), np.full(len(rows), 4), 0x10000)


def cycles_between_loads(trace: Trace, design: Design) -> np.ndarray:
    return np.diff(simulate(trace, design).retire_cycle[::4])


def test_latency_of_l2() -> None:
    """26 cycles: 2 to miss, 1 + 20 + 1 to L2 and back, 2 to answer; less the 2 of a hit in L1, 24 more than it."""
    once = 0x100000 + 64 * np.arange(4096)  # 256 KiB: more than L1, less than L2
    in_l1 = cycles_between_loads(accesses(OpClass.MEM_READ, np.full(200, 0x100000), chained=True), CALM)[100:]
    in_l2 = cycles_between_loads(accesses(OpClass.MEM_READ, np.tile(once, 2), chained=True), CALM)[5000:]
    assert np.median(in_l2) == np.median(in_l1) + 24
    assert (in_l2 == np.median(in_l2)).mean() > 0.99


def test_latency_of_an_open_row() -> None:
    """2 + 21 cycles to the memory bus, 42.75 ns there (4 bus, 13.75, 5, 20) rounded to 43, 2 cycles, 21 back, 2 to answer: 132 more."""
    in_l1 = cycles_between_loads(accesses(OpClass.MEM_READ, np.full(200, 0x100000), chained=True), CALM)[100]
    in_memory = cycles_between_loads(accesses(OpClass.MEM_READ, 0x100000 + 64 * np.arange(1024), chained=True), CALM)[200:]
    assert np.median(in_memory) == in_l1 + 132
    assert (in_memory == in_l1 + 132).mean() == pytest.approx(15 / 16, abs=0.01)  # one of sixteen opens the row again


def test_bus_carries_a_line_in_three_cycles() -> None:
    many = CALM.model_copy(update={"l1d": CALM.l1d.model_copy(update={"mshrs": 64, "write_buffers": 64})})
    once = 0x100000 + 64 * np.arange(4096)
    between = cycles_between_loads(accesses(OpClass.MEM_READ, np.tile(once, 3)), many)
    assert between[-4000:].mean() == pytest.approx(3, abs=0.03)


def test_second_answer_of_a_cycle_comes_late() -> None:
    """packet_queue.cc sends one packet, and the next a picosecond later: behind the core's tick."""
    memory = memory_state(BASE.model_copy(update={"l1d": BASE.l1d.model_copy(update={"perfect": True})}))[0]
    for load in range(3):
        access(memory, L1D, 64 * load, 0, EVENT_LOAD, load, 10)
    events = [memory["event_head"][cycle & (EVENT_HORIZON - 1)] >= 0 for cycle in range(11, 16)]
    assert events == [False, True, True, False, False]


def test_lines_written_leave_once() -> None:
    """Every line stored to is read once and written once, but for those still in the caches and queues."""
    lines = 60_000
    found = simulate(accesses(OpClass.MEM_WRITE, 0x100000 + 64 * np.arange(lines)), BASE)
    kept = BASE.l2.size_bytes // 64  # L2 holds the lines of L1 as well
    assert 0 <= lines - found.dram_reads <= 64  # the last stores are still in the store queue
    assert kept <= found.dram_reads - found.dram_writes <= kept + BASE.memory.write_entries + BASE.l2.write_buffers


def test_writes_to_memory_take_time() -> None:
    """Random stores pay for the turns of the channel and the writes, 5 ns each; loads of the same lines do not."""
    where = 0x100000 + 64 * np.random.default_rng(1).integers(0, 1 << 19, 60_000)
    stores, loads = (simulate(accesses(kind, where), BASE) for kind in (OpClass.MEM_WRITE, OpClass.MEM_READ))
    assert loads.dram_writes == 0
    assert stores.cycles - loads.cycles > 10 * stores.dram_writes * 0.5  # 5 ns are 10 cycles; some are hidden


def test_queued_writes_answer_reads() -> None:
    """A line that waits to be written is not read from DRAM again."""
    sets = BASE.l2.size_bytes // 64 // BASE.l2.ways
    conflict = 0x100000 + 64 * sets * np.arange(12)  # twelve lines of one set of eight ways
    found = simulate(accesses(OpClass.MEM_WRITE, np.tile(conflict, 40)), BASE)
    assert found.misses["l2"] > 100
    assert found.dram_reads < 30


def test_modified_line_moves_up() -> None:
    """A line modified in L2 is modified in L1 after a read, and clean in L2 (cache.cc: satisfyRequest)."""
    memory = memory_state(BASE)[0]
    line = 0x100000 >> 6
    l2_take(memory, line, 1, 100)
    assert memory["lines"][find_line(memory, L2, line)]["dirty"] == 1
    access(memory, L1D, line << 6, 0, EVENT_LOAD, 0, 200)
    send_to_l2(memory, L1D, 202)
    assert memory["lines"][find_line(memory, L2, line)]["dirty"] == 0
    fill(memory, L1D, 0, 224)
    assert memory["lines"][find_line(memory, L1D, line)]["dirty"] == 1


def test_pages_in_the_order_of_need() -> None:
    """The executable's pages come first; then the stack's, which is touched first; two pages never share a place."""
    path = DATA / "recorded" / "gem5" / "sort.elf"
    trace, program = trace_program(path, 50_000)[0], read_elf(path)
    physical, distance = physical_addresses(trace.address, program)
    virtual = trace.address.astype(np.int64)
    accessed = virtual > 0
    assert ((physical ^ virtual) & 4095 == 0).all()
    pairs = {(int(v), int(p)) for v, p in zip(virtual[accessed] >> 12, physical[accessed] >> 12, strict=True)}
    assert len(pairs) == len({v for v, _ in pairs}) == len({p for _, p in pairs})
    known = program_pages(program)
    stack = [p for v, p in pairs if v not in known]
    assert sorted(stack) == list(range(len(known), len(known) + len(stack)))
    assert program.segments[0].address + distance == program.segments[0].address & 4095
