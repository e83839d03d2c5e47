"""Branch and bound over inner configurations, splits and orders, compiled.

First every inner configuration (lanes, and loops inward of the split level) gets a bound; they are then expanded from the lowest bound
upward. Four things prune, and none can lose the optimum: a configuration whose tiles overflow a level (tiles only grow when more loops
are placed inside); one whose bound is no better than the best mapping found (all later ones are no better either, so the search ends); a
split between the two outermost levels whose tiles overflow or whose bound is no better (`inner`); and orders that another order
matches or beats in every count (`orders`).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from analysis.accelerators.loopnest.fast import TilingWork, measure, price
from analysis.accelerators.loopnest.tables import Array, Tables, scratch
from analysis.accelerators.mapper.inner import coefficients, least_over_types, share_outside, window_share
from analysis.accelerators.mapper.orders import CLEAN, LINKS, MOST, keep_best_orders, list_orders, what_orders_change
from analysis.compiled import inner, outer

LATENCY, ENERGY, EDP = range(3)
# Rows of the statistics that a search keeps.
SPLITS, OVERFLOWED, BOUNDED, OPENED, PRICED, UNPROVEN = range(6)
MOST_ORDERS = 5040


class SearchWork(NamedTuple):
    """Scratch of a search, allocated by Python: functions that allocate nothing compile in half the time.

    Attributes:
        temporal, spatial, order, counts, ports: the mapping looked at, and its accesses.
        loops: bounds and moves of the loops of a rank, see `orders`.
        orders, features, how_many, which: orders of each level.
        ones: of each dimension; found, coefficient: see `inner`.
        extent, strides, gap_extent: tiles and steps of the loops outside.
    """

    temporal: Annotated[Array, int, "L D"]
    spatial: Annotated[Array, int, "A D"]
    order: Annotated[Array, int, "L D"]
    counts: Annotated[Array, int, "L T 5"]
    ports: Annotated[Array, float, "L 2"]
    loops: Annotated[Array, int, "2 most_loops"]
    orders: Annotated[Array, int, "L most_orders D"]
    features: Annotated[Array, int, "most_orders 2T"]
    how_many: Annotated[Array, int, "L"]
    which: Annotated[Array, int, "L"]
    pointer: Annotated[Array, int, "D"]
    ones: Annotated[Array, int, "D"]
    inner_stride: Annotated[Array, int, "D"]
    found: Annotated[Array, float, "L 2"]
    coefficient: Annotated[Array, float, "T 3"]
    share: Annotated[Array, float, "T"]
    other_share: Annotated[Array, float, "T"]
    own_words: Annotated[Array, float, "T"]
    nowhere: Annotated[Array, bool, "T"]
    extent: Annotated[Array, int, "T R"]
    strides: Annotated[Array, int, "L D"]
    gap_extent: Annotated[Array, int, "L T R"]


def new_search_work(tab: Tables) -> SearchWork:
    """Scratch for a problem and a design."""
    levels, tensors = tab.keeps.shape
    sizes = {"L": levels, "T": tensors, "2T": 2 * tensors, "D": tab.sizes.size, "A": tab.axis_size.size, "R": tab.rank_terms.shape[1]}
    made = scratch(SearchWork, {**sizes, "most_loops": MOST, "most_orders": MOST_ORDERS})
    made.ones[:] = 1
    return made


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


@inner(_nrt=False)
def _next(pointer: Array, first: Array, which: Array) -> bool:
    """Count one up, the last dimension fastest; dimension d runs from first[which[d]] up to first[which[d] + 1]."""
    for d in range(pointer.size - 1, -1, -1):
        pointer[d] += 1
        if pointer[d] < first[which[d] + 1]:
            return True
        pointer[d] = first[which[d]]
    return False


@inner(error_model="numpy", _nrt=False)
def _place(
    tab: Tables,
    split: int,
    lanes: Array,
    groups: Array,
    spatial_options: Array,
    temporal_options: Array,
    inner_first: Array,
    work: SearchWork,
) -> float:
    """Lanes and loops inward of the split level, the rest outermost; returns the product of the trip counts of this rest."""
    temporal, spatial, outside = work.temporal, work.spatial, 1.0
    for d in range(tab.sizes.size):
        row, placed = inner_first[groups[d]], 1
        for axis in range(tab.axis_size.size):
            spatial[axis, d] = spatial_options[lanes[d], axis]
            placed *= spatial[axis, d]
        for level in range(tab.keeps.shape[0]):
            temporal[level, d] = temporal_options[row, level] if level > split else 1
            placed *= temporal[level, d]
        temporal[0, d] = tab.sizes[d] // placed
        outside *= temporal[0, d]
    return outside


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
    """Bound every inner configuration of a batch of lane choices."""
    levels, tensors = tab.keeps.shape
    temporal, spatial, counts, found, coefficient = scratch.temporal, scratch.spatial, scratch.counts, scratch.found, scratch.coefficient
    share, left_over, pointer = scratch.share, temporal[0], scratch.pointer
    n = 0
    for c in range(choices.shape[0]):
        for d in range(pointer.size):
            pointer[d] = groups_first[choices[c, d]]
        more = True
        while more:
            outside = _place(tab, split, choices[c], pointer, spatial_options, temporal_options, inner_first, scratch)
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
                chosen[n, pointer.size] = c
                for d in range(pointer.size):
                    chosen[n, d] = pointer[d]
                n += 1
            more = _next(pointer, groups_first, choices[c])
    return n


@inner(error_model="numpy", _nrt=False)
def _least_share(tab: Tables, t: int, split: int, left_over: Array, work: TilingWork) -> float:
    """Least window share over the gaps whose tile only outer loops move."""
    least = 1.0
    for level in range(split, tab.keeps.shape[0] - 1):
        if tab.keeps[level + 1, t]:
            least = min(least, share_outside(tab, t, left_over, work.extent[level, t], work.stride_time[split]))
    return least


@inner(error_model="numpy", _nrt=False)
def _split_tiles(tab: Tables, split: int, scratch: SearchWork) -> int:
    """Extents and words of the tiles that the split level would hold; returns the words of those that it keeps."""
    extent, own_words, needed = scratch.extent, scratch.own_words, 0
    for t in range(tab.keeps.shape[1]):
        words = 1
        for r in range(tab.rank_terms.shape[1]):
            side = 1
            for k in range(tab.rank_terms[t, r]):
                d = tab.rank_dimension[t, r, k]
                side += tab.rank_coefficient[t, r, k] * (scratch.inner_stride[d] * scratch.temporal[split, d] - 1)
            extent[t, r] = side
            words *= side
        own_words[t] = words
        if tab.keeps[split, t]:
            needed += words
    return needed


@inner(error_model="numpy", _nrt=False)
def _window_shares(tab: Tables, split: int, scratch: SearchWork) -> None:
    """Shares of windows that slide: of the tile of the split level itself, and the least over the gaps inward of it."""
    levels, tensors = tab.keeps.shape
    temporal, strides, loops = scratch.temporal, scratch.strides, scratch.loops
    for t in range(tensors):
        if tab.slides[t]:
            scratch.other_share[t] = window_share(tab, t, 0, 0, temporal, scratch.extent[t], strides, loops[0], loops[1])
            scratch.share[t] = 1.0
            for level in range(split, levels - 1):
                if tab.keeps[level + 1, t]:
                    near = window_share(tab, t, 0, split, temporal, scratch.gap_extent[level, t], strides, loops[0], loops[1])
                    scratch.share[t] = min(scratch.share[t], near)


@inner(error_model="numpy", _nrt=False)
def _orders_of_levels(tab: Tables, forced: Array, state: int, most_orders: int, scratch: SearchWork, stats: Array, line: Array) -> None:
    """The orders of each level that can be best; all of them where neighbours pass tiles on, unless they are too many."""
    levels, orders, how_many = tab.keeps.shape[0], scratch.orders, scratch.how_many
    total, level, everywhere = 1.0, 0, state == LINKS
    every = everywhere
    while level < levels:
        some = list_orders(tab, level, scratch.temporal[level], forced[level], every, line, orders[level])
        if some < 0:
            stats[UNPROVEN] += 1
            if every:
                every = False
                continue
        if state == CLEAN:
            some = keep_best_orders(tab, level, scratch.temporal[level], orders[level], some, scratch.features)
        how_many[level] = some
        scratch.which[level] = 0
        total *= some
        level += 1
        every = everywhere
        if level == levels and everywhere and total > most_orders:
            stats[UNPROVEN] += 1
            everywhere = every = False
            level = 0


@inner(_nrt=False)
def _next_orders(scratch: SearchWork) -> bool:
    """The next choice of an order at each level, the innermost fastest."""
    which = scratch.which
    for level in range(which.size - 1, -1, -1):
        which[level] += 1
        if which[level] < scratch.how_many[level]:
            return True
        which[level] = 0
    return False


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
    """Search configurations in rising order of their bounds; keeps what it finds in `best` and `best_*`."""
    # More than 100 lines: 23 arrays by name, as compiled code takes them, and one nest of loops that gives up at three depths.
    levels, tensors = tab.keeps.shape
    temporal, spatial, order, counts, ports = scratch.temporal, scratch.spatial, scratch.order, scratch.counts, scratch.ports
    pointer, inner_stride, found, coefficient = scratch.pointer, scratch.inner_stride, scratch.found, scratch.coefficient
    for t in range(tensors):
        scratch.share[t] = scratch.other_share[t] = scratch.own_words[t] = 1.0
    for n in range(bounds.size):
        if bounds[n] >= best[0] or bounds[n] > shared[0]:
            return
        if stats[SPLITS] >= most_splits:
            stats[UNPROVEN] += 1
            return
        groups = chosen[n]
        outside = _place(tab, split, choices[chosen[n, pointer.size]], groups, spatial_options, temporal_options, inner_first, scratch)
        cycles, _ = measure(tab, temporal, spatial, work, counts)
        constant = macs * tab.mac_energy
        for t in range(tensors):
            coefficients(tab, t, cycles, split, temporal, spatial, lane_order, outside, work, counts, found, coefficient[t])
        for level in range(levels):
            _copy(work.extent[level], scratch.gap_extent[level])
        _copy(work.stride_time, scratch.strides)
        for d in range(pointer.size):
            pointer[d] = inner_first[groups[d]]
            inner_stride[d] = work.stride_time[split, d]
        more = True
        while more:  # one split of what is left over between the outermost level and the split level
            for d in range(pointer.size):
                temporal[split, d] = temporal_options[pointer[d], split]
                temporal[0, d] = temporal_options[pointer[d], 0]
                for level in range(max(1, split)):
                    scratch.strides[level, d] = inner_stride[d] * temporal[split, d]
            more = _next(pointer, inner_first, groups)
            stats[SPLITS] += 1
            needed = _split_tiles(tab, split, scratch)
            if tab.capacity[split] >= 0 and needed > tab.capacity[split]:
                stats[OVERFLOWED] += 1
                continue
            _window_shares(tab, split, scratch)
            energy = constant + least_over_types(
                coefficient,
                tab.relevant,
                temporal[split],
                temporal[0],
                scratch.share,
                scratch.other_share,
                scratch.own_words,
                tab.keeps[split],
            )
            least = objective_value(objective, energy, cycles, cycle_s)
            # A bound equal to the best found elsewhere is expanded all the same, so that the answer does not depend on timing.
            if least >= best[0] or least > shared[0]:
                stats[BOUNDED] += 1
                continue
            stats[OPENED] += 1
            measure(tab, temporal, spatial, work, counts)
            state = what_orders_change(tab, temporal, spatial, lane_order, work, scratch.loops)
            _orders_of_levels(tab, forced, state, most_orders, scratch, stats, work.line)
            another = True
            while another:
                for level in range(levels):
                    for position in range(pointer.size):
                        order[level, position] = scratch.orders[level, scratch.which[level], position]
                joules, cycles_now = price(tab, macs, cycles, temporal, order, spatial, lane_order, work, counts, ports)
                stats[PRICED] += 1
                value = objective_value(objective, joules, cycles_now, cycle_s)
                if value < best[0]:
                    best[0], best[1], best[2] = value, joules, cycles_now
                    _copy(temporal, best_temporal)
                    _copy(order, best_order)
                    _copy(spatial, best_spatial)
                    shared[0] = min(shared[0], value)
                another = _next_orders(scratch)
