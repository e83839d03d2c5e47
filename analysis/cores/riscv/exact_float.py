"""Floating-point arithmetic in integers: every rounding mode, every exception flag, RISC-V's NaNs.

The emulator takes it where the host's own arithmetic (to nearest even, no flags) may differ: another rounding mode, the first
inexact result, overflow, underflow, NaN. A number is (-1)^sign * significand * 2^(exponent - 63), the significand's leading one in
bit 63.
Source: RISC-V unprivileged specification, chapters F and D (NaN boxing, canonical NaN, tininess after
rounding, saturating conversions); IEEE 754-2019.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.compiled import inner
from analysis.cores.riscv import operations as op
from analysis.cores.riscv.machine_words import Word, below, leading_zeros, multiply_high_unsigned

ZERO, FINITE, INFINITE, NOT_A_NUMBER, SIGNALLING = range(5)
NAN_64 = 0x7FF8000000000000
NAN_32 = 0x7FC00000
BOX = -(1 << 32)
_LOW_32 = 0xFFFFFFFF
_MINIMUM = -(1 << 63)

State = NDArray[np.int64]


@inner(_nrt=False)
def _shift(value: Word, count: Word) -> Word:
    """Logical right shift of a 64-bit pattern by 0 to 63."""
    return np.int64(np.uint64(value) >> np.uint64(count))


@inner(_nrt=False)
def _shift_jam(value: Word, count: Word) -> Word:
    """Logical right shift that keeps, in the lowest bit, whether a one was shifted out."""
    if count <= 0:
        return value
    if count > 63:
        return np.int64(value != 0)
    return _shift(value, count) | np.int64((value << (64 - count)) != 0)


@inner(_nrt=False)
def unpack(bits: Word, double: bool) -> tuple[Word, Word, Word, Word]:
    """Sign, exponent, significand and kind of a number given by its bits (NaN-boxing undone)."""
    fraction_bits, top = (52, 2047) if double else (23, 255)
    sign = (bits >> 63) & 1 if double else (bits >> 31) & 1
    exponent = (bits >> fraction_bits) & top
    fraction = bits & ((np.int64(1) << fraction_bits) - 1)
    if exponent == top:
        if fraction == 0:
            return sign, 0, np.int64(0), INFINITE
        return sign, 0, np.int64(0), NOT_A_NUMBER if (fraction >> (fraction_bits - 1)) & 1 else SIGNALLING
    if exponent == 0:
        if fraction == 0:
            return sign, 0, np.int64(0), ZERO
        zeros = leading_zeros(fraction)
        return sign, 1 - (top >> 1) + 63 - fraction_bits - zeros, fraction << zeros, FINITE
    return sign, exponent - (top >> 1), (fraction | (np.int64(1) << fraction_bits)) << (63 - fraction_bits), FINITE


@inner(_nrt=False)
def _rounds_up(sign: Word, odd: Word, rest: Word, half: Word, rounding: Word) -> Word:
    """Whether the part below the last place (`rest`, `half` being one half) rounds the magnitude up."""
    if rest == 0:
        return False
    if rounding == op.ROUND_NEAREST_EVEN:
        return below(half, rest) or (rest == half and odd == 1)
    if rounding == op.ROUND_NEAREST_AWAY:
        return not below(rest, half)
    return (rounding == op.ROUND_DOWN and sign == 1) or (rounding == op.ROUND_UP and sign == 0)


@inner(_nrt=False)
def pack(sign: Word, exponent: Word, significand: Word, double: bool, rounding: Word, state: State) -> Word:
    """Round a normalized number to the format, set the flags, return its bits (single precision NaN-boxed)."""
    fraction_bits, top = (52, 2047) if double else (23, 255)
    biased = exponent + (top >> 1)
    drop = 63 - fraction_bits
    mask, half = (np.int64(1) << drop) - 1, np.int64(1) << (drop - 1)
    tiny = False
    if biased <= 0:
        up = _rounds_up(sign, (significand >> drop) & 1, significand & mask, half, rounding)
        carries = up and _shift(significand, drop) == (np.int64(2) << fraction_bits) - 1
        tiny = not (biased == 0 and carries)
        significand = _shift_jam(significand, 1 - biased)
        biased = 0
    rest = significand & mask
    kept = _shift(significand, drop)
    if _rounds_up(sign, kept & 1, rest, half, rounding):
        kept += 1
    if biased == 0:
        biased = np.int64((kept >> fraction_bits) & 1)
    elif (kept >> (fraction_bits + 1)) & 1:
        kept >>= 1
        biased += 1
    if biased >= top:
        state[op.STATE_FLAGS] |= op.FLAG_OVERFLOW | op.FLAG_INEXACT
        down = rounding == op.ROUND_TO_ZERO or (rounding == op.ROUND_DOWN and sign == 0) or (rounding == op.ROUND_UP and sign == 1)
        bits = (np.int64(top) << fraction_bits) - np.int64(down)
    else:
        if rest != 0:
            state[op.STATE_FLAGS] |= op.FLAG_INEXACT | (op.FLAG_UNDERFLOW if tiny else 0)
        bits = (np.int64(biased) << fraction_bits) | (kept & ((np.int64(1) << fraction_bits) - 1))
    return signed_bits(sign, bits, double)


@inner(_nrt=False)
def signed_bits(sign: Word, bits: Word, double: bool) -> Word:
    """Put the sign before the magnitude's bits; NaN-box single precision."""
    if double:
        return bits | (np.int64(sign) << 63)
    return BOX | bits | (np.int64(sign) << 31)


