"""What does an RV64IMAFDC (Zicsr, Zifencei, Zba, Zbb, Zbs) encoding say: operation, registers, immediate, class?

The encodings are rows of `data/cores/instructions.csv`; the first that fits is meant. Its cells say where each operand stands:
`x7` an integer register in the five bits from bit 7 on, `f7` a floating-point one, `X7` and `F7` in three bits, counted from x8 or f8,
`2` the register x2; an immediate is a row of bits, the highest first, with its sign (`s`), relative to the PC (`pc`), shifted (`<<1`).
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache

from analysis.cores.riscv import bit_manipulation
from analysis.cores.riscv import operations as op
from analysis.cores.riscv.trace import FIRST_FLOAT_REGISTER, NO_REGISTER, OpClass
from analysis.paths import DATA

_OPERANDS = ("rd", "rs1", "rs2", "rs3")
_FILES = {"x": (31, 0), "f": (31, FIRST_FLOAT_REGISTER), "X": (7, 8), "F": (7, FIRST_FLOAT_REGISTER + 8)}
_WIDE, _SHORT = 0x7F, 0xE003
"""Bits by which encodings of 32 and of 16 bits are looked up: opcode; quadrant and funct3."""


@dataclass(frozen=True)
class Instruction:
    """One decoded instruction.

    Attributes:
        rd, rs1, rs2, rs3: registers 0-31 integer, 32-63 floating point, `NO_REGISTER` when absent.
        immediate: signed; the whole result for LUI and AUIPC.
        extra: what `operation` alone does not say (see `operations`).
    """

    operation: int
    opclass: OpClass
    rd: int = NO_REGISTER
    rs1: int = NO_REGISTER
    rs2: int = NO_REGISTER
    rs3: int = NO_REGISTER
    immediate: int = 0
    size: int = 0
    extra: int = 0
    rounding: int = 0


def _number(text: str) -> int:
    """Names of `operations` or `bit_manipulation`, or numbers, joined by |."""
    known = {**vars(bit_manipulation), **vars(op)}
    return sum(int(known.get(part, part)) for part in text.split("|") if part)


class _Encoding:
    """A row of the table."""

    def __init__(self, row: dict[str, str]) -> None:
        bits, immediate = row["bits"], row["immediate"].split()
        self.mask, self.match = int(re.sub("[01]", "1", bits).replace(".", "0"), 2), int(bits.replace(".", "0"), 2)
        self.refused = "" if row["operation"] else row["name"]
        self.fixed = {name: _number(row[name]) for name in ("operation", "size", "extra")}
        self.opclass = OpClass[row["class"] or "SYSTEM"]
        self.fixed |= {name: int(row[name]) for name in _OPERANDS if row[name].isdigit()}
        self.registers = {name: (int(row[name][1:]), *_FILES[row[name][0]]) for name in _OPERANDS if row[name][:1].isalpha()}
        self.rounds, self.relative, self.signed = bool(row["rounding"]), "pc" in immediate, "s" in row["immediate"]
        self.shift = sum(int(part[2:]) for part in immediate if part.startswith("<<"))
        places = [part.lstrip("s").split(":") for part in immediate if part[-1].isdigit() and not part.startswith("<<")]
        self.places = [(int(place[-1]), int(place[0]) - int(place[-1]) + 1) for place in places]

    def read(self, word: int, pc: int) -> Instruction | None:
        """The instruction that a word of this form is; None where it is not executed or its rounding mode is none."""
        rounding = word >> 12 & 7 if self.rounds else 0
        if self.refused or rounding in (5, 6):
            return None
        operands = {name: (word >> low & mask) + first for name, (low, mask, first) in self.registers.items()}
        value = bits = 0
        for low, width in self.places:
            value, bits = value << width | word >> low & (1 << width) - 1, bits + width
        if self.signed and value >> (bits - 1):
            value -= 1 << bits
        value <<= self.shift
        if self.relative:
            value = (pc + value + (1 << 63)) % (1 << 64) - (1 << 63)
        found = Instruction(opclass=self.opclass, **self.fixed, **operands, immediate=value, rounding=rounding)
        if found.operation != op.CSR:
            return found
        field = word >> 15 & 31  # a register or an immediate: whether it is zero, and whether rd is, says what is not written or read
        return replace(found, extra=found.extra | (8 if field == 0 else 0) | (16 if found.rd == 0 else 0))


@cache
def _encodings() -> dict[int, list[_Encoding]]:
    found = defaultdict(list)
    with (DATA / "cores" / "instructions.csv").open(encoding="utf-8", newline="") as table:
        for row in csv.DictReader(table):
            encoding = _Encoding(row)
            found[encoding.match & (_WIDE if len(row["bits"]) == 32 else _SHORT)].append(encoding)
    return dict(found)


def _encoding(word: int) -> _Encoding | None:
    found = _encodings().get(word & (_WIDE if word & 3 == 3 else _SHORT), ())
    return next((encoding for encoding in found if word & encoding.mask == encoding.match), None)


def decode(word: int, pc: int) -> Instruction | None:
    """Decode the 32-bit encoding `word` at `pc`, or the 16-bit one in its lower half; None when it is no instruction of the ISA."""
    word &= 0xFFFFFFFF if word & 3 == 3 else 0xFFFF
    encoding = _encoding(word)
    return None if encoding is None else encoding.read(word, pc)


SUPPORTED = "RV64GC (I, M, A, F, D, C, Zicsr, Zifencei) with Zba, Zbb and Zbs"


def extension(word: int) -> str:
    """The extension of a 32-bit encoding that is not executed, for the message that refuses it; empty where none is known."""
    encoding = _encoding(word)
    return "" if encoding is None or word & 3 != 3 else encoding.refused
