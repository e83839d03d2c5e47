"""Time a program on a design and write what was counted."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.cores.riscv.elf import read_elf
from analysis.cores.riscv.emulator import trace_program
from analysis.cores.riscv.trace import Trace
from analysis.cores.timing.designs import load_design
from analysis.cores.timing.simulation import Timing, simulate
from analysis.errors import InputError
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


def _write_instructions(path: Path, trace: Trace, timing: Timing) -> None:
    """PC and retire cycle of each instruction, whole or not at all."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        temporary.unlink(missing_ok=True)
        with zipfile.ZipFile(temporary, "x", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
            for name, values in (("pc", trace.pc), ("retire_cycle", timing.retire_cycle), ("retire_latency", timing.retire_latency)):
                with archive.open(f"{name}.npy", "w", force_zip64=True) as target:
                    np.lib.format.write_array(target, np.ascontiguousarray(values), allow_pickle=False)
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"cannot write the retire cycles: {error.strerror}", path=path) from error
    finally:
        temporary.unlink(missing_ok=True)


def simulate_to_file(program: Path, design: str, out: Path, limit: int | None, per_instruction: Path | None) -> str:
    """Time `program` on `design`; writes one `row` to `out` and returns a line that says the same."""
    core = load_design(design)
    executable = read_elf(program)
    check_output(out, program, design)
    if per_instruction is not None:
        check_output(per_instruction, program, design, out)
    trace, _ = trace_program(program, limit)
    timing = simulate(trace, core, executable)
    values = row(program.stem, core.name, timing)
    if per_instruction is not None:
        _write_instructions(per_instruction, trace, timing)
    write_csv(pd.DataFrame([values]), out)
    return f"{program} on {core.name}: {timing.instructions} instructions, {timing.cycles} cycles, IPC {timing.ipc:.4f}"