@inner(_nrt=False)
def _infinity(sign: Word, double: bool) -> Word:
    return signed_bits(sign, np.int64(2047) << 52 if double else np.int64(255) << 23, double)


@inner(_nrt=False)
def _zero(sign: Word, double: bool) -> Word:
    return signed_bits(sign, np.int64(0), double)


@inner(_nrt=False)
def canonical_nan(double: bool, invalid: bool, state: State) -> Word:
    """The NaN that every operation gives; `invalid` raises the flag."""
    if invalid:
        state[op.STATE_FLAGS] |= op.FLAG_INVALID
    return np.int64(NAN_64) if double else BOX | np.int64(NAN_32)


@inner(_nrt=False)
def unbox(bits: Word) -> Word:
    """Single-precision bits of a register: the canonical NaN when it is not NaN-boxed."""
    return bits & _LOW_32 if bits >> 32 == -1 else np.int64(NAN_32)


@inner(_nrt=False)
def _add_wide(
    sign_a: Word,
    exponent_a: Word,
    high_a: Word,
    low_a: Word,
    sign_b: Word,
    exponent_b: Word,
    high_b: Word,
    low_b: Word,
    double: bool,
    rounding: Word,
    state: State,
) -> Word:
    """Sum of two 128-bit significands (leading one in bit 127), rounded once."""
    swap = exponent_a < exponent_b or (exponent_a == exponent_b and (below(high_a, high_b) or (high_a == high_b and below(low_a, low_b))))
    if swap:
        sign_a, exponent_a, high_a, low_a, sign_b, exponent_b, high_b, low_b = (
            sign_b, exponent_b, high_b, low_b, sign_a, exponent_a, high_a, low_a,
        )  # fmt: skip
    # One bit of room for the carry; nothing is lost: products have 106 significant bits.
    low_a = _shift(low_a, 1) | (high_a << 63)
    high_a = _shift(high_a, 1)
    shift = exponent_a - exponent_b + 1
    if shift < 64:
        lost = np.int64((low_b << (64 - shift)) != 0)
        low_b = _shift(low_b, shift) | (high_b << (64 - shift)) | lost
        high_b = _shift(high_b, shift)
    else:
        low_b = _shift_jam(high_b, shift - 64) | np.int64(low_b != 0)
        high_b = np.int64(0)
    if sign_a == sign_b:
        low = low_a + low_b
        high = high_a + high_b + np.int64(below(low, low_a))
    else:
        low = low_a - low_b
        high = high_a - high_b - np.int64(below(low_a, low_b))
    exponent = exponent_a + 1
    if high == 0:
        if low == 0:
            return _zero(np.int64(rounding == op.ROUND_DOWN), double)
        high, low = low, np.int64(0)
        exponent -= 64
    zeros = leading_zeros(high)
    if zeros > 0:
        high = (high << zeros) | _shift(low, 64 - zeros)
        low = low << zeros
        exponent -= zeros
    return pack(sign_a, exponent, high | np.int64(low != 0), double, rounding, state)


