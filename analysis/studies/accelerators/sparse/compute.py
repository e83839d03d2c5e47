"""What do zeros save in the array: energy when they are gated, cycles too when they are skipped, and how much does imbalance eat?

A gated multiply takes its cycle and no energy; a skipped one takes neither. PEs that skip finish at different times and wait for the
slowest at each synchronisation.
Source: Wu, Emer, Sze, Sparseloop, MICRO 2022, section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

ACTIONS = ("none", "gate", "skip")


@dataclass(frozen=True)
class SparseProduct:
    """Multiplies of two tensors whose zeros lie independently.

    Args:
        macs: multiplies of the dense product (count).
        input_density, weight_density: non-zeros / elements (1).
        on_inputs, on_weights: what a zero of each operand does: none, gate or skip.
        pes: PEs that work side by side (count).
        macs_per_wait: dense multiplies of one PE between two synchronisations (count).
    """

    macs: int
    input_density: float
    weight_density: float
    on_inputs: str
    on_weights: str
    pes: int = 1
    macs_per_wait: int = 1

    def __post_init__(self) -> None:
        if not (0 <= self.input_density <= 1 and 0 <= self.weight_density <= 1):
            raise ValueError("densities must lie in [0, 1]")
        if self.on_inputs not in ACTIONS or self.on_weights not in ACTIONS:
            raise ValueError(f"an action must be one of {', '.join(ACTIONS)}")
        if min(self.macs, self.pes, self.macs_per_wait) < 1:
            raise ValueError("macs, pes and macs_per_wait must be at least 1")


@dataclass(frozen=True)
class SparseCost:
    """Expected work of a sparse product.

    Args:
        cycles: with the wait for the slowest PE (cycles).
        balanced_cycles: if the work were even (cycles).
        multiplies: done with energy (count).
        gated: slots that pass without energy (count).
        skipped: multiplies that take no slot (count).
    """

    cycles: float
    balanced_cycles: float
    multiplies: float
    gated: float
    skipped: float

    @property
    def imbalance(self) -> float:
        """cycles / balanced_cycles (1)."""
        return self.cycles / self.balanced_cycles if self.balanced_cycles else 1.0


def expected_maximum(trials: int, probability: float, draws: int) -> float:
    """Mean of the largest of `draws` independent binomial counts: sum over t of 1 - F(t)^draws.

    Args:
        trials: of each count (count).
        probability: of each trial (1).
        draws: counts compared (count).
    """
    t = np.arange(trials)
    return float((1 - stats.binom.cdf(t, trials, probability) ** draws).sum())


def cost(product: SparseProduct) -> SparseCost:
    """Cycles and multiplies of a sparse product.

    A slot is taken unless a skipped operand is zero: probability p = product of the densities of the operands that skip. It costs
    energy unless a gated operand is zero as well. cycles = waits x E[max over PEs of Binomial(macs_per_wait, p)].

    Args:
        product: see `SparseProduct`.
    """
    taken = useful = 1.0
    for density, action in ((product.input_density, product.on_inputs), (product.weight_density, product.on_weights)):
        if action == "skip":
            taken *= density
        if action != "none":
            useful *= density
    waits = product.macs / (product.pes * product.macs_per_wait)
    balanced = product.macs * taken / product.pes
    cycles = waits * expected_maximum(product.macs_per_wait, taken, product.pes) if taken < 1 else balanced
    multiplies = product.macs * useful
    return SparseCost(
        cycles=cycles,
        balanced_cycles=balanced,
        multiplies=multiplies,
        gated=product.macs * taken - multiplies,
        skipped=product.macs * (1 - taken),
    )


def accesses(dense: int, density: float = 1.0, action: str = "", condition: float = 1.0) -> tuple[int, int, int]:
    """Accesses made, gated and skipped: what a compressed format leaves out is neither, the action takes the rest, in whole accesses.

    Args:
        density: share that the tensor's own format leaves (1).
        action: gating, skipping, or empty; condition: share of non-zeros of the tensors that it looks at (1).
    """
    kept = dense * density
    made = int(kept * condition) if action else round(kept)
    rest = round(kept) - made
    return made, rest if action == "gating" else 0, rest if action == "skipping" else 0
