"""The part of Linux that a static program needs: its first stack, and a few system calls.

Source: Linux include/uapi/asm-generic/unistd.h (numbers), the System V ABI for RISC-V (initial stack, auxiliary vector).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from analysis.cores.riscv import operations as op
from analysis.cores.riscv.elf import Program
from analysis.errors import InputError

STACK_TOP = 0x40_0000_0000
"""End of user space under Sv39."""

STACK_BYTES = 8 << 20
_PAGE = 4096
_NO_FILE, _BAD_DESCRIPTOR, _NO_MEMORY, _FAULT, _INVALID, _NOT_TTY, _NO_SEEK, _NO_CALL = -2, -9, -12, -14, -22, -25, -29, -38
_AT_NULL, _AT_PHDR, _AT_PHENT, _AT_PHNUM, _AT_PAGESZ, _AT_ENTRY, _AT_UID = 0, 3, 4, 5, 6, 9, 11
_AT_EUID, _AT_GID, _AT_EGID, _AT_HWCAP, _AT_CLKTCK, _AT_SECURE, _AT_RANDOM = 12, 13, 14, 16, 17, 23, 25
_HWCAP = sum(1 << (ord(letter) - ord("a")) for letter in "imafdc")
_WRITE = 2  # PROT_WRITE
_NANOSECONDS = 1_000_000_000
_ANSWERS = {29: _NOT_TTY, 56: _NO_FILE, 62: _NO_SEEK, 78: _INVALID}  # ioctl, openat, lseek, readlinkat
# munmap, madvise, sigaction, sigprocmask, robust list, close, futex, sched_yield, sigaltstack: nothing to do.
_ANSWERS |= dict.fromkeys((215, 233, 134, 135, 99, 57, 98, 124, 132), 0)
# set_tid_address, getpid, gettid, and the ids of user and group
_ANSWERS |= dict.fromkeys((96, 172, 178, 174, 175, 176, 177), 1000)


def build_stack(stack: NDArray[np.uint8], top: int, program: Program, argv: tuple[str, ...]) -> int:
    """Write argc, argv, an empty envp and the auxiliary vector; returns the stack pointer (a multiple of 16)."""
    encoded = [os.fsencode(string) + b"\0" for string in argv]
    places = [0, *accumulate(len(string) for string in encoded)]
    text = b"".join(encoded)
    if (needed := len(text) + 8 * len(encoded)) > len(stack) // 4:
        raise InputError(f"arguments take {needed} bytes: expected at most {len(stack) // 4}", path=program.path)
    random = bytes(range(0x10, 0x20))
    strings_at = (top - 16 - len(random) - len(text)) & -16
    random_at = strings_at + len(text)
    pointers = [strings_at + place for place in places[:-1]]
    auxiliary = [
        (_AT_PHDR, program.headers_address),
        (_AT_PHENT, 56),
        (_AT_PHNUM, program.headers_count),
        (_AT_PAGESZ, _PAGE),
        (_AT_ENTRY, program.entry),
        (_AT_UID, 1000),
        (_AT_EUID, 1000),
        (_AT_GID, 1000),
        (_AT_EGID, 1000),
        (_AT_HWCAP, _HWCAP),
        (_AT_CLKTCK, 100),
        (_AT_SECURE, 0),
        (_AT_RANDOM, random_at),
        (_AT_NULL, 0),
    ]
    words = [len(argv), *pointers, 0, 0]
    words += [word for pair in auxiliary for word in pair]
    pointer = (strings_at - 8 * len(words)) & -16
    for address, data in ((strings_at, text + random), (pointer, struct.pack(f"<{len(words)}Q", *words))):
        start = len(stack) - (top - address)
        stack[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return pointer


MOST_OUTPUT_BYTES = 256 << 20
_MOST_VECTORS = 1024  # IOV_MAX


class Kernel:
    """System calls of one process, and what it has written.

    Args:
        heap: address where brk starts.
        end: address where mmap ends; it grows downwards to brk.
        output: called with descriptor and bytes of each write; None collects them in `written`.
    """

    def __init__(
        self,
        memory: NDArray[np.uint8],
        state: NDArray[np.int64],
        heap: int,
        end: int,
        output: Callable[[int, bytes], None] | None,
    ) -> None:
        self.memory, self.state = memory, state
        self.heap = self.brk = heap
        self.mapped = end
        self.written: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
        self.output = output if output is not None else lambda descriptor, data: self.written[descriptor].extend(data)
        self.put_out = 0

    def view(self, address: int, size: int, write: bool = False) -> NDArray[np.uint8] | None:
        """Bytes of memory at an address, or None when they are not all there, or `write` and the program may only read some."""
        start = address - int(self.state[op.STATE_IMAGE_BASE])
        if 0 <= start <= int(self.state[op.STATE_IMAGE_SIZE]) - size:
            return None if write and not self.writable(start, size).all() else self.memory[start : start + size]
        start = address - int(self.state[op.STATE_STACK_BASE])
        if 0 <= start <= int(self.state[op.STATE_STACK_SIZE]) - size:
            start += int(self.state[op.STATE_STACK_OFFSET])
            return self.memory[start : start + size]
        return None

    def writable(self, start: int, size: int) -> NDArray[np.uint8]:
        """A byte for each page that so many bytes from a place in the image on touch: whether the program may write into it."""
        pages = int(self.state[op.STATE_PAGES_OFFSET])
        return self.memory[pages + start // _PAGE : pages + -(-(start + size) // _PAGE)]

    def call(self, registers: NDArray[np.int64]) -> int | None:
        """Serve the call in a7 with the arguments in a0-a5, result in a0; returns the exit code when it ends the program."""
        number, arguments = int(registers[17]), [int(value) & 0xFFFFFFFFFFFFFFFF for value in registers[10:16]]
        if number in (93, 94):
            return arguments[0] & 255
        if number in (129, 130, 131):  # kill, tkill, tgkill: abort() and raise() end so
            signal = arguments[2] if number == 131 else arguments[1]
            if signal:
                return 128 + (signal & 127)
        registers[10] = self._serve(number, arguments)
        return None

    def _serve(self, number: int, a: list[int]) -> int:
        if number == 64:
            return self._write(a[0], a[1], a[2])
        if number == 66:
            return self._write_vector(a[0], a[1], a[2])
        if number == 63:
            return self._give(a[1], b"") if a[0] == 0 else _BAD_DESCRIPTOR  # standard input is empty
        if number == 214:
            return self._brk(a[0])
        if number == 222:
            return self._map(a)
        if number in (113, 169):
            return self._time(a[1] if number == 113 else a[0], 1 if number == 113 else 1000)
        if number == 278:
            return self._random(a[0], a[1])
        if number == 160:
            return self._system_name(a[0])
        if number in (79, 80):
            return self._status(a[0], a[2] if number == 79 else a[1])
        if number == 226:
            return self._protect(a[0], a[1], a[2])
        return _ANSWERS.get(number, _NO_CALL)

    def _write(self, descriptor: int, address: int, size: int) -> int:
        if descriptor not in (1, 2):
            return _BAD_DESCRIPTOR
        data = self.view(address, size)
        if data is None:
            return _FAULT
        self.output(descriptor, data.tobytes())
        self.put_out += size
        if self.put_out > MOST_OUTPUT_BYTES:
            raise InputError(f"the program writes more than {MOST_OUTPUT_BYTES:,} bytes")
        return size

    def _write_vector(self, descriptor: int, address: int, count: int) -> int:
        if count > _MOST_VECTORS:
            return _INVALID
        vector = self.view(address, 16 * count)
        if vector is None:
            return _FAULT
        total = 0
        for base, size in struct.iter_unpack("<QQ", vector.tobytes()):
            written = self._write(descriptor, base, size) if size else 0
            if written < 0:
                return total or written
            total += written
        return total

    def _give(self, address: int, data: bytes) -> int:
        """Put bytes where the program asked for them; 0, or the error."""
        target = self.view(address, len(data), write=True)
        if target is None:
            return _FAULT
        target[:] = np.frombuffer(data, np.uint8)
        return 0

    def _status(self, descriptor: int, address: int) -> int:
        """fstat and newfstatat of the standard streams: pipes."""
        if descriptor not in (0, 1, 2):
            return _BAD_DESCRIPTOR
        mode, block = 0o010600, _PAGE
        return self._give(address, struct.pack("<16xI36xI68x", mode, block))

    def _brk(self, address: int) -> int:
        if self.heap <= address <= self.mapped:
            self.brk = address
        return self.brk

    def _map(self, a: list[int]) -> int:
        size, flags = -(-a[1] // _PAGE) * _PAGE, a[3]
        if not flags & 0x20 or size == 0:
            return _INVALID
        if flags & 0x10:
            target = self.view(a[0], size)
            if target is None:
                return _NO_MEMORY
            target[:] = 0
            self._protect(a[0], size, a[2])
            return a[0]
        if self.mapped - size < self.brk:
            return _NO_MEMORY
        self.mapped -= size
        self._protect(self.mapped, size, a[2])
        return self.mapped

    def _protect(self, address: int, size: int, protection: int) -> int:
        """mprotect: the only right that is kept is that to write, into pages of the image and its heap."""
        if address % _PAGE:
            return _INVALID
        if self.view(address, size) is None:
            return _NO_MEMORY
        start = address - int(self.state[op.STATE_IMAGE_BASE])
        if 0 <= start < int(self.state[op.STATE_IMAGE_SIZE]):
            self.writable(start, size)[:] = bool(protection & _WRITE)
        return 0

    def _time(self, address: int, unit: int) -> int:
        """One nanosecond an instruction: the same at every run."""
        now = int(self.state[op.STATE_RETIRED])
        return self._give(address, struct.pack("<QQ", now // _NANOSECONDS, now % _NANOSECONDS // unit))

    def _random(self, address: int, size: int) -> int:
        target = self.view(address, size, write=True)
        if target is None:
            return _FAULT
        target[:] = np.resize(np.arange(256, dtype=np.uint8), size)
        return size

    def _system_name(self, address: int) -> int:
        names = (b"Linux", b"localhost", b"6.1.0", b"#1", b"riscv64", b"(none)")
        return self._give(address, b"".join(name.ljust(65, b"\0") for name in names))
