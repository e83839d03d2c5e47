"""The one interface of every predictor of the book: time = f(workload, hardware; parameters), the form of the survey's third equation.

A workload may be described in several ways: as a kernel, a program, a batch of answers. A predictor reads the description that it
understands, and refuses in a line where there is none or where it cannot answer. `studies.composition.predictors` has them all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Row = Mapping[str, Any]
DESCRIPTIONS = {
    "kernel": "a row of `kernels predict` without its device",
    "program": "path of a StableHLO program that one device runs",
    "collective": "a row of `predict collective` without its device",
    "served": "arguments of `predict one` without the device; what is timed is `target`, ttft_ms or tpot_ms",
    "batch": "a row of `predict batch` without its hardware",
    "training": "a row of `predict training` without its device",
    "instructions": "path of a static RV64 Linux executable, and limit: its first instructions",
}


@dataclass(frozen=True)
class Workload:
    """What has to be done: its name, and its descriptions by the keys of `DESCRIPTIONS`."""

    name: str
    descriptions: Mapping[str, Row]


@dataclass(frozen=True)
class Prediction:
    """An answer: time (s), what it rests on, and the ends of its 90 % interval (s; NaN where the predictor gives none)."""

    seconds: float
    basis: str
    lower_s: float = math.nan
    upper_s: float = math.nan


class Predictor(Protocol):
    """What every predictor is: T = f(workload, hardware; parameters)."""

    @property
    def name(self) -> str:
        """For tables."""

    @property
    def reads(self) -> str:
        """The description that it understands."""

    def __call__(self, workload: Workload, hardware: str, **parameters: Any) -> Prediction:
        """Time of the workload on the hardware.

        Args:
            hardware: a name that `devices` lists, or a design of `core`.
            parameters: settings of the predictor beyond the workload's description, in its own columns.
        Raises:
            InputError: why there is no answer.
        """
