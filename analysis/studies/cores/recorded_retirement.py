"""When did gem5 retire each instruction: its recorded (PC, cycle) list put beside a trace in program order.

The recording lists instructions cycle by cycle, unordered within a cycle, and lacks a few lines.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.cores.riscv.trace import Trace

NOT_RECORDED = -1
_LOOK_AHEAD = 12


def align(trace: Trace, path: str | Path, instructions: int = 100_000) -> NDArray[np.int64]:
    """gem5's retire cycle of the first instructions of a trace, `NOT_RECORDED` where the recording has none.

    Args:
        trace: the program, from its first instruction.
        path: a retire_*.csv.gz with the columns pc (hexadecimal) and retire_cycle.
        instructions: how many to place.
    """
    recorded = pd.read_csv(path)
    pcs = np.array([int(value, 16) for value in recorded["pc"]], np.int64)
    cycles = recorded["retire_cycle"].to_numpy()
    program = trace.pc[:instructions].astype(np.int64).tolist()
    result = np.full(len(program), NOT_RECORDED, np.int64)
    bounds = [0, *(np.flatnonzero(np.diff(cycles)) + 1).tolist(), len(cycles)]
    at = 0
    for first, end in pairwise(bounds):
        group = pcs[first:end].tolist()
        while group and at < len(program):
            ahead = next((k for k in range(at, min(at + _LOOK_AHEAD, len(program))) if program[k] in group), None)
            if ahead is None:
                break
            group.remove(program[ahead])
            result[ahead] = cycles[first]
            at = ahead + 1
    return result
