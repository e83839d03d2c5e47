"""Fitted shares: priors, how a robust fit weighs an error, how an interval reads quantiles, and the file that they ship in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray
from pydantic import Field

from analysis.configs import Strict
from analysis.intervals import interpolated_quantile
from analysis.tables import write_atomic

Floats = NDArray[np.float64]

LEVEL = 0.9
"""Share of the runs that an interval states to cover (1)."""


@dataclass(frozen=True)
class Share:
    """A fitted number: what one believes before any run is seen, and how firmly.

    Attributes:
        prior: centre; spread: standard deviation of its logarithm; meaning: in words.
    """

    prior: float
    spread: float
    meaning: str


class FittedShare(Strict):
    """One share as the file has it; after: `Share.spread` once the runs are seen, where it is used."""

    value: float
    prior: float
    spread: float
    meaning: str
    after: float | None = None


class ShareFile(Strict):
    """Shares by name, the stretch of each group's interval, and what they were fitted on; programs and devices that were measured."""

    split: str
    shares: dict[str, FittedShare]
    stretch: dict[str, tuple[float, float]]
    hashes: dict[str, str]
    measured: dict[str, tuple[str, ...]] = Field(default_factory=dict)


def soft(z: Floats) -> Floats:
    """Residual whose square is the soft-L1 loss of z: beyond 1 it grows like a root, so that no odd run pulls a fit."""
    return np.asarray(np.sign(z) * np.sqrt(2 * (np.sqrt(1 + z**2) - 1)))


def quantiles(values: Floats, weights: Floats, level: float = LEVEL) -> tuple[float, float]:
    """Weighted lower and upper quantile that leave (1 - level) / 2 on either side."""
    tail = (1 - level) / 2
    return interpolated_quantile(values, weights, tail), interpolated_quantile(values, weights, 1 - tail)


def write(
    path: Path,
    split: str,
    shares: Mapping[str, Share],
    values: Floats,
    stretch: Mapping[str, tuple[float, float]],
    hashes: Mapping[str, str],
    writer: str,
    measured: Mapping[str, Sequence[str]] | None = None,
    after: Floats | None = None,
) -> None:
    """Write a `ShareFile`, to six digits."""
    table = {name: {"value": float(f"{value:.6g}"), **vars(shares[name])} for name, value in zip(shares, values, strict=True)}
    for name, left in zip(shares, [] if after is None else after, strict=False):
        table[name]["after"] = float(f"{left:.6g}")
    content = {
        "split": split,
        "shares": table,
        "stretch": {name: [float(f"{bound:.6g}") for bound in bounds] for name, bounds in stretch.items()},
        "hashes": dict(hashes),
        **({"measured": {name: list(values) for name, values in measured.items()}} if measured else {}),
    }
    write_atomic(path, (f"# Written by {writer}.\n" + yaml.safe_dump(content, sort_keys=False, width=150)).encode())
