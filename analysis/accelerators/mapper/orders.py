"""Which orders of the loops at a level need to be visited, compiled.

Counts depend on order only through each tensor's innermost moving loop, the product of the loops from there outward, and, for windows, on
displacements that coincide. So an order is settled once every tensor that a level inward keeps has met a loop that moves it, and each
sliding tensor has met loops of two ranks (no coincidence reaches past the second); loops further out may then come in any order.
"""

from __future__ import annotations

from analysis.accelerators.loopnest.tables import Array, Tables
from analysis.compiled import inner


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
