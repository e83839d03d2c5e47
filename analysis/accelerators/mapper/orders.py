"""Which orders of the loops at a level need to be visited, compiled.

Counts depend on order only through each tensor's innermost moving loop, the product of the loops from there outward, and, for windows, on
displacements that coincide. So an order is settled once every tensor that a level inward keeps has met a loop that moves it, and each
sliding tensor has met loops of two ranks (no coincidence reaches past the second); loops further out may then come in any order.

What more an order can change in a given tiling: a tile that slides may move back to where an inner step would have taken it, or rest
(COINCIDES), and neighbours may pass tiles on (LINKS). Where neither can be (CLEAN), orders are dropped that another one beats.
"""

from __future__ import annotations

from analysis.accelerators.loopnest.fast import TilingWork
from analysis.accelerators.loopnest.lanes import linked_lanes
from analysis.accelerators.loopnest.tables import Array, Tables
from analysis.compiled import inner

MOST = 16
CLEAN, COINCIDES, LINKS = range(3)


@inner(error_model="numpy", _nrt=False)
def loops_of_rank(tab: Tables, t: int, r: int, level: int, temporal: Array, work: TilingWork, bounds: Array, moves: Array) -> int:
    """Bounds of the loops in time down to `level` that move a tensor in rank r, and how far; returns how many there are."""
    n = 0
    for above in range(level + 1):
        for k in range(tab.rank_terms[t, r]):
            d = tab.rank_dimension[t, r, k]
            if temporal[above, d] > 1:
                bounds[n] = temporal[above, d]
                moves[n] = tab.rank_coefficient[t, r, k] * work.stride_time[above, d]
                n += 1
    return n


@inner(error_model="numpy", _nrt=False)
def may_coincide(n: int, moves: Array, i: int, j: int) -> bool:
    """Whether an outer loop i of the same rank can, in some order, move the tile as loop j does, or not at all."""
    if moves[i] < moves[j]:
        return False
    for chosen in range(1 << n):
        if chosen >> i & 1 or not chosen >> j & 1:
            continue
        total = 0
        for m in range(n):
            if chosen >> m & 1:
                total += moves[m]
        if moves[i] == total or moves[i] == total + moves[j]:
            return True
    return False


@inner(error_model="numpy", _nrt=False)
def reach_of(tab: Tables, t: int, r: int, level: int, spatial: Array, work: TilingWork) -> int:
    """How far apart tiles of the lanes below a level lie in one rank of a tensor."""
    reach = 0
    for k in range(tab.rank_terms[t, r]):
        d = tab.rank_dimension[t, r, k]
        for axis in range(tab.axis_first[level], tab.axis_first[level + 1]):
            reach += tab.rank_coefficient[t, r, k] * work.stride_lane[axis, d] * (spatial[axis, d] - 1)
    return reach


@inner(error_model="numpy", _nrt=False)
def may_link(
    tab: Tables, t: int, level: int, temporal: Array, spatial: Array, lane_order: Array, work: TilingWork, bounds: Array, moves: Array
) -> bool:
    """Whether tiles that neighbours pass on could change anything that is counted at this gap, in some order."""
    lanes, groups = work.lanes[level], work.groups[level, t]
    if lanes == 1 or not tab.slides[t]:
        return False
    kept = tab.keeps[level + 1, t]
    if not kept and groups == lanes:
        return False
    reaching = 0
    for r in range(tab.rank_terms.shape[1]):
        reaching += tab.rank_terms[t, r] > 1 and reach_of(tab, t, r, level, spatial, work) > 0
    for r in range(tab.rank_terms.shape[1]):
        reach = reach_of(tab, t, r, level, spatial, work) if tab.rank_terms[t, r] > 1 else 0
        if reach == 0:
            continue
        n = loops_of_rank(tab, t, r, level, temporal, work, bounds, moves)
        for i in range(n):
            for chosen in range(1 << n):
                if chosen >> i & 1:
                    continue
                moved = moves[i]
                for m in range(n):
                    if chosen >> m & 1:
                        moved -= moves[m]
                if moved == 0 or abs(moved) > reach:
                    continue
                if reaching > 1:
                    return True
                for q in range(work.moved.size):
                    work.moved[q] = 0
                work.moved[r] = moved
                fed, left = linked_lanes(tab, t, level, spatial, lane_order, work.stride_lane, lanes, work.moved, work.offsets, work.fed)
                if left < groups and (kept or left * lanes != groups * (lanes - fed)):
                    return True
    return False


@inner(error_model="numpy", _nrt=False)
def may_repeat(tab: Tables, t: int, level: int, temporal: Array, work: TilingWork, bounds: Array, moves: Array) -> bool:
    """Whether in some order a step of an outer loop moves a tile that slides as an inner loop does, or not at all."""
    if not tab.slides[t] or not tab.keeps[level + 1, t]:
        return False
    for r in range(tab.rank_terms.shape[1]):
        n = loops_of_rank(tab, t, r, level, temporal, work, bounds, moves)
        for j in range(n):
            # Where tiles do not overlap, loops over one dimension alone never cancel.
            if moves[j] >= work.extent[level, t, r] and tab.rank_terms[t, r] < 2:
                continue
            for i in range(n):
                if i != j and may_coincide(n, moves, i, j):
                    return True
    return False


