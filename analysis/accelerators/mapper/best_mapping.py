"""The best mapping of a layer on a design: proven where the space can be searched to the end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from analysis.accelerators.loopnest.architecture import Architecture
from analysis.accelerators.loopnest.evaluation import Evaluation, evaluate
from analysis.accelerators.loopnest.fast import TilingWork, measure, new_work
from analysis.accelerators.loopnest.mapping import Mapping
from analysis.accelerators.loopnest.problem import Problem, Tensor
from analysis.accelerators.loopnest.tables import Array, Layout, Tables, tables, to_mapping
from analysis.accelerators.mapper.random_search import Sampler, annealing
from analysis.accelerators.mapper.search import EDP, ENERGY, LATENCY, SearchWork, bound_configurations, new_search_work, open_configurations
from analysis.accelerators.mapper.space import Space, build_space
from analysis.errors import InputError

Objective = Literal["latency", "energy", "edp"]
COUNTERS = ("configurations", "nodes_visited", "overflowed", "nodes_bounded", "nodes_expanded", "mappings_evaluated", "unproven")
PLAIN_CONFIGURATIONS = 4000
PLAIN_SPLITS = 500
"""So many configurations are bounded, and those with so few splits opened, in plain Python sooner than the search is compiled."""
CODES = {"latency": LATENCY, "energy": ENERGY, "edp": EDP}


@dataclass(frozen=True)
class Found:
    """The answer of a search.

    Args:
        value: the objective: seconds, joules, or joule-seconds.
        tilings: ways to split the loops that respect axes and factor constraints.
        statistics: inner configurations that fit; nodes (splits) visited; configurations and nodes that overflowed; nodes that the
            bound pruned and that were expanded; mappings evaluated; times that the proof had to be given up.
        cpu_s: CPU time of the search without building the space and compiling.
    """

    mapping: Mapping
    evaluation: Evaluation
    value: float
    proven: bool
    tilings: int
    statistics: dict[str, int] = field(default_factory=dict)
    cpu_s: float = 0.0


def value_of(evaluation: Evaluation, objective: Objective, cycle_s: float) -> float:
    """Seconds, joules or joule-seconds of an evaluation."""
    seconds = evaluation.cycles * cycle_s
    return {"latency": seconds, "energy": evaluation.energy_j, "edp": evaluation.energy_j * seconds}[objective]


def _touched(problem: Problem, tensor: Tensor) -> float:
    """Words of a tensor that are certainly used: rank by rank, as many as the longest dimension in it."""
    return float(math.prod(max(problem.sizes[d] for d, _ in rank) for rank in tensor.ranks))


def _lane_order(problem: Problem, architecture: Architecture) -> Array:
    """Lane loops of sliding dimensions innermost, so that lanes whose windows overlap are neighbours."""
    sliding = {d for tensor in problem.tensors for rank in tensor.ranks if sum(problem.sizes[x] > 1 for x, _ in rank) > 1 for d, _ in rank}
    names = [d for d, _ in problem.bounds]
    order = sorted(range(len(names)), key=lambda i: (names[i] not in sliding, i))
    axes = sum(len(level.fanout) for level in architecture.levels)
    return np.tile(np.array(order, dtype=np.int64), (axes, 1))


def _why_nothing_fits(problem: Problem, architecture: Architecture, tab: Tables, space: Space) -> InputError:
    """Name the level that even the smallest tiles overflow."""
    levels, dimensions = len(architecture.levels), len(problem.bounds)
    work = new_work(tab)
    counts = np.zeros((levels, len(problem.tensors), 5), dtype=np.int64)
    worst: dict[str, int] = {}
    for choice in space.lane_choices:
        temporal = np.ones((levels, dimensions), dtype=np.int64)
        for d in range(dimensions):
            rows = space.temporal[space.temporal_first[choice[d]] : space.temporal_first[choice[d] + 1]]
            temporal[:, d] = min(rows, key=lambda row: tuple(reversed(row)))
        _, overflows = measure(tab, temporal, np.ascontiguousarray(space.spatial[choice].T), work, counts)
        if overflows >= 0:
            needed = int(sum(counts[overflows, t, 3] for t in range(len(problem.tensors)) if tab.keeps[overflows, t]))
            name = architecture.levels[overflows].name
            worst[name] = min(worst.get(name, needed), needed)
    if worst:
        name, needed = next(iter(worst.items()))
        there = architecture.levels[architecture.level_index(name)].capacity_words
        return InputError(f"no valid mapping: the smallest tiles need {needed} words, there are {there}", key=name)
    return InputError("no valid mapping: capacities leave no tiling", key=architecture.name)


def _searched(
    problem: Problem, architecture: Architecture, objective: Objective, space: Space, seed: int, progress: Callable[..., None] | None
) -> Found:
    """The best of five annealing runs, for spaces too large to search to the end."""
    started = time.process_time()
    sampler = Sampler(problem, architecture)
    for run in range(5):
        if progress:
            progress(run, 5, "annealing runs (the space is too large to search to the end)")
        annealing(sampler, 4000, seed + run, objective=objective)
    if sampler.best is None:
        raise InputError("20,000 mappings drawn, and the tiles of none fit", key=architecture.name)
    value, genome = sampler.best
    mapping = to_mapping(problem, architecture, sampler.layout(genome))
    statistics = dict.fromkeys(COUNTERS, 0) | {"mappings_evaluated": 20_000}
    return Found(mapping, evaluate(problem, architecture, mapping), value, False, space.tilings, statistics, time.process_time() - started)


class _Worker(NamedTuple):
    """What one thread of the search has found and works with: the best value, and the bounds, orders and lanes that have it."""

    best: Array
    temporal: Array
    order: Array
    spatial: Array
    counted: Array
    work: TilingWork
    scratch: SearchWork


def _worker(tab: Tables, levels: int, dimensions: int) -> _Worker:
    loops = (np.ones((levels, dimensions), dtype=np.int64), np.zeros((levels, dimensions), dtype=np.int64))
    lanes, counted = np.ones((tab.axis_size.size, dimensions), dtype=np.int64), np.zeros(6, dtype=np.int64)
    return _Worker(np.array([np.inf, 0.0, 0.0]), *loops, lanes, counted, new_work(tab), new_search_work(tab))


def _bounded(
    common: tuple[Any, ...], problem: Problem, space: Space, lane_order: Array, worker: _Worker, small: bool
) -> tuple[Array, Array]:
    """The inner configurations that fit: what each costs at least, rising, and which it is."""
    touched = np.array([_touched(problem, tensor) for tensor in problem.tensors])
    bounds = np.empty(space.inner_configurations)
    chosen = np.empty((space.inner_configurations, len(problem.bounds) + 1), dtype=np.int64)
    options = (space.lane_choices, space.spatial, space.temporal, space.inner_first, space.groups_first)
    bound = bound_configurations.chosen(small)
    filled = bound(*common, touched, *options, lane_order, worker.work, worker.scratch, bounds, chosen, worker.counted)
    rising = np.argsort(bounds[:filled], kind="stable")
    return bounds[rising], chosen[rising]


def best_mapping(
    problem: Problem,
    architecture: Architecture,
    objective: Objective = "edp",
    *,
    workers: int = 1,
    most_configurations: int = 5_000_000,
    most_splits: int = 500_000_000,
    most_orders: int = 1_000_000,
    seed: int = 0,
    progress: Callable[..., None] | None = None,
) -> Found:
    """Search the whole constrained space for the best mapping.

    Args:
        objective: `latency`, `energy` or `edp` (energy times delay).
        most_configurations: inner configurations to bound; a larger space is searched by annealing instead, and nothing is proven.
        most_splits: splits to look at before the proof is given up (and the best so far is returned).
        most_orders: orders of one tiling to price, where neighbours pass tiles on and every permutation counts.
        progress: called with configurations expanded, and in all; while annealing with runs done, in all, and a word for it.
    """
    for level in architecture.levels:
        kept = sum(tensor.name in level.keeps for tensor in problem.tensors)
        if level.capacity_words is not None and kept > level.capacity_words:
            raise InputError(f"no valid mapping: the smallest tiles need {kept} words, there are {level.capacity_words}", key=level.name)
    tab = tables(problem, architecture)
    space = build_space(problem, architecture)
    if space.inner_configurations > most_configurations:
        return _searched(problem, architecture, objective, space, seed, progress)
    lane_order = _lane_order(problem, architecture)
    state = [_worker(tab, len(architecture.levels), len(problem.bounds)) for _ in range(workers)]
    common = (tab, problem.macs, architecture.cycle_s, CODES[objective], space.split_level)
    small = space.inner_configurations <= PLAIN_CONFIGURATIONS
    shared = np.full(1, np.inf)
    started = time.process_time()
    bounds, chosen = _bounded(common, problem, space, lane_order, state[0], small)
    filled = len(bounds)
    sizes = np.diff(space.inner_first)[chosen[:, :-1]].prod(axis=1) if small and workers == 1 else np.full(filled, PLAIN_SPLITS + 1)

    def work_on(number: int, first: int, last: int, search: Callable[..., None] = open_configurations) -> None:
        own, mine = state[number], slice(first + number, last, workers)
        some = (np.ascontiguousarray(bounds[mine]), np.ascontiguousarray(chosen[mine]))  # a view with gaps is another type: compiled again
        options = (space.lane_choices, space.spatial, space.temporal, space.inner_first, space.forced_inside)
        found = (own.best, own.temporal, own.order, own.spatial, own.counted)
        search(*common, *some, *options, lane_order, own.work, own.scratch, shared, *found, most_splits // workers, most_orders)

    opened = 0
    while opened < filled and sizes[opened] <= PLAIN_SPLITS and bounds[opened] <= shared[0]:
        search = open_configurations.chosen(small)
        if search is open_configurations:
            break
        work_on(0, opened, opened + 1, search)
        opened += 1
    with ThreadPoolExecutor(workers) as pool:
        for first in range(opened, filled, workers * 64):
            if bounds[first] > shared[0]:
                break
            last = min(first + workers * 64, filled)
            list(pool.map(lambda number, first=first, last=last: work_on(number, first, last), range(workers)))
            if progress:
                progress(last, filled)
    cpu_s = time.process_time() - started
    winner = min(state, key=lambda own: own.best[0])
    if not np.isfinite(winner.best[0]):
        raise _why_nothing_fits(problem, architecture, tab, space)
    mapping = to_mapping(problem, architecture, Layout(winner.temporal, winner.order, winner.spatial, lane_order))
    evaluation = evaluate(problem, architecture, mapping)
    counted = np.sum([own.counted for own in state], axis=0)
    return Found(
        mapping=mapping,
        evaluation=evaluation,
        value=value_of(evaluation, objective, architecture.cycle_s),
        proven=bool(counted[5] == 0),
        tilings=space.tilings,
        statistics=dict(zip(COUNTERS, (filled, *map(int, counted)), strict=True)),
        cpu_s=cpu_s,
    )


def best_of(asked: tuple[Problem, Architecture], objective: Objective, workers: int) -> Found:
    """`best_mapping` of a layer and a design given as one, as `analysis.sweeps` calls it."""
    return best_mapping(*asked, objective, workers=workers)
