"""Fitted shares: priors, and the file that they ship in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from analysis.configs import Strict

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Share:
    """A fitted number: its value before any run is seen (`prior`) and the standard deviation of its logarithm then (`spread`)."""

    prior: float
    spread: float
    meaning: str


class SharesFile(Strict):
    """`data/workloads/training_shares.yaml` or `batch_shares.yaml`: what a fit may move."""

    shares: dict[str, Share]


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
