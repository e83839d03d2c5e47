"""The floating-point and control-register instructions that the compiled loop does not do inline."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.compiled import inner
from analysis.cores.riscv import operations as op
from analysis.cores.riscv.exact_float import (
    BOX,
    INFINITE,
    NOT_A_NUMBER,
    SIGNALLING,
    ZERO,
    canonical_nan,
    divide,
    from_integer,
    fused,
    square_root,
    to_integer,
    to_other_format,
    unbox,
    unpack,
)
from analysis.cores.riscv.machine_words import Word

_SIGN_64 = -(1 << 63)
_SIGN_32 = 1 << 31
_LOW_32 = 0xFFFFFFFF


@inner(_nrt=False)
def arithmetic(operation: Word, a: Word, b: Word, c: Word, extra: Word, rounding: Word, state: NDArray[np.int64]) -> Word:
    """Add, subtract, multiply, divide, root and fused multiply-add on registers, exactly; a + b is a * 1 + b."""
    double = op.FADD_D <= operation <= op.FMA_D
    sign, one = (np.int64(_SIGN_64), np.int64(1023) << 52) if double else (np.int64(_SIGN_32), np.int64(127) << 23)
    if not double:
        a, b, c = unbox(a), unbox(b), unbox(c)
    if operation == op.FDIV_D or operation == op.FDIV_S:
        return divide(a, b, double, rounding, state)
    if operation == op.FSQRT_D or operation == op.FSQRT_S:
        return square_root(a, double, rounding, state)
    if operation == op.FADD_D or operation == op.FADD_S:
        b, c = one, b
    elif operation == op.FSUB_D or operation == op.FSUB_S:
        b, c = one, b ^ sign
    elif operation == op.FMUL_D or operation == op.FMUL_S:
        c = (a ^ b) & sign  # a zero of the product's sign, which changes no product
    else:
        a, c = a ^ (sign if extra & 1 else 0), c ^ (sign if extra & 2 else 0)
    return fused(a, b, c, double, rounding, state)


@inner(_nrt=False)
def _magnitude_order(bits: Word, double: bool) -> Word:
    """An integer that orders as the numbers do (both zeros alike)."""
    if double:
        return bits if bits >= 0 else _SIGN_64 - bits
    return bits & 0x7FFFFFFF if (bits & _SIGN_32) == 0 else -(bits & 0x7FFFFFFF)


@inner(_nrt=False)
def _class(bits: Word, double: bool) -> Word:
    """fclass: one bit of ten."""
    sign, exponent, _, kind = unpack(bits, double)
    if kind == SIGNALLING:
        return 1 << 8
    if kind == NOT_A_NUMBER:
        return 1 << 9
    if kind == INFINITE:
        return 1 << (0 if sign else 7)
    if kind == ZERO:
        return 1 << (3 if sign else 4)
    if exponent < (-1022 if double else -126):
        return 1 << (2 if sign else 5)
    return 1 << (1 if sign else 6)


@inner(_nrt=False)
def _compare(kind: Word, a: Word, b: Word, double: bool, state: NDArray[np.int64]) -> Word:
    """feq, flt, fle, fmin, fmax."""
    kind_a, kind_b = unpack(a, double)[3], unpack(b, double)[3]
    signalling = kind_a == SIGNALLING or kind_b == SIGNALLING
    ordered = kind_a < NOT_A_NUMBER and kind_b < NOT_A_NUMBER
    if signalling or (not ordered and (kind == op.OTHER_LT or kind == op.OTHER_LE)):
        state[op.STATE_FLAGS] |= op.FLAG_INVALID
    first, second = _magnitude_order(a, double), _magnitude_order(b, double)
    if kind == op.OTHER_EQ:
        return np.int64(ordered and first == second)
    if kind == op.OTHER_LT:
        return np.int64(ordered and first < second)
    if kind == op.OTHER_LE:
        return np.int64(ordered and first <= second)
    if kind_a >= NOT_A_NUMBER and kind_b >= NOT_A_NUMBER:
        return canonical_nan(double, False, state)
    if kind_a >= NOT_A_NUMBER:
        chosen = b
    elif kind_b >= NOT_A_NUMBER:
        chosen = a
    elif first == second:
        # Only the zeros differ: -0 is below +0.
        chosen = (a | b) if kind == op.OTHER_MIN else (a & b)
    else:
        chosen = a if (first < second) == (kind == op.OTHER_MIN) else b
    return chosen if double else BOX | chosen


@inner(_nrt=False)
def other(extra: Word, a: Word, b: Word, field: Word, rounding: Word, state: NDArray[np.int64]) -> Word:
    """Sign injection, comparison, classification, conversion, move."""
    kind, double = extra & 31, (extra & op.OTHER_DOUBLE) != 0
    if kind == op.OTHER_MOVE_TO_INTEGER:
        return a if double else (a << 32) >> 32
    if kind == op.OTHER_MOVE_TO_FLOAT:
        return a if double else BOX | (a & _LOW_32)
    if op.OTHER_FROM_W <= kind < op.OTHER_TO_OTHER_FORMAT:
        if kind == op.OTHER_FROM_W:
            a = (a << 32) >> 32
        elif kind == op.OTHER_FROM_WU:
            a = a & _LOW_32
        return from_integer(a, kind == op.OTHER_FROM_W or kind == op.OTHER_FROM_L, double, rounding, state)
    if not double:
        a, b = unbox(a), unbox(b)
    if kind == op.OTHER_SGNJ:
        sign = np.int64(_SIGN_64) if double else np.int64(_SIGN_32)
        source = b if field == 0 else ~b if field == 1 else a ^ b
        result = (a & ~sign) | (source & sign)
        return result if double else BOX | result
    if kind == op.OTHER_CLASS:
        return _class(a, double)
    if op.OTHER_MIN <= kind <= op.OTHER_LE:
        return _compare(kind, a, b, double, state)
    if op.OTHER_TO_W <= kind <= op.OTHER_TO_LU:
        bits = 64 if kind >= op.OTHER_TO_L else 32
        return to_integer(a, double, kind == op.OTHER_TO_W or kind == op.OTHER_TO_L, bits, rounding, state)
    return to_other_format(a, double, rounding, state)


@inner(_nrt=False)
def control_register(extra: Word, number: Word, operand: Word, retired: Word, state: NDArray[np.int64]) -> tuple[Word, Word]:
    """CSR instruction: whether it is legal, and the old value.

    fflags, frm and fcsr; the read-only counters cycle, time and instret all count retired instructions.
    """
    writes = (extra & 3) == 1 or (extra & 8) == 0
    if number == 0x001:
        old = state[op.STATE_FLAGS]
    elif number == 0x002:
        old = state[op.STATE_ROUNDING]
    elif number == 0x003:
        old = state[op.STATE_FLAGS] | state[op.STATE_ROUNDING] << 5
    elif number == 0xC00 or number == 0xC01 or number == 0xC02:
        return not writes, state[op.STATE_RETIRED] + retired
    else:
        return False, np.int64(0)
    if writes:
        form = extra & 3
        new = operand if form == 1 else old | operand if form == 2 else old & ~operand
        if number == 0x001:
            state[op.STATE_FLAGS] = new & 31
        elif number == 0x002:
            state[op.STATE_ROUNDING] = new & 7
        else:
            state[op.STATE_FLAGS] = new & 31
            state[op.STATE_ROUNDING] = (new >> 5) & 7
    return True, old
