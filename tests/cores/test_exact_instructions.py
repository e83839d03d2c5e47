"""Each instruction by itself on hard operands: registers and flags equal unicorn's (QEMU's) in every rounding mode."""

from __future__ import annotations

import struct
from collections import Counter
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cores.elf_files import CODE, write_elf
from cores.lockstep import unicorn_of
from hypothesis import given, settings
from hypothesis import strategies as st
from unicorn.riscv_const import UC_RISCV_REG_F0, UC_RISCV_REG_FFLAGS, UC_RISCV_REG_FRM, UC_RISCV_REG_X0

from analysis.compiled.plain_python import run_plain
from analysis.cores.riscv import emulator_loop, exact_float
from analysis.cores.riscv import operations as op
from analysis.cores.riscv.decode import Instruction, decode
from analysis.cores.riscv.elf import read_elf
from analysis.cores.riscv.emulator import EmulatedMachine, load, run
from analysis.cores.riscv.emulator_float import arithmetic
from analysis.cores.riscv.emulator_loop import execute

MASK = (1 << 64) - 1
BOX = 0xFFFFFFFF << 32
# Zeros, infinities, NaNs quiet and signalling, subnormals, one, the largest, the bounds of the integer conversions.
HARD_64 = [0, 1 << 63, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 0x7FF0000000000001, 1, (1 << 52) - 1, 1 << 52, 0x3FF << 52, 0xBFF << 52]
HARD_64 += [
    0x433 << 52,
    0x43E << 52,
    0x41E << 52,
    0xC3E << 52,
    0xC1E << 52,
    0x7FEFFFFFFFFFFFFF,
    0x3FE << 52,
    0x369 << 52,
    0x380FFFFFFFFFFFFF,
]
HARD_32 = [0, 1 << 31, 0xFF << 23, 0x1FF << 23, 0x7FC00000, 0x7F800001, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0xBF800000, 0x4B000000]
HARD_32 += [0x5F000000, 0x4F000000, 0xDF000000, 0xCF000000, 0x7F7FFFFF, 0x3F000000]
SINGLES = (op.FADD_S, op.FSUB_S, op.FMUL_S, op.FDIV_S, op.FSQRT_S, op.FMA_S)


def _random_word(rng: np.random.Generator) -> int:
    """A legal register-to-register, immediate, control-register or floating-point instruction."""
    while True:
        rd, rs1, rs2, rs3 = (int(value) for value in rng.integers(0, 32, 4))
        kind, fmt, rounding = rng.random(), int(rng.integers(2)), int(rng.choice([0, 1, 2, 3, 4, 7]))
        if kind < 0.3:
            word = int(rng.integers(1 << 32)) & ~0x7F | int(rng.choice([0x13, 0x1B, 0x33, 0x3B, 0x37, 0x17]))
            if word & 0x7F in (0x33, 0x3B):
                word = word & ~(0x7F << 25) | int(rng.choice([0, 1, 1, 0x20])) << 25
        elif kind < 0.35:
            word = int(rng.integers(1, 4)) << 20 | int(rng.integers(8)) << 15 | int(rng.choice([1, 2, 3, 5, 6, 7])) << 12 | rd << 7 | 0x73
        elif kind < 0.5:
            word = rs3 << 27 | fmt << 25 | rs2 << 20 | rs1 << 15 | rounding << 12 | rd << 7 | int(rng.choice([0x43, 0x47, 0x4B, 0x4F]))
        else:
            funct = int(rng.choice([0, 4, 8, 0xC, 0x2C, 0x10, 0x14, 0x50, 0x20, 0x60, 0x68, 0x70, 0x78]))
            selector = {0x2C: 0, 0x70: 0, 0x78: 0, 0x20: 1 - fmt, 0x60: rs2 & 3, 0x68: rs2 & 3}.get(funct, rs2)
            rounding = {0x10: rounding % 3, 0x50: rounding % 3, 0x14: rounding % 2, 0x70: rounding % 2, 0x78: 0}.get(funct, rounding)
            word = (funct | fmt) << 25 | selector << 20 | rs1 << 15 | rounding << 12 | rd << 7 | 0x53
        found = decode(word, CODE)
        if found is not None and found.operation != op.BITS:  # which this unicorn does not have
            return word


