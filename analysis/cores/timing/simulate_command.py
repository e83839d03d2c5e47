"""Time a program on a design and write what was counted."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.cores.riscv.elf import read_elf
from analysis.cores.riscv.emulator import trace_program
from analysis.cores.timing.designs import load_design
from analysis.cores.timing.simulation import Timing, simulate
from analysis.tables import check_output, write_csv


def row(program: str, design: str, timing: Timing) -> dict[str, str | int | float]:
    """The counters of a simulation as a row; misses count the wrong path too, `dram_reads` lines."""
    return {
        "program": program,
        "design": design,
        "instructions": timing.instructions,
        "cycles": timing.cycles,
        "ipc": timing.ipc,
        "branches": timing.branches,
        "mispredictions": timing.mispredictions,
        "memory_order_violations": timing.memory_order_violations,
        "l1i_misses": timing.misses["l1i"],
        "l1d_misses": timing.misses["l1d"],
        "l2_misses": timing.misses["l2"],
        "dram_reads": timing.dram_reads,
    }


def simulate_to_file(program: Path, design: str, out: Path, limit: int | None) -> str:
    """Time `program` on `design`; writes one `row` to `out` and returns a line that says the same."""
    core = load_design(design)
    executable = read_elf(program)
    check_output(out, program, design)
    trace, _ = trace_program(program, limit)
    timing = simulate(trace, core, executable)
    values = row(program.stem, core.name, timing)
    write_csv(pd.DataFrame([values]), out)
    return f"{program} on {core.name}: {timing.instructions} instructions, {timing.cycles} cycles, IPC {timing.ipc:.4f}"
