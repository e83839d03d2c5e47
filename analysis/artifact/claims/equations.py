"""Do the ML survey's equations give the right answer on examples small enough to work by hand?"""

from __future__ import annotations

import numpy as np

from analysis.hardware.roofline import Rates
from analysis.studies.checkable import SmallCount, checkable
from analysis.studies.kernels.learned import attention, granite_round, message_passing
from analysis.studies.kernels.tiles import kernel_latency, kernel_latency_as_printed
from analysis.studies.kernels.wave_scaling import wave_scaling

PATH_OF_THREE = np.array([[0, 1], [1, 0], [1, 2], [2, 1]])


def attainable_flop_per_s(rates: Rates[float], intensity_flop_per_byte: float) -> float:
    """Attainable rate: P = min(peak, bandwidth * I).

    Source: earlier survey draft, section 2.1.1; Williams, Waterman and Patterson, CACM 2009.
    """
    if intensity_flop_per_byte < 0:
        raise ValueError("arithmetic intensity cannot be negative")
    return min(rates.flop_per_s, rates.bandwidth_bytes_per_s * intensity_flop_per_byte)


def ridge_flop_per_byte(rates: Rates[float]) -> float:
    """Arithmetic intensity at which memory and compute bind alike: rate / bandwidth (FLOP/byte)."""
    return rates.flop_per_s / rates.bandwidth_bytes_per_s


@checkable
def roofline(peak: float, bandwidth: float, intensity: float) -> float:
    """Attainable performance min(peak, bandwidth * intensity) (section 2.1.1)."""
    return attainable_flop_per_s(Rates(peak, bandwidth), intensity)


@checkable
def habitat(
    compute_s: float, memory_s: float, peak_source: float, peak_target: float, bandwidth_source: float, bandwidth_target: float
) -> float:
    """Time on a target device: T_c * P_s / P_t + T_m * B_s / B_t (equation 7)."""
    return wave_scaling(compute_s, memory_s, Rates(peak_source, bandwidth_source), Rates(peak_target, bandwidth_target)).latency_s


@checkable
def attention_example() -> list[float]:
    """Equation 2: one query that agrees with the first of two keys by far picks the first value."""
    answer = attention(np.array([[100.0, 0.0]]), np.array([[100.0, 0.0], [0.0, 100.0]]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    return [float(x) for x in answer[0]]


@checkable
def granite_example() -> list[float]:
    """Equation 6: one round on a path of three nodes, all ones, without a network: ends have one neighbour, the middle two."""
    return [float(x) for x in granite_round(np.ones((3, 1)), PATH_OF_THREE, lambda h: h)[:, 0]]


@checkable
def message_passing_example() -> list[float]:
    """Equation 1: two rounds with the sum on a path of three nodes that start at 1, 0, 0; the first reaches the third in two."""
    nodes, nothing = np.array([[1.0], [0.0], [0.0]]), np.zeros((len(PATH_OF_THREE), 0))
    for _ in range(2):
        nodes = message_passing(nodes, PATH_OF_THREE, nothing, lambda h, _: h, lambda h, received: h + received)
    return [float(x) for x in nodes[:, 0]]


@checkable
def tiles_printed_over_right(waves: SmallCount, tiles: SmallCount) -> float:
    """Equation 8: kernel time as printed, max over waves of the sum over tiles, over the right one, sum over waves of the max."""
    times = [[1.0] * tiles for _ in range(waves)]
    return kernel_latency_as_printed(times) / kernel_latency(times)
