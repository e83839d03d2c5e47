"""Small ELF files, and unicorn with the same program in its memory: what the tests of the emulator compare with."""

from __future__ import annotations

import struct
from pathlib import Path

CODE, DATA, STACK_TOP = 0x10000, 0x20000, 0x4000_0000
RISCV, EXECUTABLE = 243, 2


def write_elf(path: Path, words: list[int], data_bytes: int = 0x10000, machine: int = RISCV, kind: int = EXECUTABLE) -> Path:
    """An executable with these 32-bit words at CODE and `data_bytes` of zeros at DATA."""
    code = struct.pack(f"<{len(words)}I", *words)
    start = 4096  # of a page, as Linux maps it
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack("<16sHHIQQQIHHHHHH", identity, kind, machine, 1, CODE, 64, 0, 5, 64, 56, 2, 0, 0, 0)
    segments = struct.pack("<IIQQQQQQ", 1, 5, start, CODE, CODE, len(code), len(code), 4096)
    segments += struct.pack("<IIQQQQQQ", 1, 6, start + len(code), DATA, DATA, 0, data_bytes, 4096)
    path.write_bytes((header + segments).ljust(start, b"\0") + code)
    return path
