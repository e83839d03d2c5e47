"""How sure is a predicted step? What the shares' doubt does to it, stretched by how far runs of other sources lay from theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from analysis.hardware import devices
from analysis.training.cases import Case, Cases
from analysis.training.step import NAMES, Plans, step
from analysis.training.work import Parts

Floats = NDArray[np.float64]

FLOOR = 0.1
"""Doubt of any run (1): clocks, software version, what the row does not say; releases of one program alone differ by 5 to 40 %."""
UNSEEN = 1.5
"""An interval is this much wider where its program or its device is in no calibrating source, and where a group has no source."""
KINDS = {
    "core": "Megatron's core",
    "torch": "PyTorch's own programs",
    "amd": "dense models",
    "mixture": "mixtures",
    "tpu": "MaxText",
}
GROUPS = tuple(KINDS)


def group(item: Case) -> str:
    """Which runs share one stretch: on GPUs of NVIDIA dense models by Megatron's core or by programs of PyTorch's own; mixtures and
    hybrids; AMD; TPUs."""
    if item.machine.tpu:
        return "tpu"
    if item.shape.experts or item.shape.linear:
        return "mixture"
    if devices.load(item.machine.device).vendor != "NVIDIA":
        return "amd"
    return "core" if item.defaults.kernels in ("old", "fused") and item.program != "llm_foundry" else "torch"


def moves(quantity: Callable[[Floats], Floats], shares: Floats, spread: Floats) -> Floats:
    """How any quantity of the shares moves with each share: d quantity / d log share x spread, shape (cases, shares).

    Args:
        quantity: from shares to one value a case, such as the logarithm of a time or of a ratio of two times, whose common doubt cancels.
        shares: at which the derivative is taken; spread: standard deviation of the logarithm of each, after the fit.
    """
    base = quantity(shares)
    found = np.empty((len(base), len(spread)))
    for index in range(len(spread)):
        moved = shares.copy()
        moved[index] *= 1.05
        found[:, index] = (quantity(moved) - base) / np.log(1.05) * spread[index]
    return found


def doubt_of(quantity: Callable[[Floats], Floats], shares: Floats, spread: Floats) -> Floats:
    """Standard deviation of any quantity of the shares: sqrt(sum of `moves` squared + floor^2); arguments as of `moves`."""
    return np.asarray(np.sqrt(FLOOR**2 + (moves(quantity, shares, spread) ** 2).sum(axis=1)))


def log_step(parts: Parts, plans: Plans) -> Callable[[Floats], Floats]:
    """Logarithm of each step's time as a function of the shares."""
    return lambda at: np.asarray(np.log(step(parts, plans, at)["total"]))


def site_terms(cases: Sequence[Case], parts: Parts, plans: Plans, shares: Floats, spread: Floats) -> list[dict[str, float]]:
    """What a site's constants of a step multiply (`analysis.site`): the site itself, and every share that moves the step."""
    found = []
    device = Cases.of(cases).machine.device
    for index, row in enumerate(moves(log_step(parts, plans), shares, spread)):
        moved = {f"share:{name}": float(x) for name, x in zip(NAMES, row, strict=True) if x}
        found.append({"site": 1.0, f"on={device[index]}": 0.0} | moved)
    return found


def doubt(parts: Parts, plans: Plans, shares: Floats, spread: Floats) -> Floats:
    """Standard deviation of log time from what is not known of the shares: `doubt_of` the logarithm of the step."""
    return doubt_of(log_step(parts, plans), shares, spread)
