"""What can fetch find at an address, and where does that lie in physical memory?

The static code of a program as the timing model reads it, the wrong path included; and pages in the order in which they are first needed:
gem5 in system-call emulation gives out physical pages one after another (src/sim/process.cc, se_workload.cc), those of the executable's
segments when it is loaded, each other page, the stack's too, when the program first touches it. Caches and DRAM see these addresses.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from analysis.cores.riscv.decode import decode
from analysis.cores.riscv.elf import Program
from analysis.cores.riscv.trace import FIRST_FLOAT_REGISTER, NEVER_EXECUTED, NO_REGISTER, OpClass, Trace
from analysis.cores.timing.state import CODE, CODE_TABLE, MAX_CODE
from analysis.errors import InputError

PAGE_BITS = 12
DIRECT = (OpClass.BRANCH, OpClass.JUMP, OpClass.CALL)
MAXIMUM_SPAN = 2 * MAX_CODE
NO_TARGET = 1 << 40
"""In place of a distance: farther than any jump reaches."""
DECODED = np.dtype([(name, CODE[name]) for name in ("source", "destination", "opclass", "size", "length")])
"""What an encoding alone says of a row of the code table."""


def _register(number: int) -> int:
    return -1 if number in (0, NO_REGISTER) or number >= 2 * FIRST_FLOAT_REGISTER else number


@lru_cache(maxsize=1 << 16)
def _decoded(halves: int) -> tuple[tuple, int] | None:
    """Fields of the code row of an encoding, and how far behind the instruction its target lies; None when it is no instruction."""
    instruction = decode(halves, 0)
    if instruction is None:
        return None
    source = tuple(_register(register) for register in (instruction.rs1, instruction.rs2, instruction.rs3))
    row = (source, _register(instruction.rd), int(instruction.opclass), instruction.size, 4 if halves & 3 == 3 else 2)
    return row, instruction.immediate if instruction.opclass in DIRECT else NO_TARGET


def _decode_segments(program: Program, base: int, code: NDArray) -> None:
    """Decode every place of the executable segments into the rows of `code`; length stays 0 where there is no instruction."""
    for segment in program.segments:
        if not segment.executable:
            continue
        data = np.frombuffer(segment.data[: len(segment.data) & ~1], "<u2").astype(np.int64)
        first = (segment.address - base) >> 1
        words = data | np.append(data[1:], 0) << 16
        unique, which = np.unique(np.where((data & 3) == 3, words, data), return_inverse=True)
        rows, distance = np.zeros(len(unique), DECODED), np.full(len(unique), NO_TARGET)
        for k, decoded in enumerate(map(_decoded, unique.tolist())):
            if decoded is not None:
                rows[k], distance[k] = decoded
        places = code[first : first + len(data)]
        for name in DECODED.fields or ():
            places[name] = rows[name][which]
        places["target"] = np.where(distance[which] == NO_TARGET, -1, places["pc"] + distance[which])


def static_code(trace: Trace, program: Program | None = None) -> tuple[NDArray, NDArray[np.uint32], int]:
    """The code table of a trace as the simulator reads it: a row a slot of two bytes.

    Args:
        program: its executable; without it the wrong path ends where no executed instruction is.

    Returns:
        (rows, row of each executed instruction, address of row 0).
    """
    source = trace.code
    executed = source.opclass != NEVER_EXECUTED
    pcs = source.pc.astype(np.int64)
    base, end = int(pcs.min()), int(pcs.max()) + 4
    if program is not None:
        spans = [(s.address, s.address + len(s.data)) for s in program.segments if s.executable]
        base, end = min(base, *(a for a, _ in spans)) & ~1, max(end, *(b for _, b in spans))
    if end - base > MAXIMUM_SPAN:
        raise InputError(f"code spans {end - base} bytes: the timing model maps at most {MAXIMUM_SPAN}")
    slots = (end - base + 1) >> 1
    table = np.zeros(1, CODE_TABLE)
    code = table["rows"][0, :slots]
    code["pc"] = base + 2 * np.arange(slots)
    code["target"] = -1
    if program is not None:
        _decode_segments(program, base, code)
    place = (pcs - base) >> 1
    rows = code[place[executed]]
    rows["opclass"], rows["size"], rows["length"] = source.opclass[executed], source.size[executed], source.length[executed]
    column = source.destination[executed].astype(np.int16)
    rows["destination"] = np.where((column == 0) | (column >= 2 * FIRST_FLOAT_REGISTER), -1, column)
    columns = source.sources[executed].astype(np.int16)
    rows["source"] = np.where((columns == 0) | (columns == NO_REGISTER), -1, columns)
    code[place[executed]] = rows
    index = place[trace.index].astype(np.uint32)
    if program is None:  # targets as the trace shows them
        taken = trace.taken
        code["target"][index[taken]] = trace.next_pc[taken].astype(np.int64)
        code["target"][~np.isin(code["opclass"], DIRECT)] = -1
    return table, index, base


def _place(address: NDArray[np.int64], known: NDArray[np.int64]) -> None:
    """Turn addresses into physical ones, in place; `known` holds the pages of the executable in the order of physical memory."""
    used = np.flatnonzero(address)
    page = address[used] >> PAGE_BITS
    runs = np.flatnonzero(np.diff(page, prepend=page[:1] - 1))  # most accesses stay on the page of the one before
    pages, first, which = np.unique(page[runs], return_index=True, return_inverse=True)
    numbers = {number: place for place, number in enumerate(known.tolist())}
    for number in pages[np.argsort(first)].tolist():  # a page gets its place when it is first used
        numbers.setdefault(number, len(numbers))
    shifts = [(numbers[number] - number) << PAGE_BITS for number in pages.tolist()]
    address[used] += np.repeat(np.array(shifts, np.int64)[which], np.diff(runs, append=len(page)))


def program_pages(program: Program) -> NDArray[np.int64]:
    """Pages of the executable's segments, by address, int64 (n,): the first n of physical memory."""
    pages = [np.arange(s.address >> PAGE_BITS, (s.address + max(s.memory_bytes, 1) - 1 >> PAGE_BITS) + 1) for s in program.segments]
    every = np.concatenate(pages).astype(np.int64)
    return every[np.sort(np.unique(every, return_index=True)[1])]


def physical_addresses(address: NDArray[np.uint64], program: Program | None) -> tuple[NDArray[np.int64], int]:
    """Physical addresses of accesses, and what is to be added to the address of an instruction."""
    physical = address.astype(np.int64)
    if program is None:
        return physical, 0
    known = program_pages(program)
    _place(physical, known)
    code = next(s.address for s in program.segments if s.executable) >> PAGE_BITS
    return physical, int(np.flatnonzero(known == code)[0] - code) << PAGE_BITS
