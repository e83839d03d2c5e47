"""How long does a matrix product take on a TPU's matrix units? The systolic model with the chip's arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from analysis.accelerators.systolic.array import pipelined_cycles
from analysis.errors import InputError
from analysis.hardware.devices import Device
from analysis.workloads.graph import Matmul


@dataclass(frozen=True)
class Arrays:
    """Matrix units of a chip: how many, rows and columns of each (count)."""

    count: int
    rows: int
    columns: int


# v1: Jouppi et al., ISCA 2017, section 2 (one unit of 256 x 256); v2: Jouppi et al., CACM 2020 (2 cores, one unit of 128 x 128 each); v3,
# v4, v5e, v5p and v6e: Google Cloud's documents of each (cloud.google.com/tpu/docs; cores x units of 128 x 128, of v6e 256 x 256).
ARRAYS = {
    "TPU-v1": Arrays(1, 256, 256),
    "TPU-v2": Arrays(2, 128, 128),
    "TPU-v3": Arrays(4, 128, 128),
    "TPU-v4": Arrays(8, 128, 128),
    "TPU-v5e": Arrays(4, 128, 128),
    "TPU-v5p": Arrays(8, 128, 128),
    "TPU-v6e": Arrays(2, 256, 256),
}


def arrays_of(device: Device) -> Arrays:
    """The matrix units of a device."""
    if device.name not in ARRAYS:
        raise InputError(f"{device.name} has no systolic array; expected one of {', '.join(sorted(ARRAYS))}", key="device")
    return ARRAYS[device.name]


@cache
def product_cycles(arrays: Arrays, matmul: Matmul) -> int:
    """Cycles of the busiest array, by the better of two ways: each product cut over all arrays, or whole products dealt to the arrays."""
    m, n, k = max(1, matmul.m), max(1, matmul.n), max(1, matmul.k)
    dealt = -(-matmul.batch // arrays.count) * pipelined_cycles(m, n, k, arrays.rows, arrays.columns)
    cuts = (parts for parts in range(1, arrays.count + 1) if arrays.count % parts == 0)
    cut = min(pipelined_cycles(-(-m // parts), -(-n // (arrays.count // parts)), k, arrays.rows, arrays.columns) for parts in cuts)
    return min(dealt, matmul.batch * cut)


def product_s(device: Device, matmul: Matmul, peak_flop_per_s: float) -> float:
    """Time of a product in the arrays (s): cycles over the clock that the peak implies, peak / (2 arrays rows columns)."""
    arrays = arrays_of(device)
    clock = peak_flop_per_s / (2.0 * arrays.count * arrays.rows * arrays.columns)
    return product_cycles(arrays, matmul) / clock
