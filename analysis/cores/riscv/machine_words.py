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

_I32, _I64, _I128 = ir.IntType(32), ir.IntType(64), ir.IntType(128)
_INT_OF = {32: _I32, 64: _I64}
_FLOAT_OF: dict[int, Any] = {32: ir.FloatType(), 64: ir.DoubleType()}


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


def _high_product(first_signed: bool, second_signed: bool) -> Any:
    @intrinsic
    def high(typing_context: Any, first: Any, second: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            widened = [
                (builder.sext if extended else builder.zext)(value, _I128)
                for value, extended in zip(arguments, (first_signed, second_signed), strict=True)
            ]
            return builder.trunc(builder.lshr(builder.mul(*widened), _I128(64)), _I64)

        return types.int64(types.int64, types.int64), generate

    def of_numbers(first: int, second: int) -> np.int64:
        a, b = (int(value) if kept else unsigned.instead(value) for value, kept in ((first, first_signed), (second, second_signed)))
        return np.int64(signed.instead(a * b >> 64))

    return _plainly(high, of_numbers)


multiply_high = _high_product(True, True)
multiply_high_signed_unsigned = _high_product(True, False)
multiply_high_unsigned = _high_product(False, False)


@intrinsic
def _leading_zeros(typing_context: Any, value: Any) -> Any:
    """Leading zero bits of a 64-bit integer; 64 for zero."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], cgutils.false_bit)

    return types.int64(types.int64), generate


leading_zeros: Any = _leading_zeros
leading_zeros.instead = lambda value: 64 - unsigned.instead(value).bit_length()


def _float_operation(bits: int, operands: int, emit: Callable[..., Any]) -> Any:
    """An IEEE operation, rounded to nearest even, on operands given by their bits (the lower ones for single precision)."""

    def to_float(builder: Any, value: Any) -> Any:
        return builder.bitcast(value if bits == 64 else builder.trunc(value, _I32), _FLOAT_OF[bits])

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        result = builder.bitcast(emit(builder, *[to_float(builder, value) for value in arguments]), _INT_OF[bits])
        return result if bits == 64 else builder.zext(result, _I64)

    if operands == 1:

        @intrinsic
        def unary(typing_context: Any, a: Any) -> Any:
            return types.int64(types.int64), generate

        return unary
    if operands == 2:

        @intrinsic
        def binary(typing_context: Any, a: Any, b: Any) -> Any:
            return types.int64(types.int64, types.int64), generate

        return binary

    @intrinsic
    def ternary(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
        return types.int64(types.int64, types.int64, types.int64), generate

    return ternary


def _square_root(builder: Any, value: Any) -> Any:
    kind = value.type
    return builder.call(builder.module.declare_intrinsic("llvm.sqrt", [kind]), [value])


def _fused(builder: Any, a: Any, b: Any, c: Any) -> Any:
    return builder.fma(a, b, c)


def _of_bits(bits: int, operation: Callable[..., Any]) -> Callable[..., int]:
    """The same in plain Python, with numpy's numbers, which round as the machine's do."""
    word, number = (np.int64, np.float64) if bits == 64 else (np.uint32, np.float32)
    return lambda *values: int(operation(*(word(value if bits == 64 else value & 0xFFFFFFFF).view(number) for value in values)).view(word))


float_add_64, float_add_32 = (_float_operation(bits, 2, lambda builder, a, b: builder.fadd(a, b)) for bits in (64, 32))
float_subtract_64, float_subtract_32 = (_float_operation(bits, 2, lambda builder, a, b: builder.fsub(a, b)) for bits in (64, 32))
float_multiply_64, float_multiply_32 = (_float_operation(bits, 2, lambda builder, a, b: builder.fmul(a, b)) for bits in (64, 32))
float_divide_64, float_divide_32 = (_float_operation(bits, 2, lambda builder, a, b: builder.fdiv(a, b)) for bits in (64, 32))
float_root_64, float_root_32 = (_float_operation(bits, 1, _square_root) for bits in (64, 32))
float_fused_64, float_fused_32 = (_float_operation(bits, 3, _fused) for bits in (64, 32))

for _bits, *_made in (
    (64, float_add_64, float_subtract_64, float_multiply_64, float_divide_64, float_root_64),
    (32, float_add_32, float_subtract_32, float_multiply_32, float_divide_32, float_root_32),
):
    for _one, _operation in zip(_made, (np.add, np.subtract, np.multiply, np.divide, np.sqrt), strict=True):
        _one.instead = _of_bits(_bits, _operation)
