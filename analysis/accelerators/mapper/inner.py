"""Bounds for everything inside the two outermost levels, compiled: what a tiling costs as a function of how often its tiles change.

Fix the lanes and the loops inward of the split level m (an *inner configuration*). For each tensor, energy is then at least

    a0 + a1 * steps + a2 * outer

`steps` is how often the tile below level m changes, counted over the loops at level m and outside (gaps whose own inner loops already move
the tile cost the same whatever is outside), and `outer` the words that level m itself takes in. An order lets a tensor keep its tile only
over loops that do not move it and are innermost in their level; the innermost loop of a level moves some tensors, and those keep nothing
there. So the least cost is the least over which tensors the innermost loop moves, at level m and at the outermost level.
"""

from __future__ import annotations

import numpy as np

from analysis.accelerators.loopnest.fast import PARTITION, TilingWork
from analysis.accelerators.loopnest.lanes import linked_lanes
from analysis.accelerators.loopnest.tables import Array, Tables
from analysis.accelerators.mapper.orders import may_coincide, reach_of
from analysis.compiled import inner


@inner(error_model="numpy", _nrt=False)
def linear_energy(tab: Tables, t: int, work: TilingWork, counts: Array, found: Array) -> float:
    """`fast.accumulate_accesses` without rounding up and one word short of every count, on traffic [L, 2] given as reals."""
    levels = tab.keeps.shape[0]
    content, energy = 0.0, 0.0
    outermost = 0
    while not tab.keeps[outermost, t]:
        outermost += 1
    for level in range(levels - 1, -1, -1):
        if level == levels - 1 or tab.keeps[level + 1, t]:
            content = found[level, 0]
        else:
            content = content * work.lanes[level] * (found[level, 0] / found[level, 1])
        if not tab.keeps[level, t]:
            continue
        reads, updates = content - 1.0, 0.0
        fills = found[level - 1, 1] / work.lanes[level - 1] - 1.0 if level > outermost else 0.0
        if tab.accumulates[t]:
            updates = content - 1.0
            reads -= counts[level, t, PARTITION]
            fills -= counts[level, t, PARTITION] if level > outermost else 0
        each = reads * tab.energy[level, 0] + fills * tab.energy[level, 1] + updates * tab.energy[level, 2]
        energy += each / tab.block[level] * work.instances[level]
    return energy


@inner(error_model="numpy", _nrt=False)
def links_matter(tab: Tables, t: int, level: int, spatial: Array, lane_order: Array, work: TilingWork) -> bool:
    """Whether tiles that neighbours pass on can change what is counted at a gap, for some loops outside it."""
    lanes, groups = work.lanes[level], work.groups[level, t]
    kept = tab.keeps[level + 1, t]
    if lanes == 1 or not tab.slides[t] or (not kept and groups == lanes):
        return False
    for r in range(tab.rank_terms.shape[1]):
        if tab.rank_terms[t, r] < 2:
            continue
        reach, loops, nearest = reach_of(tab, t, r, level, spatial, work), 0, 0
        for k in range(tab.rank_terms[t, r]):
            d, c = tab.rank_dimension[t, r, k], tab.rank_coefficient[t, r, k]
            if work.stride_time[level, d] < tab.sizes[d]:
                loops += 1
                nearest = c * work.stride_time[level, d]
        if reach == 0 or loops == 0 or (loops == 1 and nearest > reach):
            continue
        if kept:
            return True
        for moved in range(-reach, reach + 1):
            if moved != 0:
                for q in range(work.moved.size):
                    work.moved[q] = 0
                work.moved[r] = moved
                fed, left = linked_lanes(tab, t, level, spatial, lane_order, work.stride_lane, lanes, work.moved, work.offsets, work.fed)
                if left < groups and left * lanes != groups * (lanes - fed):
                    return True
    return False


@inner(error_model="numpy", _nrt=False)
def coefficients(
    tab: Tables,
    t: int,
    cycles: int,
    split: int,
    temporal: Array,
    spatial: Array,
    lane_order: Array,
    outside: float,
    work: TilingWork,
    counts: Array,
    found: Array,
    out: Array,
) -> None:
    """a0, a1, a2 of a tensor into `out` [3], after `measure` with everything outside the inner configuration at the outermost level.

    Args:
        outside: product of the trip counts not placed inward of the split level.
    """
    levels, dimensions = temporal.shape
    for point in range(3):
        for level in range(levels):
            groups, lanes = float(work.groups[level, t]), float(work.lanes[level])
            words = 1.0
            if level == levels - 1:
                words = float(cycles)
            elif level == split - 1 and tab.keeps[split, t]:
                words = 1.0 if point == 2 else 0.0
            elif level >= split and tab.keeps[level + 1, t]:
                moving = 1.0
                least = 1.0
                for above in range(level, split, -1):
                    product, own = 1.0, 1.0
                    for d in range(dimensions):
                        b = temporal[above, d]
                        product *= b
                        if b > 1 and tab.relevant[t, d]:
                            own *= b
                            if tab.slides[t]:
                                least = min(least, _kept_away(tab, t, d, level, above, work) * (b - 1) / b)
                    moving *= product if moving > 1.0 else own
                words = work.words[level + 1, t] * (moving * outside * least if moving > 1.0 else (1.0 if point == 1 else 0.0))
            if level < levels - 1 and links_matter(tab, t, level, spatial, lane_order, work):
                groups, lanes = 1.0, (1.0 if tab.keeps[level + 1, t] else lanes)
            found[level, 0], found[level, 1] = words * groups, words * lanes
        out[point] = linear_energy(tab, t, work, counts, found)
    out[1] -= out[0]
    out[2] -= out[0]


