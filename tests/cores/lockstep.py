"""Unicorn as the oracle: the same image and stack as our machine, every PC and memory address it goes through."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from unicorn import UC_ARCH_RISCV, UC_HOOK_CODE, UC_HOOK_MEM_READ, UC_HOOK_MEM_WRITE, UC_MODE_RISCV64, Uc
from unicorn.riscv_const import UC_RISCV_REG_MSTATUS, UC_RISCV_REG_SP

from analysis.cores.riscv import operations as op
from analysis.cores.riscv.emulator import HEAP_BYTES, EmulatedMachine
from analysis.cores.riscv.linux import STACK_BYTES

_PAGE = 4096
FLOAT_UNIT_ON = 0x6000


def unicorn_of(machine: EmulatedMachine) -> Uc:
    """An engine with the machine's memory and stack pointer, its floating-point unit switched on."""
    engine = Uc(UC_ARCH_RISCV, UC_MODE_RISCV64)
    low, size = int(machine.state[op.STATE_IMAGE_BASE]), int(machine.state[op.STATE_IMAGE_SIZE]) - HEAP_BYTES
    engine.mem_map(low, size + 16 * _PAGE)
    engine.mem_write(low, machine.memory[:size].tobytes())
    stack, offset = int(machine.state[op.STATE_STACK_BASE]), int(machine.state[op.STATE_STACK_OFFSET])
    engine.mem_map(stack, STACK_BYTES)
    engine.mem_write(stack, machine.memory[offset : offset + STACK_BYTES].tobytes())
    engine.reg_write(UC_RISCV_REG_SP, int(machine.registers[2]))
    engine.reg_write(UC_RISCV_REG_MSTATUS, engine.reg_read(UC_RISCV_REG_MSTATUS) | FLOAT_UNIT_ON)
    return engine


def walk(machine: EmulatedMachine, count: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """PC and memory address (0 when none) of the first `count` instructions, as unicorn executes them."""
    engine = unicorn_of(machine)
    pcs: list[int] = []
    addresses: list[int] = []

    def on_code(_: Uc, address: int, size: int, data: object) -> None:
        pcs.append(address)
        addresses.append(0)

    def on_memory(_: Uc, access: int, address: int, size: int, value: int, data: object) -> None:
        addresses[-1] = address

    engine.hook_add(UC_HOOK_CODE, on_code)
    engine.hook_add(UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE, on_memory)
    engine.emu_start(machine.pc, 0, count=count)
    return np.array(pcs, np.uint64), np.array(addresses, np.uint64)
