"""Random small problems, hierarchies and mappings for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from analysis.accelerators.loopnest.architecture import Architecture, Axis, Level
from analysis.accelerators.loopnest.mapping import Loop, Mapping
from analysis.accelerators.loopnest.problem import Problem, Tensor
from analysis.accelerators.loopnest.tables import Layout
from analysis.errors import InputError

FACTORS = {1: (), 2: (2,), 3: (3,), 4: (2, 2), 5: (5,), 6: (2, 3), 8: (2, 2, 2), 9: (3, 3), 12: (2, 2, 3)}


@st.composite
def problems(draw: st.DrawFn, points: int = 200) -> Problem:
    """A product with 2 to 5 dimensions; inputs may slide (two dimensions in one rank, coefficients 1 to 3)."""
    count = draw(st.integers(2, 5))
    names = "ABCDE"[:count]
    sizes, left = {}, points
    for name in names:
        sizes[name] = draw(st.sampled_from([s for s in FACTORS if s <= left]))
        left //= sizes[name]
    kept = draw(st.lists(st.sampled_from(names), min_size=1, max_size=count, unique=True))
    tensors = [Tensor("Outputs", tuple(((d, 1),) for d in kept), read_write=True)]
    for name in ("Weights", "Inputs"):
        ranks = []
        order = draw(st.permutations(names))
        used = draw(st.integers(1, count))
        remaining = list(order[:used])
        while remaining:
            terms = draw(st.integers(1, min(2, len(remaining))))
            ranks.append(tuple((remaining.pop(), draw(st.integers(1, 3))) for _ in range(terms)))
        tensors.append(Tensor(name, tuple(ranks)))
    return Problem("random", tuple(sizes.items()), tuple(tensors))


@st.composite
def architectures(draw: st.DrawFn, bypass: bool = True) -> Architecture:
    """2 to 4 levels with up to two axes of fan-out below each; the outermost keeps everything."""
    count = draw(st.integers(2, 4))
    levels, instances = [], 1
    for index in range(count):
        axes = draw(st.integers(0, 2))
        fanout = tuple(Axis(f"spatial_{index}{a}", draw(st.sampled_from([2, 3, 4]))) for a in range(axes))
        keeps = ("Weights", "Inputs", "Outputs")
        if index and bypass:
            keeps = tuple(draw(st.lists(st.sampled_from(keeps), unique=True)))
        energies = [draw(st.integers(1, 100)) * 1e-12 for _ in range(3)]
        bandwidths = [draw(st.none() | st.sampled_from([0.5, 1.0, 4.0])) for _ in range(3)]
        levels.append(Level(f"L{index}", keeps, instances, None, *bandwidths, draw(st.sampled_from([1, 2, 4])), *energies, fanout))
        for axis in fanout:
            instances *= axis.size
    return Architecture("random", tuple(levels), instances, 1e-12)


@st.composite
def mappings(draw: st.DrawFn, problem: Problem, architecture: Architecture) -> Mapping:
    """Prime factors dropped at random places, in random order; axes are never over-filled."""
    room = {axis.name: axis.size for level in architecture.levels for axis in level.fanout}
    loops: dict[str, dict[str, int]] = {}
    for dimension, size in problem.bounds:
        for prime in FACTORS[size]:
            open_places = [p for p in architecture.places if room.get(p, prime) >= prime]
            place = draw(st.sampled_from(open_places))
            if place in room:
                room[place] //= prime
            at = loops.setdefault(place, {})
            at[dimension] = at.get(dimension, 1) * prime
    placed = []
    for place in architecture.places:
        if place in loops:
            order = draw(st.permutations(sorted(loops[place])))
            placed.append((place, tuple(Loop(d, loops[place][d]) for d in order)))
    return Mapping(tuple(placed))


@st.composite
def cases(draw: st.DrawFn, bypass: bool = True, points: int = 200) -> tuple[Problem, Architecture, Mapping]:
    """A problem, a hierarchy, and a mapping of the one on the other."""
    problem = draw(problems(points=points))
    architecture = draw(architectures(bypass=bypass))
    return problem, architecture, draw(mappings(problem, architecture))


def _ordered(loops: tuple[Loop, ...], dimensions: list[str]) -> list[int]:
    inner_first = [dimensions.index(loop.dimension) for loop in reversed(loops)]
    return inner_first + [d for d in range(len(dimensions)) if d not in inner_first]


def to_layout(problem: Problem, architecture: Architecture, mapping: Mapping) -> Layout:
    """Put a mapping into arrays; a place may hold one loop for each dimension."""
    dimensions = [dimension for dimension, _ in problem.bounds]
    axes = [axis.name for level in architecture.levels for axis in level.fanout]
    temporal = np.ones((len(architecture.levels), len(dimensions)), dtype=np.int64)
    spatial = np.ones((len(axes), len(dimensions)), dtype=np.int64)
    order = np.tile(np.arange(len(dimensions)), (len(architecture.levels), 1))
    lane_order = np.tile(np.arange(len(dimensions)), (len(axes), 1))
    for place, loops in mapping.loops:
        names = [loop.dimension for loop in loops]
        if len(set(names)) != len(names):
            raise InputError("two loops over one dimension", key=place)
        if place in axes:
            row, bounds, orders = axes.index(place), spatial, lane_order
        else:
            row, bounds, orders = architecture.level_index(place), temporal, order
        for loop in loops:
            bounds[row, dimensions.index(loop.dimension)] = loop.bound
        orders[row] = _ordered(loops, dimensions)
    return Layout(temporal, order, spatial, lane_order)