def _random_float(rng: np.random.Generator, single: bool) -> int:
    kind = rng.random()
    if single:
        return BOX | int(rng.choice(HARD_32) if kind < 0.5 else rng.integers(1 << 32) if kind < 0.8 else 0x3E000000 + rng.integers(1 << 26))
    if kind < 0.4:
        return int(rng.choice(np.array(HARD_64, np.uint64)))
    if kind < 0.6:
        return (
            int(rng.integers(2)) << 63
            | int(rng.choice([0, 1, 2, 0x7FE, 0x3FF, 0x200, 0x1FF, 0x381, 0x36A, 0x380])) << 52
            | int(rng.integers(1 << 52))
        )
    if kind < 0.9:
        return int(rng.integers(2)) << 63 | int(rng.integers(0x3E0, 0x420)) << 52 | int(rng.integers(1 << 52))
    return int(rng.integers(1 << 64, dtype=np.uint64))


def _random_integer(rng: np.random.Generator) -> int:
    hard = [0, 1, 1 << 63, MASK, 1 << 31, (1 << 32) - 1, (1 << 53) + 1, int(rng.integers(1 << 62)), int(rng.integers(1 << 31))]
    return hard[int(rng.integers(len(hard)))]


def _reads_single(instruction: Instruction) -> bool:
    return instruction.operation in SINGLES or (instruction.operation == op.FLOAT_OTHER and not instruction.extra & op.OTHER_DOUBLE)


def _is_newer_minimum(instruction: Instruction, registers: list[int]) -> bool:
    """fmin and fmax of a signalling NaN: unicorn's QEMU 5 follows F 2.0 (gives NaN), the ratified F 2.2 gives the other operand."""
    if instruction.operation != op.FLOAT_OTHER or instruction.extra & 31 not in (op.OTHER_MIN, op.OTHER_MAX):
        return False
    double = bool(instruction.extra & op.OTHER_DOUBLE)
    kinds = [exact_float.unpack(np.uint64(registers[r]).astype(np.int64), double)[3] for r in (instruction.rs1, instruction.rs2)]
    return exact_float.SIGNALLING in kinds


def _is_newer_fused(instruction: Instruction, registers: list[int]) -> bool:
    """Infinity times zero plus a quiet NaN: invalid by the specification (11.6), which QEMU 5 did not yet follow."""
    if instruction.operation not in (op.FMA_S, op.FMA_D):
        return False
    double = instruction.operation == op.FMA_D
    a, b, c = (
        exact_float.unpack(np.uint64(registers[r]).astype(np.int64), double)[3] for r in (instruction.rs1, instruction.rs2, instruction.rs3)
    )
    return {a, b} == {exact_float.INFINITE, exact_float.ZERO} and c == exact_float.NOT_A_NUMBER


def _executed_plainly(*arguments: Any) -> Any:
    """In plain Python, apart from the fused multiply-add."""
    try:
        return run_plain(execute.plain, arguments)
    except NotImplementedError:
        return execute(*arguments)


