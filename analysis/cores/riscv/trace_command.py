"""Run a program, pass its output on, write its trace epoch by epoch."""

from __future__ import annotations

import sys
from pathlib import Path

from analysis.cores.riscv.elf import read_elf
from analysis.cores.riscv.emulator import epochs, load
from analysis.cores.riscv.trace import TraceWriter
from analysis.errors import InputError
from analysis.tables import check_output

_PART = 1 << 20


def _pass_on(descriptor: int, data: bytes) -> None:
    stream = sys.stdout.buffer if descriptor == 1 else sys.stderr.buffer
    try:
        stream.write(data)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"cannot pass on the program's output: {error.strerror}") from error


def trace_to_file(program: Path, out: Path, limit: int | None, arguments: tuple[str, ...] = ()) -> str:
    """Trace `program` into the .npz file `out`; returns the line that says how it ended."""
    machine = load(read_elf(program), arguments, output=_pass_on)
    stack_pointer = int(machine.registers[2])
    check_output(out, program)
    writer = TraceWriter(out)
    complete = False
    try:
        for part in epochs(machine, _PART, limit):
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
    return f"{program}: {machine.retired} instructions {began}, {ended}, trace in {out}"
