"""What does a RISC-V program do, instruction by instruction: an RV64IMAFDC user-mode emulator that traces into arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from analysis.cores.riscv import operations as op
from analysis.cores.riscv.decode import SUPPORTED, Instruction, decode, extension
from analysis.cores.riscv.elf import Program, read_elf
from analysis.cores.riscv.linux import STACK_BYTES, STACK_TOP, Kernel, build_stack
from analysis.cores.riscv.trace import EPOCH_INSTRUCTIONS, NEVER_EXECUTED, NO_REGISTER, PLAIN_INSTRUCTIONS, Code, Trace, concatenate
from analysis.errors import InputError

HEAP_BYTES = 512 << 20
"""Address space behind the program's image for brk and mmap; pages that nobody touches cost nothing."""

_PAGE = 1 << op.PAGE_BITS
_SLACK = 64
_DECODE_AHEAD = 64
_MAXIMUM_CODE_SPAN = 256 << 20
_ENDS_RUN = frozenset({op.JAL, op.JALR, op.ECALL, op.EBREAK})


@dataclass
class EmulatedMachine:
    """A program in memory and the state of the processor that runs it.

    Attributes:
        registers, memory, state, code: see `emulator_loop.execute`.
        table: the static instructions decoded so far, a row a slot of two bytes from `base` on.
    """

    program: Program
    kernel: Kernel
    registers: NDArray[np.int64]
    memory: NDArray[np.uint8]
    state: NDArray[np.int64]
    code: NDArray[np.int64]
    table: Code
    base: int
    exit_code: int | None = None
    regions: list[tuple[int, int]] = field(default_factory=list)

    @property
    def pc(self) -> int:
        """PC of the instruction to execute next."""
        return (self.base + 2 * int(self.state[op.STATE_NEXT])) & 0xFFFFFFFFFFFFFFFF

    @property
    def retired(self) -> int:
        """Instructions executed so far."""
        return int(self.state[op.STATE_RETIRED])


