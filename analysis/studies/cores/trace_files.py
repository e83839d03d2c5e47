"""Reads the .npz file that `core trace` writes, and makes a trace of instructions given one by one."""

from __future__ import annotations

import lzma
import math
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.cores.riscv.trace import FILE_ARRAYS, FIRST_FLOAT_REGISTER, NO_REGISTER, RECORD, Code, OpClass, Trace, TraceWriter
from analysis.errors import InputError


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


_REGISTERS = (*range(2 * FIRST_FLOAT_REGISTER), NO_REGISTER)
_FILE_VALUES: dict[str, tuple[int, ...]] = {
    "opclass": tuple(OpClass),
    **dict.fromkeys(("source1", "source2", "source3", "destination"), _REGISTERS),
    "size": (0, 1, 2, 4, 8),
    "length": (2, 4),
}
FILE_BYTES_PER_INSTRUCTION = RECORD.itemsize
MOST_INSTRUCTIONS = 12_000_000  # that are held at once: at most 1.5 GiB
_UNREADABLE = (
    OSError, ValueError, EOFError, TypeError, MemoryError, RuntimeError, SyntaxError, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
    lzma.LZMAError,
)  # fmt: skip
"""What numpy and zipfile raise on damaged, encrypted or made-up archives."""


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
        kind = RECORD[name]
        if array.ndim != 1 or array.dtype != kind or array.size != arrays["pc"].size:
            raise InputError(f"expected {arrays['pc'].size} entries of {kind}, got {array.shape} of {array.dtype}", path=path, key=name)
        known = _FILE_VALUES.get(name)
        if known is not None and not (fits := np.isin(np.arange(256), known)[array]).all():
            where = int(np.argmin(fits))
            raise InputError(f"instruction {where}: {array[where]} is not one of its values", path=path, key=name)
    trace = trace_of_columns(arrays, int(end_pc))
    return trace if limit is None else trace.slice(0, limit)


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write `trace` as an .npz file of plain arrays (`FILE_ARRAYS`, and end_pc)."""
    writer = TraceWriter(path)
    try:
        writer.add(trace)
    except BaseException:
        writer.close(complete=False)
        raise
    writer.close()
