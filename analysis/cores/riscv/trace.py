"""What did each executed instruction do: an instruction trace as plain arrays, and its .npz file."""

from __future__ import annotations

import lzma
import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.errors import InputError

NO_REGISTER = 255
"""Register number of an operand that does not exist. x0 is never a dependence, so it is none as well."""

FIRST_FLOAT_REGISTER = 32
"""Registers 0-31 are the integer registers x0-x31, 32-63 the floating-point registers f0-f31."""

NEVER_EXECUTED = 255
"""Operation class of a row of the code table that no executed instruction refers to."""

EPOCH_INSTRUCTIONS = 100_000
"""Instructions an epoch (NeuroScalar, section 4.1.1)."""

PLAIN_INSTRUCTIONS = 10_000
"""So many instructions are timed or ranked in plain Python sooner than that is compiled."""


class OpClass(IntEnum):
    """Class of an instruction: gem5's names where gem5 has one; control transfers are IntAlu there and told apart here."""

    INT_ALU = 0
    INT_MULT = 1
    INT_DIV = 2
    FLOAT_ADD = 3
    FLOAT_CMP = 4  # comparisons, fmin, fmax
    FLOAT_CVT = 5  # conversions and moves between register files
    FLOAT_MULT = 6
    FLOAT_MULT_ACC = 7
    FLOAT_DIV = 8
    FLOAT_MISC = 9  # sign injection, fclass
    FLOAT_SQRT = 10
    MEM_READ = 11
    MEM_WRITE = 12
    FLOAT_MEM_READ = 13
    FLOAT_MEM_WRITE = 14
    BRANCH = 15  # conditional, direct
    JUMP = 16  # unconditional, direct, no link
    CALL = 17  # unconditional, direct, links x1 or x5
    INDIRECT_JUMP = 18
    INDIRECT_CALL = 19
    RETURN = 20  # jalr through x1 or x5 without a link to the same register
    SYSTEM = 21  # ecall, ebreak, CSR instructions
    FENCE = 22
    ATOMIC = 23  # load-reserved, store-conditional, read-modify-write: reads and writes memory


MEMORY_CLASSES = (OpClass.MEM_READ, OpClass.MEM_WRITE, OpClass.FLOAT_MEM_READ, OpClass.FLOAT_MEM_WRITE, OpClass.ATOMIC)
MEM_READ, MEM_WRITE, FLOAT_MEM_READ, FLOAT_MEM_WRITE, ATOMIC = (int(each) for each in MEMORY_CLASSES)
"""Plain integers, as compiled code compares them."""
LOADS = frozenset({OpClass.MEM_READ, OpClass.FLOAT_MEM_READ, OpClass.ATOMIC})
STORES = frozenset({OpClass.MEM_WRITE, OpClass.FLOAT_MEM_WRITE, OpClass.ATOMIC})


@dataclass(frozen=True)
class Code:
    """Static instructions of a program: what does not change from one execution of an instruction to the next.

    Attributes:
        pc: address, uint64 (rows,).
        length: bytes of the encoding, 2 or 4, uint8 (rows,).
        opclass: `OpClass`, or `NEVER_EXECUTED`, uint8 (rows,).
        size: bytes read or written in memory, 0 when none, uint8 (rows,).
        sources: registers read, first the two of the paper's features, then the third of a fused multiply-add, uint8 (rows, 3);
            for a load [base, none, none], for a store [base, data, none].
        destination: register written or `NO_REGISTER`, uint8 (rows,).
    """

    pc: NDArray[np.uint64]
    length: NDArray[np.uint8]
    opclass: NDArray[np.uint8]
    size: NDArray[np.uint8]
    sources: NDArray[np.uint8]
    destination: NDArray[np.uint8]


@dataclass(frozen=True)
class Trace:
    """Executed instructions in program order. Metadata only: no value of a register or of memory is in it.

    Attributes:
        index: row of `code` of each executed instruction, uint32 (n,).
        address: memory address of each executed instruction, 0 when it touches none, uint64 (n,).
        end_pc: PC of the instruction that would come after the last one (after the exit call: the one behind it).
    """

    code: Code
    index: NDArray[np.uint32]
    address: NDArray[np.uint64]
    end_pc: int

    def __len__(self) -> int:
        return len(self.index)

    @property
    def pc(self) -> NDArray[np.uint64]:
        """PC of each executed instruction, uint64 (n,)."""
        return self.code.pc[self.index]

    @property
    def opclass(self) -> NDArray[np.uint8]:
        """`OpClass` of each executed instruction, uint8 (n,)."""
        return self.code.opclass[self.index]

    @property
    def size(self) -> NDArray[np.uint8]:
        """Bytes of memory touched by each executed instruction, uint8 (n,)."""
        return self.code.size[self.index]

    @property
    def sources(self) -> NDArray[np.uint8]:
        """Registers read by each executed instruction, uint8 (n, 3)."""
        return self.code.sources[self.index]

    @property
    def destination(self) -> NDArray[np.uint8]:
        """Register written by each executed instruction, uint8 (n,)."""
        return self.code.destination[self.index]

    @property
    def next_pc(self) -> NDArray[np.uint64]:
        """PC of the instruction executed next, uint64 (n,)."""
        return np.append(self.pc[1:], np.uint64(self.end_pc))

    @property
    def taken(self) -> NDArray[np.bool_]:
        """Whether control was transferred: always by jumps, calls and returns (even to the next instruction), bool (n,)."""
        opclass = self.opclass
        unconditional = (opclass > OpClass.BRANCH) & (opclass <= OpClass.RETURN)
        return unconditional | (self.next_pc != self.pc + self.code.length[self.index])

    def slice(self, first: int, end: int) -> Trace:
        """Executed instructions `first` to `end - 1`, sharing this trace's arrays."""
        end = min(end, len(self))
        after = self.end_pc if end == len(self) else int(self.code.pc[self.index[end]])
        return Trace(self.code, self.index[first:end], self.address[first:end], after)


