"""The same counts as `evaluation`, compiled: millions of mappings a minute. Each place holds at most one loop for each dimension.

Closed form of the sampled walk. Let j be the innermost loop in time that moves the tile, with bound b and displacement d_j, O the product
of the loops outside j, F the words of a tile and f those of a tile that a tile d_j earlier does not hold. Between two steps of an outer
loop there is always a step of j, so the buffer always keeps up d_j, or has just started afresh. Hence

    words = F + f (b - 1) O + sum over outer loops i of (b_i - 1) O_i * (0 if d_i = 0, f if d_i = d_j, else F)

where d_i is the displacement when loop i advances and all loops inside go back, and O_i the product of the loops outside i. With no such
coincidence the sum is F (O - 1).
"""

from __future__ import annotations

import itertools
from typing import Annotated, NamedTuple

import numpy as np

from analysis.accelerators.loopnest.lanes import distinct_tiles, linked_lanes
from analysis.accelerators.loopnest.tables import Array, Tables, scratch
from analysis.compiled import inner, outer

READS, FILLS, UPDATES, TILE, PARTITION = range(5)


class TilingWork(NamedTuple):
    """What follows from the factors alone, whatever the order of the loops; filled by `measure`.

    Attributes:
        tile: tile of the iteration space that a level's child works on.
        stride_time, stride_lane: iterations that a step of each loop skips.
        lanes: children of one instance.
        instances: in use; the last entry is the arithmetic.
        words: of the tile of an instance; the last row is 1.
        groups: different tiles among the children of one instance.
        loop_dimension, loop_bound, loop_stride: the loops in time above 1 in their order, innermost first; filled by `line_up`.
        loop_outer: product of such a loop and all outside it.
        loop_first: the first loop at or outside a level.
        extent: of the child's tile in each rank.
        spread: how far apart the tiles of the lanes below a level lie in each rank.
        moved and all below: scratch.
    """

    tile: Annotated[Array, int, "L D"]
    stride_time: Annotated[Array, int, "L D"]
    stride_lane: Annotated[Array, int, "A D"]
    lanes: Annotated[Array, int, "L"]
    instances: Annotated[Array, int, "L+1"]
    words: Annotated[Array, int, "L+1 T"]
    groups: Annotated[Array, int, "L T"]
    loop_dimension: Annotated[Array, int, "LD"]
    loop_bound: Annotated[Array, int, "LD"]
    loop_stride: Annotated[Array, int, "LD"]
    loop_outer: Annotated[Array, int, "LD+1"]
    loop_first: Annotated[Array, int, "L"]
    extent: Annotated[Array, int, "L T R"]
    spread: Annotated[Array, int, "L T R"]
    moved: Annotated[Array, int, "R"]
    step: Annotated[Array, int, "R"]
    inside: Annotated[Array, int, "R"]
    content: Annotated[Array, float, "L"]
    found: Annotated[Array, int, "L 3"]
    seen: Annotated[Array, bool, "2 longest"]
    offsets: Annotated[Array, int, "lanes R"]
    fed: Annotated[Array, bool, "lanes"]
    line: Annotated[Array, int, "4 D+1"]
    ports: Annotated[Array, float, "L 2"]


def new_work(tab: Tables) -> TilingWork:
    """Work arrays for a problem and a design."""
    (levels, tensors), dimensions = tab.keeps.shape, tab.sizes.size
    used = np.arange(tab.rank_dimension.shape[2]) < tab.rank_terms[..., None]
    sizes = {"L": levels, "T": tensors, "D": dimensions, "R": tab.rank_terms.shape[1], "A": tab.axis_size.size}
    sizes |= {"L+1": levels + 1, "D+1": dimensions + 1, "LD": levels * dimensions, "LD+1": levels * dimensions + 1}
    sizes["longest"] = 1 + int((used * tab.rank_coefficient * (tab.sizes[tab.rank_dimension] - 1)).sum(axis=2).max(initial=0))
    sizes["lanes"] = max(int(np.prod(tab.axis_size[first:last])) for first, last in itertools.pairwise(tab.axis_first))
    return scratch(TilingWork, sizes)


