"""What does a device do for an operator that XLA's cost analysis counts otherwise? Scans, FFT, sorts, complex arithmetic, linear algebra.

| operator | operations | passes over its tensors (one: each read or written once) |
|---|---|---|
| running sum (a window as long as its axis) | 2 an element | 2: tiles are summed, then moved by the sums before them |
| FFT over axes of L1, L2, ... | 5 N log2(L1 L2 ...), half of it where one side is real | one an axis for every 2^12 of its length |
| sort along the last axis, rows of n | n log2 n a row | 1 up to 4,096 a row; else one for every 8 bits of the key, and a read |
| complex product, multiplication, sum | 8 a multiply-add, 6, 2 | 1 |
| triangular solve of n by n for m columns | n^2 m | 1 for every 1,024 rows (each panel reads what is left) |
| Cholesky factor of n by n | n^3 / 3 | 1 for every 1,024 rows |

`hlo cost` keeps XLA's figures, which its tests compare with.
`hlo cost` does not know what a custom call does; of those of LAPACK and cuSOLVER, potrf and trsm are counted here.
Sources: Cooley and Tukey's count as FFTW states it (fftw.org/speed); XLA's reduce_window_rewriter.cc (two levels); Adinets and Merrill,
Onesweep (arXiv:2206.01784), for radix sorts; Golub and Van Loan, Matrix Computations.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from analysis.workloads.graph import Module, OperatorWork, element_bits

ON_CHIP = 4096
"""Elements of a row, or points of an axis, that one block sorts or transforms without going to memory."""
DIGIT_BITS = 8
PANEL = 1024
COMPLEX = {"multiply": 6, "divide": 11, "add": 2, "subtract": 2, "negate": 2}
"""Real operations of a complex one."""


@dataclass(frozen=True)
class DeviceWork:
    """One run of an operator: operations (FLOP, transcendental ones counted as one), and how often its tensors are read and written."""

    flop: float
    passes: float = 1.0


def device_work(work: OperatorWork) -> DeviceWork:
    """What a device does for one run of an operator."""
    called = re.search(r"potrf|trsm", work.called or "")
    name = {"potrf": "cholesky", "trsm": "triangular_solve"}[called[0]] if called else work.name.rpartition(".")[2]
    counted = work.flops + work.transcendentals
    if not work.inputs or not work.outputs:
        return DeviceWork(counted)
    elements, shape = work.inputs[0].elements, work.inputs[0].shape
    if name == "reduce_window" and _is_scan(work):
        return DeviceWork(2.0 * sum(tensor.elements for tensor in work.outputs), 2.0)
    if name == "fft":
        longer = max(work.inputs[0], work.outputs[0], key=lambda tensor: tensor.elements)
        axes = _axes(longer.shape, counted / max(1, 8 * elements))
        both = work.inputs[0].dtype.startswith("complex") and work.outputs[0].dtype.startswith("complex")
        logs = [math.log2(max(2, size)) for size in axes]
        return DeviceWork((5.0 if both else 2.5) * longer.elements * sum(logs), sum(math.ceil(log / math.log2(ON_CHIP)) for log in logs))
    if name == "sort":
        row = shape[-1] or 1 if shape else 1
        passes = 1.0 if row <= ON_CHIP else math.ceil(element_bits(work.inputs[0].dtype) / DIGIT_BITS) + 0.5
        return DeviceWork(elements * math.log2(max(2, row)), passes)
    if name == "triangular_solve":
        size = shape[-1] or 1
        return DeviceWork(float(size * work.inputs[1].elements), math.ceil(size / PANEL))
    if name == "cholesky":
        size = shape[-1] or 1
        return DeviceWork(size * elements / 3, math.ceil(size / PANEL))
    if work.inputs[0].dtype.startswith("complex"):
        return DeviceWork(counted * (4 if work.op_class in ("matmul", "convolution") else COMPLEX.get(name, 2)))
    return DeviceWork(counted)


def _axes(shape: tuple[int | None, ...], counted: float) -> list[int]:
    """Lengths of an FFT's axes: the last ones whose logarithms have that product, which is how XLA counts them."""
    for first in range(len(shape) - 1, -1, -1):
        axes = [size or 1 for size in shape[first:]]
        if math.prod(max(0, size.bit_length() - 1) for size in axes) >= counted - 0.5:
            return axes
    return [size or 1 for size in shape[-1:]]


def _is_scan(work: OperatorWork) -> bool:
    """Whether a windowed reduction gives every element of an axis a window as long as the axis."""
    source, result = work.inputs[0], work.outputs[0]
    if source.shape != result.shape or not result.elements:
        return False
    counted = work.flops + work.transcendentals
    taps = counted / result.elements + 1  # XLA: (window - 1) a result, or for a running reduction, about one
    spans = [size for size in source.shape if size and size > 2]
    return any(abs(taps - span) < 0.5 or abs(counted - (result.elements // span + span - 1)) < 0.5 for span in spans)


def as_run(module: Module) -> tuple[Module, list[float]]:
    """The program with the operations that the device does, and for each operator how often its tensors pass through memory."""
    known: dict[int, tuple[OperatorWork, float]] = {}
    for operator in module.operators:
        if id(operator.work) not in known:
            found = device_work(operator.work)
            same = found.flop == operator.work.flops + operator.work.transcendentals
            work = operator.work if same else replace(operator.work, flops=found.flop, transcendentals=0)
            if work.name.endswith("reduce_window") and found.passes > 1:
                work = replace(work, op_class="scan")
            known[id(operator.work)] = (work if found.passes == 1 else replace(work, bytes=work.bytes * found.passes)), found.passes
    if all(work is operator.work for operator in module.operators for work, _ in (known[id(operator.work)],)):
        return module, [1.0] * len(module.operators)
    operators = tuple(replace(operator, work=known[id(operator.work)][0]) for operator in module.operators)
    return replace(module, operators=operators), [known[id(operator.work)][1] for operator in module.operators]