@inner(_nrt=False)
def _product(exponent_a: Word, significand_a: Word, exponent_b: Word, significand_b: Word) -> tuple[Word, Word, Word]:
    """Exponent and significand, two words whose highest bit is set, of a product of finite numbers."""
    high, low = multiply_high_unsigned(significand_a, significand_b), significand_a * significand_b
    if high < 0:
        return exponent_a + exponent_b + 1, high, low
    return exponent_a + exponent_b, (high << 1) | _shift(low, 63), low << 1


@inner(_nrt=False)
def fused(a: Word, b: Word, c: Word, double: bool, rounding: Word, state: State) -> Word:
    """a * b + c on bits, rounded once."""
    sign_a, exponent_a, significand_a, kind_a = unpack(a, double)
    sign_b, exponent_b, significand_b, kind_b = unpack(b, double)
    sign_c, exponent_c, significand_c, kind_c = unpack(c, double)
    sign = sign_a ^ sign_b
    infinite = kind_a == INFINITE or kind_b == INFINITE
    zero = kind_a == ZERO or kind_b == ZERO
    if kind_a >= NOT_A_NUMBER or kind_b >= NOT_A_NUMBER or kind_c >= NOT_A_NUMBER:
        signalling = kind_a == SIGNALLING or kind_b == SIGNALLING or kind_c == SIGNALLING
        # Infinity times zero is invalid even when the addend is a quiet NaN (specification, section 11.6).
        return canonical_nan(double, signalling or (infinite and zero), state)
    if infinite:
        if zero or (kind_c == INFINITE and sign_c != sign):
            return canonical_nan(double, True, state)
        return _infinity(sign, double)
    if kind_c == INFINITE:
        return _infinity(sign_c, double)
    if zero:
        if kind_c == ZERO:
            return _zero(sign if sign == sign_c else np.int64(rounding == op.ROUND_DOWN), double)
        return pack(sign_c, exponent_c, significand_c, double, rounding, state)
    exponent, high, low = _product(exponent_a, significand_a, exponent_b, significand_b)
    if kind_c == ZERO:
        return pack(sign, exponent, high | np.int64(low != 0), double, rounding, state)
    return _add_wide(sign, exponent, high, low, sign_c, exponent_c, significand_c, np.int64(0), double, rounding, state)


@inner(_nrt=False)
def divide(a: Word, b: Word, double: bool, rounding: Word, state: State) -> Word:
    """a / b on bits."""
    sign_a, exponent_a, significand_a, kind_a = unpack(a, double)
    sign_b, exponent_b, significand_b, kind_b = unpack(b, double)
    sign = sign_a ^ sign_b
    if kind_a >= NOT_A_NUMBER or kind_b >= NOT_A_NUMBER:
        return canonical_nan(double, kind_a == SIGNALLING or kind_b == SIGNALLING, state)
    if kind_a == kind_b and kind_a != FINITE:
        return canonical_nan(double, True, state)
    if kind_a == INFINITE or kind_b == ZERO:
        if kind_a == FINITE:
            state[op.STATE_FLAGS] |= op.FLAG_DIVIDE_BY_ZERO
        return _infinity(sign, double)
    if kind_a == ZERO or kind_b == INFINITE:
        return _zero(sign, double)
    # Both significands have at most 53 bits: bit by bit, with the remainder below the divisor.
    exponent = exponent_a - exponent_b
    rest, divisor = _shift(significand_a, 11), _shift(significand_b, 11)
    if rest < divisor:
        rest <<= 1
        exponent -= 1
    quotient = np.int64(0)
    for _ in range(63):
        quotient <<= 1
        if rest >= divisor:
            rest -= divisor
            quotient |= 1
        rest <<= 1
    return pack(sign, exponent, (quotient << 1) | np.int64(rest != 0), double, rounding, state)


