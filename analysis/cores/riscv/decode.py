"""What does a 32-bit RV64IMAFD (Zicsr, Zifencei, Zba, Zbb, Zbs) encoding say: operation, registers, immediate, class?

Source: RISC-V unprivileged specification, instruction listings of RV32I/RV64I, M, A, F, D, Zicsr, Zifencei; `bit_manipulation`.
"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.cores.riscv import operations as op
from analysis.cores.riscv.bit_manipulation import kind_of
from analysis.cores.riscv.trace import NO_REGISTER, OpClass


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


_ALU = {0: op.ADD, 1: op.SLL, 2: op.SLT, 3: op.SLTU, 4: op.XOR, 5: op.SRL, 6: op.OR, 7: op.AND}
_MULTIPLY = {0: op.MUL, 1: op.MULH, 2: op.MULHSU, 3: op.MULHU, 4: op.DIV, 5: op.DIVU, 6: op.REM, 7: op.REMU}
_MULTIPLY_32 = {0: op.MULW, 4: op.DIVW, 5: op.DIVUW, 6: op.REMW, 7: op.REMUW}
_LOADS = {0: op.LB, 1: op.LH, 2: op.LW, 3: op.LD, 4: op.LBU, 5: op.LHU, 6: op.LWU}
_BRANCHES = {0: op.BEQ, 1: op.BNE, 4: op.BLT, 5: op.BGE, 6: op.BLTU, 7: op.BGEU}
_ATOMICS = {0b00010, 0b00011, 0b00001, 0b00000, 0b00100, 0b01100, 0b01000, 0b10000, 0b10100, 0b11000, 0b11100}
_ARITHMETIC = {
    0x00: (op.FADD_S, op.FADD_D, OpClass.FLOAT_ADD),
    0x04: (op.FSUB_S, op.FSUB_D, OpClass.FLOAT_ADD),
    0x08: (op.FMUL_S, op.FMUL_D, OpClass.FLOAT_MULT),
    0x0C: (op.FDIV_S, op.FDIV_D, OpClass.FLOAT_DIV),
}


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def decode(word: int, pc: int) -> Instruction | None:
    """Decode the 32-bit encoding `word` at `pc`; None when it is no instruction of the ISA."""
    decoder = _DECODERS.get(word & 0x7F)
    return (decoder(word, pc) or _bits(word)) if decoder else None


def _bits(word: int) -> Instruction | None:
    found = kind_of(word)
    if found is None:
        return None
    kind, immediate = found
    registers = (word >> 7 & 31, word >> 15 & 31, word >> 20 & 31 if immediate is None else NO_REGISTER)
    return Instruction(op.BITS, OpClass.INT_ALU, *registers, immediate=immediate or 0, extra=kind)


def _lui(word: int, pc: int) -> Instruction:
    return Instruction(op.ADD, OpClass.INT_ALU, word >> 7 & 31, immediate=_signed(word & 0xFFFFF000, 32))


def _auipc(word: int, pc: int) -> Instruction:
    target = (pc + _signed(word & 0xFFFFF000, 32)) & 0xFFFFFFFFFFFFFFFF
    return Instruction(op.ADD, OpClass.INT_ALU, word >> 7 & 31, immediate=_signed(target, 64))


def _jal(word: int, pc: int) -> Instruction:
    rd = word >> 7 & 31
    offset = (word >> 31) << 20 | (word >> 12 & 0xFF) << 12 | (word >> 20 & 1) << 11 | (word >> 21 & 0x3FF) << 1
    return Instruction(op.JAL, OpClass.CALL if rd in (1, 5) else OpClass.JUMP, rd, immediate=_signed(offset, 21))


def _jalr(word: int, pc: int) -> Instruction | None:
    rd, rs1 = word >> 7 & 31, word >> 15 & 31
    if word >> 12 & 7:
        return None
    # Hints for the return address stack: unprivileged specification, table of the JALR encodings (section 2.5.1).
    returns = rs1 in (1, 5) and rd != rs1
    opclass = OpClass.RETURN if returns and rd not in (1, 5) else OpClass.INDIRECT_CALL if rd in (1, 5) else OpClass.INDIRECT_JUMP
    return Instruction(op.JALR, opclass, rd, rs1, immediate=_signed(word >> 20, 12))


def _branch(word: int, pc: int) -> Instruction | None:
    operation = _BRANCHES.get(word >> 12 & 7)
    offset = (word >> 31) << 12 | (word >> 7 & 1) << 11 | (word >> 25 & 0x3F) << 5 | (word >> 8 & 0xF) << 1
    if operation is None:
        return None
    return Instruction(operation, OpClass.BRANCH, rs1=word >> 15 & 31, rs2=word >> 20 & 31, immediate=_signed(offset, 13))


def _load(word: int, pc: int) -> Instruction | None:
    funct3 = word >> 12 & 7
    if funct3 not in _LOADS:
        return None
    immediate = _signed(word >> 20, 12)
    return Instruction(_LOADS[funct3], OpClass.MEM_READ, word >> 7 & 31, word >> 15 & 31, immediate=immediate, size=1 << (funct3 & 3))


def _load_float(word: int, pc: int) -> Instruction | None:
    funct3 = word >> 12 & 7
    if funct3 not in (2, 3):
        return None
    operation, rd = (op.FLW, op.LD)[funct3 - 2], 32 + (word >> 7 & 31)
    return Instruction(operation, OpClass.FLOAT_MEM_READ, rd, word >> 15 & 31, immediate=_signed(word >> 20, 12), size=1 << funct3)


def _store(word: int, pc: int) -> Instruction | None:
    funct3, floating = word >> 12 & 7, word & 4
    if funct3 > 3 or (floating and funct3 < 2):
        return None
    offset = _signed((word >> 25) << 5 | word >> 7 & 31, 12)
    operation, rs2 = (op.SB, op.SH, op.SW, op.SD)[funct3], (32 if floating else 0) + (word >> 20 & 31)
    opclass = OpClass.FLOAT_MEM_WRITE if floating else OpClass.MEM_WRITE
    return Instruction(operation, opclass, rs1=word >> 15 & 31, rs2=rs2, immediate=offset, size=1 << funct3)


def _immediate(word: int, pc: int) -> Instruction | None:
    funct3, operation, immediate = word >> 12 & 7, _ALU[word >> 12 & 7], _signed(word >> 20, 12)
    if funct3 in (1, 5):
        top, immediate = word >> 26, word >> 20 & 63
        if top not in ((0,) if funct3 == 1 else (0, 0x10)):
            return None
        operation = op.SRA if top else operation
    return Instruction(operation, OpClass.INT_ALU, word >> 7 & 31, word >> 15 & 31, immediate=immediate)


def _immediate_32(word: int, pc: int) -> Instruction | None:
    funct3, funct7, immediate = word >> 12 & 7, word >> 25, _signed(word >> 20, 12)
    operation = {(1, 0): op.SLLW, (5, 0): op.SRLW, (5, 0x20): op.SRAW}.get((funct3, funct7))
    if funct3 == 0:
        operation = op.ADDW
    elif operation is not None:
        immediate = word >> 20 & 31
    else:
        return None
    return Instruction(operation, OpClass.INT_ALU, word >> 7 & 31, word >> 15 & 31, immediate=immediate)


def _register(word: int, pc: int) -> Instruction | None:
    funct3, funct7 = word >> 12 & 7, word >> 25
    operation: int | None = None
    opclass = OpClass.INT_ALU
    if funct7 == 1:
        operation, opclass = _MULTIPLY[funct3], OpClass.INT_DIV if funct3 & 4 else OpClass.INT_MULT
    elif funct7 == 0x20:
        operation = {0: op.SUB, 5: op.SRA}.get(funct3)
    elif funct7 == 0:
        operation = _ALU[funct3]
    return None if operation is None else Instruction(operation, opclass, word >> 7 & 31, word >> 15 & 31, word >> 20 & 31)


def _register_32(word: int, pc: int) -> Instruction | None:
    funct3, funct7 = word >> 12 & 7, word >> 25
    opclass = OpClass.INT_ALU
    if funct7 == 1:
        operation, opclass = _MULTIPLY_32.get(funct3), OpClass.INT_DIV if funct3 & 4 else OpClass.INT_MULT
    else:
        names = {(0, 0): op.ADDW, (0, 0x20): op.SUBW, (1, 0): op.SLLW, (5, 0): op.SRLW, (5, 0x20): op.SRAW}
        operation = names.get((funct3, funct7))
    return None if operation is None else Instruction(operation, opclass, word >> 7 & 31, word >> 15 & 31, word >> 20 & 31)


def _fence(word: int, pc: int) -> Instruction | None:
    funct3 = word >> 12 & 7
    return Instruction((op.FENCE, op.FENCE_I)[funct3], OpClass.FENCE) if funct3 < 2 else None


def _system(word: int, pc: int) -> Instruction | None:
    funct3 = word >> 12 & 7
    if funct3 == 0:
        operation = {0x00000073: op.ECALL, 0x00100073: op.EBREAK}.get(word)
        return None if operation is None else Instruction(operation, OpClass.SYSTEM)
    if funct3 == 4:
        return None
    # The field of rs1 is a 5-bit immediate in the forms with funct3 >= 5; `extra` keeps funct3 and, in bit 3, whether the field is zero.
    field = word >> 15 & 31
    extra = funct3 | (8 if field == 0 else 0) | (16 if word >> 7 & 31 == 0 else 0)
    rs1 = field if funct3 < 4 else NO_REGISTER
    immediate = (word >> 20) | (field if funct3 > 4 else 0) << 12
    return Instruction(op.CSR, OpClass.SYSTEM, word >> 7 & 31, rs1, immediate=immediate, extra=extra)


def _atomic(word: int, pc: int) -> Instruction | None:
    funct3, funct5, rs2 = word >> 12 & 7, word >> 27, word >> 20 & 31
    if funct3 not in (2, 3) or funct5 not in _ATOMICS or (funct5 == 2 and rs2):
        return None
    extra = funct5 | (op.ATOMIC_DOUBLE if funct3 == 3 else 0)
    source = NO_REGISTER if funct5 == 2 else rs2
    return Instruction(op.ATOMIC, OpClass.ATOMIC, word >> 7 & 31, word >> 15 & 31, source, size=1 << funct3, extra=extra)


def _fused(word: int, pc: int) -> Instruction | None:
    double, rounding = word >> 25 & 3, word >> 12 & 7
    if double > 1 or rounding in (5, 6):
        return None
    # The sign of the product and of the addend: fmadd, fmsub, fnmsub, fnmadd.
    extra = (0, 2, 1, 3)[word >> 2 & 3]
    registers = (32 + (word >> 7 & 31), 32 + (word >> 15 & 31), 32 + (word >> 20 & 31), 32 + (word >> 27))
    return Instruction((op.FMA_S, op.FMA_D)[double], OpClass.FLOAT_MULT_ACC, *registers, extra=extra, rounding=rounding)


def _float(word: int, pc: int) -> Instruction | None:
    double, funct7, rounding = word >> 25 & 3, word >> 25 & 0x7C, word >> 12 & 7
    if double > 1:
        return None
    rd, rs1, rs2, selector = word >> 7 & 31, word >> 15 & 31, word >> 20 & 31, word >> 20 & 31
    legal_rounding = rounding not in (5, 6)
    wide = op.OTHER_DOUBLE if double else 0
    if funct7 in _ARITHMETIC and legal_rounding:
        single, both, opclass = _ARITHMETIC[funct7]
        return Instruction(both if double else single, opclass, 32 + rd, 32 + rs1, 32 + rs2, rounding=rounding)
    if funct7 == 0x2C and selector == 0 and legal_rounding:
        return Instruction((op.FSQRT_S, op.FSQRT_D)[double], OpClass.FLOAT_SQRT, 32 + rd, 32 + rs1, rounding=rounding)
    if funct7 == 0x10 and rounding < 3:
        # `rounding` says which of fsgnj, fsgnjn, fsgnjx.
        operation = op.FSGNJ_D if double else op.FLOAT_OTHER
        return Instruction(operation, OpClass.FLOAT_MISC, 32 + rd, 32 + rs1, 32 + rs2, extra=op.OTHER_SGNJ | wide, rounding=rounding)
    if funct7 == 0x14 and rounding < 2:
        return Instruction(op.FLOAT_OTHER, OpClass.FLOAT_CMP, 32 + rd, 32 + rs1, 32 + rs2, extra=op.OTHER_MIN + rounding | wide)
    if funct7 == 0x50 and rounding < 3:
        kind = (op.OTHER_LE, op.OTHER_LT, op.OTHER_EQ)[rounding]
        return Instruction(op.FLOAT_OTHER, OpClass.FLOAT_CMP, rd, 32 + rs1, 32 + rs2, extra=kind | wide)
    if funct7 == 0x20 and selector == 1 - double and legal_rounding:
        extra = op.OTHER_TO_OTHER_FORMAT | (0 if double else op.OTHER_DOUBLE)
        return Instruction(op.FLOAT_OTHER, OpClass.FLOAT_CVT, 32 + rd, 32 + rs1, extra=extra, rounding=rounding)
    if funct7 == 0x60 and selector < 4 and legal_rounding:
        return Instruction(op.FLOAT_OTHER, OpClass.FLOAT_CVT, rd, 32 + rs1, extra=op.OTHER_TO_W + selector | wide, rounding=rounding)
    if funct7 == 0x68 and selector < 4 and legal_rounding:
        return Instruction(op.FLOAT_OTHER, OpClass.FLOAT_CVT, 32 + rd, rs1, extra=op.OTHER_FROM_W + selector | wide, rounding=rounding)
    if funct7 == 0x70 and selector == 0 and rounding == 1:
        return Instruction(op.FLOAT_OTHER, OpClass.FLOAT_MISC, rd, 32 + rs1, extra=op.OTHER_CLASS | wide)
    if funct7 == 0x70 and selector == 0 and rounding == 0:
        return Instruction(op.FLOAT_OTHER, OpClass.FLOAT_CVT, rd, 32 + rs1, extra=op.OTHER_MOVE_TO_INTEGER | wide)
    if funct7 == 0x78 and selector == 0 and rounding == 0:
        return Instruction(op.FLOAT_OTHER, OpClass.FLOAT_CVT, 32 + rd, rs1, extra=op.OTHER_MOVE_TO_FLOAT | wide)
    return None


_DECODERS = {
    0x37: _lui,
    0x17: _auipc,
    0x6F: _jal,
    0x67: _jalr,
    0x63: _branch,
    0x03: _load,
    0x07: _load_float,
    0x23: _store,
    0x27: _store,
    0x13: _immediate,
    0x1B: _immediate_32,
    0x33: _register,
    0x3B: _register_32,
    0x0F: _fence,
    0x73: _system,
    0x2F: _atomic,
    0x43: _fused,
    0x47: _fused,
    0x4B: _fused,
    0x4F: _fused,
    0x53: _float,
}
