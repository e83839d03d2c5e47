"""When does each instruction of a program retire on an out-of-order core of a given design?

    result = simulate(trace, load_design("8w"))
    result.retire_cycle   # int64, one entry an executed instruction

A trace-driven model in the manner of gem5's O3: the correct path comes from the trace, the wrong path from the static code.
Source of the rules: gem5 24.0, src/cpu/o3, src/cpu/pred, src/mem (restated, see the modules beside).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.cores.riscv.elf import Program
from analysis.cores.riscv.trace import PLAIN_INSTRUCTIONS, OpClass, Trace
from analysis.cores.timing import state as st
from analysis.cores.timing.core import run
from analysis.cores.timing.designs import Cache, Design
from analysis.cores.timing.predictor import random_state
from analysis.cores.timing.program import physical_addresses, static_code
from analysis.cores.timing.state import CORE, MEMORY, PREDICTOR
from analysis.errors import InputError


@dataclass(frozen=True)
class Timing:
    """What a simulation found.

    Attributes:
        retire_cycle: cycle in which each instruction retires, int64 (n,).
        mispredictions: branches found wrong at execution (gem5: commit.branchMispredicts).
        memory_order_violations: loads that passed an overlapping store.
        squashed: wrong-path instructions that reached the ROB.
        accesses, misses: of L1I, L1D and L2, wrong path included (gem5: overallAccesses, overallMisses).
        dram_reads, row_hits, dram_writes: reads of DRAM, those that found their row open, and writes.
    """

    retire_cycle: NDArray[np.int64]
    cycles: int
    mispredictions: int
    branches: int
    memory_order_violations: int
    forwarded_loads: int
    squashed: int
    accesses: dict[str, int]
    misses: dict[str, int]
    dram_reads: int
    row_hits: int
    dram_writes: int

    @property
    def instructions(self) -> int:
        """Retired instructions (count)."""
        return len(self.retire_cycle)

    @property
    def ipc(self) -> float:
        """Instructions per cycle."""
        return self.instructions / self.cycles

    @property
    def retire_latency(self) -> NDArray[np.int64]:
        """Cycles between an instruction's retirement and that of the one before it (the first: from cycle 0), int64 (n,)."""
        return np.diff(self.retire_cycle, prepend=0)


def core_state(design: Design) -> NDArray:
    """Queues and tables of a core at reset."""
    state = np.zeros(1, CORE)
    s = state[0]
    for name in ("fetch_width", "decode_width", "rename_width", "dispatch_width", "issue_width", "writeback_width", "commit_width"):
        s[name] = design.width
    s["squash_width"] = design.squash_width or design.width
    s["fetch_queue_entries"] = design.fetch_queue_entries
    s["fetch_bytes"] = design.fetch_buffer_bytes
    s["rob_entries"] = s["seen_free_rob"] = design.rob_entries
    s["seen_empty_rob"] = 1
    s["iq_entries"] = s["free_iq"] = s["seen_free_iq"] = design.issue_queue_entries
    s["lq_entries"], s["sq_entries"] = design.load_queue_entries, design.store_queue_entries
    s["free_int"], s["free_float"] = design.int_registers - 33, design.float_registers - 32
    s["dependence_shift"] = design.dependence_check_bytes.bit_length() - 1
    s["store_set_period"] = design.store_set_clear_period
    s["perfect_branches"] = design.branch_prediction.kind == "perfect"
    s["wrong_path"] = design.wrong_path
    s["memory_speculation"] = design.memory_speculation
    s["forwarding_cycles"] = design.forwarding_cycles
    s["latency"] = 1
    s["pipelined"] = 1
    s["unit_of"] = st.NO_UNIT
    units = design.units
    pool = ((st.INT_ALU_UNIT, units.int_alu), (st.INT_MULT_UNIT, units.int_mult_div), (st.FLOAT_ALU_UNIT, units.float_alu))
    for place, unit in (*pool, (st.FLOAT_MULT_UNIT, units.float_mult_div)):
        s["unit_count"][place] = unit.count
        for name, cycles in unit.latency_cycles.items():
            opclass = OpClass[name.upper()]
            s["unit_of"][opclass], s["latency"][opclass] = place, cycles
            s["pipelined"][opclass] = name not in unit.unpipelined
    for opclass in (OpClass.BRANCH, OpClass.JUMP, OpClass.CALL, OpClass.INDIRECT_JUMP, OpClass.INDIRECT_CALL, OpClass.RETURN):
        s["unit_of"][opclass], s["latency"][opclass] = st.INT_ALU_UNIT, s["latency"][OpClass.INT_ALU]
    s["unit_count"][st.MEMORY_UNIT] = units.load_store_ports
    for opclass in (OpClass.MEM_READ, OpClass.MEM_WRITE, OpClass.FLOAT_MEM_READ, OpClass.FLOAT_MEM_WRITE, OpClass.ATOMIC):
        s["unit_of"][opclass] = st.MEMORY_UNIT
    s["map"] = -1
    s["ssit"] = -1
    s["lfst"] = -1
    s["stalled_load"] = s["stalling_store"] = -1
    s["next_seq"] = s["oldest_seq"] = 1
    s["buffer_pc"] = -1
    s["seen_free_lq"], s["seen_free_sq"] = design.load_queue_entries, design.store_queue_entries
    return state


