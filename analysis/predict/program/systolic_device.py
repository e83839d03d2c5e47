"""How long does a TPU take for a matrix product in its matrix units, and for what these do not do in its vector unit?

A product takes the cycles of the systolic model with the chip's arrays. The vector unit passes registers of 8 x 128 elements through a few
slots a cycle: cycles = sum over operators of R x (operations / slots + transcendental operations) / elements, R the registers that the
tensor fills, ceil(rows / 8) x ceil(columns / 128) for each pair of its last two axes: a last axis of 64 fills half of its lanes. A
reduction reads the registers of its input; along the last axis its lanes are then added up in log2(128) steps. Data movement is left to the
memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from analysis.accelerators.systolic.array import pipelined_cycles
from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.hardware.devices import Device
from analysis.paths import DATA
from analysis.workloads.graph import Matmul, OperatorWork, Tensor


class Arrays(Strict):
    """Matrix units of a chip: how many, rows and columns of each; operations that start on each lane of its vector unit in a cycle (counts;
    0: no such unit, or none whose clock is published)."""

    count: int
    rows: int
    columns: int
    slots: int = 0


class ArrayFile(Strict):
    """`data/hardware/matrix_units.yaml`, which has the sources; assumed: note on a device whose slots are assumed."""

    arrays: dict[str, Arrays]
    assumed: dict[str, str]


_FILE = read_yaml(DATA / "hardware" / "matrix_units.yaml", ArrayFile)
ARRAYS, ASSUMED = _FILE.arrays, _FILE.assumed
LANES, SUBLANES = 128, 8


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


@dataclass(frozen=True)
class VectorWork:
    """Registers passed through the unit: operations that any slot takes, and transcendental ones, which one slot takes (count)."""

    plain: float = 0.0
    transcendental: float = 0.0

    def __add__(self, other: VectorWork) -> VectorWork:
        return VectorWork(self.plain + other.plain, self.transcendental + other.transcendental)

    def times(self, runs: int) -> VectorWork:
        """The same, several times over."""
        return VectorWork(self.plain * runs, self.transcendental * runs)


NO_WORK = VectorWork()


def registers(tensor: Tensor) -> int:
    """Registers of 8 x 128 elements that a tensor fills (count); one of a single axis is laid out over both."""
    shape = [size or 1 for size in tensor.shape]
    if len(shape) < 2:
        return -(-math.prod(shape) // (LANES * SUBLANES))
    return math.prod(shape[:-2]) * -(-shape[-2] // SUBLANES) * -(-shape[-1] // LANES)


def work_of(operator: OperatorWork) -> VectorWork:
    """What one run of an operator passes through the unit."""
    if operator.op_class not in ("elementwise", "transcendental", "reduction", "random") or not operator.outputs:
        return VectorWork()
    reduces = operator.op_class == "reduction" and operator.inputs
    tensor = operator.inputs[0] if reduces else operator.outputs[0]
    filled, elements = registers(tensor), max(1, tensor.elements)
    found = VectorWork(filled * operator.flops / elements, filled * operator.transcendentals / elements)
    if reduces and tensor.shape[-1:] != operator.outputs[0].shape[-1:]:
        found += VectorWork(registers(operator.outputs[0]) * math.log2(LANES))
    return found


def vector_s(device: Device, work: VectorWork) -> float | None:
    """Time of some work in the vector units of all cores (s); `None` where the unit or its clock is not published."""
    slots = ARRAYS[device.name].slots if device.name in ARRAYS else 0
    if not slots or device.clock_hz is None or device.sms is None:
        return None
    return (work.plain / slots + work.transcendental) / (device.sms.value * device.clock_hz)