@inner(error_model="numpy", _nrt=False)
def measure(tab: Tables, temporal: Array, spatial: Array, work: TilingWork, counts: Array) -> tuple[int, int]:
    """Fill `work`, and tile and partition words of `counts`; compute cycles, and the innermost level whose tiles do not fit (or -1)."""
    levels, dimensions = temporal.shape
    tensors, ranks = tab.rank_terms.shape
    cycles = 1
    for level in range(levels):
        work.lanes[level] = 1
    for d in range(dimensions):
        scale = 1
        if tab.sizes[d] == 1:
            for level in range(levels):
                work.tile[level, d] = work.stride_time[level, d] = 1
            for axis in range(spatial.shape[0]):
                work.stride_lane[axis, d] = 1
            continue
        for level in range(levels - 1, -1, -1):
            work.tile[level, d] = scale
            for axis in range(tab.axis_first[level + 1] - 1, tab.axis_first[level] - 1, -1):
                work.stride_lane[axis, d] = scale
                if spatial[axis, d] > 1:
                    scale *= spatial[axis, d]
                    work.lanes[level] *= spatial[axis, d]
            work.stride_time[level, d] = scale
            if temporal[level, d] > 1:
                scale *= temporal[level, d]
                cycles *= temporal[level, d]
    work.instances[0] = 1
    for level in range(levels):
        work.instances[level + 1] = work.instances[level] * work.lanes[level]
    overflows = -1
    for level in range(levels, -1, -1):
        needed = 0
        for t in range(tensors):
            words = 1
            for r in range(ranks):
                extent = 1
                for k in range(tab.rank_terms[t, r]):
                    d = tab.rank_dimension[t, r, k]
                    size = work.tile[level - 1, d] if level else tab.sizes[d]
                    extent += tab.rank_coefficient[t, r, k] * (size - 1)
                words *= extent
                if level:
                    work.extent[level - 1, t, r] = extent
            work.words[level, t] = words
            if level < levels:
                counts[level, t, TILE] = words
                if tab.keeps[level, t]:
                    needed += words
        if level < levels and overflows < 0 and tab.capacity[level] >= 0 and needed > tab.capacity[level]:
            overflows = level
    for t in range(tensors):
        partition = work.words[0, t]
        counts[0, t, PARTITION] = partition
        for level in range(levels):
            groups, union = 1, work.words[level + 1, t]
            if work.lanes[level] > 1:
                groups, union = distinct_tiles(tab, t, level, spatial, work.stride_lane, work.tile, work.spread[level, t], work.seen)
            work.groups[level, t] = groups
            if level + 1 < levels:
                if union != work.words[level + 1, t]:
                    partition = partition * work.words[level + 1, t] // union
                counts[level + 1, t, PARTITION] = partition
    return cycles, overflows


@inner(error_model="numpy", _nrt=False)
def line_up(temporal: Array, order: Array, work: TilingWork) -> None:
    """List the loops in time above 1, innermost first."""
    n = 0
    for level in range(temporal.shape[0] - 1, -1, -1):
        work.loop_first[level] = n
        for position in range(temporal.shape[1]):
            d = order[level, position]
            if temporal[level, d] > 1:
                work.loop_dimension[n] = d
                work.loop_bound[n] = temporal[level, d]
                work.loop_stride[n] = work.stride_time[level, d]
                n += 1
    for following in range(n, work.loop_dimension.size):
        work.loop_bound[following] = 0
    work.loop_outer[n] = 1
    for i in range(n - 1, -1, -1):
        work.loop_outer[i] = work.loop_outer[i + 1] * work.loop_bound[i]


@inner(error_model="numpy", _nrt=False)
def within(moved: Array, spread: Array) -> bool:
    """Whether tiles of two lanes can lie that far apart."""
    inside = True
    for r in range(moved.size):
        inside &= abs(moved[r]) <= spread[r]
    return inside


