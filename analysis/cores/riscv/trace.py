"""What did each executed instruction do: an instruction trace as plain arrays, and the .npz file that `core trace` writes."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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


def concatenate(traces: list[Trace]) -> Trace:
    """One trace of consecutive parts that share one code table."""
    return Trace(
        traces[-1].code,
        np.concatenate([part.index for part in traces]),
        np.concatenate([part.address for part in traces]),
        traces[-1].end_pc,
    )


_BYTES = ("opclass", "source1", "source2", "source3", "destination", "size", "length")
RECORD = np.dtype([("pc", "u8"), ("address", "u8"), *((name, "u1") for name in _BYTES), ("taken", "?")])
"""An executed instruction in a file: the file has one array a field, one entry an instruction."""
FILE_ARRAYS = RECORD.names or ()


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
                header = {"descr": RECORD[name].str, "fortran_order": False, "shape": (self.count,)}
                with archive.open(_entry(name), "w", force_zip64=True) as target, part.open("rb") as source:
                    np.lib.format.write_array_header_1_0(target, header)
                    while block := source.read(1 << 24):
                        target.write(block)
            with archive.open(_entry("end_pc"), "w") as target:
                np.lib.format.write_array(target, np.asarray(self.end_pc, np.uint64), allow_pickle=False)


def _entry(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
