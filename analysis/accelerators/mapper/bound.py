"""The least that a tiling can cost, whatever the order of its loops, compiled.

For each tensor and gap between levels on its own, the words moved are at least

    min over loops j in time that move the tile of   F * (product of the loops of other ranks) + f_j (b_j - 1) (product of the other loops)

with F, f_j and b_j as in `loopnest.fast`; loops that do not move the tile cost nothing when they are innermost. Loops of j's own rank count
as free only where their displacement could coincide with that of j (or cancel), since then an outer step fetches f_j or nothing. Where
neighbours might pass tiles on, one lane's words are the least. Everything else about a tiling (tiles, instances, first touches) does not
depend on order, and energy and cycles rise with every count; so the bound is safe, and a tiling whose bound is no better than a mapping
already found can go.
"""

from __future__ import annotations

from analysis.accelerators.loopnest.fast import TilingWork, accumulate_accesses, slow_down
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
def gap_bound(
    tab: Tables, t: int, level: int, temporal: Array, spatial: Array, lane_order: Array, work: TilingWork, bounds: Array, moves: Array
) -> int:
    """Least traffic at a gap into `work.found[level]`; returns what its cost can depend on: CLEAN, COINCIDES or LINKS."""
    dimensions = temporal.shape[1]
    words, groups, lanes = work.words[level + 1, t], work.groups[level, t], work.lanes[level]
    found = work.found[level]
    state = CLEAN
    if not tab.keeps[level + 1, t]:
        found[0], found[1], found[2] = groups, lanes, 0
        if may_link(tab, t, level, temporal, spatial, lane_order, work, bounds, moves):
            found[0], state = 1, LINKS
        return state
    steps = 1
    for above in range(level + 1):
        for d in range(dimensions):
            if temporal[above, d] > 1 and tab.relevant[t, d]:
                steps *= temporal[above, d]
    least = steps * words
    if tab.slides[t] and steps > 1:
        for r in range(tab.rank_terms.shape[1]):
            n = loops_of_rank(tab, t, r, level, temporal, work, bounds, moves)
            for j in range(n):
                overlap = words // work.extent[level, t, r] * max(0, work.extent[level, t, r] - moves[j])
                if overlap == 0:
                    continue
                whole = steps // bounds[j]
                for i in range(n):
                    if i != j and may_coincide(n, moves, i, j):
                        whole //= bounds[i]
                        state = COINCIDES
                least = min(least, words * whole + (words - overlap) * (bounds[j] - 1) * (steps // bounds[j]))
        # Loops of one rank may also cancel where nothing overlaps.
        for r in range(tab.rank_terms.shape[1]):
            n = loops_of_rank(tab, t, r, level, temporal, work, bounds, moves)
            if n < 2 or tab.rank_terms[t, r] < 2:
                continue
            for j in range(n):
                if moves[j] >= work.extent[level, t, r]:
                    resting = 1
                    for i in range(n):
                        if i != j and may_coincide(n, moves, i, j):
                            resting *= bounds[i]
                    if resting > 1:
                        state = COINCIDES
                        least = min(least, words * (steps // resting))
    found[0], found[1], found[2] = least * groups, least * lanes, 0
    if may_link(tab, t, level, temporal, spatial, lane_order, work, bounds, moves):
        found[0], found[1], state = least, least, LINKS
    return state


@inner(error_model="numpy", _nrt=False)
def least_cost(
    tab: Tables,
    macs: int,
    cycles: int,
    temporal: Array,
    spatial: Array,
    lane_order: Array,
    work: TilingWork,
    counts: Array,
    ports: Array,
    loops: Array,
) -> tuple[float, int, int]:
    """Least energy (joules) and cycles of a tiling after `measure`, and what the cost of an order can depend on."""
    energy = macs * tab.mac_energy
    for level in range(temporal.shape[0]):
        ports[level, 0] = ports[level, 1] = 0.0
    state = CLEAN
    for t in range(tab.relevant.shape[0]):
        for level in range(temporal.shape[0] - 1):
            state = max(state, gap_bound(tab, t, level, temporal, spatial, lane_order, work, loops[0], loops[1]))
        energy += accumulate_accesses(tab, t, cycles, work, counts, ports)
    return energy, slow_down(tab, cycles, ports), state