def trace_of(
    pc: ArrayLike,
    opclass: ArrayLike,
    address: ArrayLike,
    sources: ArrayLike,
    destination: ArrayLike,
    size: ArrayLike,
    length: ArrayLike,
    end_pc: int,
) -> Trace:
    """Trace of executed instructions given one by one: the code table is found by PC.

    Args:
        pc, address: uint64 (n,).
        opclass, destination, size, length: uint8 (n,).
        sources: uint8 (n, 3).
        end_pc: PC behind the last.
    """
    unique, first, index = np.unique(np.asarray(pc, np.uint64), return_index=True, return_inverse=True)

    def of_code(values: ArrayLike) -> NDArray[np.uint8]:
        return np.asarray(values, np.uint8)[first]

    code = Code(unique, of_code(length), of_code(opclass), of_code(size), of_code(sources), of_code(destination))
    return Trace(code, index.astype(np.uint32), np.asarray(address, np.uint64), end_pc)


def concatenate(traces: list[Trace]) -> Trace:
    """One trace of consecutive parts that share one code table."""
    return Trace(
        traces[-1].code,
        np.concatenate([part.index for part in traces]),
        np.concatenate([part.address for part in traces]),
        traces[-1].end_pc,
    )


# The file: one array an attribute, one entry an executed instruction.
_FILE_TYPES: dict[str, tuple[type, tuple[int, ...]]] = {
    "pc": (np.uint64, ()),
    "address": (np.uint64, ()),
    "opclass": (np.uint8, ()),
    "source1": (np.uint8, ()),
    "source2": (np.uint8, ()),
    "source3": (np.uint8, ()),
    "destination": (np.uint8, ()),
    "size": (np.uint8, ()),
    "length": (np.uint8, ()),
    "taken": (np.bool_, ()),
}
_REGISTERS = (*range(2 * FIRST_FLOAT_REGISTER), NO_REGISTER)
_FILE_VALUES: dict[str, tuple[int, ...]] = {
    "opclass": tuple(OpClass),
    **dict.fromkeys(("source1", "source2", "source3", "destination"), _REGISTERS),
    "size": (0, 1, 2, 4, 8),
    "length": (2, 4),
}
FILE_ARRAYS = tuple(_FILE_TYPES)
RECORD = np.dtype([(name, kind) for name, (kind, _) in _FILE_TYPES.items()])
"""The same, instruction by instruction, as a collector writes it."""
FILE_BYTES_PER_INSTRUCTION = RECORD.itemsize


MOST_INSTRUCTIONS = 12_000_000  # that are held at once: at most 1.5 GiB
_UNREADABLE = (
    OSError, ValueError, EOFError, TypeError, MemoryError, RuntimeError, SyntaxError, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
    lzma.LZMAError,
)  # fmt: skip
"""What numpy and zipfile raise on damaged, encrypted or made-up archives."""


def file_columns(trace: Trace) -> dict[str, NDArray]:
    """The arrays of the .npz file, one entry an executed instruction."""
    first, second, third = (np.ascontiguousarray(column)[trace.index] for column in trace.code.sources.T)
    return {
        "pc": trace.pc,
        "address": trace.address,
        "opclass": trace.opclass,
        "source1": first,
        "source2": second,
        "source3": third,
        "destination": trace.destination,
        "size": trace.size,
        "length": trace.code.length[trace.index],
        "taken": trace.taken,
    }


def trace_of_columns(columns: Mapping[str, NDArray[Any]], end_pc: int) -> Trace:
    """The trace whose `file_columns` these are."""
    sources = np.stack([columns[f"source{k}"] for k in (1, 2, 3)], axis=1)
    rest = {name: columns[name] for name in ("pc", "opclass", "address", "destination", "size", "length")}
    return trace_of(**rest, sources=sources, end_pc=end_pc)


