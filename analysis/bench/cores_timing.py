"""How many instructions does the timing model take a CPU-second?"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from analysis.bench.report import Benchmark
from analysis.cores.riscv.elf import read_elf
from analysis.cores.riscv.emulator import trace_program
from analysis.cores.timing.designs import TABLE_4, load_design
from analysis.cores.timing.simulation import simulate
from analysis.paths import DATA

PROGRAMS = (*sorted((DATA / "recorded" / "gem5").glob("*.elf")), *sorted((DATA / "cores" / "programs").glob("*.elf")))
INSTRUCTIONS = 300_000


def million_instructions_per_cpu_second(design: str, paths: tuple[Path, ...] = PROGRAMS, instructions: int = INSTRUCTIONS) -> float:
    """The first instructions of programs on one design, compilation and tracing apart."""
    core = load_design(design)
    seconds, count = 0.0, 0
    for path in paths:
        trace, program = trace_program(path, instructions)[0], read_elf(path)
        simulate(trace.slice(0, 1000), core, program)
        start = time.process_time()
        simulate(trace, core, program)
        seconds += time.process_time() - start
        count += len(trace)
    return count / seconds / 1e6


def benchmarks() -> list[Benchmark]:
    """One figure a design of NeuroScalar's Table 4."""
    note = f"{len(PROGRAMS)} programs, compilation apart; gem5 took 0.43 on one of them"
    return [Benchmark(f"timing, {name}", partial(million_instructions_per_cpu_second, name), "MIPS", 5, "min", note) for name in TABLE_4]
