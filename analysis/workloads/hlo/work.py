"""What is an operator, and what does it cost? From its shapes and attributes. (Child process; see `bindings`.)"""

from __future__ import annotations

import math
import re
from dataclasses import astuple, dataclass, field
from typing import Any

from analysis.workloads.graph import Convolution, Matmul, Tensor
from analysis.workloads.hlo import cost, types
from analysis.workloads.hlo.bindings import Unread, ir
from analysis.workloads.hlo.cost import Cost, Region

_FREE_CALLS = re.compile(
    r"Sharding|SPMDFullToShardShape|SPMDShardToFullShape|annotate_device_placement|(local_)?xla\.sdy\..*|sdy\..*|LayoutConstraint"
    r"|MoveToHost|MoveToDevice|Pin|Unpin"
)


@dataclass
class Mesh:
    """Devices of a program.

    Args:
        partitions, replicas: (count).
        meshes: (axes, device order) of each named mesh.
    """

    partitions: int = 1
    replicas: int = 1
    meshes: dict[str, Any] = field(default_factory=dict)


def matmul_of(left: Tensor, right: Tensor, dimensions: dict[str, list[int]] | None) -> Matmul:
    """The batched matrix product that a `dot_general` or `dot` computes."""
    if dimensions is None:
        dimensions = {"lhs_batching": [], "rhs_batching": [], "lhs_contracting": [len(left.shape) - 1], "rhs_contracting": [0]}

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
    """The convolution that an operator computes."""
    image, kernel = inputs[0], inputs[1]
    if len(inputs) > 2 or image.is_dynamic or kernel.is_dynamic or output.is_dynamic:
        raise ValueError("padding or shapes that are not known before the run")
    roles_in, roles_kernel, roles_out = types.convolution_dimensions(attributes["dimension_numbers"])
    spatial = sorted((role for role in roles_in if role.isdigit()), key=int)

    def sizes(tensor: Tensor, roles: list[str]) -> tuple[int, ...]:
        return tuple(int(tensor.shape[roles.index(role)] or 0) for role in spatial)

    def attribute(name: str) -> tuple[int, ...]:
        return tuple(types.integers(attributes.get(name), [1] * len(spatial)))

    size, taps, places = sizes(image, roles_in), sizes(kernel, roles_kernel), sizes(output, roles_out)
    stride, dilation, holes = attribute("window_strides"), attribute("rhs_dilation"), attribute("lhs_dilation")
    padding = tuple(types.pairs(attributes.get("padding"), len(spatial)))
    low = [before for before, _ in padding]
    spans = zip(size, taps, places, stride, low, dilation, holes, strict=True)
    return Convolution(
        batch=int(image.shape[roles_in.index("b")] or 0),
        in_features=int(image.shape[roles_in.index("f")] or 0),
        out_features=int(output.shape[roles_out.index("f")] or 0),
        input=size,
        kernel=taps,
        output=places,
        stride=stride,
        dilation=dilation,
        padding=padding,
        feature_groups=types.integers(attributes["feature_group_count"])[0],
        batch_groups=types.integers(attributes["batch_group_count"])[0],
        positions=math.prod(cost.valid_positions(*span) for span in spans),
    )