@inner(error_model="numpy", _nrt=False)
def inter_level_traffic(tab: Tables, t: int, level: int, spatial: Array, lane_order: Array, work: TilingWork) -> None:
    """Words that one instance of `level` reads for its children, delivers to them, and that they pass on, into `work.found[level]`."""
    words, groups, lanes = work.words[level + 1, t], work.groups[level, t], work.lanes[level]
    found = work.found[level]
    found[0] = words * groups
    found[1] = words * lanes
    found[2] = 0
    # The loop that moves the tile most often, and how often loops outside it run.
    innermost = work.loop_first[level]
    last = work.loop_bound.size
    start = innermost
    while start < last and work.loop_bound[start] > 0 and not tab.relevant[t, work.loop_dimension[start]]:
        start += 1
    if start == last or work.loop_bound[start] == 0:
        return
    if not tab.slides[t]:
        # Tiles never overlap: every step of or outside that loop fetches the tile whole.
        found[0] *= work.loop_outer[start]
        found[1] *= work.loop_outer[start]
        return
    ranks = tab.rank_terms.shape[1]
    bound, outside = work.loop_bound[start], work.loop_outer[start + 1]
    step, inside, moved, spread = work.step, work.inside, work.moved, work.spread[level, t]
    for r in range(ranks):
        step[r] = 0
        inside[r] = 0
    own_rank = tab.rank_of[t, work.loop_dimension[start]]
    step[own_rank] = inside[own_rank] = tab.step_of[t, work.loop_dimension[start]] * work.loop_stride[start]
    side = work.extent[level, t, own_rank]
    fresh = words // side * min(side, step[own_rank])
    # Steps of the outer loops, weighted by how often they happen.
    may_link = lanes > 1 and start == innermost
    rounds_after_same, rounds_after_rest = 0, 0
    reads, delivered, linked = 0, 0, 0
    for i in range(start + 1, last):
        if work.loop_bound[i] == 0:
            break
        d = work.loop_dimension[i]
        rank = tab.rank_of[t, d]
        if rank >= 0 and rank != own_rank and not (may_link and fresh == words):
            # From here on some rank has moved back that no later loop can make good: every step fetches the whole tile.
            reads += (work.loop_outer[i] - 1) * words * groups
            delivered += (work.loop_outer[i] - 1) * words * lanes
            break
        count = work.loop_outer[i] - work.loop_outer[i + 1]
        same, rests = True, True
        for r in range(ranks):
            moved[r] = -inside[r]
        if rank >= 0:
            own = tab.step_of[t, d] * work.loop_stride[i]
            moved[rank] += own
            inside[rank] += own
        for r in range(ranks):
            same &= moved[r] == step[r]
            rests &= moved[r] == 0
        if rests:
            rounds_after_rest += count
            continue
        size = fresh if same else words
        if same:
            rounds_after_same += count
        fed, left = 0, groups
        if may_link and (same or fresh == words) and within(moved, spread):
            fed, left = linked_lanes(tab, t, level, spatial, lane_order, work.stride_lane, lanes, moved, work.offsets, work.fed)
            if left >= groups:
                fed, left = 0, groups
        reads += count * size * left
        delivered += count * size * (lanes - fed)
        linked += count * size * fed
    # Steps of the loop itself: after a fresh start, and after a step of an outer loop that went on the same way.
    fed, left = 0, groups
    if may_link and within(step, spread):
        fed, left = linked_lanes(tab, t, level, spatial, lane_order, work.stride_lane, lanes, step, work.offsets, work.fed)
        if left >= groups:
            fed, left = 0, groups
    alike = (bound - 1) * (outside - rounds_after_rest if fresh == words else rounds_after_same)
    other = (bound - 1) * outside - alike
    found[0] += reads + fresh * (alike * left + other * groups)
    found[1] += delivered + fresh * (alike * (lanes - fed) + other * lanes)
    found[2] += linked + fresh * alike * fed


