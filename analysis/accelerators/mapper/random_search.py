"""Mappings drawn at random from a constrained space, and simulated annealing, which draws them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from analysis.accelerators.loopnest.architecture import Architecture
from analysis.accelerators.loopnest.fast import count_many, new_work
from analysis.accelerators.loopnest.problem import Problem
from analysis.accelerators.loopnest.tables import Array, Layout, tables
from analysis.accelerators.mapper.space import Space, build_space

Generator = np.random.Generator


@dataclass(frozen=True)
class Genome:
    """A point of the space.

    Args:
        lanes: row of `Space.lane_choices`.
        rows: row of `Space.temporal` for each dimension.
        order: dimensions by position, innermost first, at each level, [L, D].
    """

    lanes: int
    rows: tuple[int, ...]
    order: Array


class Sampler:
    """Draws, changes and prices points of the space of one layer on one design."""

    def __init__(self, problem: Problem, architecture: Architecture) -> None:
        self.problem, self.architecture = problem, architecture
        self.space: Space = build_space(problem, architecture)
        self.tab = tables(problem, architecture)
        self.work = new_work(self.tab)
        self.levels, self.dimensions = len(architecture.levels), len(problem.bounds)
        axes = self.tab.axis_size.size
        self.lane_order = np.tile(np.arange(self.dimensions), (axes, 1))
        # The best point evaluated so far, by energy times delay.
        self.best: tuple[float, Genome] | None = None

    def rows(self, lanes: int, dimension: int) -> tuple[int, int]:
        """First and end row of `Space.temporal` that a choice of lanes leaves to a dimension."""
        option = self.space.lane_choices[lanes, dimension]
        return int(self.space.temporal_first[option]), int(self.space.temporal_first[option + 1])

    def draw(self, rng: Generator) -> Genome:
        """A point at random: lanes, then a split of each dimension, then orders, each uniform."""
        lanes = int(rng.integers(len(self.space.lane_choices)))
        rows = tuple(int(rng.integers(*self.rows(lanes, d))) for d in range(self.dimensions))
        return Genome(lanes, rows, np.stack([rng.permutation(self.dimensions) for _ in range(self.levels)]))

    def change(self, genome: Genome, rng: Generator) -> Genome:
        """A neighbour: another split of one dimension, another choice of lanes, or two loops of one level swapped."""
        kind = rng.random()
        if kind < 0.5:
            d = int(rng.integers(self.dimensions))
            rows = list(genome.rows)
            rows[d] = int(rng.integers(*self.rows(genome.lanes, d)))
            return replace(genome, rows=tuple(rows))
        if kind < 0.65:
            lanes = int(rng.integers(len(self.space.lane_choices)))
            rows = [
                r if self.space.lane_choices[lanes, d] == self.space.lane_choices[genome.lanes, d] else -1
                for d, r in enumerate(genome.rows)
            ]
            return replace(
                genome, lanes=lanes, rows=tuple(r if r >= 0 else int(rng.integers(*self.rows(lanes, d))) for d, r in enumerate(rows))
            )
        level, (a, b) = int(rng.integers(self.levels)), rng.choice(self.dimensions, 2, replace=False)
        order = genome.order.copy()
        order[level, [a, b]] = order[level, [b, a]]
        return replace(genome, order=order)

    def cross(self, one: Genome, other: Genome, rng: Generator) -> Genome:
        """Lanes of one parent; splits of the other where its lanes agree, by the toss of a coin; each level's order from either."""
        rows = list(one.rows)
        for d in range(self.dimensions):
            if rng.random() < 0.5 and self.space.lane_choices[one.lanes, d] == self.space.lane_choices[other.lanes, d]:
                rows[d] = other.rows[d]
        pick = rng.random(self.levels) < 0.5
        return Genome(one.lanes, tuple(rows), np.where(pick[:, None], one.order, other.order))

    def layouts(self, genomes: list[Genome]) -> tuple[Array, Array, Array, Array]:
        """Bounds in time, orders, bounds in space, lane orders, stacked: [n, L, D], [n, L, D], [n, A, D], [n, A, D]."""
        rows = np.array([g.rows for g in genomes])
        temporal = self.space.temporal[rows].transpose(0, 2, 1)
        lanes = self.space.lane_choices[[g.lanes for g in genomes]]
        spatial = self.space.spatial[lanes].transpose(0, 2, 1)
        order = self._permitted(np.stack([g.order for g in genomes]))
        lane_order = np.tile(self.lane_order, (len(genomes), 1, 1))  # a broadcast view is read-only: another type, compiled again
        return np.ascontiguousarray(temporal), order, np.ascontiguousarray(spatial), lane_order

    def _permitted(self, order: Array) -> Array:
        """Orders with the loops that must come last moved there, the others in the order given, [n, L, D]."""
        forced = self.space.forced_inside
        if not forced.any():
            return order
        rank = np.where(forced > 0, forced, self.dimensions + 1)[np.arange(self.levels)[:, None], order]
        return np.take_along_axis(order, np.argsort(rank, axis=2, kind="stable"), axis=2)

    def layout(self, genome: Genome) -> Layout:
        """One point as a layout."""
        temporal, order, spatial, lane_order = self.layouts([genome])
        return Layout(temporal[0], order[0], spatial[0], lane_order[0])

    def price(self, genomes: list[Genome]) -> tuple[Array, Array, Array]:
        """Joules, cycles, and whether the tiles fit, [n] each."""
        n = len(genomes)
        energy, cycles, over = np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        counts = np.zeros((n, self.levels, len(self.problem.tensors), 5), dtype=np.int64)
        count_many(self.tab, self.problem.macs, *self.layouts(genomes), self.work, energy, cycles, over, counts)
        return energy, cycles, over < 0

    def edp(self, genomes: list[Genome]) -> Array:
        """Energy times delay in joule-seconds, infinite where tiles do not fit, [n]."""
        return self.values(genomes, "edp")

    def values(self, genomes: list[Genome], objective: str) -> Array:
        """Seconds (latency), joules (energy) or joule-seconds (edp), infinite where tiles do not fit, [n]; remembers the best point."""
        energy, cycles, fits = self.price(genomes)
        seconds = cycles * self.architecture.cycle_s
        found = np.where(fits, {"latency": seconds, "energy": energy, "edp": energy * seconds}[objective], math.inf)
        first = int(found.argmin())
        if math.isfinite(found[first]) and (self.best is None or found[first] < self.best[0]):
            self.best = float(found[first]), genomes[first]
        return found


def annealing(sampler: Sampler, budget: int, seed: int, *, hot: float = 0.5, cold: float = 0.005, objective: str = "edp") -> Array:
    """Simulated annealing on the logarithm of the cost: the best after each evaluation.

    Args:
        hot, cold: first and last temperature, in logarithms of the product; it falls geometrically.
    """
    rng = np.random.default_rng(seed)
    trace = np.full(budget, math.inf)
    now, value = sampler.draw(rng), math.inf
    best = math.inf
    for step in range(budget):
        temperature = hot * (cold / hot) ** (step / max(1, budget - 1))
        # Until something fits there is nothing to be near to.
        candidate = sampler.change(now, rng) if math.isfinite(value) else sampler.draw(rng)
        found = float(sampler.values([candidate], objective)[0])
        if math.isfinite(found) and (found <= value or rng.random() < math.exp(-math.log(found / value) / temperature)):
            now, value = candidate, found
        best = min(best, found)
        trace[step] = best
    return trace
