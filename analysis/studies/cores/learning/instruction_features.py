"""What does NeuroScalar's network see of an instruction, and in which windows?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.cores.riscv.trace import OpClass

Floats = NDArray[np.float32]

LOW_BITS, MIDDLE_BITS, HIGH_BITS = 22, 22, 20
FEATURES = (
    "pc_low",
    "pc_middle",
    "pc_high",
    "opclass",
    "address_low",
    "address_middle",
    "address_high",
    "source1_class",
    "source1_number",
    "source2_class",
    "source2_number",
    "destination_class",
    "destination_number",
)
REGISTERS = ("source1", "source2", "destination")
CATEGORIES = {"opclass": len(OpClass)} | {f"{one}_{what}": values for one in REGISTERS for what, values in (("class", 3), ("number", 32))}
"""Features that are names and not quantities, and how many values each has."""


def split_address(address: ArrayLike) -> Floats:
    """A 64-bit address as three numbers that float32 holds exactly: bits 0-21, 22-43 and 44-63.

    Each piece is below 2^22, and float32 holds every integer up to 2^24, so the address can be put together again bit for bit.

    Args:
        address: unsigned 64-bit, shape (n,).
    Returns:
        shape (n, 3): low, middle, high.
    Source: NeuroScalar, section 3.1.2.
    """
    a = np.asarray(address).astype(np.uint64)
    low = a & np.uint64((1 << LOW_BITS) - 1)
    middle = (a >> np.uint64(LOW_BITS)) & np.uint64((1 << MIDDLE_BITS) - 1)
    high = a >> np.uint64(LOW_BITS + MIDDLE_BITS)
    return np.stack([low, middle, high], axis=-1).astype(np.float32)


def thirteen_features(
    pc: ArrayLike,
    opclass: ArrayLike,
    address: ArrayLike,
    source1: ArrayLike,
    source2: ArrayLike,
    destination: ArrayLike,
) -> Floats:
    """The 13 inputs of an instruction, in the order of `FEATURES`; 3 + 1 + 3 + 3 x 2.

    Args:
        pc: program counter, shape (n,).
        opclass: number of the operation class, shape (n,).
        address: memory address, 0 without one, shape (n,).
        source1, source2, destination: register class and number, shape (n, 2).
    Returns:
        shape (n, 13), float32, not yet normalised.
    Source: NeuroScalar, sections 3 and 3.1.2.
    """
    columns = [split_address(pc), np.asarray(opclass, dtype=np.float32)[:, None], split_address(address)]
    columns += [np.asarray(register, dtype=np.float32).reshape(-1, 2) for register in (source1, source2, destination)]
    return np.concatenate(columns, axis=1)


@dataclass(frozen=True)
class Scaling:
    """Mean and standard deviation of each feature on the training set; a constant feature has deviation 1."""

    mean: Floats
    deviation: Floats


def fit_scaling(features: Floats, categories: bool = False) -> Scaling:
    """The scaling that gives each column of the training set mean 0 and deviation 1.

    Args:
        features: shape (n, f).
        categories: leave these as whole numbers from 1, so that 0 is what stands outside the trace.
    """
    mean, deviation = (np.array([getattr(np, what)(c, dtype=np.float64) for c in features.T], np.float32) for what in ("mean", "std"))
    if categories:
        kept = [FEATURES.index(name) for name in CATEGORIES]
        mean[kept], deviation[kept] = -1, 1
    return Scaling(mean, np.where(deviation > 0, deviation, np.float32(1)))


@dataclass(frozen=True)
class Window:
    """A window of `length` instructions whose middle `target` are predicted.

    The context is C = length - target: floor(C / 2) on the left, the rest on the right (NeuroScalar, equation 1).
    """

    length: int = 256
    target: int = 128

    def __post_init__(self) -> None:
        if not 0 < self.target <= self.length:
            raise ValueError(f"expected a target of 1 to {self.length} instructions, got {self.target}")

    @property
    def left(self) -> int:
        """Instructions before the target."""
        return (self.length - self.target) // 2

    @property
    def right(self) -> int:
        """Instructions after the target."""
        return self.length - self.target - self.left

    def starts(self, first: int, last: int) -> NDArray[np.int64]:
        """First instruction of each window whose targets tile [first, last); incomplete targets are left out.

        The window itself may begin before `first` and end behind `last`: what is outside the trace is zeros.
        """
        return np.arange(first, last - self.target + 1, self.target, dtype=np.int64) - self.left
