"""Compressed, memory, branch and atomic instructions one at a time: registers, memory and next PC equal unicorn's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from capstone import CS_ARCH_RISCV, CS_MODE_RISCV64, CS_MODE_RISCVC, Cs
from cores.elf_files import CODE, DATA, write_elf
from cores.lockstep import unicorn_of
from unicorn import UcError
from unicorn.riscv_const import UC_RISCV_REG_F0, UC_RISCV_REG_PC, UC_RISCV_REG_X0

from analysis.cores.riscv import operations as op
from analysis.cores.riscv.decode import decode
from analysis.cores.riscv.elf import read_elf
from analysis.cores.riscv.emulator import load, run

MASK = (1 << 64) - 1
_DATA_BYTES = 0x10000
_CODE_OPERATIONS = (op.ECALL, op.EBREAK, op.FENCE_I)


def _same_step(tmp_path: Path, words: list[int], halves: bool, rng: np.random.Generator) -> int:
    """Execute each word from random registers (the even ones point into the data) here and in unicorn; returns how many were compared."""
    padded = [half | 0x0001 << 16 for half in words] if halves else words
    machine = load(read_elf(write_elf(tmp_path / "steps.elf", padded, _DATA_BYTES)), stack_top=0x4000_0000)
    engine = unicorn_of(machine)
    index, address = np.zeros(1, np.uint32), np.zeros(1, np.uint64)
    data = DATA - int(machine.state[op.STATE_IMAGE_BASE])
    compared = 0
    for k, word in enumerate(words):
        pc = CODE + 4 * k
        pointers = DATA + 0x8000 + 8 * rng.integers(-64, 64, 32)
        values = rng.integers(-(1 << 63), 1 << 63, 64)
        values[rng.random(64) < 0.3] = rng.integers(-2, 3)
        values[:32] = np.where(rng.random(32) < 0.7, pointers, values[:32])
        values[0] = 0
        content = rng.integers(0, 256, 2048).astype(np.uint8)
        machine.memory[data + 0x7800 : data + 0x8000] = content
        engine.mem_write(DATA + 0x7800, content.tobytes())
        machine.registers[:64] = values
        machine.state[op.STATE_NEXT], machine.state[op.STATE_RESERVED] = 2 * k, -1
        for r in range(1, 64):
            engine.reg_write(UC_RISCV_REG_X0 + r if r < 32 else UC_RISCV_REG_F0 + r - 32, int(values[r]) & MASK)
        try:
            engine.emu_start(pc, 0, count=1)
        except UcError:
            continue  # a base register outside memory: tested in test_emulator_errors
        run(machine, index, address)
        assert machine.pc == engine.reg_read(UC_RISCV_REG_PC), hex(word)
        got = machine.registers.view(np.uint64)
        for r in range(64):
            want = engine.reg_read(UC_RISCV_REG_X0 + r if r < 32 else UC_RISCV_REG_F0 + r - 32)
            value = int(got[r])
            assert value == want or (r >= 32 and value == want | 0xFFFFFFFF << 32), (hex(word), r)
        assert machine.memory[data : data + _DATA_BYTES].tobytes() == engine.mem_read(DATA, _DATA_BYTES)
        compared += 1
    return compared


def test_the_same_halfwords_are_legal_as_in_capstone() -> None:
    """All 49,152 of RV64C with D. Capstone leaves out hints (no effect: they write x0) and prints the reserved c.lui of zero."""
    disassembler = Cs(CS_ARCH_RISCV, CS_MODE_RISCV64 | CS_MODE_RISCVC)
    for half in range(1 << 16):
        if half & 3 == 3:
            continue
        instruction = decode(half, CODE)
        printed = next(disassembler.disasm(half.to_bytes(2, "little"), 0), None)
        if instruction is None:
            lui_of_zero = printed is not None and printed.mnemonic == "c.lui" and half & 0x107C == 0
            assert printed is None or half == 0 or lui_of_zero, hex(half)
        else:
            assert printed is not None or instruction.rd == 0 or half & 0xE003 == 1, hex(half)


def test_compressed_instructions_equal_unicorns(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    legal = []
    for half in rng.permutation(1 << 16):
        instruction = decode(int(half), CODE) if half & 3 != 3 else None
        if instruction is not None and instruction.operation not in _CODE_OPERATIONS:
            legal.append(int(half))
        if len(legal) == 1500:
            break
    assert _same_step(tmp_path, legal, True, rng) > 1200


def test_memory_branch_and_atomic_instructions_equal_unicorns(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    words = []
    opcodes = [0x03, 0x07, 0x23, 0x27, 0x63, 0x6F, 0x67, 0x2F, 0x2F]
    while len(words) < 1500:
        word = int(rng.integers(1 << 32)) & ~0x7F | opcodes[int(rng.integers(len(opcodes)))]
        instruction = decode(word, CODE)
        if instruction is None or (word & 0x7F == 0x2F and word >> 27 == 3):
            continue  # store-conditional needs its load: see below
        if word & 0x7F in (0x63, 0x6F) and instruction.immediate & 2:
            continue  # without the C extension a misaligned target would trap
        words.append(word)
    assert _same_step(tmp_path, words, False, rng) > 900


def test_store_conditional_needs_its_reservation(tmp_path: Path) -> None:
    """lr.d x1,(x5); sc.d x2,x6,(x5) stores and gives 0; a second sc.d gives 1 and leaves memory alone."""
    load_reserved, store_conditional = 0x1002B0AF, 0x1862B12F
    machine = load(read_elf(write_elf(tmp_path / "sc.elf", [load_reserved, store_conditional, store_conditional])))
    machine.registers[5], machine.registers[6] = DATA + 8, 77
    index, address = np.zeros(2, np.uint32), np.zeros(2, np.uint64)
    run(machine, index, address)
    assert machine.registers[2] == 0 and address.tolist() == [DATA + 8] * 2
    machine.registers[6] = 78
    run(machine, index[:1], address[:1])
    assert machine.registers[2] == 1
    assert machine.memory[DATA + 8 - CODE] == 77
