"""What is in a static RISC-V Linux executable: its segments, entry, thread-local storage."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from analysis.errors import InputError

_MACHINES = {
    3: "x86",
    8: "MIPS",
    20: "PowerPC",
    21: "PowerPC64",
    22: "S390",
    40: "Arm",
    62: "x86-64",
    183: "AArch64",
    243: "RISC-V",
    258: "LoongArch",
}
_RISCV = 243
_LOAD, _DYNAMIC, _INTERPRETER, _TLS = 1, 2, 3, 7
_EXECUTABLE, _STATIC_PIE = 2, 3
_HEADER, _PROGRAM_HEADER = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQQQ")
_MAXIMUM_SPAN = 1 << 31
_USER_SPACE = 1 << 56
_PAGE = 4096


@dataclass(frozen=True)
class Segment:
    """A loadable segment.

    Attributes:
        memory_bytes: its size in memory; what `data` does not cover is zero.
    """

    address: int
    data: bytes
    memory_bytes: int
    executable: bool
    writable: bool


@dataclass(frozen=True)
class Program:
    """A static executable.

    Attributes:
        headers_address, headers_count: program headers in memory (0 when no segment holds them), which start-up code reads for
            the TLS segment.
    """

    path: Path
    entry: int
    segments: tuple[Segment, ...]
    headers_address: int
    headers_count: int


def read_elf(path: str | Path) -> Program:
    """Read a static 64-bit little-endian RISC-V ELF executable."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the program: {error.strerror}", path=path) from error
    if data[:4] != b"\x7fELF":
        raise InputError("not an ELF file: expected a static RV64 Linux executable", path=path)
    if len(data) < _HEADER.size:
        raise InputError(f"truncated ELF file: {len(data)} bytes, expected at least {_HEADER.size}", path=path)
    identity, kind, machine, _, entry, headers_offset, _, _, _, header_size, count, _, _, _ = _HEADER.unpack_from(data)
    if identity[4] != 2 or identity[5] != 1 or machine != _RISCV:
        width = {1: "32-bit", 2: "64-bit"}.get(identity[4], "unknown-class")
        name = _MACHINES.get(machine, f"machine {machine}")
        raise InputError(f"ELF file of another machine: {width} {name}, expected 64-bit little-endian RISC-V", path=path)
    if kind not in (_EXECUTABLE, _STATIC_PIE):
        raise InputError(f"not an executable (ELF type {kind}): link it statically", path=path)
    if header_size != _PROGRAM_HEADER.size or headers_offset + count * header_size > len(data):
        raise InputError("truncated ELF file: its program headers are not all there", path=path)
    headers = [_PROGRAM_HEADER.unpack_from(data, headers_offset + k * header_size) for k in range(count)]
    if any(header[0] == _INTERPRETER for header in headers):
        raise InputError("dynamically linked: expected a static executable (link with -static)", path=path)
    # A static position-independent executable relocates itself; it may be put anywhere.
    bias = 0x10000 if kind == _STATIC_PIE and min((h[3] for h in headers if h[0] == _LOAD), default=0) < 0x1000 else 0
    segments, headers_address = [], 0
    for type_, flags, offset, address, _, file_bytes, memory_bytes, _ in headers:
        if type_ != _LOAD or memory_bytes == 0:
            continue
        if offset + file_bytes > len(data) or file_bytes > memory_bytes:
            missing = f"bytes {offset} to {offset + file_bytes} expected, the file has {len(data)}"
            raise InputError(f"truncated ELF file: segment at {address:#x}: {missing}", path=path)
        # Linux maps whole pages: what lies before the segment in its first page of the file is in memory too.
        before = address % _PAGE if (address - offset) % _PAGE == 0 else 0
        start = offset - min(before, offset)
        if start <= headers_offset < offset + file_bytes:
            headers_address = address + bias + headers_offset - offset
        begin = offset - start
        content = data[start : offset + file_bytes]
        segments.append(Segment(address + bias - begin, content, memory_bytes + begin, bool(flags & 1), bool(flags & 2)))
    segments.sort(key=lambda segment: segment.address)
    entry += bias
    if not any(segment.executable and segment.address <= entry < segment.address + segment.memory_bytes for segment in segments):
        raise InputError(f"entry {entry:#x} lies in no executable segment", path=path)
    low, high = segments[0].address, max(segment.address + segment.memory_bytes for segment in segments)
    if high - low > _MAXIMUM_SPAN or low < 0x1000 or high > _USER_SPACE:
        limits = f"at most {_MAXIMUM_SPAN} bytes between 0x1000 and {_USER_SPACE:#x}"
        raise InputError(f"segments from {low:#x} to {high:#x}: expected {limits}", path=path)
    return Program(path, entry, tuple(segments), headers_address, count)
