"""Which matrix product or convolution is an operator? From its shapes and attributes. (Child process; see `hlo_bindings`.)"""

from __future__ import annotations

import math
from typing import Any

from analysis.workloads.graph import Convolution, Matmul, Tensor
from analysis.workloads.hlo_cost import valid_positions
from analysis.workloads.hlo_types import convolution_dimensions, integers, pairs


def matmul_of(left: Tensor, right: Tensor, dimensions: dict[str, list[int]] | None) -> Matmul:
    """The batched matrix product that a `dot_general` or `dot` computes.

    Args:
        left, right: operands.
        dimensions: see `hlo_types.dot_dimensions`; none for `dot`, which contracts the left's last and the right's first dimension.
    """
    if dimensions is None:
        dimensions = {
            "lhs_batching": [],
            "rhs_batching": [],
            "lhs_contracting": [len(left.shape) - 1],
            "rhs_contracting": [0],
        }

    def product(shape: tuple[int | None, ...], places: list[int]) -> int:
        return math.prod(shape[place] or (1 if shape[place] is None else 0) for place in places)

    def free(shape: tuple[int | None, ...], *used: list[int]) -> list[int]:
        return [place for place in range(len(shape)) if not any(place in each for each in used)]

    return Matmul(
        batch=product(left.shape, dimensions["lhs_batching"]),
        m=product(left.shape, free(left.shape, dimensions["lhs_batching"], dimensions["lhs_contracting"])),
        n=product(right.shape, free(right.shape, dimensions["rhs_batching"], dimensions["rhs_contracting"])),
        k=product(left.shape, dimensions["lhs_contracting"]),
    )


def convolution_of(inputs: list[Tensor], output: Tensor, attributes: Any) -> Convolution:
    """The convolution that an operator computes.

    Args:
        inputs: image and kernel; a third one is padding that is not known before the run.
        output: result.
        attributes: of the operator.
    Raises:
        ValueError: shapes or padding that are not known.
    """
    image, kernel = inputs[0], inputs[1]
    if len(inputs) > 2 or image.is_dynamic or kernel.is_dynamic or output.is_dynamic:
        raise ValueError("padding or shapes that are not known before the run")
    roles_in, roles_kernel, roles_out = convolution_dimensions(attributes["dimension_numbers"])
    spatial = sorted((role for role in roles_in if role.isdigit()), key=int)

    def sizes(tensor: Tensor, roles: list[str]) -> tuple[int, ...]:
        return tuple(int(tensor.shape[roles.index(role)] or 0) for role in spatial)

    def attribute(name: str) -> tuple[int, ...]:
        return tuple(integers(attributes[name] if name in attributes else None, [1] * len(spatial)))

    size, taps, places = sizes(image, roles_in), sizes(kernel, roles_kernel), sizes(output, roles_out)
    stride, dilation, holes = attribute("window_strides"), attribute("rhs_dilation"), attribute("lhs_dilation")
    padding = tuple(pairs(attributes["padding"] if "padding" in attributes else None, len(spatial)))
    positions = 1
    for dimension in range(len(spatial)):
        positions *= valid_positions(
            size[dimension],
            taps[dimension],
            places[dimension],
            stride[dimension],
            padding[dimension][0],
            dilation[dimension],
            holes[dimension],
        )
    return Convolution(
        batch=int(image.shape[roles_in.index("b")] or 0),
        in_features=int(image.shape[roles_in.index("f")] or 0),
        out_features=int(output.shape[roles_out.index("f")] or 0),
        input=size,
        kernel=taps,
        output=places,
        stride=stride,
        dilation=dilation,
        input_dilation=holes,
        padding=padding,
        feature_groups=integers(attributes["feature_group_count"])[0],
        batch_groups=integers(attributes["batch_group_count"])[0],
        positions=positions,
    )