@inner(error_model="numpy", _nrt=False)
def what_orders_change(tab: Tables, temporal: Array, spatial: Array, lane_order: Array, work: TilingWork, loops: Array) -> int:
    """What the cost of an order of a tiling can depend on, after `measure`: CLEAN, COINCIDES or LINKS."""
    state = CLEAN
    for t in range(tab.relevant.shape[0]):
        for level in range(temporal.shape[0] - 1):
            if may_link(tab, t, level, temporal, spatial, lane_order, work, loops[0], loops[1]):
                return LINKS
            if state == CLEAN and may_repeat(tab, t, level, temporal, work, loops[0], loops[1]):
                state = COINCIDES
    return state


@inner(_nrt=False)
def is_settled(tab: Tables, level: int, active: Array, n: int, chosen: Array, depth: int, every: bool) -> bool:
    """Whether the loops outside the first `depth` chosen ones may come in any order."""
    if depth == n:
        return True
    if every:
        return False
    for t in range(tab.relevant.shape[0]):
        inward = False
        for nested in range(level + 1, tab.keeps.shape[0]):
            inward |= tab.keeps[nested, t]
        if not inward:
            continue
        first, second, left = -1, False, False
        for i in range(depth):
            r = tab.rank_of[t, chosen[i]]
            if r >= 0:
                if first < 0:
                    first = r
                second |= r != first
        for i in range(n):
            used = False
            for k in range(depth):
                used |= chosen[k] == active[i]
            left |= not used and tab.rank_of[t, active[i]] >= 0
        if left and (first < 0 or (tab.slides[t] and not second)):
            return False
    return True


@inner(_nrt=False)
def list_orders(tab: Tables, level: int, bounds: Array, forced: Array, every: bool, line: Array, out: Array) -> int:
    """Orders of the loops above 1 at a level, innermost first, into `out` [most, D]; returns how many, or -1 when they do not fit.

    Args:
        forced: 0 for a dimension that may stand anywhere, otherwise its rank among the innermost, [D] (see `Space.forced_inside`).
        every: all permutations, not one for each class.
    """
    dimensions = bounds.size
    active, chosen, pointer, used = line[0], line[1], line[2], line[3]
    for d in range(dimensions + 1):
        chosen[d], pointer[d], used[d] = -1, 0, 0
    n, inside = 0, 0
    for rank in range(1, dimensions + 1):
        for d in range(dimensions):
            if bounds[d] > 1 and forced[d] == rank:
                active[n] = d
                n += 1
                inside += 1
    for d in range(dimensions):
        if bounds[d] > 1 and forced[d] == 0:
            active[n] = d
            n += 1
    depth, count = 0, 0
    while True:
        if pointer[depth] == 0 and is_settled(tab, level, active, n, chosen, depth, every):
            if count == out.shape[0]:
                return -1
            for i in range(depth):
                out[count, i] = chosen[i]
            position = depth
            for i in range(n):
                if used[active[i]] == 0:
                    out[count, position] = active[i]
                    position += 1
            for d in range(dimensions):
                if bounds[d] == 1:
                    out[count, position] = d
                    position += 1
            count += 1
            pointer[depth] = n
        advanced = False
        while pointer[depth] < n:
            i = pointer[depth]
            pointer[depth] += 1
            # Position `depth` belongs to the rank of the loop that stands there when ranks are listed in order.
            if used[active[i]] != 0 or (i < inside) != (depth < inside) or (depth < inside and forced[active[i]] != forced[active[depth]]):
                continue
            used[active[i]] = 1
            chosen[depth] = active[i]
            depth += 1
            pointer[depth] = 0
            advanced = True
            break
        if not advanced:
            if depth == 0:
                return count
            depth -= 1
            used[chosen[depth]] = 0


@inner(_nrt=False)
def _move(rows: Array, source: int, target: int) -> None:
    for i in range(rows.shape[1]):
        rows[target, i] = rows[source, i]


@inner(_nrt=False)
def keep_best_orders(tab: Tables, level: int, bounds: Array, orders: Array, count: int, features: Array) -> int:
    """Drop orders that another order matches or beats in every count; only for tilings without coincidences or links.

    Two orders compare when the innermost moving loop of every sliding tensor is the same; then only the product of the loops from each
    tensor's innermost moving loop outward matters, and less is better.
    """
    tensors, dimensions = tab.relevant.shape
    kept = 0
    for o in range(count):
        for t in range(tensors):
            product, first = 1, -1
            for position in range(dimensions):
                d = orders[o, position]
                if bounds[d] > 1:
                    if first < 0 and tab.relevant[t, d]:
                        first = d
                    if first >= 0:
                        product *= bounds[d]
            features[o, t] = product
            features[o, tensors + t] = first if tab.slides[t] else -1
        worse = False
        for k in range(kept):
            better = True
            for t in range(tensors):
                if features[k, t] > features[o, t] or features[k, tensors + t] != features[o, tensors + t]:
                    better = False
                    break
            if better:
                worse = True
                break
        if worse:
            continue
        # Remove survivors that this one beats.
        front = 0
        for k in range(kept):
            beaten = True
            for t in range(tensors):
                if features[o, t] > features[k, t] or features[k, tensors + t] != features[o, tensors + t]:
                    beaten = False
                    break
            if not beaten:
                if front != k:
                    _move(orders, k, front)
                    _move(features, k, front)
                front += 1
        _move(orders, o, front)
        _move(features, o, front)
        kept = front + 1
    return kept