@inner(error_model="numpy", _nrt=False)
def accumulate_accesses(tab: Tables, t: int, cycles: int, work: TilingWork, counts: Array, ports: Array) -> float:
    """Turn traffic between neighbouring levels into accesses of the levels that keep tensor t; returns joules, adds to `ports` [L, 2]."""
    levels = tab.keeps.shape[0]
    found, content, lanes = work.found, work.content, work.lanes
    found[levels - 1, 0] = cycles * work.groups[levels - 1, t]
    found[levels - 1, 1] = cycles * lanes[levels - 1]
    found[levels - 1, 2] = 0
    for level in range(levels - 1, -1, -1):
        content[level] = found[level, 0]
        if level + 1 < levels and not tab.keeps[level + 1, t] and found[level, 1] > 0:
            content[level] = found[level, 0] * (content[level + 1] * lanes[level] / found[level, 1])
    energy = 0.0
    outermost = True
    for level in range(levels):
        if not tab.keeps[level, t]:
            counts[level, t, READS] = counts[level, t, FILLS] = counts[level, t, UPDATES] = 0
            continue
        share, passed = 0.0, 0
        if level > 0:
            if found[level - 1, 2] > 0:
                passed = found[level - 1, 2] // work.instances[level]
            if not outermost:
                share = found[level - 1, 1] / lanes[level - 1]
        updates = 0.0
        reads = np.rint(content[level] + passed)
        fills = np.rint(share + passed)
        if tab.accumulates[t]:
            touched = counts[level, t, PARTITION]
            updates = np.rint(content[level])
            reads = np.rint(content[level] + passed - touched)
            fills = np.rint(share + passed - (0 if outermost else touched))
        outermost = False
        counts[level, t, READS], counts[level, t, FILLS], counts[level, t, UPDATES] = int(reads), int(fills), int(updates)
        block = tab.block[level]
        accesses = np.ceil(reads / block) * tab.energy[level, 0] + np.ceil(fills / block) * tab.energy[level, 1]
        if updates > 0.0:
            accesses += np.ceil(updates / block) * tab.energy[level, 2]
        energy += accesses * work.instances[level]
        ports[level, 0] += reads
        ports[level, 1] += fills + updates
    return energy


@inner(error_model="numpy", _nrt=False)
def slow_down(tab: Tables, cycles: int, ports: Array) -> int:
    """Cycles with the bandwidths' limits."""
    slowest = 1.0
    for level in range(ports.shape[0]):
        reads, writes = ports[level, 0] / cycles, ports[level, 1] / cycles
        if reads > tab.bandwidth[level, 0]:
            slowest = min(slowest, tab.bandwidth[level, 0] / reads)
        if writes > tab.bandwidth[level, 1]:
            slowest = min(slowest, tab.bandwidth[level, 1] / writes)
        if reads + writes > tab.bandwidth[level, 2]:
            slowest = min(slowest, tab.bandwidth[level, 2] / (reads + writes))
    return int(np.ceil(cycles / slowest)) if slowest < 1.0 else cycles


@inner(error_model="numpy", _nrt=False)
def price(
    tab: Tables,
    macs: int,
    cycles: int,
    temporal: Array,
    order: Array,
    spatial: Array,
    lane_order: Array,
    work: TilingWork,
    counts: Array,
    ports: Array,
) -> tuple[float, int]:
    """Energy (joules) and cycles of one order of the loops, after `measure`; reads, fills and updates into `counts`."""
    levels = temporal.shape[0]
    energy = macs * tab.mac_energy
    for level in range(levels):
        ports[level, 0] = ports[level, 1] = 0.0
    line_up(temporal, order, work)
    for t in range(tab.relevant.shape[0]):
        for level in range(levels - 1):
            lanes, groups = work.lanes[level], work.groups[level, t]
            if tab.keeps[level + 1, t] or (tab.slides[t] and groups < lanes):
                inter_level_traffic(tab, t, level, spatial, lane_order, work)
            else:
                # Requests pass through: only the share of them that one read serves matters.
                work.found[level, 0], work.found[level, 1], work.found[level, 2] = groups, lanes, 0
        energy += accumulate_accesses(tab, t, cycles, work, counts, ports)
    cycles = slow_down(tab, cycles, ports)
    for level in range(levels):
        if tab.leak[level] > 0.0:
            energy += tab.leak[level] * cycles * work.instances[tab.leak_of[level]]
    return energy, cycles


@outer(nogil=True, error_model="numpy", _nrt=False)
def count_many(
    tab: Tables,
    macs: int,
    temporal: Array,
    order: Array,
    spatial: Array,
    lane_order: Array,
    work: TilingWork,
    energy: Array,
    cycles: Array,
    overflows: Array,
    counts: Array,
) -> None:
    """Count every access of a stack of mappings [n, ...]."""
    for n in range(temporal.shape[0]):
        steps, overflows[n] = measure(tab, temporal[n], spatial[n], work, counts[n])
        energy[n], cycles[n] = price(tab, macs, steps, temporal[n], order[n], spatial[n], lane_order[n], work, counts[n], work.ports)
