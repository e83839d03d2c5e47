"""Where does a program lie in physical memory: pages in the order in which they are first needed.

gem5 in system-call emulation gives out physical pages one after another (src/sim/process.cc, se_workload.cc): those of the executable's
segments when it is loaded, each other page, the stack's too, when the program first touches it. Caches and DRAM see these addresses.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from analysis.cores.elf import Program

PAGE_BITS = 12


@njit(cache=True)
def _place(address: NDArray[np.int64], known: NDArray[np.int64]) -> None:
    """Turn addresses into physical ones, in place; `known` holds the pages of the executable in the order of physical memory."""
    numbers = {page: place for place, page in enumerate(known)}
    last, shift = -1, 0
    for k in range(len(address)):
        if address[k] == 0:
            continue
        page = address[k] >> PAGE_BITS
        if page != last:
            if page not in numbers:
                numbers[page] = len(numbers)
            last, shift = page, (numbers[page] - page) << PAGE_BITS
        address[k] += shift


def program_pages(program: Program) -> NDArray[np.int64]:
    """Pages of the executable's segments, by address, int64 (n,): the first n of physical memory."""
    pages = [np.arange(s.address >> PAGE_BITS, (s.address + max(s.memory_bytes, 1) - 1 >> PAGE_BITS) + 1) for s in program.segments]
    every = np.concatenate(pages).astype(np.int64)
    return every[np.sort(np.unique(every, return_index=True)[1])]


def physical_addresses(address: NDArray[np.uint64], program: Program | None) -> tuple[NDArray[np.int64], int]:
    """Physical addresses of accesses, and what is to be added to the address of an instruction.

    Args:
        address: of each instruction's access, in program order; 0 where there is none.
        program: the executable; without it addresses stay as they are.

    Returns:
        (addresses, distance of the code from its place in memory, in bytes).
    """
    physical = address.astype(np.int64)
    if program is None:
        return physical, 0
    known = program_pages(program)
    _place(physical, known)
    code = next(s.address for s in program.segments if s.executable) >> PAGE_BITS
    return physical, int(np.flatnonzero(known == code)[0] - code) << PAGE_BITS
