"""How many instructions a CPU-second does the emulator trace, in how much memory, and how fast onto disk?"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from analysis.bench.report import Benchmark
from analysis.cores.riscv.elf import read_elf
from analysis.cores.riscv.emulator import epochs, load, run
from analysis.cores.riscv.programs import program_names, program_path
from analysis.cores.riscv.trace import EPOCH_INSTRUCTIONS, TraceWriter

_LONG = "compression"
_STREAM = "from analysis.bench.cores_emulator import stream_peak; print(stream_peak())"


def million_instructions_per_cpu_second() -> float:
    """All our programs to their ends, traced into one pair of arrays that is used again; compilation apart."""
    index, address = np.zeros(1 << 20, np.uint32), np.zeros(1 << 20, np.uint64)
    run(load(read_elf(program_path(_LONG))), index, address)
    instructions, spent = 0, 0.0
    for name in program_names():
        machine = load(read_elf(program_path(name)))
        start = time.process_time()
        while machine.exit_code is None:
            run(machine, index, address)
        spent += time.process_time() - start
        instructions += machine.retired
    return instructions / spent / 1e6


def stream_peak() -> float:
    """Peak resident memory (GiB) of this process after streaming every program epoch by epoch."""
    for name in program_names():
        for _ in epochs(load(read_elf(program_path(name))), EPOCH_INSTRUCTIONS):
            pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def stream_peak_of_a_fresh_process() -> float:
    """`stream_peak` measured in a process of its own, its interpreter and compiler included."""
    done = subprocess.run([sys.executable, "-c", _STREAM], capture_output=True, text=True, check=True)
    return float(done.stdout)


def million_instructions_per_cpu_second_to_disk() -> float:
    """One program of ten million instructions and more, traced and written as .npz."""
    machine = load(read_elf(program_path(_LONG)))
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        writer = TraceWriter(Path(folder) / "trace.npz")
        for part in epochs(machine, 1 << 20):
            writer.add(part)
        writer.close()
        return machine.retired / (time.process_time() - start) / 1e6


def benchmarks() -> list[Benchmark]:
    """The benchmarks of this subpackage, with their targets."""
    return [
        Benchmark("tracing in memory", million_instructions_per_cpu_second, "MIPS", 100, "min", "18 programs, compilation apart"),
        Benchmark("peak memory, streamed by epoch", stream_peak_of_a_fresh_process, "GiB", 1, "max", "the whole process"),
        Benchmark("tracing onto disk", million_instructions_per_cpu_second_to_disk, "MIPS", 1, "min", "24 bytes an instruction"),
    ]
