"""Branch and bound over inner configurations, splits and orders, compiled.

First every inner configuration (lanes, and loops inward of the split level) gets a bound; they are then expanded from the lowest bound
upward. Four things prune, and none can lose the optimum: a configuration whose tiles overflow a level (tiles only grow when more loops
are placed inside); one whose bound is no better than the best mapping found (all later ones are no better either, so the search ends); a
split between the two outermost levels whose tiles overflow or whose bound is no better (`inner`); and orders that another order
matches or beats in every count (`orders`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analysis.accelerators.loopnest.fast import TilingWork, measure, price
from analysis.accelerators.loopnest.tables import Array, Tables
from analysis.accelerators.mapper.bound import CLEAN, LINKS, MOST, least_cost
from analysis.accelerators.mapper.inner import coefficients, least_over_types, share_outside, window_share
from analysis.accelerators.mapper.orders import keep_best_orders, list_orders
from analysis.compiled import inner, outer

LATENCY, ENERGY, EDP = range(3)
# Rows of the statistics that a search keeps.
SPLITS, OVERFLOWED, BOUNDED, OPENED, PRICED, UNPROVEN = range(6)
MOST_ORDERS = 5040


class SearchWork(NamedTuple):
    """Scratch of a search, allocated by Python: functions that allocate nothing compile in half the time.

    Attributes:
        temporal, spatial, order, counts, ports: the mapping looked at, [L, D], [A, D], [L, D], and its accesses, [L, T, 5], [L, 2].
        loops: see `bound`, [2, MOST].
        orders, features, how_many, which: orders of each level, [L, MOST_ORDERS, D], [MOST_ORDERS, 2 T], [L], [L].
        pointer, left_over, ones, inner_stride: by dimension, [D].
        found, coefficient: see `inner`, [L, 2], [T, 3].
        share, other_share, own_words, nowhere: by tensor, [T].
        extent, strides, gap_extent: tiles and steps of the loops outside, [T, R], [L, D], [L, T, R].
    """

    temporal: Array
    spatial: Array
    order: Array
    counts: Array
    ports: Array
    loops: Array
    orders: Array
    features: Array
    how_many: Array
    which: Array
    pointer: Array
    left_over: Array
    ones: Array
    inner_stride: Array
    found: Array
    coefficient: Array
    share: Array
    other_share: Array
    own_words: Array
    nowhere: Array
    extent: Array
    strides: Array
    gap_extent: Array


def new_search_work(tab: Tables) -> SearchWork:
    """Scratch for a problem and a design."""
    levels, tensors = tab.keeps.shape
    dimensions, axes, ranks = tab.sizes.size, tab.axis_size.size, tab.rank_terms.shape[1]

    def ones(*shape: int) -> Array:
        return np.ones(shape, dtype=np.int64)

    return SearchWork(
        temporal=ones(levels, dimensions),
        spatial=ones(axes, dimensions),
        order=ones(levels, dimensions),
        counts=ones(levels, tensors, 5),
        ports=np.zeros((levels, 2)),
        loops=ones(2, MOST),
        orders=np.empty((levels, MOST_ORDERS, dimensions), dtype=np.int64),
        features=np.empty((MOST_ORDERS, 2 * tensors), dtype=np.int64),
        how_many=ones(levels),
        which=ones(levels),
        pointer=ones(dimensions),
        left_over=ones(dimensions),
        ones=ones(dimensions),
        inner_stride=ones(dimensions),
        found=np.zeros((levels, 2)),
        coefficient=np.zeros((tensors, 3)),
        share=np.ones(tensors),
        other_share=np.ones(tensors),
        own_words=np.zeros(tensors),
        nowhere=np.zeros(tensors, dtype=np.bool_),
        extent=ones(tensors, ranks),
        strides=ones(levels, dimensions),
        gap_extent=ones(levels, tensors, ranks),
    )


@inner(_nrt=False)
def _copy(source: Array, target: Array) -> None:
    for i in range(source.shape[0]):
        for k in range(source.shape[1]):
            target[i, k] = source[i, k]


@inner(error_model="numpy", _nrt=False)
def objective_value(objective: int, energy: float, cycles: int, cycle_s: float) -> float:
    """Seconds, joules, or joule-seconds."""
    seconds = cycles * cycle_s
    return seconds if objective == LATENCY else energy if objective == ENERGY else energy * seconds


@outer(nogil=True, error_model="numpy", _nrt=False)
def bound_configurations(
    tab: Tables,
    macs: int,
    cycle_s: float,
    objective: int,
    split: int,
    touched: Array,
    choices: Array,
    spatial_options: Array,
    temporal_options: Array,
    inner_first: Array,
    groups_first: Array,
    lane_order: Array,
    work: TilingWork,
    scratch: SearchWork,
    bounds: Array,
    chosen: Array,
    stats: Array,
) -> int:
    """Bound every inner configuration of a batch of lane choices.

    Args:
        touched: words of each tensor that are certainly used, [T].
        choices and options: see `space.Space`.
        bounds, chosen: filled with the bound, and the lane choice's row and the group of each dimension, [n], [n, 1 + D].
    Returns:
        how many were filled.
    """
    levels, tensors = tab.keeps.shape
    dimensions, axes = tab.sizes.size, tab.axis_size.size
    temporal, spatial, counts, found, coefficient = scratch.temporal, scratch.spatial, scratch.counts, scratch.found, scratch.coefficient
    share, left_over, pointer = scratch.share, scratch.left_over, scratch.pointer
    for d in range(dimensions):
        for level in range(levels):
            temporal[level, d] = 1
    n = 0
    for c in range(choices.shape[0]):
        for d in range(dimensions):
            for axis in range(axes):
                spatial[axis, d] = spatial_options[choices[c, d], axis]
            pointer[d] = groups_first[choices[c, d]]
        while True:
            outside = 1.0
            for d in range(dimensions):
                row = inner_first[pointer[d]]
                placed = 1
                for level in range(levels):
                    temporal[level, d] = temporal_options[row, level] if level > split else 1
                    placed *= temporal[level, d]
                for axis in range(axes):
                    placed *= spatial[axis, d]
                left_over[d] = tab.sizes[d] // placed
                temporal[0, d] = left_over[d]
                outside *= left_over[d]
            cycles, overflows = measure(tab, temporal, spatial, work, counts)
            if overflows >= 0:
                stats[OVERFLOWED] += 1
            else:
                energy = macs * tab.mac_energy
                for t in range(tensors):
                    coefficients(tab, t, cycles, split, temporal, spatial, lane_order, outside, work, counts, found, coefficient[t])
                    if tab.keeps[split, t]:
                        energy += coefficient[t, 2] * touched[t]
                    share[t] = 1.0
                    if tab.slides[t] and split < levels - 1:
                        share[t] = _least_share(tab, t, split, left_over, work)
                energy += least_over_types(
                    coefficient, tab.relevant, left_over, scratch.ones, share, share, scratch.own_words, scratch.nowhere
                )
                bounds[n] = objective_value(objective, energy, cycles, cycle_s)
                chosen[n, 0] = c
                for d in range(dimensions):
                    chosen[n, 1 + d] = pointer[d]
                n += 1
            d = dimensions - 1
            while d >= 0:
                pointer[d] += 1
                if pointer[d] < groups_first[choices[c, d] + 1]:
                    break
                pointer[d] = groups_first[choices[c, d]]
                d -= 1
            if d < 0:
                break
    return n


@inner(error_model="numpy", _nrt=False)
def _least_share(tab: Tables, t: int, split: int, left_over: Array, work: TilingWork) -> float:
    """Least window share over the gaps whose tile only outer loops move."""
    least = 1.0
    for level in range(split, tab.keeps.shape[0] - 1):
        if tab.keeps[level + 1, t]:
            least = min(least, share_outside(tab, t, left_over, work.extent[level, t], work.stride_time[split]))
    return least


@outer(nogil=True, error_model="numpy", _nrt=False)
def open_configurations(
    tab: Tables,
    macs: int,
    cycle_s: float,
    objective: int,
    split: int,
    bounds: Array,
    chosen: Array,
    choices: Array,
    spatial_options: Array,
    temporal_options: Array,
    inner_first: Array,
    forced: Array,
    lane_order: Array,
    work: TilingWork,
    scratch: SearchWork,
    shared: Array,
    best: Array,
    best_temporal: Array,
    best_order: Array,
    best_spatial: Array,
    stats: Array,
    most_splits: int,
    most_orders: int,
) -> None:
    """Search configurations in rising order of their bounds; keeps what it finds in `best` and `best_*`.

    Args:
        bounds, chosen: from `bound_configurations`, sorted.
        forced: see `Space.forced_inside`.
        shared: best value of all workers, [1].
        best: value, energy, cycles of the best mapping of this worker, [3].
        stats: counters, added to.
        most_splits: splits to look at before the proof is given up.
        most_orders: orders of one tiling to price before the proof is given up.
    """
    levels, tensors = tab.keeps.shape
    dimensions, axes = tab.sizes.size, tab.axis_size.size
    temporal, spatial, order, counts, ports = scratch.temporal, scratch.spatial, scratch.order, scratch.counts, scratch.ports
    loops, orders, features, how_many, which = scratch.loops, scratch.orders, scratch.features, scratch.how_many, scratch.which
    pointer, inner_stride, found, coefficient = scratch.pointer, scratch.inner_stride, scratch.found, scratch.coefficient
    inner_share, outer_share, own_words = scratch.share, scratch.other_share, scratch.own_words
    extent, strides, gap_extent = scratch.extent, scratch.strides, scratch.gap_extent
    for t in range(tensors):
        inner_share[t] = outer_share[t] = own_words[t] = 1.0
    for d in range(dimensions):
        for level in range(levels):
            temporal[level, d] = 1
    for n in range(bounds.size):
        if bounds[n] >= best[0] or bounds[n] > shared[0]:
            return
        if stats[SPLITS] >= most_splits:
            stats[UNPROVEN] += 1
            return
        c = chosen[n, 0]
        outside = 1.0
        for d in range(dimensions):
            for axis in range(axes):
                spatial[axis, d] = spatial_options[choices[c, d], axis]
            pointer[d] = inner_first[chosen[n, 1 + d]]
            placed = 1
            for level in range(levels):
                temporal[level, d] = temporal_options[pointer[d], level] if level > split else 1
                placed *= temporal[level, d]
            for axis in range(axes):
                placed *= spatial[axis, d]
            temporal[0, d] = tab.sizes[d] // placed
            outside *= temporal[0, d]
        cycles, _ = measure(tab, temporal, spatial, work, counts)
        constant = macs * tab.mac_energy
        for t in range(tensors):
            coefficients(tab, t, cycles, split, temporal, spatial, lane_order, outside, work, counts, found, coefficient[t])
        for level in range(levels):
            _copy(work.extent[level], gap_extent[level])
        _copy(work.stride_time, strides)
        for d in range(dimensions):
            inner_stride[d] = work.stride_time[split, d]
        while True:
            # One split of what is left over between the outermost level and the split level.
            for d in range(dimensions):
                temporal[split, d] = temporal_options[pointer[d], split]
                temporal[0, d] = temporal_options[pointer[d], 0]
                for level in range(max(1, split)):
                    strides[level, d] = inner_stride[d] * temporal[split, d]
            stats[SPLITS] += 1
            needed = 0
            for t in range(tensors):
                words = 1
                for r in range(tab.rank_terms.shape[1]):
                    side = 1
                    for k in range(tab.rank_terms[t, r]):
                        d = tab.rank_dimension[t, r, k]
                        side += tab.rank_coefficient[t, r, k] * (inner_stride[d] * temporal[split, d] - 1)
                    extent[t, r] = side
                    words *= side
                own_words[t] = words
                if tab.keeps[split, t]:
                    needed += words
            if tab.capacity[split] >= 0 and needed > tab.capacity[split]:
                stats[OVERFLOWED] += 1
            else:
                for t in range(tensors):
                    if tab.slides[t]:
                        inner_share[t] = 1.0
                        for level in range(split - 1, levels - 1):  # first the tile of the split level itself
                            own = level < split
                            if own or tab.keeps[level + 1, t]:
                                tile = extent[t] if own else gap_extent[level, t]
                                near = window_share(tab, t, 0, 0 if own else split, temporal, tile, strides, loops[0], loops[1])
                                if own:
                                    outer_share[t] = near
                                else:
                                    inner_share[t] = min(inner_share[t], near)
                energy = constant + least_over_types(
                    coefficient, tab.relevant, temporal[split], temporal[0], inner_share, outer_share, own_words, tab.keeps[split]
                )
                least = objective_value(objective, energy, cycles, cycle_s)
                # A bound equal to the best found elsewhere is expanded all the same, so that the answer does not depend on timing.
                if least >= best[0] or least > shared[0]:
                    stats[BOUNDED] += 1
                else:
                    stats[OPENED] += 1
                    measure(tab, temporal, spatial, work, counts)
                    _, _, state = least_cost(tab, macs, cycles, temporal, spatial, lane_order, work, counts, ports, loops)
                    total, level, everywhere = 1.0, 0, state == LINKS
                    every = everywhere
                    while level < levels:
                        some = list_orders(tab, level, temporal[level], forced[level], every, work.line, orders[level])
                        if some < 0:
                            stats[UNPROVEN] += 1
                            if every:
                                every = False
                                continue
                        if state == CLEAN:
                            some = keep_best_orders(tab, level, temporal[level], orders[level], some, features)
                        how_many[level] = some
                        which[level] = 0
                        total *= some
                        level += 1
                        every = everywhere
                        if level == levels and everywhere and total > most_orders:
                            stats[UNPROVEN] += 1
                            everywhere = every = False
                            level = 0
                    running = True
                    while running:
                        for level in range(levels):
                            for position in range(dimensions):
                                order[level, position] = orders[level, which[level], position]
                        joules, cycles_now = price(tab, macs, cycles, temporal, order, spatial, lane_order, work, counts, ports)
                        stats[PRICED] += 1
                        value = objective_value(objective, joules, cycles_now, cycle_s)
                        if value < best[0]:
                            best[0], best[1], best[2] = value, joules, cycles_now
                            _copy(temporal, best_temporal)
                            _copy(order, best_order)
                            _copy(spatial, best_spatial)
                            shared[0] = min(shared[0], value)
                        running = False
                        for level in range(levels - 1, -1, -1):
                            which[level] += 1
                            if which[level] < how_many[level]:
                                running = True
                                break
                            which[level] = 0
            d = dimensions - 1
            while d >= 0:
                pointer[d] += 1
                if pointer[d] < inner_first[chosen[n, 1 + d] + 1]:
                    break
                pointer[d] = inner_first[chosen[n, 1 + d]]
                d -= 1
            if d < 0:
                break
