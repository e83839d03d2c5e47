"""A problem and a design as plain arrays, for the compiled evaluator, and mappings to and from factors and orders."""

from __future__ import annotations

import math
from collections.abc import Mapping as Sizes
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, get_type_hints

import numpy as np

from analysis.accelerators.loopnest.architecture import Architecture
from analysis.accelerators.loopnest.mapping import Loop, Mapping
from analysis.accelerators.loopnest.problem import Problem
from analysis.errors import InputError

Array = np.ndarray[Any, Any]
Scratch = TypeVar("Scratch")


class Tables(NamedTuple):
    """T tensors, D dimensions, R ranks at most, L levels, A axes; everything the evaluator needs.

    Attributes:
        sizes: trip counts, [D].
        rank_terms: dimensions with a trip count above 1 in a rank of a tensor, [T, R].
        rank_dimension, rank_coefficient: those dimensions and their coefficients, [T, R, K].
        relevant: whether a dimension moves a tensor, [T, D].
        rank_of, step_of: the rank in which it does (-1: none), and its coefficient there, [T, D].
        slides: whether a tensor has a rank with more than one such dimension, [T].
        accumulates: whether a tensor is accumulated into, [T].
        keeps: whether a level keeps a tensor, [L, T].
        capacity: words of an instance, -1 for unbounded, [L].
        block: words an access moves, [L].
        energy: of one access, read, write, update, [L, 3], joules.
        leak: joules a cycle for each instance in use of level leak_of, [L].
        bandwidth: words per cycle and instance, read, write, shared; infinite where unlimited, [L, 3].
        width, height: of the mesh below a level, [L].
        axis_first: first axis below a level; the axes of level l are axis_first[l] to axis_first[l + 1], [L + 1].
        axis_size: lanes, [A].
        mac_energy: joules.
        mac_count: units.
    """

    sizes: Array
    rank_terms: Array
    rank_dimension: Array
    rank_coefficient: Array
    relevant: Array
    rank_of: Array
    step_of: Array
    slides: Array
    accumulates: Array
    keeps: Array
    capacity: Array
    block: Array
    energy: Array
    leak: Array
    leak_of: Array
    bandwidth: Array
    width: Array
    height: Array
    axis_first: Array
    axis_size: Array
    mac_energy: float
    mac_count: int


def tables(problem: Problem, architecture: Architecture) -> Tables:
    """Put a problem and a design into arrays."""
    dimensions = [dimension for dimension, _ in problem.bounds]
    ranks = max(len(tensor.ranks) for tensor in problem.tensors)
    most = max((len(rank) for tensor in problem.tensors for rank in tensor.ranks), default=1)
    rank_terms = np.zeros((len(problem.tensors), ranks), dtype=np.int64)
    rank_dimension = np.zeros((len(problem.tensors), ranks, most), dtype=np.int64)
    rank_coefficient = np.zeros((len(problem.tensors), ranks, most), dtype=np.int64)
    relevant = np.zeros((len(problem.tensors), len(dimensions)), dtype=np.bool_)
    rank_of = np.full(relevant.shape, -1, dtype=np.int64)
    step_of = np.zeros(relevant.shape, dtype=np.int64)
    for t, tensor in enumerate(problem.tensors):
        if tensor.name not in architecture.levels[0].keeps:
            raise InputError(f"does not keep {tensor.name}; the outermost level must keep every tensor", key=architecture.levels[0].name)
        for r, rank in enumerate(tensor.ranks):
            for dimension, c in rank:
                d = dimensions.index(dimension)
                if relevant[t, d]:
                    raise InputError(f"{dimension} appears twice; the compiled evaluator takes each dimension once", key=tensor.name)
                relevant[t, d], rank_of[t, d], step_of[t, d] = True, r, c
                if problem.sizes[dimension] > 1:
                    rank_dimension[t, r, rank_terms[t, r]] = d
                    rank_coefficient[t, r, rank_terms[t, r]] = c
                    rank_terms[t, r] += 1
    axis_first = np.cumsum([0] + [len(level.fanout) for level in architecture.levels])
    meshes = [[axis.size for axis in level.fanout] + [1, 1] for level in architecture.levels]
    infinite = math.inf
    return Tables(
        sizes=np.array([bound for _, bound in problem.bounds], dtype=np.int64),
        rank_terms=rank_terms,
        rank_dimension=rank_dimension,
        rank_coefficient=rank_coefficient,
        relevant=relevant,
        rank_of=rank_of,
        step_of=step_of,
        slides=np.any(rank_terms > 1, axis=1),
        accumulates=np.array([tensor.read_write for tensor in problem.tensors]),
        keeps=np.array([[tensor.name in level.keeps for tensor in problem.tensors] for level in architecture.levels]),
        capacity=np.array([-1 if level.capacity_words is None else level.capacity_words for level in architecture.levels], dtype=np.int64),
        block=np.array([level.block_words for level in architecture.levels], dtype=np.int64),
        energy=np.array([[level.read_energy_j, level.write_energy_j, level.update_energy_j] for level in architecture.levels]),
        leak=np.array([leak for leak, _ in architecture.leakage]),
        leak_of=np.array([index for _, index in architecture.leakage], dtype=np.int64),
        bandwidth=np.array(
            [
                [infinite if b is None else b for b in (level.read_bandwidth, level.write_bandwidth, level.shared_bandwidth)]
                for level in architecture.levels
            ]
        ),
        width=np.array([mesh[0] for mesh in meshes], dtype=np.int64),
        height=np.array([mesh[1] for mesh in meshes], dtype=np.int64),
        axis_first=axis_first.astype(np.int64),
        axis_size=np.array([axis.size for level in architecture.levels for axis in level.fanout], dtype=np.int64),
        mac_energy=architecture.mac_energy_j,
        mac_count=architecture.mac_count,
    )


def scratch(kind: type[Scratch], sizes: Sizes[str, int]) -> Scratch:
    """A named tuple of zeros: each field is an array of the type and shape that its annotation says, in axes of `sizes` or numbers."""
    fields = {name: hint.__metadata__ for name, hint in get_type_hints(kind, include_extras=True).items()}
    return kind(
        **{name: np.zeros([sizes[a] if a in sizes else int(a) for a in axes.split()], number) for name, (number, axes) in fields.items()}
    )


@dataclass(frozen=True)
class Layout:
    """A mapping as arrays.

    Attributes:
        temporal: bound of each dimension's loop in time at each level, [L, D].
        order: dimensions by position, innermost first, at each level, [L, D].
        spatial: bound of each dimension's loop on each axis, [A, D].
        lane_order: dimensions by position, innermost first, on each axis, [A, D].
    """

    temporal: Array
    order: Array
    spatial: Array
    lane_order: Array


def to_mapping(problem: Problem, architecture: Architecture, layout: Layout) -> Mapping:
    """The mapping that a layout stands for; loops of bound 1 are left out."""
    dimensions = [dimension for dimension, _ in problem.bounds]
    axes = [axis.name for level in architecture.levels for axis in level.fanout]
    placed = []
    for place in architecture.places:
        if place in axes:
            bounds, order = layout.spatial[axes.index(place)], layout.lane_order[axes.index(place)]
        else:
            index = architecture.level_index(place)
            bounds, order = layout.temporal[index], layout.order[index]
        loops = tuple(Loop(dimensions[d], int(bounds[d])) for d in reversed(order) if bounds[d] > 1)
        if loops:
            placed.append((place, loops))
    return Mapping(tuple(placed))
