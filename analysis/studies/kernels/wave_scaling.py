"""What does a kernel timed on one GPU take on another? Habitat's scaling, as the survey prints it."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.hardware.roofline import Rates, time_on_device


@dataclass(frozen=True)
class Scaled:
    """Predicted latency on the target, by part."""

    latency_s: float
    compute_s: float
    memory_s: float


def wave_scaling(compute_s: float, memory_s: float, source: Rates, target: Rates) -> Scaled:
    """Scale the compute and the memory part by the ratio of peak rates: T_t = T_c P_s / P_t + T_m B_s / B_t.

    Args:
        compute_s: time bound by compute on the source (s).
        memory_s: time bound by memory on the source (s).
        source, target: peak rates of both devices.
    Source: earlier survey draft, equation 7, after Habitat (USENIX ATC 2021). Habitat itself scales wave by wave with
        occupancy; this is the form that the survey prints.
    """
    if compute_s < 0 or memory_s < 0:
        raise ValueError("times cannot be negative")
    scaled_compute_s = compute_s * source.flop_per_s / target.flop_per_s
    scaled_memory_s = memory_s * source.bandwidth_bytes_per_s / target.bandwidth_bytes_per_s
    return Scaled(scaled_compute_s + scaled_memory_s, scaled_compute_s, scaled_memory_s)


def split_by_roofline(latency_s: float, flop: float, bytes_moved: float, source: Rates) -> tuple[float, float]:
    """Split a measured latency into a compute and a memory part, in the ratio of the two roofline terms.

    Returns:
        compute part, memory part (s), which add up to the latency.
    """
    bound = time_on_device(flop, bytes_moved, source)
    compute, memory = bound.compute_s, bound.memory_s
    if compute + memory <= 0:
        raise ValueError("a kernel without work cannot be split")
    share = compute / (compute + memory)
    return latency_s * share, latency_s * (1 - share)
