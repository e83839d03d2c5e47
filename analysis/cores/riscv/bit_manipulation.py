"""Bit manipulation: what do the instructions of Zba, Zbb and Zbs compute?

Source: RISC-V unprivileged specification (2025-05), "B" extension for bit manipulation; the names are its mnemonics.
"""

from __future__ import annotations

from analysis.compiled import inner
from analysis.cores.riscv.machine_words import Word, signed, unsigned

(
    ANDN, ORN, XNOR, SH1ADD, SH2ADD, SH3ADD, ADD_UW, SH1ADD_UW, SH2ADD_UW, SH3ADD_UW, SLLI_UW, MIN, MINU, MAX, MAXU, ROL, ROR, ROLW, RORW,
    CLZ, CTZ, CPOP, CLZW, CTZW, CPOPW, SEXT_B, SEXT_H, ZEXT_H, REV8, ORC_B, BCLR, BEXT, BINV, BSET,
) = range(34)  # fmt: skip

_LOW_32 = 0xFFFFFFFF


@inner(_nrt=False)
def _counted(kind: Word, value: Word, width: Word) -> Word:
    """Zeros before the first one (kind 0), behind the last (1), or ones (2), of so many bits."""
    ones, last, first = signed(0), width, width
    for place in range(width):
        if (value >> place) & 1:
            ones += 1
            first = min(first, place)
            last = width - 1 - place
    return last if kind == 0 else first if kind == 1 else ones


@inner(_nrt=False)
def _bytes(kind: Word, value: Word) -> Word:
    """The bytes in the opposite order, or each of them all ones where it is not zero."""
    found = signed(0)
    for place in range(8):
        byte = (value >> (8 * place)) & 0xFF
        if kind == REV8:
            found = signed(found | (byte << (56 - 8 * place)))
        elif byte:
            found = signed(found | (0xFF << (8 * place)))
    return found


@inner(_nrt=False)
def _rotated(value: Word, right: Word, width: Word) -> Word:
    """The lowest bits of a word turned to the right."""
    right &= width - 1
    if width == 64:
        return signed(signed(unsigned(value) >> unsigned(right)) | signed(value << ((64 - right) & 63)))
    low = value & _LOW_32
    return signed(signed((low >> right) | (low << ((32 - right) & 31))) << 32) >> 32


@inner(_nrt=False)
def manipulated(kind: Word, a: Word, b: Word) -> Word:
    """What an operation makes of two registers, or of one and an immediate."""
    if kind <= XNOR:
        return a & ~b if kind == ANDN else a | ~b if kind == ORN else ~(a ^ b)
    if kind <= SH3ADD:
        return signed(signed(a << (kind - SH1ADD + 1)) + b)
    if kind <= SH3ADD_UW:
        return signed(signed((a & _LOW_32) << (kind - ADD_UW)) + b)
    if kind == SLLI_UW:
        return signed((a & _LOW_32) << b)
    if kind <= MAXU:
        below = a < b if kind in (MIN, MAX) else unsigned(a) < unsigned(b)
        return a if below == (kind <= MINU) else b
    if kind <= RORW:
        return _rotated(a, b if kind in (ROR, RORW) else -b, 64 if kind <= ROR else 32)
    if kind <= CPOP:
        return _counted(kind - CLZ, a, 64)
    if kind <= CPOPW:
        return _counted(kind - CLZW, a, 32)
    if kind <= SEXT_H:
        return signed(a << (56 if kind == SEXT_B else 48)) >> (56 if kind == SEXT_B else 48)
    if kind == ZEXT_H:
        return a & 0xFFFF
    if kind <= ORC_B:
        return _bytes(kind, a)
    if kind == BEXT:
        return (a >> (b & 63)) & 1
    bit = signed(1 << (b & 63))
    return a & ~bit if kind == BCLR else a ^ bit if kind == BINV else a | bit
