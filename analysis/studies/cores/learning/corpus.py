"""Which instructions does a model learn from, which choose it, and which test it?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.cores.riscv.trace import FIRST_FLOAT_REGISTER, NO_REGISTER, Trace
from analysis.cores.timing.designs import Design
from analysis.studies.cores.learning.instruction_features import Floats, thirteen_features
from analysis.studies.cores.learning.latency_target import retire_latencies
from analysis.studies.cores.learning.program_features import BLOCK, ProgramFeatures, program_features

TRAIN, VALIDATION, TEST = 0, 1, 2
SHARES = (0.8, 0.05, 0.15)

INTEGER_CLASS, FLOAT_CLASS, NO_CLASS = 0, 1, 2


@dataclass(frozen=True)
class Program:
    """A traced program with its timing on each design.

    Attributes:
        name: of the program.
        pc: int64 (n,).
        raw: the paper's 13 features, not scaled, float32 (n, 13).
        features: ours.
        latency: cycles since the previous instruction retired, int64 (n, designs).
    """

    name: str
    pc: NDArray[np.int64]
    raw: Floats
    features: ProgramFeatures
    latency: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.pc)


def register_pairs(registers: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Class (0 integer, 1 float, 2 none) and number (0 without a register) of each register, shape (n, 2)."""
    none = registers == NO_REGISTER
    floating = (registers >= FIRST_FLOAT_REGISTER) & ~none
    kind = np.where(none, NO_CLASS, np.where(floating, FLOAT_CLASS, INTEGER_CLASS))
    number = np.where(none, 0, registers % FIRST_FLOAT_REGISTER)
    return np.stack([kind, number], axis=1).astype(np.uint8)


def paper_features(trace: Trace) -> Floats:
    """The 13 features of each executed instruction, not scaled."""
    sources = trace.sources
    pairs = [register_pairs(r) for r in (sources[:, 0], sources[:, 1], trace.destination)]
    return thirteen_features(trace.pc, trace.opclass, trace.address, *pairs)


def program(name: str, trace: Trace, retire_cycles: NDArray[np.int64], designs: Sequence[Design]) -> Program:
    """A program from its trace and the retire cycles of each instruction on each design.

    Args:
        retire_cycles: shape (n, designs).
        designs: in the same order.
    """
    latency = np.stack([retire_latencies(retire_cycles[:, d]) for d in range(retire_cycles.shape[1])], axis=1)
    return Program(name, trace.pc.astype(np.int64), paper_features(trace), program_features(trace, designs), latency)


def split_blocks(instructions: int, seed: int, block: int = BLOCK) -> NDArray[np.int8]:
    """TRAIN, VALIDATION or TEST for each block of consecutive instructions, drawn at random by `SHARES`.

    The last block may be short. Labels of validation and test blocks never reach training; as context, features may cross an edge.

    Args:
        instructions: length of the trace.
        seed: of the draw.
        block: instructions a block.
    Returns:
        shape (blocks,).
    """
    blocks = -(-instructions // block)
    order = np.random.default_rng(seed).permutation(blocks)
    ends = np.rint(np.cumsum(SHARES) / np.sum(SHARES) * blocks).astype(int)
    part = np.empty(blocks, np.int8)
    part[order[: ends[0]]], part[order[ends[0] : ends[1]]], part[order[ends[1] :]] = TRAIN, VALIDATION, TEST
    return part


def instructions_of(part: NDArray[np.int8], which: int, instructions: int, block: int = BLOCK) -> NDArray[np.bool_]:
    """Mask of the instructions of one part, shape (instructions,)."""
    return np.repeat(part == which, block)[:instructions]
