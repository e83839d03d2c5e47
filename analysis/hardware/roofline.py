"""How long does work take on a device at least, and what bounds it? The one roofline of the whole package.

Work is operations of one type and bytes; a device is the rates that it sustains for them, peak times share. What follows:

    T = max(flop / (share x peak), bytes / (share x bandwidth)), bound by compute where the first is the larger or both are alike.

Numbers or arrays that broadcast against each other: a scalar in, scalars out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", float, NDArray[np.float64], Any)


@dataclass(frozen=True, slots=True)
class Rates(Generic[Number]):
    """What a device sustains: at the data sheet's peaks, or at a share of them.

    Args:
        flop_per_s: operations per second of the type in question (FLOP/s); infinite where no figure is known and none should bind.
        bandwidth_bytes_per_s: of main memory (bytes/s).
    """

    flop_per_s: Number
    bandwidth_bytes_per_s: Number

    def __post_init__(self) -> None:
        for rate in (self.flop_per_s, self.bandwidth_bytes_per_s):
            if isinstance(rate, (int, float)) and rate <= 0:
                raise ValueError("rates must be above zero")


@dataclass(frozen=True, slots=True)
class DeviceTime(Generic[Number]):
    """Time of some work on a device, with both terms (s)."""

    compute_s: Number
    memory_s: Number

    @property
    def latency_s(self) -> Number:
        """The larger of the two (s)."""
        if isinstance(self.compute_s, (int, float)) and isinstance(self.memory_s, (int, float)):
            return max(self.compute_s, self.memory_s)
        return np.maximum(self.compute_s, self.memory_s)

    @property
    def is_compute_bound(self) -> Any:
        """Whether arithmetic takes at least as long as traffic: bool, or an array of them."""
        return self.compute_s >= self.memory_s

    @property
    def bound_by(self) -> Literal["compute", "memory"]:
        """Which term binds; of one piece of work."""
        return "compute" if self.is_compute_bound else "memory"


def time_on_device(flop: Number, bytes_moved: Number, rates: Rates[Number]) -> DeviceTime[Number]:
    """Least time of work on a device: T = max(flop / rate, bytes / bandwidth).

    Args:
        flop: operations (FLOP).
        bytes_moved: what must move to and from memory (bytes).
        rates: what the device sustains.
    Source: Williams, Waterman and Patterson, Roofline, CACM 2009.
    """
    for work in (flop, bytes_moved):
        if isinstance(work, (int, float)) and work < 0:
            raise ValueError("work cannot be negative")
    return DeviceTime(flop / rates.flop_per_s, bytes_moved / rates.bandwidth_bytes_per_s)
