"""How fast can an operator run at most on a device? The roofline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Device:
    """Peak rates of a device.

    Args:
        peak_flop_per_s: floating-point operations per second at the precision used.
        bandwidth_bytes_per_s: main memory bandwidth.
    """

    peak_flop_per_s: float
    bandwidth_bytes_per_s: float

    def __post_init__(self) -> None:
        if self.peak_flop_per_s <= 0 or self.bandwidth_bytes_per_s <= 0:
            raise ValueError("peak rates must be above zero")

    @property
    def ridge_flop_per_byte(self) -> float:
        """Arithmetic intensity at which memory and compute bind alike: peak / bandwidth."""
        return self.peak_flop_per_s / self.bandwidth_bytes_per_s


@dataclass(frozen=True)
class Bound:
    """Least latency of an operator, with both terms and which one binds."""

    latency_s: float
    compute_s: float
    memory_s: float
    bound_by: Literal["compute", "memory"]


def attainable_flop_per_s(device: Device, intensity_flop_per_byte: float) -> float:
    """Attainable rate: P = min(peak, bandwidth * I).

    Args:
        device: peak rates.
        intensity_flop_per_byte: arithmetic intensity I, operations for each byte moved.
    Source: earlier survey draft, section 2.1.1; Williams, Waterman and Patterson, CACM 2009.
    """
    if intensity_flop_per_byte < 0:
        raise ValueError("arithmetic intensity cannot be negative")
    return min(device.peak_flop_per_s, device.bandwidth_bytes_per_s * intensity_flop_per_byte)


def least_latency(device: Device, flop: float, bytes_moved: float) -> Bound:
    """Least latency of an operator: T = max(flop / peak, bytes / bandwidth).

    Args:
        device: peak rates.
        flop: operations of the operator (FLOP).
        bytes_moved: what it must move to and from memory (bytes).
    Source: Williams, Waterman and Patterson, Roofline, CACM 2009.
    """
    if flop < 0 or bytes_moved < 0:
        raise ValueError("work cannot be negative")
    compute_s, memory_s = flop / device.peak_flop_per_s, bytes_moved / device.bandwidth_bytes_per_s
    return Bound(max(compute_s, memory_s), compute_s, memory_s, "compute" if compute_s >= memory_s else "memory")