@inner(error_model="numpy", _nrt=False)
def _kept_away(tab: Tables, t: int, d: int, level: int, above: int, work: TilingWork) -> float:
    """Part of a child's tile that is new when a loop over d at level `above` advances alone."""
    for r in range(tab.rank_terms.shape[1]):
        for k in range(tab.rank_terms[t, r]):
            if tab.rank_dimension[t, r, k] == d:
                move = tab.rank_coefficient[t, r, k] * work.stride_time[above, d]
                return min(1.0, move / work.extent[level, t, r])
    return 1.0


@inner(error_model="numpy", _nrt=False)
def window_share(
    tab: Tables, t: int, first: int, last: int, temporal: Array, extent: Array, stride: Array, bounds: Array, moves: Array
) -> float:
    """Least words fetched, as a part of whole tiles at each moving step, for loops in time of levels `first` and `last` in any order."""
    least = 1.0
    for r in range(tab.rank_terms.shape[1]):
        n = 0
        for k in range(tab.rank_terms[t, r]):
            d = tab.rank_dimension[t, r, k]
            for level in (first, last):
                if temporal[level, d] > 1:
                    bounds[n] = temporal[level, d]
                    moves[n] = tab.rank_coefficient[t, r, k] * stride[level, d]
                    n += 1
                if first == last:
                    break
        for j in range(n):
            fresh = min(1.0, moves[j] / extent[r])
            together = 1.0
            for i in range(n):
                if i != j and may_coincide(n, moves, i, j):
                    together *= bounds[i]
            least = min(least, (1.0 / together + fresh * (bounds[j] - 1)) / bounds[j])
    return least


@inner(error_model="numpy", _nrt=False)
def share_outside(tab: Tables, t: int, left_over: Array, extent: Array, stride: Array) -> float:
    """`window_share` for any split of what is left over between the two outermost levels."""
    least = 1.0
    for r in range(tab.rank_terms.shape[1]):
        loops, fresh = 0, 1.0
        for k in range(tab.rank_terms[t, r]):
            d = tab.rank_dimension[t, r, k]
            if left_over[d] > 1:
                loops += 1
                fresh = min(fresh, tab.rank_coefficient[t, r, k] * stride[d] / extent[r])
        # With two dimensions an outer step may leave the tile where it was; the steps of the innermost loop are at least half of all.
        least = min(least, fresh if loops < 2 else fresh / 2)
    return least


@inner(error_model="numpy", _nrt=False)
def least_over_types(
    coefficient: Array,
    moves: Array,
    inner: Array,
    outer: Array,
    inner_share: Array,
    outer_share: Array,
    own_words: Array,
    keeps_split: Array,
) -> float:
    """Least energy over which tensors the innermost loop moves, at the split level and at the outermost.

    Args:
        coefficient: a0, a1, a2 of each tensor, [T, 3].
        inner_share, outer_share: window shares over both levels, and over the outermost alone, [T].
    """
    tensors, dimensions = moves.shape
    least = np.inf
    inside, outside = 1.0, 1.0
    for d in range(dimensions):
        inside *= inner[d]
        outside *= outer[d]
    tried_inner = 0
    for i in range(-1, dimensions):
        if (i < 0) != (inside == 1.0) or (i >= 0 and inner[i] == 1):
            continue
        kind = 0
        for t in range(tensors):
            if i >= 0 and moves[t, i]:
                kind |= 1 << t
        if i >= 0 and tried_inner >> kind & 1:
            continue
        tried_inner |= 1 << kind
        tried_outer = 0
        for o in range(-1, dimensions):
            if (o < 0) != (outside == 1.0) or (o >= 0 and outer[o] == 1):
                continue
            other = 0
            for t in range(tensors):
                if o >= 0 and moves[t, o]:
                    other |= 1 << t
            if o >= 0 and tried_outer >> other & 1:
                continue
            tried_outer |= 1 << other
            energy = 0.0
            for t in range(tensors):
                near, far = 1.0, 1.0
                for d in range(dimensions):
                    if moves[t, d]:
                        near *= inner[d]
                        far *= outer[d]
                if far > 1.0 and other >> t & 1:
                    far = outside
                steps = far
                if near > 1.0:
                    steps = (inside if kind >> t & 1 else near) * outside
                energy += coefficient[t, 0] + coefficient[t, 1] * steps * inner_share[t]
                if keeps_split[t]:
                    energy += coefficient[t, 2] * own_words[t] * far * outer_share[t]
            least = min(least, energy)
    return least