def load(
    program: Program,
    arguments: tuple[str, ...] = (),
    stack_top: int = STACK_TOP,
    output: Callable[[int, bytes], None] | None = None,
) -> EmulatedMachine:
    """Put a program into memory as Linux does before its first instruction.

    Args:
        stack_top: address above the stack (Linux has it there with Sv39 and no randomization).
        output: called with file descriptor and bytes of every write; None keeps them in `machine.kernel.written`.
    """
    low = program.segments[0].address & -_PAGE
    high = max(segment.address + segment.memory_bytes for segment in program.segments)
    heap = -(-high // _PAGE) * _PAGE
    image_bytes = heap + HEAP_BYTES - low
    pages_offset = image_bytes + _SLACK + STACK_BYTES + _SLACK
    memory = np.zeros(pages_offset + image_bytes // _PAGE + 1, np.uint8)
    writable = memory[pages_offset:]
    writable[(heap - low) // _PAGE :] = 1
    for segment in program.segments:
        start = segment.address - low
        memory[start : start + len(segment.data)] = np.frombuffer(segment.data, np.uint8)
        writable[start // _PAGE : -(-(start + segment.memory_bytes) // _PAGE)] = segment.writable
    state = np.zeros(op.STATES, np.int64)
    state[op.STATE_RESERVED] = -1
    state[op.STATE_IMAGE_BASE], state[op.STATE_IMAGE_SIZE] = low, image_bytes
    state[op.STATE_STACK_BASE], state[op.STATE_STACK_SIZE] = stack_top - STACK_BYTES, STACK_BYTES
    state[op.STATE_STACK_OFFSET], state[op.STATE_PAGES_OFFSET] = image_bytes + _SLACK, pages_offset
    stack = memory[image_bytes + _SLACK : image_bytes + _SLACK + STACK_BYTES]
    registers = np.zeros(op.REGISTERS, np.int64)
    registers[2] = build_stack(stack, stack_top, program, (program.path.name, *arguments))
    regions = [(s.address, s.address + s.memory_bytes) for s in program.segments if s.executable]
    base, end = min(a for a, _ in regions) & -2, max(b for _, b in regions)
    if end - base > _MAXIMUM_CODE_SPAN:
        raise InputError(f"executable segments span {end - base} bytes: expected at most {_MAXIMUM_CODE_SPAN}", path=program.path)
    slots = (end - base + 1) // 2
    state[op.STATE_BASE] = base
    state[op.STATE_NEXT] = (program.entry - base) >> 1
    table = Code(
        pc=np.uint64(base) + np.arange(0, 2 * slots, 2, dtype=np.uint64),
        length=np.zeros(slots, np.uint8),
        opclass=np.full(slots, NEVER_EXECUTED, np.uint8),
        size=np.zeros(slots, np.uint8),
        sources=np.full((slots, 3), NO_REGISTER, np.uint8),
        destination=np.full(slots, NO_REGISTER, np.uint8),
    )
    kernel = Kernel(memory, state, heap, low + image_bytes, output)
    return EmulatedMachine(program, kernel, registers, memory, state, np.zeros((slots, 2), np.int64), table, base, regions=regions)


def run(machine: EmulatedMachine, index: NDArray[np.uint32], address: NDArray[np.uint64]) -> int:
    """Execute until the arrays are full or the program ends; returns how many instructions; their slots and addresses are filled in."""
    from analysis.cores.riscv.emulator_loop import execute

    count = 0
    while count < len(index) and machine.exit_code is None:
        count = int(
            execute.chosen(len(index) <= PLAIN_INSTRUCTIONS)(
                machine.code, machine.registers, machine.memory, machine.state, index, address, count, len(index)
            )
        )
        stop = int(machine.state[op.STATE_STOP])
        if stop == op.STOP_DECODE:
            _decode_from(machine, int(machine.state[op.STATE_NEXT]))
        elif stop == op.STOP_ECALL:
            machine.exit_code = machine.kernel.call(machine.registers)
        elif stop == op.STOP_FENCE_I:
            machine.code[:] = 0
        elif stop != op.STOP_LIMIT:
            raise _error(machine, stop)
    return count


def epochs(machine: EmulatedMachine, instructions: int = EPOCH_INSTRUCTIONS, limit: int | None = None) -> Iterator[Trace]:
    """Run a program and give its trace epoch by epoch; the last one may be shorter."""
    left = np.inf if limit is None else limit
    while machine.exit_code is None and left > 0:
        room = int(min(instructions, left))
        index, address = np.empty(room, np.uint32), np.empty(room, np.uint64)
        count = run(machine, index, address)
        left -= count
        yield Trace(machine.table, index[:count], address[:count], machine.pc)


def trace_program(path: str | Path, limit: int | None = None) -> tuple[Trace, EmulatedMachine]:
    """Trace a program in memory, to its end or for `limit` instructions; what it printed is in `machine.kernel.written`."""
    machine = load(read_elf(path))
    parts = list(epochs(machine, min(limit, 1 << 22) if limit else 1 << 22, limit))
    return (concatenate(parts) if len(parts) != 1 else parts[0]), machine


def _decode_from(machine: EmulatedMachine, slot: int) -> None:
    """Decode the instruction at `slot`, and those behind it up to a jump."""
    offset = machine.base - int(machine.state[op.STATE_IMAGE_BASE])
    for step in range(_DECODE_AHEAD):
        if slot >= len(machine.code) or machine.code[slot, 0] != 0:
            return
        pc = machine.base + 2 * slot
        position = offset + 2 * slot
        word = int.from_bytes(machine.memory[position : position + 4].tobytes(), "little")
        length = 4 if word & 3 == 3 else 2
        inside = any(low <= pc and pc + length <= high for low, high in machine.regions)
        instruction = decode(word, pc) if inside else None
        if instruction is None:
            if step == 0:
                encoding = f"{word:#010x}" if length == 4 else f"{word & 0xFFFF:#06x}"
                what = f"illegal instruction {encoding}" if inside else "jump outside the executable segments"
                of = extension(word) if inside and length == 4 else ""
                why = f": of the extension {of}, which is not emulated; {SUPPORTED} is" if of else ""
                raise InputError(f"{what} at PC {pc:#x} after {machine.retired} instructions{why}", path=machine.program.path)
            return
        _store_decoded(machine, slot, instruction, length)
        slot += length // 2
        if instruction.operation in _ENDS_RUN:
            return


def _store_decoded(machine: EmulatedMachine, slot: int, instruction: Instruction, length: int) -> None:
    def operand(register: int) -> int:
        return 0 if register == NO_REGISTER else register

    destination = op.DISCARD if instruction.rd in (0, NO_REGISTER) else instruction.rd
    fields = (
        instruction.operation << op.FIELD_OPERATION
        | operand(instruction.rs1) << op.FIELD_RS1
        | operand(instruction.rs2) << op.FIELD_RS2
        | destination << op.FIELD_RD
        | operand(instruction.rs3) << op.FIELD_RS3
        | instruction.extra << op.FIELD_EXTRA
        | (length // 2) << op.FIELD_LENGTH
        | instruction.rounding << op.FIELD_ROUNDING
    )
    relative = op.BEQ <= instruction.operation <= op.JAL
    machine.code[slot] = fields, instruction.immediate >> 1 if relative else instruction.immediate
    table = machine.table
    table.length[slot], table.opclass[slot], table.size[slot] = length, instruction.opclass, instruction.size
    table.destination[slot] = instruction.rd or NO_REGISTER
    table.sources[slot] = [register or NO_REGISTER for register in (instruction.rs1, instruction.rs2, instruction.rs3)]


def _error(machine: EmulatedMachine, stop: int) -> InputError:
    what = {
        op.STOP_EBREAK: "breakpoint (ebreak)",
        op.STOP_FETCH: "jump outside the executable segments",
        op.STOP_FAULT: f"access to {int(machine.state[op.STATE_FAULT]) & 0xFFFFFFFFFFFFFFFF:#x}, outside memory or misaligned atomic,",
        op.STOP_READ_ONLY: f"store to {int(machine.state[op.STATE_FAULT]) & 0xFFFFFFFFFFFFFFFF:#x}, which may only be read,",
        op.STOP_CSR: "illegal instruction: control register that is not there or is read-only",
        op.STOP_ROUNDING: "illegal instruction: reserved rounding mode",
    }[stop]
    if stop == op.STOP_EBREAK:
        # The loop stands behind it; a compressed one is told by the bytes before.
        position = machine.pc - int(machine.state[op.STATE_IMAGE_BASE])
        wide = machine.memory[position - 4 : position].tobytes() == b"\x73\x00\x10\x00"
        pc = machine.pc - (4 if wide else 2)
    else:
        pc = machine.pc
    return InputError(f"{what} at PC {pc:#x} after {machine.retired} instructions", path=machine.program.path)
