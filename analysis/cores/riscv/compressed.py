"""Which 32-bit instruction does a 16-bit one of the C extension stand for (RV64C and the D part)?

Source: RISC-V unprivileged specification, chapter "C" Extension for Compressed Instructions, tables of RVC quadrants 0-2.
"""

from __future__ import annotations

_LUI, _OP_IMM, _OP_IMM_32, _OP, _OP_32, _BRANCH, _JAL, _JALR = 0x37, 0x13, 0x1B, 0x33, 0x3B, 0x63, 0x6F, 0x67
_LOAD, _LOAD_FP, _STORE, _STORE_FP = 0x03, 0x07, 0x23, 0x27


def _bits(word: int, *ranges: tuple[int, int, int]) -> int:
    """Gather bit fields: each range (high, low, shift) of `word` goes to `shift`."""
    return sum(((word >> low) & ((1 << (high - low + 1)) - 1)) << shift for high, low, shift in ranges)


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def _i(opcode: int, rd: int, funct3: int, rs1: int, immediate: int) -> int:
    return (immediate & 0xFFF) << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode


def _r(opcode: int, rd: int, funct3: int, rs1: int, rs2: int, funct7: int) -> int:
    return funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode


def _s(opcode: int, funct3: int, rs1: int, rs2: int, offset: int) -> int:
    return (offset >> 5 & 0x7F) << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | (offset & 0x1F) << 7 | opcode


def _j(rd: int, offset: int) -> int:
    return (offset >> 20 & 1) << 31 | (offset >> 1 & 0x3FF) << 21 | (offset >> 11 & 1) << 20 | (offset >> 12 & 0xFF) << 12 | rd << 7 | _JAL


def _b(funct3: int, rs1: int, offset: int) -> int:
    high = (offset >> 12 & 1) << 31 | (offset >> 5 & 0x3F) << 25
    return high | rs1 << 15 | funct3 << 12 | (offset >> 1 & 0xF) << 8 | (offset >> 11 & 1) << 7 | _BRANCH


def expand(half: int) -> int | None:
    """The 32-bit encoding of the 16-bit instruction `half`, or None when it is reserved."""
    quadrant, funct3 = half & 3, half >> 13
    if quadrant == 0:
        return _quadrant0(half, funct3)
    return _quadrant1(half, funct3) if quadrant == 1 else _quadrant2(half, funct3)


def _quadrant0(half: int, funct3: int) -> int | None:
    rd, rs1 = 8 + (half >> 2 & 7), 8 + (half >> 7 & 7)
    word = _bits(half, (12, 10, 3), (6, 6, 2), (5, 5, 6))
    double = _bits(half, (12, 10, 3), (6, 5, 6))
    if funct3 == 0:
        immediate = _bits(half, (12, 11, 4), (10, 7, 6), (6, 6, 2), (5, 5, 3))
        return _i(_OP_IMM, rd, 0, 2, immediate) if immediate else None
    if funct3 == 1:
        return _i(_LOAD_FP, rd, 3, rs1, double)
    if funct3 == 2:
        return _i(_LOAD, rd, 2, rs1, word)
    if funct3 == 3:
        return _i(_LOAD, rd, 3, rs1, double)
    if funct3 == 5:
        return _s(_STORE_FP, 3, rs1, rd, double)
    if funct3 == 6:
        return _s(_STORE, 2, rs1, rd, word)
    return _s(_STORE, 3, rs1, rd, double) if funct3 == 7 else None


def _quadrant1(half: int, funct3: int) -> int | None:
    rd = half >> 7 & 31
    immediate = _signed(_bits(half, (12, 12, 5), (6, 2, 0)), 6)
    if funct3 == 0:
        return _i(_OP_IMM, rd, 0, rd, immediate)
    if funct3 == 1:
        return _i(_OP_IMM_32, rd, 0, rd, immediate) if rd else None
    if funct3 == 2:
        return _i(_OP_IMM, rd, 0, 0, immediate)
    if funct3 == 3:
        if rd == 2:
            step = _signed(_bits(half, (12, 12, 9), (6, 6, 4), (5, 5, 6), (4, 3, 7), (2, 2, 5)), 10)
            return _i(_OP_IMM, 2, 0, 2, step) if step else None
        return (immediate & 0xFFFFF) << 12 | rd << 7 | _LUI if immediate else None
    if funct3 == 4:
        return _arithmetic(half, immediate)
    short = 8 + (half >> 7 & 7)
    if funct3 == 5:
        jump = ((12, 12, 11), (11, 11, 4), (10, 9, 8), (8, 8, 10), (7, 7, 6), (6, 6, 7), (5, 3, 1), (2, 2, 5))
        return _j(0, _signed(_bits(half, *jump), 12))
    offset = _signed(_bits(half, (12, 12, 8), (11, 10, 3), (6, 5, 6), (4, 3, 1), (2, 2, 5)), 9)
    return _b(funct3 - 6, short, offset)


def _arithmetic(half: int, immediate: int) -> int | None:
    rd, rs2 = 8 + (half >> 7 & 7), 8 + (half >> 2 & 7)
    kind = half >> 10 & 3
    if kind == 0:
        return _i(_OP_IMM, rd, 5, rd, immediate & 63)
    if kind == 1:
        return _i(_OP_IMM, rd, 5, rd, 0x400 | immediate & 63)
    if kind == 2:
        return _i(_OP_IMM, rd, 7, rd, immediate)
    operation = half >> 5 & 3
    if half >> 12 & 1:
        return None if operation > 1 else _r(_OP_32, rd, 0, rd, rs2, 0 if operation else 0x20)
    return _r(_OP, rd, (0, 4, 6, 7)[operation], rd, rs2, 0x20 if operation == 0 else 0)


def _quadrant2(half: int, funct3: int) -> int | None:
    rd, rs2 = half >> 7 & 31, half >> 2 & 31
    if funct3 == 0:
        return _i(_OP_IMM, rd, 1, rd, _bits(half, (12, 12, 5), (6, 2, 0)))
    word = _bits(half, (12, 12, 5), (6, 4, 2), (3, 2, 6))
    double = _bits(half, (12, 12, 5), (6, 5, 3), (4, 2, 6))
    if funct3 == 1:
        return _i(_LOAD_FP, rd, 3, 2, double)
    if funct3 == 2:
        return _i(_LOAD, rd, 2, 2, word) if rd else None
    if funct3 == 3:
        return _i(_LOAD, rd, 3, 2, double) if rd else None
    if funct3 == 4:
        link = half >> 12 & 1
        if rs2:
            return _r(_OP, rd, 0, rd if link else 0, rs2, 0)
        if rd:
            return _i(_JALR, link, 0, rd, 0)
        return 0x00100073 if link else None
    if funct3 == 5:
        return _s(_STORE_FP, 3, 2, rs2, _bits(half, (12, 10, 3), (9, 7, 6)))
    if funct3 == 6:
        return _s(_STORE, 2, 2, rs2, _bits(half, (12, 9, 2), (8, 7, 6)))
    return _s(_STORE, 3, 2, rs2, _bits(half, (12, 10, 3), (9, 7, 6)))