@inner(_nrt=False)
def square_root(a: Word, double: bool, rounding: Word, state: State) -> Word:
    """Square root on bits."""
    sign, exponent, significand, kind = unpack(a, double)
    if kind >= NOT_A_NUMBER:
        return canonical_nan(double, kind == SIGNALLING, state)
    if kind == ZERO:
        return _zero(sign, double)
    if sign:
        return canonical_nan(double, True, state)
    if kind == INFINITE:
        return _infinity(sign, double)
    # Two bits of the radicand a step: root has 62 bits at the end, the radicand 53 or 54 before zeros follow.
    radicand = _shift(significand, 10) if exponent & 1 else _shift(significand, 11)
    root, rest = np.int64(0), np.int64(0)
    for step in range(60):
        pair = (radicand >> (52 - 2 * step)) & 3 if step <= 26 else np.int64(0)
        rest = (rest << 2) | pair
        trial = (root << 2) | 1
        root <<= 1
        if rest >= trial:
            rest -= trial
            root |= 1
    return pack(np.int64(0), exponent >> 1, (root << 4) | np.int64(rest != 0), double, rounding, state)


@inner(_nrt=False)
def to_other_format(a: Word, double: bool, rounding: Word, state: State) -> Word:
    """Convert to the other format; `double` is the source's."""
    sign, exponent, significand, kind = unpack(a, double)
    if kind >= NOT_A_NUMBER:
        return canonical_nan(not double, kind == SIGNALLING, state)
    if kind == INFINITE:
        return _infinity(sign, not double)
    if kind == ZERO:
        return _zero(sign, not double)
    return pack(sign, exponent, significand, not double, rounding, state)


@inner(_nrt=False)
def from_integer(value: Word, signed: bool, double: bool, rounding: Word, state: State) -> Word:
    """Convert a 64-bit integer."""
    if value == 0:
        return _zero(np.int64(0), double)
    sign = np.int64(signed and value < 0)
    magnitude = -value if sign else value
    zeros = leading_zeros(magnitude)
    return pack(sign, 63 - zeros, magnitude << zeros, double, rounding, state)


@inner(_nrt=False)
def to_integer(a: Word, double: bool, signed: bool, bits: Word, rounding: Word, state: State) -> Word:
    """Convert to a 32- or 64-bit integer; what does not fit saturates and is invalid, NaN is the largest."""
    sign, exponent, significand, kind = unpack(a, double)
    largest = _shift(np.int64(-1), 64 - bits + np.int64(signed))
    smallest = np.int64(-1) << (bits - 1) if signed else np.int64(0)
    if kind == ZERO:
        return np.int64(0)
    bad = kind >= INFINITE
    magnitude, rest = np.int64(0), np.int64(0)
    if not bad:
        if exponent > 63:
            bad = True
        elif exponent == 63:
            magnitude = significand
        else:
            # The part below one, its half in bit 63.
            shift = 63 - exponent
            if shift > 64:
                rest = np.int64(1)
            elif shift == 64:
                rest = significand
            else:
                magnitude, rest = _shift(significand, shift), significand << (64 - shift)
            if _rounds_up(sign, magnitude & 1, rest, np.int64(_MINIMUM), rounding):
                magnitude += 1
    if not bad:
        limit = smallest if sign else largest
        bad = (below(-limit, magnitude)) if sign else below(limit, magnitude)
    if bad:
        state[op.STATE_FLAGS] |= op.FLAG_INVALID
        result = smallest if sign == 1 and kind < NOT_A_NUMBER else largest
    else:
        if rest != 0:
            state[op.STATE_FLAGS] |= op.FLAG_INEXACT
        result = -magnitude if sign else magnitude
    return (result << 32) >> 32 if bits == 32 else result
