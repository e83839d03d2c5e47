"""What do MLIR's types and attributes say? Tensors, integers, dimension numbers, device groups. (Child process; see `bindings`.)"""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

from analysis.workloads.graph import element_bits
from analysis.workloads.hlo.bindings import ir

_NUMBER = re.compile(r"-?\d+")
_BOUNDS = re.compile(r"bounds(?: = \[|<)([^>\]]*)")


def tensor(kind: Any) -> list[Any]:
    """[shape, dtype, bytes] of a type; a tuple's or token's has no shape."""
    if isinstance(kind, ir.RankedTensorType):
        ranked = ir.RankedTensorType(kind)
        dtype = str(ranked.element_type)
        shape: list[int | None] = [None if ranked.is_dynamic_dim(place) else ranked.get_dim_size(place) for place in range(ranked.rank)]
        if None in shape and ranked.encoding is not None:
            bounds = _BOUNDS.search(str(ranked.encoding))
            if bounds:
                limits = [int(each) if each.strip().isdigit() else None for each in bounds.group(1).split(",")]
                shape = [limit if size is None else size for size, limit in itertools.zip_longest(shape, limits[: len(shape)])]
        count = math.prod(1 if size is None else size for size in shape)
        return [shape, dtype, (count * element_bits(dtype) + 7) // 8]
    text = str(kind)
    if text.startswith("tuple<"):
        members = ir.TupleType(kind)
        return [[], "tuple", sum(tensor(members.get_type(place))[2] for place in range(members.num_types))]
    if text.startswith("tensor<*"):
        return [[None], text[8:-1], element_bits(text[8:-1]) // 8]
    if "token" in text:
        return [[], "token", 0]
    return [[], text, element_bits(text) // 8]


def integers(attribute: Any, default: list[int] | None = None) -> list[int]:
    """A list of integers, given as an array, an array of attributes or dense elements; `default` where there is none."""
    if attribute is None:
        return default or []
    for kind in (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr, ir.DenseBoolArrayAttr, ir.DenseIntElementsAttr):
        if isinstance(attribute, kind):
            return [int(each) for each in kind(attribute)]
    if isinstance(attribute, ir.IntegerAttr):
        return [int(ir.IntegerAttr(attribute).value)]
    return [int(each) for each in _NUMBER.findall(str(attribute).split(":")[0])]


def table(attribute: Any) -> list[list[int]]:
    """Rows of a two-dimensional list of integers; -1, which pads the shorter ones, is left out."""
    if not isinstance(attribute, ir.DenseIntElementsAttr):
        return []
    values = integers(attribute)
    shape = ir.RankedTensorType(ir.DenseIntElementsAttr(attribute).type).shape
    width = shape[-1] if len(shape) > 1 else len(values)
    if not width:
        return []
    return [values[start : start + width] for start in range(0, len(values), width)]


def pairs(attribute: Any, rank: int) -> list[tuple[int, int]]:
    """(low, high) padding of each dimension; none where there is no such attribute."""
    values = integers(attribute, [0] * (2 * rank))
    return list(zip(values[::2], values[1::2], strict=True))


def dot_dimensions(attribute: Any) -> dict[str, list[int]]:
    """Dimensions of a `dot_general` by ``lhs_batching``, ``rhs_batching``, ``lhs_contracting``, ``rhs_contracting``."""
    text = str(attribute)
    found = {}
    for key in ("lhs_batching", "rhs_batching", "lhs_contracting", "rhs_contracting"):
        where = re.search(rf"{key}_dimensions\s*=\s*\[([^\]]*)\]", text)
        found[key] = [int(each) for each in _NUMBER.findall(where.group(1))] if where else []
    return found


def convolution_dimensions(attribute: Any) -> tuple[list[str], list[str], list[str]]:
    """Roles of the input's, kernel's and output's dimensions, such as ``[b, 0, 1, f]``, ``[0, 1, i, o]``, ``[b, 0, 1, f]``."""
    found = re.search(r"<\[([^\]]*)\]x\[([^\]]*)\]->\[([^\]]*)\]>", str(attribute))
    if not found:
        raise ValueError("a convolution without dimension numbers")
    first, second, third = ([each.strip() for each in part.split(",")] for part in found.groups())
    return first, second, third


def mesh_sizes(text: str) -> tuple[list[tuple[str, int]], list[int]]:
    """Axes (name, size) and device order of a mesh, from ``<["x"=2], device_ids=[...]>`` (Shardy) or named axes (StableHLO)."""
    axes = [(name, int(size)) for name, size in re.findall(r'"?([\w.$-]+)"?\s*=\s*(\d+)', text.split("device_ids")[0])]
    if not axes:
        axes = [(name, int(size)) for name, size in re.findall(r'name = "?([\w.$-]+)"?, size = (\d+)', text)]
    order = re.search(r"device_ids\s*=\s*\[([^\]]*)\]", text)
    return axes, [int(each) for each in _NUMBER.findall(order.group(1))] if order else []


def groups_of_axes(axes: list[tuple[str, int]], order: list[int], used: list[tuple[str, int, int]]) -> list[list[int]]:
    """Devices that exchange among themselves when they differ only along some axes of a mesh.

    Args:
        axes: (name, size), the slowest first.
        order: device of each place of the mesh; empty: in order.
        used: (name, pre-size, size) of the axes; pre-size 0 for a whole axis, else that part of it.
    """
    split: list[tuple[bool, int]] = []  # each axis cut in its parts: (whether devices along it exchange, size)
    places: list[int] = []
    for name, size in axes:
        cuts = sorted((pre, part) for axis, pre, part in used if axis == name)
        if cuts and cuts[0][0] == 0:
            split.append((True, size))
            continue
        done = 1
        for pre, part in cuts:
            if pre > done:
                split.append((False, pre // done))
            split.append((True, part))
            done = pre * part
        if size // done > 1 or not cuts:
            split.append((False, size // done))
    strides, total = [], 1
    for _, size in reversed(split):
        strides.append(total)
        total *= size
    strides.reverse()
    moving = [place for place, (exchanges, _) in enumerate(split) if exchanges]
    still = [place for place, (exchanges, _) in enumerate(split) if not exchanges]
    found = []
    for fixed in itertools.product(*(range(split[place][1]) for place in still)):
        base = sum(index * strides[place] for index, place in zip(fixed, still, strict=True))
        places = [
            base + sum(index * strides[place] for index, place in zip(free, moving, strict=True))
            for free in itertools.product(*(range(split[place][1]) for place in moving))
        ]
        found.append([order[place] if order else place for place in places])
    return found


def device_groups(rows: list[list[int]], mode: str, replicas: int, partitions: int) -> list[list[int]]:
    """Groups of devices (replica * partitions + partition) from the groups that a collective names.

    Args:
        rows: of replicas, of partitions or of devices; -1 pads; empty: all of them.
        mode: ``replica``, ``partition``, ``replica and partition`` or ``device``.
    Source: StableHLO specification, collective operations, process groups.
    """
    rows = [kept for row in rows if (kept := [each for each in row if each >= 0])]
    if mode == "device":
        return rows or [list(range(replicas * partitions))]
    if mode == "partition":
        rows = rows or [list(range(partitions))]
        return [[replica * partitions + each for each in row] for replica in range(replicas) for row in rows]
    rows = rows or [list(range(replicas))]
    if mode == "replica":
        return [[each * partitions + partition for each in row] for row in rows for partition in range(partitions)]
    return [[each * partitions + partition for each in row for partition in range(partitions)] for row in rows]