def _header(part: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(part)  # type: ignore[no-untyped-call]
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, kind = header(part)  # type: ignore[no-untyped-call]
    return shape, kind


def _array(path: Path, archive: zipfile.ZipFile, name: str, limit: int | None) -> NDArray[Any]:
    """One array of the archive, of a long one the first entries: no more is unpacked than that."""
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as part:
        shape, kind = _header(part)
        if math.prod(shape) * kind.itemsize > info.file_size:
            raise InputError("says that it holds more than is there", path=path, key=info.filename)
        if kind.hasobject or len(shape) > 1 or kind.itemsize > 8:
            raise InputError(f"expected a row of numbers, got {shape} of {kind}", path=path, key=name)
        here = math.prod(shape)
        held = here if limit is None else min(limit, here)
        if held > MOST_INSTRUCTIONS:
            raise InputError(f"{held:,} instructions; at most {MOST_INSTRUCTIONS:,} are held at once (a limit takes fewer)", path=path)
        content = part.read(held * kind.itemsize)
        if len(content) < held * kind.itemsize:
            raise EOFError
        return np.frombuffer(content, kind).reshape(shape if held == here else (held,))


def count_instructions(path: str | Path) -> int:
    """How many instructions a trace has, by its header alone."""
    with zipfile.ZipFile(path) as archive, archive.open("pc.npy") as part:
        return math.prod(_header(part)[0])


def read_trace(path: str | Path, plain: BinaryIO | None = None, limit: int | None = None) -> Trace:
    """Read the .npz file that `core trace` writes.

    Args:
        plain: its content, when the file itself is sealed (`sealed.unseal`).
    """
    path = Path(path)
    one_more = None if limit is None else limit + 1  # whose address ends the last one
    try:
        with zipfile.ZipFile(path if plain is None else plain) as archive:
            arrays = {}
            for name in (*FILE_ARRAYS, "end_pc"):
                if f"{name}.npy" not in archive.namelist():
                    raise InputError(f"not a trace: expected the arrays {', '.join((*FILE_ARRAYS, 'end_pc'))}", path=path, key=name)
                arrays[name] = _array(path, archive, name, one_more)
    except FileNotFoundError as error:
        raise InputError("no such trace", path=path) from error
    except InputError:
        raise
    except _UNREADABLE as error:
        raise InputError("not a complete .npz trace: truncated, damaged or of another kind", path=path) from error
    end_pc = arrays.pop("end_pc")
    if end_pc.shape != () or end_pc.dtype != np.uint64:
        raise InputError(f"expected one uint64, got {end_pc.shape} of {end_pc.dtype}", path=path, key="end_pc")
    for name, array in arrays.items():
        kind = np.dtype(_FILE_TYPES[name][0])
        if array.ndim != 1 or array.dtype != kind or array.size != arrays["pc"].size:
            raise InputError(f"expected {arrays['pc'].size} entries of {kind}, got {array.shape} of {array.dtype}", path=path, key=name)
        known = _FILE_VALUES.get(name)
        if known is not None and not (fits := np.isin(np.arange(256), known)[array]).all():
            where = int(np.argmin(fits))
            raise InputError(f"instruction {where}: {array[where]} is not one of its values", path=path, key=name)
    trace = trace_of_columns(arrays, int(end_pc))
    return trace if limit is None else trace.slice(0, limit)


class TraceWriter:
    """Writes a trace part by part, so that a long one needs the memory of one part; the file appears when all is written."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.parts = {name: self.path.with_name(f".{self.path.name}.{os.getpid()}.{name}") for name in FILE_ARRAYS}
        for part in self.parts.values():
            part.unlink(missing_ok=True)
        self.files = {name: part.open("xb") for name, part in self.parts.items()}  # x: made anew, through no link
        self.count = 0
        self.end_pc = 0

    def add(self, trace: Trace) -> None:
        """Append the instructions of `trace`."""
        for name, values in file_columns(trace).items():
            self.files[name].write(np.ascontiguousarray(values).data)
        self.count += len(trace)
        self.end_pc = trace.end_pc

    def close(self, complete: bool = True) -> None:
        """Put the parts together (or drop them when not `complete`)."""
        for file in self.files.values():
            file.close()
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.zip")
        try:
            if complete:
                self._assemble(temporary)
                temporary.replace(self.path)
        finally:
            for part in (*self.parts.values(), temporary):
                part.unlink(missing_ok=True)

    def _assemble(self, temporary: Path) -> None:
        temporary.unlink(missing_ok=True)
        with zipfile.ZipFile(temporary, "x", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, part in self.parts.items():
                header = {"descr": np.dtype(_FILE_TYPES[name][0]).str, "fortran_order": False, "shape": (self.count,)}
                with archive.open(_entry(name), "w", force_zip64=True) as target, part.open("rb") as source:
                    np.lib.format.write_array_header_1_0(target, header)
                    while block := source.read(1 << 24):
                        target.write(block)
            with archive.open(_entry("end_pc"), "w") as target:
                np.lib.format.write_array(target, np.asarray(self.end_pc, np.uint64), allow_pickle=False)


def _entry(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write `trace` as an .npz file of plain arrays (`FILE_ARRAYS`, and end_pc)."""
    writer = TraceWriter(path)
    try:
        writer.add(trace)
    except BaseException:
        writer.close(complete=False)
        raise
    writer.close()
