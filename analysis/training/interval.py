"""How sure is a predicted step? What the shares' doubt does to it, stretched by how far runs of other sources lay from theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.hardware import devices
from analysis.intervals import next_group
from analysis.training.cases import Case
from analysis.training.shares import LEVEL
from analysis.training.step import PRIOR, SPREAD, Plans, step
from analysis.training.work import Parts

Floats = NDArray[np.float64]

FLOOR = 0.1
"""Doubt of any run (1): clocks, software version, what the row does not say; releases of one program alone differ by 5 to 40 %."""
UNSEEN = 1.5
"""An interval is this much wider where its program or its device is in no calibrating source, and where a group has no source."""
GROUPS = ("core", "torch", "adapters", "amd", "mixture", "tpu")


def group(item: Case) -> str:
    """Which runs share one stretch: on GPUs of NVIDIA dense models by Megatron's core or by programs of PyTorch's own, and adapters;
    mixtures and hybrids; AMD; TPUs."""
    if item.machine.tpu:
        return "tpu"
    if item.shape.experts or item.shape.linear:
        return "mixture"
    if devices.load(item.machine.device).vendor == "AMD":
        return "amd"
    if not item.trained:
        return "adapters"
    return "core" if item.defaults.kernels in ("old", "fused") and item.program != "llm_foundry" else "torch"


def doubt_of(quantity: Callable[[Floats], Floats], shares: Floats) -> Floats:
    """Standard deviation of any quantity of the shares: sqrt(sum (d quantity / d log share x spread)^2 + floor^2).

    Args:
        quantity: from shares to one value a case, such as the logarithm of a time or of a ratio of two times, whose common doubt cancels.
        shares: at which the derivative is taken.
    """
    base = quantity(shares)
    total = np.full(len(base), FLOOR**2)
    for index in range(len(PRIOR)):
        moved = shares.copy()
        moved[index] *= 1.05
        total += ((quantity(moved) - base) / np.log(1.05) * SPREAD[index]) ** 2
    return np.asarray(np.sqrt(total))


def doubt(parts: Parts, plans: Plans, shares: Floats) -> Floats:
    """Standard deviation of log time from the shares' prior spreads: `doubt_of` the logarithm of the step.

    Args:
        parts, plans: of the cases; shares: at which the derivative is taken.
    """
    return doubt_of(lambda at: np.asarray(np.log(step(parts, plans, at)["total"])), shares)


def stretch(scores: Sequence[Floats], groups: int, level: float = LEVEL) -> tuple[float, float]:
    """Ends between which log(measured / predicted) / doubt of a run of the next source lies: random effects, a draw a source.

    mean of means -+ t sqrt(1 + 1 / groups) sqrt(variance of the sources' means, less their own noise, + mean variance within)

    Args:
        scores: one array a source; groups: sources that are independent of each other (count); level: share to cover (1).
    """
    if not scores:
        return -2.0, 2.0
    means = np.array([values.mean() for values in scores])
    within = np.array([values.var() for values in scores])
    noise = float(np.mean([values.var() / len(values) for values in scores]))
    between = max(0.0, float(means.var(ddof=1)) - noise) if len(scores) > 1 else 0.0
    half = next_group(max(groups, 2), level) * float(np.sqrt(between + within.mean()))
    return min(float(means.mean()) - half, -0.3), max(float(means.mean()) + half, 0.3)
