"""What does one StableHLO operator cost? Operations and bytes by the conventions of XLA's HLO cost analysis.

Source: openxla/xla, xla/service/hlo_cost_analysis.cc; the tests compare with the analysis of the pinned jaxlib. Where ours departs:

- XLA adds up in 32-bit floats: its sums over ten thousand operators are off by some 1e-5; ours are exact.
- XLA counts a custom call as -1 operations and -1 bytes; here it is unknown, with the bytes that it must read and write.
- XLA counts the body of a loop once; here as often as it runs, where that is known.
- Of a case XLA takes the largest figure of each kind over the branches; here one branch, that with the most operations.
- XLA gives elements of fewer than 8 bits a byte each; here they are packed.
- A loop's captured values: XLA adds 16 bytes for each one's address.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from analysis.paths import DATA
from analysis.workloads.graph import Convolution, Matmul, OperatorClass, Tensor

OPERATORS = DATA / "workloads" / "stablehlo" / "operators.csv"
"""What is known of each operator, read as it stands, for a quick start; resources.yaml beside it says what its columns mean."""
_ROWS = [line.split(",") for line in OPERATORS.read_text(encoding="utf-8").splitlines()[1:]]


def of_kind(kind: str) -> frozenset[str]:
    """Operators whose cost is that of a whole class."""
    return frozenset(name for name, own, _, _ in _ROWS if own == kind)


def of_which(fact: str) -> frozenset[str]:
    """Operators that a fact holds of: same_type, settles, integers."""
    return frozenset(name for name, _, _, facts in _ROWS if fact in facts.split())


TRANSCENDENTAL, ELEMENTWISE, MOVEMENT = of_kind("transcendental"), of_kind("elementwise"), of_kind("movement")
COLLECTIVE = {name: kind for name, kind, _, _ in _ROWS if kind not in ("", "transcendental", "elementwise", "movement")}
"""Operators that exchange data between devices, and which exchange each is."""
ATTRIBUTES = {name: tuple(words.split()) for name, _, words, _ in _ROWS if words}
"""Attributes of an operator that decide what it costs."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Operations (count), bytes and transcendental operations (count) of one run, and the class."""

    op_class: OperatorClass
    flops: float = 0
    bytes: float = 0
    transcendentals: float = 0


@dataclass(frozen=True, slots=True)
class Region:
    """Operations of one run of the function that a reduction, a scatter or a map applies (count)."""

    flops: float = 0
    transcendentals: float = 0


