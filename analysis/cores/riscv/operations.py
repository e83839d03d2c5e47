"""The emulator's operations: numbers that the decoder writes and the compiled loop dispatches on."""

from __future__ import annotations

# Registers x0-x31 are 0-31, f0-f31 are 32-63; what is written to x0 goes to DISCARD.
DISCARD = 64
REGISTERS = 65

# An ALU operation computes with regs[rs1] and regs[rs2] + immediate: one of the two is always zero.
(
    UNDECODED,
    ADD,
    SUB,
    SLL,
    SLT,
    SLTU,
    XOR,
    SRL,
    SRA,
    OR,
    AND,
    ADDW,
    SUBW,
    SLLW,
    SRLW,
    SRAW,
    MUL,
    MULH,
    MULHSU,
    MULHU,
    DIV,
    DIVU,
    REM,
    REMU,
    MULW,
    DIVW,
    DIVUW,
    REMW,
    REMUW,
    LB,
    LH,
    LW,
    LD,
    LBU,
    LHU,
    LWU,
    FLW,
    SB,
    SH,
    SW,
    SD,
    BEQ,
    BNE,
    BLT,
    BGE,
    BLTU,
    BGEU,
    JAL,
    JALR,
    FENCE,
    FENCE_I,
    ECALL,
    EBREAK,
    CSR,
    ATOMIC,
    FADD_D,
    FSUB_D,
    FMUL_D,
    FDIV_D,
    FSQRT_D,
    FMA_D,
    FADD_S,
    FSUB_S,
    FMUL_S,
    FDIV_S,
    FSQRT_S,
    FMA_S,
    FSGNJ_D,
    FLOAT_OTHER,
    BITS,
) = range(70)

# What FLOAT_OTHER does: the number in the instruction's `extra` field. Bit 5 says double precision (of the source, for conversions).
(
    OTHER_SGNJ,
    OTHER_MIN,
    OTHER_MAX,
    OTHER_EQ,
    OTHER_LT,
    OTHER_LE,
    OTHER_CLASS,
    OTHER_TO_W,
    OTHER_TO_WU,
    OTHER_TO_L,
    OTHER_TO_LU,
    OTHER_FROM_W,
    OTHER_FROM_WU,
    OTHER_FROM_L,
    OTHER_FROM_LU,
    OTHER_TO_OTHER_FORMAT,
    OTHER_MOVE_TO_INTEGER,
    OTHER_MOVE_TO_FLOAT,
) = range(18)
OTHER_DOUBLE = 32

# A decoded instruction is two 64-bit words: these fields, and the immediate.
FIELD_OPERATION, FIELD_RS1, FIELD_RS2, FIELD_RD, FIELD_RS3, FIELD_EXTRA, FIELD_LENGTH, FIELD_ROUNDING = (8 * k for k in range(8))

# Atomic operations: funct5 in the lower bits of `extra`, ATOMIC_DOUBLE for 8 bytes.
ATOMIC_DOUBLE = 32

# The machine's state, an int64 array.
STATE_FLAGS, STATE_ROUNDING, STATE_RESERVED, STATE_STOP, STATE_FAULT, STATE_NEXT, STATE_RETIRED, STATE_BASE, STATE_IMAGE_BASE = range(9)
STATE_IMAGE_SIZE, STATE_STACK_BASE, STATE_STACK_SIZE, STATE_STACK_OFFSET, STATE_PAGES_OFFSET = range(9, 14)
STATES = 14

# Pages of the image, of each of which a byte says whether the program may write into it.
PAGE_BITS = 12

# Why the compiled loop stopped.
STOP_LIMIT, STOP_DECODE, STOP_ECALL, STOP_EBREAK, STOP_FENCE_I, STOP_FETCH, STOP_FAULT, STOP_CSR, STOP_ROUNDING, STOP_READ_ONLY = range(10)

# Accrued exception flags (fflags): the unprivileged specification, section 11.2.
FLAG_INEXACT, FLAG_UNDERFLOW, FLAG_OVERFLOW, FLAG_DIVIDE_BY_ZERO, FLAG_INVALID = 1, 2, 4, 8, 16
ROUND_NEAREST_EVEN, ROUND_TO_ZERO, ROUND_DOWN, ROUND_UP, ROUND_NEAREST_AWAY, ROUND_DYNAMIC = 0, 1, 2, 3, 4, 7
