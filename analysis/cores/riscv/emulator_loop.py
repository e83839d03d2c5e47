"""The emulator's compiled loop: executes decoded instructions and writes down which ones, and the memory addresses.

A row of `code` is an instruction slot of two bytes: two 64-bit words, the packed fields of `operations` and the immediate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.compiled import inner, outer
from analysis.cores.riscv import operations as op
from analysis.cores.riscv.bit_manipulation import manipulated
from analysis.cores.riscv.emulator_float import arithmetic, control_register, other
from analysis.cores.riscv.exact_float import BOX
from analysis.cores.riscv.machine_words import (
    Word,
    below,
    bits_of_double,
    bits_of_single,
    double_of,
    fused_multiply_add,
    load_i8,
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    load_u16,
    load_u32,
    multiply_high_unsigned,
    signed,
    single_of,
    store_8,
    store_16,
    store_32,
    store_64,
    unsigned,
)
from analysis.cores.riscv.operations import STATE_FLAGS, STATE_ROUNDING

_MINIMUM = -(1 << 63)
_LOW_32 = 0xFFFFFFFF
_EXPONENT_64 = 0x7FF
_EXPONENT_32 = 0xFF


@inner(_nrt=False)
def _word(value: Word) -> Word:
    return signed(value << 32) >> 32


@inner(_nrt=False)
def _integer_rare(operation: Word, a: Word, b: Word) -> Word:
    """Division and remainder: by zero and overflow as the M extension defines them, without a trap."""
    divides = operation in (op.DIV, op.DIVU, op.DIVW, op.DIVUW)
    without_sign, narrow = operation in (op.DIVU, op.REMU, op.DIVUW, op.REMUW), operation > op.REMU
    if narrow:
        a, b = (a & _LOW_32, b & _LOW_32) if without_sign else (_word(a), _word(b))
    if b == 0:
        found = signed(-1) if divides else a
    elif without_sign:
        found = signed(unsigned(a) // unsigned(b)) if divides else signed(unsigned(a) % unsigned(b))
    else:
        quotient = signed(-a) if b == -1 else a // b
        if quotient < 0 and b != -1 and quotient * b != a:
            quotient += 1
        found = quotient if divides else signed(a - quotient * b)
    return _word(found) if narrow else found


@inner(_nrt=False)
def _atomic(extra: Word, old: Word, operand: Word) -> Word:
    """New memory value of a read-modify-write."""
    kind = extra & 31
    if (extra & op.ATOMIC_DOUBLE) == 0:
        operand = _word(operand)
    if kind == 0b00000:
        return old + operand
    if kind == 0b00100:
        return old ^ operand
    if kind == 0b01100:
        return old & operand
    if kind == 0b01000:
        return old | operand
    if kind == 0b10000:
        return min(old, operand)
    if kind == 0b10100:
        return max(old, operand)
    if kind == 0b11000:
        return old if below(old, operand) else operand
    if kind == 0b11100:
        return operand if below(old, operand) else old
    return operand


@inner(error_model="numpy", _nrt=False)
def _calculated(kind: Word, x: Any, y: Any, z: Any) -> Any:
    """Arithmetic of one precision: sum, difference, product, quotient, root, fused multiply-add, in the order of `operations`."""
    if kind == 0:
        return x + y
    if kind == 1:
        return x - y
    if kind == 2:
        return x * y
    if kind == 3:
        return x / y
    return np.sqrt(x) if kind == 4 else fused_multiply_add(x, y, z)


@inner(_nrt=False)
def _is_boxed(value: Word) -> Word:
    """Whether a register holds a number in single precision, NaN-boxed."""
    return value >> 32 == -1


@inner(_nrt=False)
def _writable(memory: NDArray[np.uint8], pages: Word, position: Word, size: Word) -> Word:
    """Whether the program may write `size` bytes from `position` of the image on."""
    first, last = memory[unsigned(pages + (position >> op.PAGE_BITS))], memory[unsigned(pages + ((position + size - 1) >> op.PAGE_BITS))]
    return (first & last) != 0


@outer(error_model="numpy", boundscheck=False, _nrt=False)
def execute(
    code: NDArray[np.int64],
    registers: NDArray[np.int64],
    memory: NDArray[np.uint8],
    state: NDArray[np.int64],
    index: NDArray[np.uint32],
    address: NDArray[np.uint64],
    first: Word,
    last: Word,
) -> Word:
    """Execute until `last - first` instructions are written down or something stops the loop (state[STATE_STOP]).

    Args:
        code: decoded slots, int64 (slots, 2).
        registers: x0-x31, f0-f31, and the one that writes to x0 go to.
        memory: the image with its heap, then the stack, then a byte a page of the image: whether the program may write into it.
        state: see `operations`; STATE_NEXT holds the slot to execute and, at the end, the one that comes next.
        index, address: slot and memory address of each instruction, written from `first` on.
        first, last: bounds in these.

    Returns:
        the position in `index` behind the last instruction executed.
    """
    # More than 100 lines: one branch an operation, in one loop over the state, which numba turns into a jump table.
    base = state[op.STATE_BASE]
    image_base, image_size = state[op.STATE_IMAGE_BASE], state[op.STATE_IMAGE_SIZE]
    stack_base, stack_size, stack_offset = state[op.STATE_STACK_BASE], state[op.STATE_STACK_SIZE], state[op.STATE_STACK_OFFSET]
    pages = state[op.STATE_PAGES_OFFSET]
    slots = unsigned(len(code))
    i = state[op.STATE_NEXT]
    quick = state[STATE_ROUNDING] == 0 and (state[STATE_FLAGS] & 1) == 1
    stop = op.STOP_LIMIT
    n = first
    while n < last:
        if unsigned(i) >= slots:
            stop = op.STOP_FETCH
            break
        fields = code[unsigned(i), 0]
        immediate = code[unsigned(i), 1]
        operation = fields & 255
        a = registers[unsigned((fields >> 8) & 255)]
        b = registers[unsigned((fields >> 16) & 255)]
        rd = unsigned((fields >> 24) & 255)
        following = i + ((fields >> op.FIELD_LENGTH) & 255)
        index[unsigned(n)] = i
        where = signed(0)
        position = signed(0)
        if op.LB <= operation <= op.SD:
            where = a + immediate
            position = where - image_base
            if unsigned(position) >= unsigned(image_size):
                position = where - stack_base
                if unsigned(position) >= unsigned(stack_size):
                    state[op.STATE_FAULT] = where
                    stop = op.STOP_FAULT
                    break
                position += stack_offset
            elif operation >= op.SB and not _writable(memory, pages, position, 1 << (operation - op.SB)):
                state[op.STATE_FAULT] = where
                stop = op.STOP_READ_ONLY
                break
        address[unsigned(n)] = where
        if operation == op.ADD:
            registers[rd] = signed(a + (b + immediate))
        elif operation == op.LD:
            registers[rd] = load_i64(memory, position)
        elif operation == op.SD:
            store_64(memory, position, b)
        elif operation == op.LW:
            registers[rd] = load_i32(memory, position)
        elif operation == op.LBU:
            registers[rd] = load_u8(memory, position)
        elif operation == op.SW:
            store_32(memory, position, b)
        elif operation == op.SB:
            store_8(memory, position, b)
        elif operation == op.LWU:
            registers[rd] = load_u32(memory, position)
        elif operation == op.LH:
            registers[rd] = load_i16(memory, position)
        elif operation == op.LHU:
            registers[rd] = load_u16(memory, position)
        elif operation == op.LB:
            registers[rd] = load_i8(memory, position)
        elif operation == op.SH:
            store_16(memory, position, b)
        elif operation == op.FLW:
            registers[rd] = BOX | load_u32(memory, position)
        elif operation == op.BEQ:
            if a == b:
                following = i + immediate
        elif operation == op.BNE:
            if a != b:
                following = i + immediate
        elif operation == op.BLT:
            if a < b:
                following = i + immediate
        elif operation == op.BGE:
            if a >= b:
                following = i + immediate
        elif operation == op.BLTU:
            if below(a, b):
                following = i + immediate
        elif operation == op.BGEU:
            if not below(a, b):
                following = i + immediate
        elif operation == op.JAL:
            registers[rd] = base + 2 * following
            following = i + immediate
        elif operation == op.JALR:
            registers[rd] = base + 2 * following
            following = (a + immediate - base) >> 1
        elif operation == op.ADDW:
            registers[rd] = _word(a + b + immediate)
        elif operation == op.SUB:
            registers[rd] = signed(a - b)
        elif operation == op.SUBW:
            registers[rd] = _word(a - b)
        elif operation == op.SLL:
            registers[rd] = signed(a << ((b + immediate) & 63))
        elif operation == op.SRL:
            registers[rd] = signed(unsigned(a) >> unsigned((b + immediate) & 63))
        elif operation == op.SRA:
            registers[rd] = a >> ((b + immediate) & 63)
        elif operation == op.SLLW:
            registers[rd] = _word(a << ((b + immediate) & 31))
        elif operation == op.SRLW:
            registers[rd] = _word((a & _LOW_32) >> ((b + immediate) & 31))
        elif operation == op.SRAW:
            registers[rd] = _word(a) >> ((b + immediate) & 31)
        elif operation == op.XOR:
            registers[rd] = a ^ (b + immediate)
        elif operation == op.OR:
            registers[rd] = a | (b + immediate)
        elif operation == op.AND:
            registers[rd] = a & (b + immediate)
        elif operation == op.SLT:
            registers[rd] = signed(a < b + immediate)
        elif operation == op.SLTU:
            registers[rd] = signed(below(a, b + immediate))
        elif operation == op.MUL:
            registers[rd] = signed(a * b)
        elif operation == op.MULW:
            registers[rd] = _word(a * b)
        elif operation == op.MULH:
            registers[rd] = signed(multiply_high_unsigned(a, b) - ((a >> 63) & b) - ((b >> 63) & a))
        elif operation == op.MULHSU:
            registers[rd] = signed(multiply_high_unsigned(a, b) - ((a >> 63) & b))
        elif operation == op.MULHU:
            registers[rd] = multiply_high_unsigned(a, b)
        elif op.FADD_D <= operation <= op.FMA_S:
            rounding = (fields >> op.FIELD_ROUNDING) & 7
            c = registers[unsigned((fields >> 32) & 255)]
            extra = (fields >> 40) & 255
            done = False
            result = signed(0)
            if quick and (rounding == 0 or rounding == 7):
                if operation <= op.FMA_D:
                    x, z = double_of(a ^ (extra << 63)), double_of(c ^ ((extra >> 1) << 63))
                    result = bits_of_double(_calculated(operation - op.FADD_D, x, double_of(b), z))
                    exponent = (result >> 52) & _EXPONENT_64
                    # No NaN, overflow or underflow; a zero sum or root is exact, and so is a product with a zero (its sign apart).
                    done = (exponent > 1 and exponent < _EXPONENT_64) or (
                        (result << 1) == 0
                        and (
                            operation == op.FADD_D
                            or operation == op.FSUB_D
                            or operation == op.FSQRT_D
                            or (operation == op.FMUL_D and ((a << 1) == 0 or (b << 1) == 0))
                        )
                    )
                else:
                    boxed = _is_boxed(a) and (_is_boxed(b) or operation == op.FSQRT_S)
                    if boxed and (_is_boxed(c) or operation != op.FMA_S):
                        u, w = single_of(a ^ ((extra & 1) << 31)), single_of(c ^ ((extra >> 1) << 31))
                        result = bits_of_single(_calculated(operation - op.FADD_S, u, single_of(b), w))
                        exponent = (result >> 23) & _EXPONENT_32
                        done = exponent > 1 and exponent < _EXPONENT_32
                        result |= BOX
            if not done:
                if rounding == 7:
                    rounding = state[STATE_ROUNDING]
                if rounding > 4:
                    stop = op.STOP_ROUNDING
                    break
                result = signed(arithmetic(operation, np.int64(a), np.int64(b), np.int64(c), extra, rounding, state))
                quick = state[STATE_ROUNDING] == 0 and (state[STATE_FLAGS] & 1) == 1
            registers[rd] = result
        elif operation == op.FSGNJ_D:
            field = (fields >> op.FIELD_ROUNDING) & 7
            source = b if field == 0 else ~b if field == 1 else a ^ b
            registers[rd] = (a & ~_MINIMUM) | (source & _MINIMUM)
        elif operation == op.FLOAT_OTHER:
            field = (fields >> op.FIELD_ROUNDING) & 7
            extra = (fields >> 40) & 255
            rounding = field
            if extra & 31 >= op.OTHER_TO_W and extra & 31 <= op.OTHER_TO_OTHER_FORMAT:
                if rounding == 7:
                    rounding = state[STATE_ROUNDING]
                if rounding > 4:
                    stop = op.STOP_ROUNDING
                    break
            registers[rd] = signed(other(extra, np.int64(a), np.int64(b), field, rounding, state))
            quick = state[STATE_ROUNDING] == 0 and (state[STATE_FLAGS] & 1) == 1
        elif operation == op.BITS:
            registers[rd] = manipulated((fields >> op.FIELD_EXTRA) & 255, a, b + immediate)
        elif op.DIV <= operation <= op.REMUW:
            registers[rd] = _integer_rare(operation, a, b)
        elif operation == op.FENCE:
            pass
        elif operation == op.CSR:
            extra = (fields >> 40) & 255
            legal, old = control_register(extra, immediate & 0xFFF, a if extra & 4 == 0 else immediate >> 12, n - first, state)
            if not legal:
                stop = op.STOP_CSR
                break
            registers[rd] = old
            quick = state[STATE_ROUNDING] == 0 and (state[STATE_FLAGS] & 1) == 1
        elif operation == op.ATOMIC:
            extra = (fields >> 40) & 255
            kind, wide = extra & 31, (extra & op.ATOMIC_DOUBLE) != 0
            position = a - image_base
            if unsigned(position) >= unsigned(image_size):
                position = a - stack_base + stack_offset
                if unsigned(a - stack_base) >= unsigned(stack_size):
                    position = signed(-1)
            if position < 0 or a & (7 if wide else 3):
                state[op.STATE_FAULT] = a
                stop = op.STOP_FAULT
                break
            address[unsigned(n)] = a
            old = load_i64(memory, position) if wide else load_i32(memory, position)
            write = True
            new = b
            if kind == 0b00010:
                state[op.STATE_RESERVED] = a
                write = False
            elif kind == 0b00011:
                write = state[op.STATE_RESERVED] == a
                old = signed(not write)
                state[op.STATE_RESERVED] = -1
            else:
                new = _atomic(extra, old, b)
            if write:
                if unsigned(a - image_base) < unsigned(image_size) and not _writable(memory, pages, position, 1):
                    state[op.STATE_FAULT] = a
                    stop = op.STOP_READ_ONLY
                    break
                if wide:
                    store_64(memory, position, new)
                else:
                    store_32(memory, position, new)
            registers[rd] = old
        else:
            if operation == op.UNDECODED:
                stop = op.STOP_DECODE
                break
            n += 1
            i = following
            stop = op.STOP_ECALL if operation == op.ECALL else op.STOP_EBREAK if operation == op.EBREAK else op.STOP_FENCE_I
            break
        i = following
        n += 1
    state[op.STATE_NEXT] = i
    state[op.STATE_STOP] = stop
    state[op.STATE_RETIRED] += n - first
    return n