def cost_of(
    attributes: Any, name: str, inputs: list[Tensor], outputs: list[Tensor], applied: tuple[Region, ...], record: dict[str, Any], mesh: Mesh
) -> Cost | None:
    """Cost of an operator, and what else its record says: matrix product, convolution, exchange, callee."""
    everything = cost.moved(inputs, outputs)
    if name in ("dot_general", "dot"):
        dimensions = types.dot_dimensions(attributes["dot_dimension_numbers"]) if name == "dot_general" else None
        matmul = matmul_of(inputs[0], inputs[1], dimensions)
        record["matmul"] = astuple(matmul)
        return Cost("matmul", cost.matmul_flops(matmul), everything)
    if name in ("convolution", "dynamic_conv"):
        convolution = convolution_of(inputs, outputs[0], attributes)
        record["convolution"] = astuple(convolution)
        return Cost("convolution", cost.convolution_flops(convolution), everything)
    if name == "transpose":  # XLA lets the layout of the result say it
        return Cost("data movement")
    if name == "constant":  # of equal elements: imported as a broadcast of one
        value = attributes.get("value")
        equal = isinstance(value, (ir.DenseElementsAttr, Unread)) and value.is_splat and outputs[0].elements > 1
        return Cost("constant", 0, outputs[0].bytes + outputs[0].bytes // max(1, outputs[0].elements) if equal else 0)
    if name == "broadcast_in_dim":
        return Cost("data movement", 0, cost.broadcast_bytes(inputs[0], outputs[0], types.integers(attributes["broadcast_dimensions"])))
    if name == "reduce_window":
        window = types.integers(attributes["window_dimensions"])
        padding = types.pairs(attributes.get("padding"), len(window))
        runs = cost.reduce_window_count(window, padding, outputs[0], len(outputs))
        return Cost("reduction", applied[0].flops * runs, everything, applied[0].transcendentals * runs)
    if name == "select_and_scatter":
        taps = math.prod(types.integers(attributes["window_dimensions"]))
        source = inputs[1].elements
        flops = applied[0].flops * source * (taps - 1) + applied[1].flops * source
        return Cost("reduction", flops, everything, applied[0].transcendentals * source * (taps - 1) + applied[1].transcendentals * source)
    if name == "fft":
        factors = math.prod(max(0, length.bit_length() - 1) for length in types.integers(attributes["fft_length"]))
        return Cost("fft", 8 * factors * inputs[0].elements, everything)
    if name == "custom_call":
        record["called"] = ir.StringAttr(attributes["call_target_name"]).value
        return Cost("control") if _FREE_CALLS.fullmatch(record["called"]) else None
    if name in cost.COLLECTIVE:
        groups = groups_of(attributes, name, mesh)
        record["collective"] = [cost.COLLECTIVE[name], sum(each.bytes for each in inputs), sum(each.bytes for each in outputs), groups]
    return cost.simple_cost(name, inputs, outputs, applied)


def groups_of(attributes: Any, name: str, mesh: Mesh) -> list[list[int]]:
    """Devices that exchange among themselves (pairs of source and target for a permutation)."""
    if name == "collective_permute":
        rows = types.table(attributes["source_target_pairs"])
    elif "replica_groups" in attributes:
        attribute = attributes["replica_groups"]
        text = str(attribute)
        if "mesh_axes" in text:
            return _mesh_groups(text, mesh.meshes)
        rows = types.table(attribute)
    else:
        rows = []
    channel = "channel_handle" in attributes and int((re.findall(r"handle = (\d+)", str(attributes["channel_handle"])) or [0])[0]) > 0
    if name in ("send", "recv"):
        return []
    if name in ("collective_permute", "all_to_all", "collective_broadcast"):
        mode = "partition" if channel else "replica"
    elif "use_global_device_ids" in attributes and "false" not in str(attributes["use_global_device_ids"]):
        mode = "device"
    else:
        mode = "replica and partition" if channel else "replica"
    if name == "collective_permute" and not rows:
        return []
    return types.device_groups(rows, mode, mesh.replicas, mesh.partitions)


def _mesh_groups(text: str, meshes: dict[str, Any]) -> list[list[int]]:
    symbol = re.search(r"mesh = @\"?([\w.$-]+)", text)
    if symbol:
        if symbol.group(1) not in meshes:
            raise ValueError(f"no mesh {symbol.group(1)}")
        axes, order = meshes[symbol.group(1)]
    else:
        axes, order = types.mesh_sizes(text.split("axes = [#")[0].split("mesh = ")[1])
    listed = text.split("axes = [")[-1]
    parts = re.findall(r'"?name = "?([\w.$-]+)"?(?:, sub_axis_info = \((\d+)\)(\d+))?>', listed)
    named = parts or [(name, 0, 0) for name in re.findall(r'"([^"]+)"', listed)]
    used = [(name, int(pre or 0), int(size or 0)) for name, pre, size in named]
    return types.groups_of_axes(axes, order, used)