def memory_state(design: Design) -> NDArray:
    """Caches, buses and DRAM at reset."""
    state = np.zeros(1, MEMORY)
    m = state[0]
    m["line_bits"] = design.line_bytes.bit_length() - 1
    base = 0
    caches: tuple[Cache, ...] = (design.l1i, design.l1d, design.l2)
    for k, cache in enumerate(caches):
        m["sets"][k] = cache.size_bytes // (design.line_bytes * cache.ways)
        m["ways"][k] = cache.ways
        m["first_line"][k] = base
        base += int(m["sets"][k]) * cache.ways
        m["tag_cycles"][k], m["data_cycles"][k], m["response_cycles"][k] = cache.tag_cycles, cache.data_cycles, cache.response_cycles
        m["mshrs"][k], m["targets_per_mshr"][k], m["perfect"][k] = cache.mshrs, cache.targets_per_mshr, cache.perfect
        m["write_buffers"][k] = cache.write_buffers
    m["lines"]["tag"][:base] = -1
    m["prefetch_degree"] = design.prefetch_lines
    m["mshr_line"] = m["send_at"] = m["answered"] = m["l2_answer_last"] = -1
    m["target_next"] = np.arange(1, st.MAX_TARGETS + 1)
    m["event_head"] = -1
    m["event_next"] = np.arange(1, st.MAX_EVENTS + 1)
    memory = design.memory
    m["cycle_ps"] = round(1e12 / design.clock_hz)
    m["l2_bus_request"], m["l2_bus_response"] = memory.l2_bus_request_cycles, memory.l2_bus_response_cycles
    m["l2_bus_bytes"], m["bus_bytes"] = memory.l2_bus_bytes_per_cycle, memory.bus_bytes_per_cycle
    m["bus_ps"], m["bus_request"], m["bus_response"] = memory.bus_period_ps, memory.bus_request_cycles, memory.bus_response_cycles
    m["t_rcd"], m["t_cl"], m["t_rp"] = memory.activate_to_read_ps, memory.read_to_data_ps, memory.precharge_ps
    m["t_ras"], m["t_burst"], m["t_rtp"] = memory.activate_to_precharge_ps, memory.burst_ps, memory.read_to_precharge_ps
    m["t_refi"], m["t_rfc"] = memory.refresh_interval_ps, memory.refresh_ps
    m["t_front"], m["t_back"] = memory.controller_front_ps, memory.controller_back_ps
    m["t_wr"], m["t_wtr"], m["t_rtw"] = memory.write_recovery_ps, memory.write_to_read_ps, memory.read_to_write_ps
    m["t_cs"], m["t_xaw"], m["activation_limit"] = memory.rank_to_rank_ps, memory.activation_window_ps, memory.activations_per_window
    m["dram_write_entries"] = memory.write_entries
    m["write_high"] = memory.write_entries * memory.write_high_percent // 100
    m["write_low"] = memory.write_entries * memory.write_low_percent // 100
    m["writes_per_switch"], m["reads_per_switch"] = memory.writes_per_switch, memory.reads_per_switch
    m["row_bits"] = max(0, (memory.row_bytes // design.line_bytes).bit_length() - 1)
    m["bank_bits"] = memory.banks.bit_length() - 1
    m["ranks"] = memory.ranks
    m["banks_per_rank"] = max(1, memory.banks // memory.ranks)
    m["t_rrd"] = memory.activate_to_activate_ps
    m["row_accesses_limit"] = memory.accesses_per_row
    m["channel_at"] = memory.precharge_ps + memory.activate_to_read_ps
    m["open_row"] = -1
    m["next_refresh"] = memory.refresh_interval_ps - memory.precharge_ps
    return state


def predictor_state(design: Design) -> NDArray:
    """Branch predictor at reset."""
    state = np.zeros(1, PREDICTOR)
    p = state[0]
    prediction = design.branch_prediction
    p["local_mask"], p["local_history_mask"] = prediction.local_entries - 1, prediction.local_histories - 1
    p["global_mask"], p["btb_mask"], p["ras_entries"] = (
        prediction.global_entries - 1,
        prediction.btb_entries - 1,
        prediction.return_stack_entries,
    )
    p["btb_word"] = -1
    p["indirect_tag"] = -1
    p["random"] = random_state()
    return state


def simulate(trace: Trace, design: Design, program: Program | None = None) -> Timing:
    """Simulate a trace from reset (empty pipeline, cold caches, untrained predictor).

    Args:
        program: the executable, which says what is on the wrong path; without it the wrong path ends at code that never ran.
    """
    if len(trace) == 0:
        raise InputError("no instruction to simulate: the trace is empty")
    code, index, base = static_code(trace, program)
    state = core_state(design)
    s = state[0]
    s["base_pc"], s["map_size"] = base, st.MAX_CODE
    s["fetch_pc"] = int(trace.code.pc[trace.index[0]])
    s["window"]["seq"] = -1
    memory = memory_state(design)
    predictor = predictor_state(design)
    retire = np.zeros(len(trace), np.int64)
    addresses, s["code_distance"] = physical_addresses(trace.address, program)
    cycles = run.chosen(len(trace) <= PLAIN_INSTRUCTIONS)(s, code[0], index, addresses, memory[0], predictor[0], retire, 0)
    if cycles < 0:
        raise RuntimeError(f"the core stands still after {int(s['committed'])} instructions")
    names = ("l1i", "l1d", "l2")
    return Timing(
        retire_cycle=retire,
        cycles=int(cycles),
        mispredictions=int(s["branch_mispredictions"]),
        branches=int(s["branches"]),
        memory_order_violations=int(s["memory_order_violations"]),
        forwarded_loads=int(s["forwarded_loads"]),
        squashed=int(s["squashed"]),
        accesses=dict(zip(names, (int(value) for value in memory[0]["accesses"]), strict=True)),
        misses=dict(zip(names, (int(value) for value in memory[0]["misses"]), strict=True)),
        dram_reads=int(memory[0]["dram_reads"]),
        row_hits=int(memory[0]["row_hits"]),
        dram_writes=int(memory[0]["dram_writes"]),
    )
