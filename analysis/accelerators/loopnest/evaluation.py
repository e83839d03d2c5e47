"""Cycles, energy and every access count of one mapping of one layer on one design, by Timeloop's rules."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from analysis.accelerators.loopnest.architecture import Architecture, Level
from analysis.accelerators.loopnest.mapping import Loop, Mapping, Nest, lay_out
from analysis.accelerators.loopnest.problem import Problem, Tensor
from analysis.accelerators.loopnest.reuse import TimedLoop, Traffic, Walk, place_lanes, traffic
from analysis.errors import InputError


@dataclass(frozen=True)
class Accesses:
    """What one instance of one level does for one tensor over the whole run, in words.

    Args:
        partition_words: part of the tensor that the instance sees in all.
        tile_words: what it holds at a time.
        reads, fills, updates: words read for those below (and for accumulation), written from above, written from below.
        temporal_reductions: accumulations done on the way in.
        energy_j: of all instances together.
    """

    level: str
    tensor: str
    partition_words: int
    tile_words: int
    instances: int
    reads: int
    fills: int
    updates: int
    temporal_reductions: int
    energy_j: float

    @property
    def total(self) -> int:
        """Accesses of one instance."""
        return self.reads + self.fills + self.updates


@dataclass(frozen=True)
class Slowdown:
    """One bandwidth that was asked for: words per cycle and instance needed at full speed, and available."""

    level: str
    port: Literal["read", "write", "shared"]
    needed: float
    available: float

    @property
    def factor(self) -> float:
        """Share of full speed that this port allows, at most 1."""
        return min(1.0, self.available / self.needed) if self.needed > 0 else 1.0


@dataclass(frozen=True)
class Evaluation:
    """The answer for one mapping.

    Args:
        bound_by: `compute`, or the level and port that limits.
    """

    macs: int
    compute_cycles: int
    cycles: int
    bound_by: str
    lanes_used: int
    lanes: int
    mac_energy_j: float
    accesses: tuple[Accesses, ...]
    leakage_j: tuple[tuple[str, float], ...] = ()

    @property
    def utilization(self) -> float:
        """Arithmetic units in use, of those there."""
        return self.lanes_used / self.lanes

    @property
    def energy_j(self) -> float:
        """Energy of arithmetic, all accesses and leakage (J)."""
        return self.mac_energy_j + sum(a.energy_j for a in self.accesses) + sum(leaked for _, leaked in self.leakage_j)

    def energy_by_level(self) -> dict[str, float]:
        """Joules by level, arithmetic first (`mac`), then from the innermost level outward."""
        energy = {"mac": self.mac_energy_j}
        for a in self.accesses:
            energy[a.level] = energy.get(a.level, 0.0) + a.energy_j
        for level, leaked in self.leakage_j:
            energy[level] = energy.get(level, 0.0) + leaked
        return energy

    def share(self, level: str) -> float:
        """Part of the energy that one level takes."""
        return self.energy_by_level().get(level, 0.0) / self.energy_j


def _strides(nest: Nest) -> tuple[list[list[int]], list[list[int]], list[dict[str, int]]]:
    """Iterations that one step of each loop skips (in time, in space), and the tile inside each level's own loops.

    The third result has, for each level, the tile that one instance of the next level inward (or one arithmetic unit) works on.
    """
    dimensions = {loop.dimension for loops in (*nest.temporal, *nest.spatial) for loop in loops}
    scale = dict.fromkeys(dimensions, 1)
    in_time: list[list[int]] = []
    in_space: list[list[int]] = []
    inside: list[dict[str, int]] = []
    for temporal, spatial in zip(reversed(nest.temporal), reversed(nest.spatial), strict=True):
        inside.append(dict(scale))
        for loops, found in ((spatial, in_space), (temporal, in_time)):
            steps = []
            for loop in reversed(loops):
                steps.append(scale[loop.dimension])
                scale[loop.dimension] *= loop.bound
            found.append(steps[::-1])
    return in_time[::-1], in_space[::-1], inside[::-1]


def _product(loops: tuple[Loop, ...]) -> int:
    return math.prod(loop.bound for loop in loops)


@dataclass(frozen=True)
class _Geometry:
    """A nest measured once for all tensors."""

    nest: Nest
    in_time: list[list[int]]
    in_space: list[list[int]]
    child_tile: list[dict[str, int]]
    own_tile: list[dict[str, int]]
    compute_cycles: int


def _measure(problem: Problem, nest: Nest) -> _Geometry:
    in_time, in_space, inside = _strides(nest)
    child_tile = [{d: tile.get(d, 1) for d in problem.sizes} for tile in inside]
    own_tile = [dict(problem.sizes), *child_tile[:-1]]
    return _Geometry(nest, in_time, in_space, child_tile, own_tile, math.prod(_product(loops) for loops in nest.temporal))


def _traffic_below(tensor: Tensor, geometry: _Geometry, level: int, counted: Callable[..., Traffic]) -> Traffic:
    """Words from one instance of `level` to its children, as if both kept the tensor; `counted`: `traffic` with its rules."""
    nest = geometry.nest
    timed = tuple(
        TimedLoop(loop.bound, tensor.project({loop.dimension: stride}))
        for above in range(level + 1)
        for loop, stride in zip(nest.temporal[above], geometry.in_time[above], strict=True)
    )
    lanes = place_lanes(tensor, nest.spatial[level], tuple(geometry.in_space[level]), nest.physical[level])
    innermost = level == len(nest.temporal) - 1
    extents = tensor.extents(geometry.child_tile[level])
    return counted(extents, timed, lanes, retain=not innermost)


def _partition(tensor: Tensor, geometry: _Geometry, levels: int) -> list[int]:
    """Part of the tensor that one instance of each level sees; rounded down level by level, as the tool does."""
    sizes = [tensor.size(tile) for tile in geometry.own_tile]
    found = [sizes[0]]
    for level in range(1, levels):
        union = dict(geometry.child_tile[level - 1])
        for loop in geometry.nest.spatial[level - 1]:
            union[loop.dimension] *= loop.bound
        found.append(found[-1] * sizes[level] // tensor.size(union))
    return found


def _count(tensor: Tensor, architecture: Architecture, geometry: _Geometry, counted: Callable[..., Traffic]) -> list[Accesses]:
    """Accesses of one tensor at every level that keeps it, innermost first."""
    levels = architecture.levels
    below = [_traffic_below(tensor, geometry, level, counted) for level in range(len(levels))]
    partition = _partition(tensor, geometry, len(levels))
    children = [_product(loops) for loops in geometry.nest.spatial]
    instances = [math.prod(children[:level]) for level in range(len(levels))]
    keeps = [tensor.name in level.keeps for level in levels]
    if not any(keeps):
        raise InputError("no level keeps this tensor", key=tensor.name)

    # Reads that children ask for. A level that does not keep the tensor passes its children's requests up, shared as the fan-out above
    # it shares tiles.
    content: list[float] = [float(t.reads) for t in below]
    for level in range(len(levels) - 1, 0, -1):
        if not keeps[level] and below[level - 1].delivered:
            content[level - 1] = below[level - 1].reads * (content[level] * children[level - 1] / below[level - 1].delivered)
    outermost = keeps.index(True)

    found = []
    for level in range(len(levels) - 1, -1, -1):
        if not keeps[level]:
            continue
        spec: Level = levels[level]
        # What its parent delivers to it; counted before levels above drop out, since the words arrive either way.
        share = 0.0 if level == outermost else below[level - 1].delivered / children[level - 1]
        passed = below[level - 1].by_link // instances[level] if level > 0 else 0
        if tensor.read_write:
            updates = round(content[level])
            reads = round(content[level] + passed - partition[level])
            reductions = reads
            fills = round(share + passed - (0 if level == outermost else partition[level]))
        else:
            reads, updates, reductions = round(content[level] + passed), 0, 0
            fills = round(share + passed)
        prices = ((reads, spec.read_energy_j), (fills, spec.write_energy_j), (updates, spec.update_energy_j))
        energy = sum(-(-words // spec.block_words) * price for words, price in prices) * instances[level]
        found.append(
            Accesses(
                level=spec.name,
                tensor=tensor.name,
                partition_words=partition[level],
                tile_words=tensor.size(geometry.own_tile[level]),
                instances=instances[level],
                reads=reads,
                fills=fills,
                updates=updates,
                temporal_reductions=reductions,
                energy_j=energy,
            )
        )
    return found


def _overflow(problem: Problem, architecture: Architecture, geometry: _Geometry) -> tuple[str, int, int] | None:
    """The first level, from the innermost, whose tiles do not fit: its name, words needed, words there; None when all fit."""
    for index in range(len(architecture.levels) - 1, -1, -1):
        level = architecture.levels[index]
        needed = sum(t.size(geometry.own_tile[index]) for t in problem.tensors if t.name in level.keeps)
        if level.capacity_words is not None and needed > level.capacity_words:
            return level.name, needed, level.capacity_words
    return None


def _bandwidths(architecture: Architecture, accesses: list[Accesses], cycles: int) -> list[Slowdown]:
    found = []
    for level in architecture.levels:
        here = [a for a in accesses if a.level == level.name]
        reads = sum(a.reads for a in here) / cycles
        writes = sum(a.fills + a.updates for a in here) / cycles
        ports: list[tuple[Literal["read", "write", "shared"], float, float | None]] = [
            ("read", reads, level.read_bandwidth),
            ("write", writes, level.write_bandwidth),
            ("shared", reads + writes, level.shared_bandwidth),
        ]
        found += [Slowdown(level.name, port, needed, available) for port, needed, available in ports if available is not None]
    return found


def evaluate(
    problem: Problem,
    architecture: Architecture,
    mapping: Mapping,
    *,
    walk: Walk = "sampled",
    links: bool = True,
    rest_resets: bool = False,
) -> Evaluation:
    """Count every access of a mapping and price it.

    `energy = MACs e_mac + sum over levels and tensors of (A(reads) e_r + A(fills) e_w + A(updates) e_u) instances
              + sum over levels of e_leak cycles instances`,
    `A(words) = ceil(words / words of an access)`,
    `cycles = max over bandwidths of ceil(compute cycles / min(1, available / needed))`.

    Args:
        problem: the layer.
        architecture: the design.
        mapping: the loops.
        walk: `sampled` as Timeloop does, `every` for the exact walk (see `reuse`).
        links: whether neighbours may pass tiles on, as Timeloop assumes.
        rest_resets: count as Timeloop did before 2025 (see `reuse`).
    Raises:
        InputError: the mapping does not belong to the problem or the architecture, or does not fit.
    Source: rules in `data/recorded/timeloop/README.md`.
    """
    nest = lay_out(problem, architecture, mapping)
    geometry = _measure(problem, nest)
    if over := _overflow(problem, architecture, geometry):
        raise InputError(f"tiles need {over[1]} words, there are {over[2]}", key=over[0])
    accesses: list[Accesses] = []
    for tensor in problem.tensors:
        accesses += _count(tensor, architecture, geometry, partial(traffic, walk=walk, links=links, rest_resets=rest_resets))
    depth = {level.name: index for index, level in enumerate(architecture.levels)}
    accesses.sort(key=lambda a: -depth[a.level])
    worst = min(_bandwidths(architecture, accesses, geometry.compute_cycles), key=lambda s: s.factor, default=None)
    cycles, bound_by = geometry.compute_cycles, "compute"
    if worst is not None and worst.factor < 1.0:
        cycles, bound_by = math.ceil(geometry.compute_cycles / worst.factor), f"{worst.level} {worst.port}"
    leakage = tuple(
        (level.name, leak * cycles * math.prod(_product(loops) for loops in nest.spatial[:gate]))
        for level, (leak, gate) in zip(architecture.levels, architecture.leakage, strict=True)
        if leak
    )
    return Evaluation(
        macs=problem.macs,
        compute_cycles=geometry.compute_cycles,
        cycles=cycles,
        bound_by=bound_by,
        lanes_used=math.prod(_product(loops) for loops in nest.spatial),
        lanes=architecture.mac_count,
        mac_energy_j=problem.macs * architecture.mac_energy_j,
        accesses=tuple(accesses),
        leakage_j=leakage,
    )


def statistics(accesses: Accesses) -> dict[str, float]:
    """Timeloop's statistics of one tensor at one level; energies in pJ."""
    every = accesses.total * accesses.instances
    return {
        "Partition size": accesses.partition_words,
        "Utilized capacity": accesses.tile_words,
        "Utilized instances (max)": accesses.instances,
        "Scalar reads (per-instance)": accesses.reads,
        "Scalar fills (per-instance)": accesses.fills,
        "Scalar updates (per-instance)": accesses.updates,
        "Temporal reductions (per-instance)": accesses.temporal_reductions,
        "Energy (per-scalar-access)": accesses.energy_j * 1e12 / every if every else 0.0,
        "Energy (total)": accesses.energy_j * 1e12,
    }


def report(evaluation: Evaluation) -> dict[str, Any]:
    """What the `loopnest` command writes: cycles, energy_uj, utilization, what bound it, energy by level, and every access count."""
    return {
        "cycles": evaluation.cycles,
        "energy_uj": evaluation.energy_j * 1e6,
        "utilization": evaluation.utilization,
        "macs": evaluation.macs,
        "compute_cycles": evaluation.compute_cycles,
        "bound_by": evaluation.bound_by,
        "energy_by_level_uj": {level: energy * 1e6 for level, energy in evaluation.energy_by_level().items()},
        "accesses": [
            {"level": a.level, "dataspace": a.tensor, "stat": stat, "value": value}
            for a in evaluation.accesses
            for stat, value in statistics(a).items()
        ],
    }
