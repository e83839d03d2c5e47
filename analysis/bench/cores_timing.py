"""How many instructions of a recorded program does the timing model take a CPU-second?"""

from __future__ import annotations

import time
from functools import partial

from analysis.bench.report import Benchmark
from analysis.cores.designs import TABLE_4, load_design
from analysis.cores.elf import read_elf
from analysis.cores.emulator import trace_program
from analysis.cores.timing import simulate
from analysis.paths import DATA

RECORDED = DATA / "recorded" / "gem5"
PROGRAMS = ("json", "matmul", "sort")
INSTRUCTIONS = 1_000_000


def million_instructions_per_cpu_second(design: str) -> float:
    """The three recorded programs on one design, compilation apart; gem5 took 0.43 MIPS on one of them."""
    core = load_design(design)
    seconds = 0.0
    for name in PROGRAMS:
        path = RECORDED / f"{name}.elf"
        trace, program = trace_program(path, INSTRUCTIONS)[0], read_elf(path)
        simulate(trace.slice(0, 1000), core, program)
        start = time.process_time()
        simulate(trace, core, program)
        seconds += time.process_time() - start
    return len(PROGRAMS) * INSTRUCTIONS / seconds / 1e6


def benchmarks() -> list[Benchmark]:
    """One figure a design of NeuroScalar's Table 4."""
    note = "three recorded programs, compilation apart"
    return [Benchmark(f"timing, {name}", partial(million_instructions_per_cpu_second, name), "MIPS", 5, "min", note) for name in TABLE_4]
