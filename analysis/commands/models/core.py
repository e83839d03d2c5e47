"""CPU cores: trace a RISC-V program, time it on an out-of-order core."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True)

COUNTERS = ("instructions", "cycles", "ipc", "branches", "mispredictions", "memory_order_violations")
"""Of `Timing`, in the row that `simulate` writes; misses count the wrong path too, `dram_reads` lines."""


@app.callback()
def main() -> None:
    """CPU cores: programs, traces, timing, ranking."""


@app.command()
def trace(
    program: Annotated[Path, typer.Argument(help="static RV64 Linux ELF executable")],
    out: Annotated[Path, typer.Option(help=".npz file to write: plain arrays, one entry an executed instruction")],
    limit: Annotated[int | None, typer.Option(min=1, help="stop after so many instructions")] = None,
    argument: Annotated[list[str] | None, typer.Option(help="argument of the program (may be repeated)")] = None,
) -> None:
    """Run the program; its output goes to standard output, its trace into the file, its exit code to standard error."""
    from analysis.cores.riscv.elf import read_elf
    from analysis.cores.riscv.emulator import epochs, load
    from analysis.cores.riscv.trace import TraceWriter
    from analysis.errors import InputError
    from analysis.tables import check_output

    machine = load(read_elf(program), tuple(argument or ()), output=_pass_on)
    stack_pointer = int(machine.registers[2])
    check_output(out, program)
    writer = TraceWriter(out)
    complete = False
    try:
        for part in epochs(machine, 1 << 20, limit):
            writer.add(part)
        complete = True
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"cannot write the trace: {error.strerror}", path=out) from error
    finally:
        writer.close(complete)
    ended = f"exit code {machine.exit_code}" if machine.exit_code is not None else f"stopped at the limit, PC {machine.pc:#x}"
    began = f"from PC {machine.program.entry:#x} with stack pointer {stack_pointer:#x}"
    typer.echo(f"{program}: {machine.retired} instructions {began}, {ended}, trace in {out}", err=True)


def _pass_on(descriptor: int, data: bytes) -> None:
    from analysis.errors import InputError

    stream = sys.stdout.buffer if descriptor == 1 else sys.stderr.buffer
    try:
        stream.write(data)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"cannot pass on the program's output: {error.strerror}") from error


@app.command()
def simulate(
    program: Annotated[Path, typer.Argument(help="static RV64 Linux ELF executable")],
    design: Annotated[str, typer.Option(help="8w, 6w+ls, rob, lsq, 4w+mem, or a design's YAML file (`data schema core_design`)")],
    out: Annotated[Path, typer.Option(help="CSV file to write: one row of counters")],
    limit: Annotated[int | None, typer.Option(min=1, help="only the first so many instructions")] = None,
) -> None:
    """Time the program on an out-of-order core: instructions, cycles, IPC, mispredictions, misses."""
    import pandas as pd

    from analysis.cores.riscv.elf import read_elf
    from analysis.cores.riscv.emulator import trace_program
    from analysis.cores.timing.designs import load_design
    from analysis.cores.timing.simulation import simulate
    from analysis.tables import check_output, write_csv

    core, executable = load_design(design), read_elf(program)
    check_output(out, program, design)
    timing = simulate(trace_program(program, limit)[0], core, executable)
    row = {"program": program.stem, "design": core.name, **{name: getattr(timing, name) for name in COUNTERS}}
    row |= {f"{cache}_misses": misses for cache, misses in timing.misses.items()} | {"dram_reads": timing.dram_reads}
    write_csv(pd.DataFrame([row]), out)
    counted = f"{timing.instructions} instructions, {timing.cycles} cycles, IPC {timing.ipc:.4f}"
    typer.echo(f"{program} on {core.name}: {counted}", err=True)