def moved(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> float:
    """Bytes of all inputs and outputs."""
    return float(sum(tensor.bytes for tensor in inputs) + sum(tensor.bytes for tensor in outputs))


@lru_cache(maxsize=65536)
def valid_positions(size: int, kernel: int, output: int, stride: int, low: int, dilation: int, input_dilation: int) -> int:
    """Pairs of a kernel and an output element along one dimension that meet an element of the input, not padding and not a hole.

    Counts (o, k) with 0 <= i < size for i * input_dilation = o * stride - low + k * dilation.

    Args:
        size, kernel, output: of the input, kernel and output (elements).
        stride, dilation, input_dilation: steps of the window, of the kernel's elements, of the input's elements.
        low: padding before the first element; negative crops.
    """
    count = 0
    for tap in range(kernel):
        shift = tap * dilation - low
        if input_dilation == 1:
            first = max(0, -(shift // stride))  # least o with o * stride + shift >= 0
            last = min(output - 1, (size - 1 - shift) // stride)
            count += max(0, last - first + 1)
            continue
        # o * stride + shift = 0 (mod input_dilation) has a solution only when gcd divides shift; solutions repeat with a fixed period.
        common = math.gcd(stride, input_dilation)
        if shift % common:
            continue
        period = input_dilation // common
        start = (-shift // common * pow(stride // common, -1, period)) % period if period > 1 else 0
        first = max(0, -(shift // stride))
        first += (start - first) % period
        last = min(output - 1, ((size - 1) * input_dilation - shift) // stride)
        count += max(0, (last - first) // period + 1) if last >= first else 0
    return count


def convolution_flops(convolution: Convolution) -> float:
    """Operations of a convolution: 2 * (in_features / feature_groups) * out_features * (batch / batch_groups) * positions."""
    channels = convolution.in_features // convolution.feature_groups * convolution.out_features
    return 2.0 * channels * (convolution.batch // convolution.batch_groups) * convolution.positions


def matmul_flops(matmul: Matmul) -> float:
    """Operations of a matrix product: 2 * batch * m * n * k."""
    return 2.0 * matmul.batch * matmul.m * matmul.n * matmul.k


def broadcast_bytes(source: Tensor, target: Tensor, dimensions: Sequence[int]) -> float:
    """Bytes of a broadcast as XLA imports it: where a dimension of size 1 grows, a copy and a reshape come first."""
    grows = any(source.shape[place] == 1 and target.shape[dimension] != 1 for place, dimension in enumerate(dimensions))
    if not grows:
        return float(source.bytes + target.bytes)
    return float(5 * source.bytes + target.bytes)


def reduce_window_count(window: Sequence[int], padding: Sequence[tuple[int, int]], output: Tensor, arrays: int) -> int:
    """How often a windowed reduction applies its function: (window - 1) a result, fewer for a running one over a whole dimension."""
    taps = math.prod(window)
    wide = [place for place, size in enumerate(window) if size != 1]
    padded = [place for place, (low, high) in enumerate(padding) if low or high]
    if len(wide) == 1 and len(padded) == 1 and arrays == 1:
        place = wide[0]
        low, high = padding[place]
        span = output.shape[place] or 1
        if low and low == high and window[place] == 2 * low + 1 and low == span - 1:
            return output.elements // span + span - 1
    return (taps - 1) * output.elements


def simple_cost(name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], regions: Sequence[Region]) -> Cost | None:
    """Cost of an operator for which shapes and the applied function suffice; `None` for the others."""
    everything = moved(inputs, outputs)
    elements = outputs[0].elements if outputs else 0
    if name in TRANSCENDENTAL:
        return Cost("transcendental", 0, everything, elements)
    if name in ELEMENTWISE:
        return Cost("elementwise", elements, everything)
    if name == "constant":
        return Cost("constant")
    if name in ("slice", "real_dynamic_slice"):
        return Cost("data movement", 0, 2 * outputs[0].bytes)
    if name == "dynamic_slice":
        return Cost("data movement", 0, 2 * outputs[0].bytes + (inputs[1].bytes if len(inputs) > 1 else 0))
    if name == "dynamic_update_slice":
        return Cost("data movement", 0, 2 * inputs[1].bytes + (inputs[2].bytes if len(inputs) > 2 else 0))
    if name in ("gather", "dynamic_gather", "torch_index_select"):
        return Cost("data movement", 0, 2 * outputs[0].bytes + inputs[1].bytes)
    if name in MOVEMENT:
        return Cost("data movement", 0, everything)
    if name == "scatter":
        count = len(outputs)
        updates = inputs[count + 1 :]
        runs = updates[0].elements if updates else 0
        size = 3 * sum(update.bytes for update in updates) + inputs[count].bytes
        return Cost("data movement", regions[0].flops * runs, size, regions[0].transcendentals * runs)
    if name == "reduce":
        runs = inputs[0].elements - elements
        return Cost("reduction", regions[0].flops * runs, everything, regions[0].transcendentals * runs)
    if name == "map":
        return Cost("elementwise", regions[0].flops * elements, everything, regions[0].transcendentals * elements)
    if name in ("batch_norm_training", "batch_norm_inference", "batch_norm_grad"):
        return Cost("reduction", 0, everything)
    if name == "sort":
        size = inputs[0].elements
        return Cost("sort", size * max(0, (size - 1).bit_length()), everything)
    if name in ("rng", "rng_bit_generator"):
        shape = inputs[2].bytes if name == "rng" and len(inputs) > 2 else 0
        return Cost("random", 0, everything - shape, sum(tensor.elements for tensor in outputs))
    if name == "triangular_solve":
        size = inputs[0].shape[-1] or 1
        return Cost("linear algebra", 2 * size * inputs[1].elements, outputs[0].bytes + inputs[0].bytes / 2 + inputs[1].bytes)
    if name == "cholesky":
        size = inputs[0].shape[-1] or 1
        return Cost("linear algebra", size * inputs[0].elements // 3, inputs[0].bytes)
    if name in COLLECTIVE:
        summed = sum(tensor.elements for tensor in outputs) if COLLECTIVE[name] == "all-reduce" else 0
        return Cost("collective", summed, everything)
    return None
