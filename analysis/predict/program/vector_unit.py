"""How long does a TPU's vector unit take for what its matrix units do not do? Registers of 8 x 128 elements through a few slots a cycle.

cycles = sum over operators of R x (operations / slots + transcendental operations) / elements, R the registers that the tensor fills,
ceil(rows / 8) x ceil(columns / 128) for each pair of its last two axes: a last axis of 64 fills half of its lanes. A reduction reads the
registers of its input; along the last axis its lanes are then added up in log2(128) steps. Data movement is left to the memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis.hardware.devices import Device
from analysis.workloads.graph import OperatorWork, Tensor

LANES, SUBLANES = 128, 8
# Operations that start on each lane of a core in a cycle. v2, v3: Norrie et al., IEEE Micro 41 (2), 2021 (a vector unit a core: 128 lanes
# of 8 sublanes, each with a dual-issue ALU); v4 as these (`ASSUMED`); v5: jax-ml.github.io/scaling-book/tpus (4 ALUs). v1 has no such unit;
# v6e has no published clock.
ASSUMED = {"TPU-v4": "TPU-v4: its vector unit starts as many operations a cycle as v3's (assumed; none is published)"}
SLOTS = {"TPU-v2": 2, "TPU-v3": 2, "TPU-v4": 2, "TPU-v5e": 4, "TPU-v5p": 4}


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


def seconds(device: Device, work: VectorWork) -> float | None:
    """Time of some work in the vector units of all cores (s); `None` where the unit or its clock is not published."""
    if device.name not in SLOTS or device.clock_hz is None or device.sms is None:
        return None
    return (work.plain / SLOTS[device.name] + work.transcendental) / (device.sms.value * device.clock_hz)
