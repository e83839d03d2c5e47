"""How a problem is laid on an accelerator: which loops run at which level, in which order, in time or in space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from analysis.accelerators.loopnest.architecture import Architecture
from analysis.accelerators.loopnest.problem import Problem
from analysis.configs import Strict, read_yaml
from analysis.errors import InputError


@dataclass(frozen=True)
class Loop:
    """One loop: `bound` iterations of `dimension`; spatial when its place is an axis of fan-out."""

    dimension: str
    bound: int


@dataclass(frozen=True)
class Mapping:
    """Loops by place, outermost first inside each place (see `Architecture.places`); places without loops may be left out."""

    loops: tuple[tuple[str, tuple[Loop, ...]], ...]

    @cached_property
    def at(self) -> dict[str, tuple[Loop, ...]]:
        """Loops by place."""
        return dict(self.loops)


@dataclass(frozen=True)
class Nest:
    """A mapping laid out against an architecture: loops of bound 1 are gone.

    Args:
        temporal: for each level, its loops in time, outermost first.
        spatial: for each level, the loops of the fan-out below it.
        physical: for each level, width and height of the fan-out below it.
    """

    temporal: tuple[tuple[Loop, ...], ...]
    spatial: tuple[tuple[Loop, ...], ...]
    physical: tuple[tuple[int, int], ...]


def lay_out(problem: Problem, architecture: Architecture, mapping: Mapping) -> Nest:
    """Check a mapping against problem and architecture and order it by level."""
    for place in mapping.at:
        if place not in architecture.places:
            raise InputError(f"no such place; there are: {', '.join(architecture.places)}", key=place)
    product = dict.fromkeys(problem.sizes, 1)
    for place, loops in mapping.loops:
        for loop in loops:
            if loop.dimension not in product:
                raise InputError(f"unknown dimension {loop.dimension}; the layer has {', '.join(product)}", key=place)
            product[loop.dimension] *= loop.bound
    for dimension, bound in problem.bounds:
        if product[dimension] != bound:
            raise InputError(f"the loop bounds multiply to {product[dimension]}, the layer has {bound}", key=dimension)
    temporal, spatial, physical = [], [], []
    for level in architecture.levels:
        temporal.append(tuple(loop for loop in mapping.at.get(level.name, ()) if loop.bound > 1))
        lanes: list[Loop] = []
        for axis in level.fanout:
            here = [loop for loop in mapping.at.get(axis.name, ()) if loop.bound > 1]
            used = 1
            for loop in here:
                used *= loop.bound
            if used > axis.size:
                raise InputError(f"{used} lanes used, there are {axis.size}", key=axis.name)
            lanes += here
        spatial.append(tuple(lanes))
        if len(level.fanout) > 2:
            raise InputError("at most two axes of fan-out between two levels", key=level.name)
        # A lone axis is a row or a column; which one changes no count.
        width, height, *_ = (*(axis.size for axis in level.fanout), 1, 1)
        physical.append((width, height))
    return Nest(tuple(temporal), tuple(spatial), tuple(physical))


class _Loop(Strict):
    at: str
    dim: str
    bound: int = Field(ge=1)
    spatial: str | None = None


class _Mapping(Strict):
    run: str = ""
    loops: list[_Loop]


def read_mapping(path: str | Path, architecture: Architecture) -> Mapping:
    """Read a mapping: `loops`, outermost first, each with `at` (level or axis), `dim`, `bound`, and `spatial: AXIS` on an axis."""
    given = read_yaml(path, _Mapping)
    places = architecture.places
    axes = {axis.name for level in architecture.levels for axis in level.fanout}
    loops: dict[str, list[Loop]] = {}
    last = 0
    for index, loop in enumerate(given.loops):
        key = f"loops.{index}.at"
        if loop.at not in places:
            raise InputError(f"no place {loop.at}; there are: {', '.join(places)}", path=path, key=key)
        if (loop.spatial is not None) != (loop.at in axes):
            raise InputError(
                f"{loop.at} is {'an axis: give spatial' if loop.at in axes else 'a level in time: leave out spatial'}", path=path, key=key
            )
        if loop.spatial is not None and f"spatial_{loop.spatial}" != loop.at:
            raise InputError(f"spatial: {loop.spatial} does not belong to {loop.at}", path=path, key=key)
        here = places.index(loop.at)
        if here < last:
            raise InputError(
                f"{loop.at} comes before {places[last]} in the hierarchy; loops are listed outermost first", path=path, key=key
            )
        last = here
        loops.setdefault(loop.at, []).append(Loop(loop.dim, loop.bound))
    return Mapping(tuple((place, tuple(found)) for place, found in loops.items()))


def mapping_yaml(mapping: Mapping, architecture: Architecture, name: str) -> str:
    """A mapping as text in the format that `read_mapping` reads."""
    entries: list[dict[str, Any]] = []
    axes = {axis.name for level in architecture.levels for axis in level.fanout}
    for place in architecture.places:
        for loop in mapping.at.get(place, ()):
            entry: dict[str, Any] = {"at": place, "dim": loop.dimension, "bound": loop.bound}
            if place in axes:
                entry["spatial"] = place.removeprefix("spatial_")
            entries.append(entry)
    lines = [f"run: {name}", "loops:   # outermost first"]
    lines += ["  - " + yaml.safe_dump(entry, default_flow_style=True, sort_keys=False, width=1000).strip() for entry in entries]
    return "\n".join(lines) + "\n"