@pytest.mark.parametrize(
    ("seed", "executed", "most"), [(0, execute, 1500), (1, execute, 1500), (2, execute, 1500), (3, _executed_plainly, 5)]
)
def test_random_instructions_equal_unicorns(seed: int, executed: Any, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most so many of a kind, as plain Python takes a hundred times longer."""
    monkeypatch.setattr(emulator_loop, "execute", SimpleNamespace(chosen=lambda small: executed))
    rng = np.random.default_rng(seed)
    words, kinds = [], Counter[tuple[int, int]]()
    for word in (_random_word(rng) for _ in range(1500)):
        instruction = decode(word, CODE)
        assert instruction is not None
        kinds[kind := (instruction.operation, instruction.extra)] += 1
        words += [word] if kinds[kind] <= most else []
    machine = load(read_elf(write_elf(tmp_path / "random.elf", words)), stack_top=0x4000_0000)
    engine = unicorn_of(machine)
    index, address = np.zeros(1, np.uint32), np.zeros(1, np.uint64)
    for k, word in enumerate(words):
        instruction = decode(word, CODE + 4 * k)
        assert instruction is not None
        single = _reads_single(instruction)
        integers = [0] + [_random_integer(rng) for _ in range(31)]
        registers = integers + [_random_float(rng, single) for _ in range(32)]
        rounding, flags = int(rng.integers(5)), int(rng.choice([0, 1, 31]))
        for r in range(1, 64):
            engine.reg_write(UC_RISCV_REG_X0 + r if r < 32 else UC_RISCV_REG_F0 + r - 32, registers[r])
        engine.reg_write(UC_RISCV_REG_FRM, rounding)
        engine.reg_write(UC_RISCV_REG_FFLAGS, flags)
        machine.registers[:64] = np.array(registers, np.uint64).view(np.int64)
        machine.state[op.STATE_ROUNDING], machine.state[op.STATE_FLAGS] = rounding, flags
        machine.state[op.STATE_NEXT] = 2 * k
        engine.emu_start(CODE + 4 * k, CODE + 4 * k + 4, count=1)
        run(machine, index, address)
        if _is_newer_minimum(instruction, registers) or _is_newer_fused(instruction, registers):
            continue
        got = machine.registers.view(np.uint64)
        for r in (instruction.rd, 0, 31, 63):
            if r == 255:
                continue
            want = engine.reg_read(UC_RISCV_REG_X0 + r if r < 32 else UC_RISCV_REG_F0 + r - 32)
            value = int(got[r])
            if r >= 32 and value >> 32 == 0xFFFFFFFF:
                # Unicorn's QEMU 5 does not NaN-box single results: compare the number.
                value, want = value & 0xFFFFFFFF, want & 0xFFFFFFFF
            assert value == want, (hex(word), instruction, rounding)
        state = (int(machine.state[op.STATE_ROUNDING]), int(machine.state[op.STATE_FLAGS]))
        assert state == (engine.reg_read(UC_RISCV_REG_FRM), engine.reg_read(UC_RISCV_REG_FFLAGS)), (hex(word), instruction)


def _machine(tmp: Path, words: list[int]) -> EmulatedMachine:
    return load(read_elf(write_elf(tmp / "small.elf", words)))


def test_a_single_result_is_nan_boxed_and_an_unboxed_operand_is_nan(tmp_path: Path) -> None:
    """Specification, section 12.2: narrower values are NaN-boxed; what is not is read as the canonical NaN."""
    add_single = 0x003100D3  # fadd.s f1, f2, f3, rne
    machine = _machine(tmp_path, [add_single])
    machine.registers[34:36] = np.array([BOX | 0x3F800000, BOX | 0x40000000], np.uint64).view(np.int64)
    index, address = np.zeros(1, np.uint32), np.zeros(1, np.uint64)
    run(machine, index, address)
    assert int(machine.registers.view(np.uint64)[33]) == BOX | 0x40400000
    machine.state[op.STATE_NEXT] = 0
    machine.registers[34] = 0x3F800000
    run(machine, index, address)
    assert int(machine.registers.view(np.uint64)[33]) == BOX | 0x7FC00000


finite = st.floats(allow_nan=False, allow_infinity=False, width=64)


def _bits(value: float) -> np.int64:
    return np.int64(struct.unpack("<q", struct.pack("<d", value))[0])


def _value(bits: int) -> float:
    return struct.unpack("<d", struct.pack("<q", int(bits)))[0]


@settings(max_examples=300, deadline=None)
@given(finite, finite)
def test_directed_rounding_brackets_the_exact_sum_and_product(a: float, b: float) -> None:
    """Law: rounded down <= exact <= rounded up, equal exactly when no flag is set; to nearest is what this host computes."""
    for operation, exact, host in (
        (op.FADD_D, Fraction(a) + Fraction(b), np.add),
        (op.FMUL_D, Fraction(a) * Fraction(b), np.multiply),
    ):
        first, second, none = _bits(a), _bits(b), np.int64(0)
        state = np.zeros(op.STATES, np.int64)
        down = _value(arithmetic(operation, first, second, none, 0, op.ROUND_DOWN, state))
        up = _value(arithmetic(operation, first, second, none, 0, op.ROUND_UP, state))
        if np.isfinite(down):
            assert Fraction(down) <= exact
        if np.isfinite(up):
            assert exact <= Fraction(up)
        assert (down == up) == (state[op.STATE_FLAGS] == 0)
        with np.errstate(all="ignore"):
            assert _value(arithmetic(operation, first, second, none, 0, op.ROUND_NEAREST_EVEN, state)) == host(a, b)
