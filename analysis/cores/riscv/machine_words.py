"""One machine instruction each, for compiled code: unaligned loads and stores, wide products, floating-point on register bits.

What `instead` says is the same in plain Python; without it, plain Python stumbles.

Source: the LLVM language reference; numba's extension interface.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from analysis.compiled import inner

Word = Any
"""A 64-bit integer of compiled code (numba int64); the checker sees plain ints and numpy ones in turn."""

_I64, _I128 = ir.IntType(64), ir.IntType(128)
_WORDS = 1 << 64
_MINIMUM = -(1 << 63)


@inner(_nrt=False, plain=lambda value: (int(value) - _MINIMUM) % _WORDS + _MINIMUM)
def signed(value: Word) -> Word:
    """The 64 bits of a number as a signed integer."""
    return np.int64(value)


@inner(_nrt=False, plain=lambda value: int(value) % _WORDS)
def unsigned(value: Word) -> Word:
    """The 64 bits of a number as an unsigned integer."""
    return np.uint64(value)


@inner(_nrt=False)
def below(a: Word, b: Word) -> Word:
    """Whether a word is less than another, both unsigned."""
    return unsigned(a) < unsigned(b)


def _plainly(made: Any, instead: Callable[..., Any]) -> Any:
    made.instead = instead
    return made


def _address(context: Any, builder: Any, signature: Any, arguments: Any, bits: int) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    byte = builder.gep(builder.bitcast(array.data, ir.IntType(8).as_pointer()), [arguments[1]])
    return builder.bitcast(byte, ir.IntType(bits).as_pointer())


def _loader(bits: int, extended: bool) -> Any:
    @intrinsic
    def load(typing_context: Any, memory: Any, position: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value = builder.load(_address(context, builder, signature, arguments, bits), align=1)
            if bits == 64:
                return value
            return (builder.sext if extended else builder.zext)(value, _I64)

        return types.int64(memory, types.int64), generate

    def from_bytes(memory: Any, position: int) -> int:
        return int.from_bytes([memory[position + k] for k in range(bits // 8)], "little", signed=extended)

    return _plainly(load, from_bytes)


def _storer(bits: int) -> Any:
    @intrinsic
    def store(typing_context: Any, memory: Any, position: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = arguments[2] if bits == 64 else builder.trunc(arguments[2], ir.IntType(bits))
            builder.store(data, _address(context, builder, signature, arguments, bits), align=1)
            return context.get_dummy_value()

        return types.none(memory, types.int64, types.int64), generate

    def to_bytes(memory: Any, position: int, value: int) -> None:
        for k in range(bits // 8):
            memory[position + k] = int(value) >> 8 * k & 255

    return _plainly(store, to_bytes)


load_i8, load_i16, load_i32, load_i64 = (_loader(bits, True) for bits in (8, 16, 32, 64))
load_u8, load_u16, load_u32 = (_loader(bits, False) for bits in (8, 16, 32))
store_8, store_16, store_32, store_64 = (_storer(bits) for bits in (8, 16, 32, 64))


@intrinsic
def _multiply_high_unsigned(typing_context: Any, first: Any, second: Any) -> Any:
    """The upper 64 bits of the product of two unsigned words."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        product = builder.mul(*(builder.zext(value, _I128) for value in arguments))
        return builder.trunc(builder.lshr(product, _I128(64)), _I64)

    return types.int64(types.int64, types.int64), generate


multiply_high_unsigned: Any = _plainly(
    _multiply_high_unsigned, lambda first, second: np.int64(signed.instead(unsigned.instead(first) * unsigned.instead(second) >> 64))
)


@intrinsic
def _leading_zeros(typing_context: Any, value: Any) -> Any:
    """Leading zero bits of a 64-bit integer; 64 for zero."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], cgutils.false_bit)

    return types.int64(types.int64), generate


leading_zeros: Any = _plainly(_leading_zeros, lambda value: 64 - unsigned.instead(value).bit_length())


@intrinsic
def _fused_multiply_add(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """a b + c of floating-point numbers of one size, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return a(a, b, c), generate


fused_multiply_add: Any = _fused_multiply_add


@inner(_nrt=False)
def double_of(bits: Word) -> Any:
    """The number in double precision that a register holds."""
    return np.int64(bits).view(np.float64)


@inner(_nrt=False)
def single_of(bits: Word) -> Any:
    """The number in single precision that the lower half of a register holds."""
    return np.uint32(bits & 0xFFFFFFFF).view(np.float32)


@inner(_nrt=False)
def bits_of_double(number: Any) -> Word:
    """A register that holds a number in double precision."""
    return signed(np.float64(number).view(np.int64))


@inner(_nrt=False)
def bits_of_single(number: Any) -> Word:
    """The lower half of a register that holds a number in single precision."""
    return signed(np.float32(number).view(np.uint32))
