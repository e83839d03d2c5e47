"""The mappings that a design allows a layer: every way to split the trip counts over the places, before loops are ordered."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from analysis.accelerators.loopnest.architecture import Architecture, Rule
from analysis.accelerators.loopnest.problem import Problem
from analysis.accelerators.loopnest.tables import Array
from analysis.errors import InputError


@lru_cache(maxsize=4096)
def divisors(number: int) -> tuple[int, ...]:
    """Divisors in rising order."""
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return tuple(small + [number // d for d in reversed(small) if d * d != number])


def splits(number: int, most: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All ordered factorizations of a number into one factor a place, factor i at most `most[i]`."""
    if not most:
        return [()] if number == 1 else []
    if len(most) == 1:
        return [(number,)] if number <= most[0] else []
    return [(d, *rest) for d in divisors(number) if d <= most[0] for rest in splits(number // d, most[1:])]


@dataclass(frozen=True)
class Space:
    """Options by dimension: first how it spreads over the axes, then how the rest splits over the levels.

    Attributes:
        spatial: bounds on the axes, one row an option, [S, A].
        temporal: bounds at the levels, one row an option, [N, L].
        temporal_first: rows that belong to spatial option s are temporal_first[s] to temporal_first[s + 1], [S + 1].
        inner_first: rows with equal bounds inward of the split level stand together: group g is inner_first[g] to
            inner_first[g + 1], [G + 1].
        groups_first: groups of spatial option s are groups_first[s] to groups_first[s + 1], [S + 1].
        split_level: the outermost level but one that stores anything.
        lane_choices: a spatial option for each dimension that fits the axes, widest first, [C, D].
        lanes: arithmetic units that each of these uses, [C].
        forced_inside: 0 for a dimension whose loop may stand anywhere at a level; otherwise its rank among those that come last,
            the innermost first, equal ranks in any order, [L, D].
    """

    spatial: Array
    temporal: Array
    temporal_first: Array
    inner_first: Array
    groups_first: Array
    split_level: int
    lane_choices: Array
    lanes: Array
    forced_inside: Array

    @property
    def tilings(self) -> int:
        """Ways to split the trip counts that respect the axes, before capacities and orders."""
        options = np.diff(self.temporal_first)
        return int(sum(math.prod(int(options[s]) for s in choice) for choice in self.lane_choices))

    @property
    def inner_configurations(self) -> int:
        """Of these, ways that differ in more than how loops split between the two outermost levels."""
        groups = np.diff(self.groups_first)
        return int(sum(math.prod(int(groups[s]) for s in choice) for choice in self.lane_choices))


def _limits(rule: Rule, dimension: str, size: int) -> tuple[int, int]:
    """Smallest and largest bound that a rule lets a dimension have at a place."""
    fixed = dict(rule.factors).get(dimension)
    if fixed is not None:
        return fixed, fixed
    return (1, 1) if dimension in rule.factor_one else (1, min(size, dict(rule.most).get(dimension, size)))


def build_space(problem: Problem, architecture: Architecture) -> Space:
    """List the options."""
    axes = [axis for level in architecture.levels for axis in level.fanout]
    free = Rule()
    spatial_rows: list[tuple[int, ...]] = []
    temporal_rows: list[tuple[int, ...]] = []
    spatial_first, temporal_first, inner_first, groups_first = [0], [0], [0], [0]
    split_level = next((index for index, level in enumerate(architecture.levels) if index and level.keeps), 0)
    for place, rule in architecture.rules:
        for dimension in (*rule.factor_one, *dict(rule.factors), *rule.innermost, *rule.order, *dict(rule.most)):
            if dimension not in problem.sizes and dimension not in "BNCMPQRSK":
                raise InputError(f"names dimension {dimension}, which the layer does not have", key=f"constraints.{place}")
    for dimension, size in problem.bounds:
        on_axes = [_limits(architecture.rule_at.get(axis.name, free), dimension, min(size, axis.size)) for axis in axes]
        # A junction holds nothing, so a loop in time there would be one of the level above under another name.
        at_levels = [
            _limits(architecture.rule_at.get(level.name, free), dimension, size if level.keeps else 1) for level in architecture.levels
        ]
        for (low, _), axis in zip(on_axes, axes, strict=True):
            if low > axis.size:
                raise InputError(f"asks for {low} lanes of {dimension}, there are {axis.size}", key=f"constraints.{axis.name}")
        found = False
        choices = [tuple(d for d in divisors(size) if low <= d <= high) for low, high in on_axes]
        for lanes in sorted(itertools.product(*choices), reverse=True):
            used = math.prod(lanes)
            if size % used:
                continue
            ways = [
                way
                for way in splits(size // used, tuple(high for _, high in at_levels))
                if all(f >= low for f, (low, _) in zip(way, at_levels, strict=True))
            ]
            if ways:
                found = True
                spatial_rows.append(lanes)
                ways.sort(key=lambda way: way[split_level + 1 :])
                for _, alike in itertools.groupby(ways, key=lambda way: way[split_level + 1 :]):
                    inner_first.append(inner_first[-1] + len(list(alike)))
                groups_first.append(len(inner_first) - 1)
                temporal_rows += ways
                temporal_first.append(len(temporal_rows))
        if not found:
            places = [p for p in architecture.places if p in architecture.rule_at]
            naming = [
                p
                for p in places
                if dimension in architecture.rule_at[p].factor_one
                or dimension in dict(architecture.rule_at[p].factors + architecture.rule_at[p].most)
            ]
            raise InputError(
                f"no valid mapping: the constraints of {', '.join(naming)} leave no way to split {dimension} = {size}", key=dimension
            )
        spatial_first.append(len(spatial_rows))

    spatial = np.array(spatial_rows, dtype=np.int64).reshape(len(spatial_rows), len(axes))
    sizes = np.array([axis.size for axis in axes], dtype=np.int64)
    partial: list[tuple[tuple[int, ...], Array]] = [((), np.ones(len(axes), dtype=np.int64))]
    for d in range(len(problem.bounds)):
        partial = [
            ((*chosen, s), product * spatial[s])
            for chosen, product in partial
            for s in range(spatial_first[d], spatial_first[d + 1])
            if (product * spatial[s] <= sizes).all()
        ]
        if not partial:
            raise InputError(
                f"no valid mapping: the fixed factors do not fit on the axes once {problem.bounds[d][0]} is placed", key="constraints"
            )
    used_lanes = np.array([int(product.prod()) for _, product in partial], dtype=np.int64)
    widest = np.argsort(-used_lanes, kind="stable")
    forced = np.zeros((len(architecture.levels), len(problem.bounds)), dtype=np.int64)
    for index, level in enumerate(architecture.levels):
        rule = architecture.rule_at.get(level.name, free)
        for d, (dimension, _) in enumerate(problem.bounds):
            if dimension in rule.innermost:
                forced[index, d] = 1
            elif dimension in rule.order:
                forced[index, d] = 1 + rule.order.index(dimension)
    return Space(
        spatial=spatial,
        temporal=np.array(temporal_rows, dtype=np.int64),
        temporal_first=np.array(temporal_first, dtype=np.int64),
        inner_first=np.array(inner_first, dtype=np.int64),
        groups_first=np.array(groups_first, dtype=np.int64),
        split_level=split_level,
        lane_choices=np.array([chosen for chosen, _ in partial], dtype=np.int64)[widest],
        lanes=used_lanes[widest],
        forced_inside=forced,
    )
