"""Tiles side by side, compiled: how many are different, and which a neighbour had one step before."""

from __future__ import annotations

from analysis.accelerators.loopnest.tables import Array, Tables
from analysis.compiled import inner


@inner(error_model="numpy", _nrt=False)
def distinct_tiles(
    tab: Tables, t: int, level: int, spatial: Array, stride_lane: Array, tile: Array, spread: Array, seen: Array
) -> tuple[int, int]:
    """Different tiles among the lanes below a level (product over ranks of the different offsets), and the words of their common box.

    `spread` [R] is filled with how far apart tiles lie in each rank; `seen` is scratch, [2, the longest rank].
    """
    groups, union = 1, 1
    for r in range(tab.rank_terms.shape[1]):
        extent, reach, terms, count = 1, 0, 0, 1
        for k in range(tab.rank_terms[t, r]):
            d, c = tab.rank_dimension[t, r, k], tab.rank_coefficient[t, r, k]
            size = tile[level, d]
            for axis in range(tab.axis_first[level], tab.axis_first[level + 1]):
                if spatial[axis, d] > 1:
                    terms += 1
                    count *= spatial[axis, d]
                    reach += c * stride_lane[axis, d] * (spatial[axis, d] - 1)
                    size *= spatial[axis, d]
            extent += c * (size - 1)
        spread[r] = reach
        if terms > 1:
            for offset in range(reach + 1):
                seen[0, offset] = offset == 0
            for k in range(tab.rank_terms[t, r]):
                d = tab.rank_dimension[t, r, k]
                for axis in range(tab.axis_first[level], tab.axis_first[level + 1]):
                    step = tab.rank_coefficient[t, r, k] * stride_lane[axis, d]
                    for offset in range(reach + 1):
                        seen[1, offset] = seen[0, offset]
                    for i in range(1, spatial[axis, d]):
                        for offset in range(i * step, reach + 1):
                            seen[0, offset] |= seen[1, offset - i * step]
            count = 0
            for offset in range(reach + 1):
                count += seen[0, offset]
        groups *= count
        union *= extent
    return groups, union


@inner(error_model="numpy", _nrt=False)
def _steps_apart(tab: Tables, t: int, first: int, last: int, spatial: Array, lane_order: Array, stride_lane: Array, moved: Array) -> bool:
    """Whether tiles of some two lanes next to each other in one row lie `moved` apart; they differ as an odometer's readings do."""
    ranks = moved.size
    for sign in (1, -1):
        # What loops inside the one that advances take back.
        for axis in range(last - 1, first - 1, -1):
            for position in range(spatial.shape[1]):
                d = lane_order[axis, position]
                if spatial[axis, d] == 1:
                    continue
                same = True
                for r in range(ranks):
                    apart = 0
                    if tab.rank_of[t, d] == r:
                        apart = tab.step_of[t, d] * stride_lane[axis, d]
                    for inner_axis in range(axis, last):
                        until = position if inner_axis == axis else spatial.shape[1]
                        for nested in range(until):
                            e = lane_order[inner_axis, nested]
                            if tab.rank_of[t, e] == r:
                                apart -= tab.step_of[t, e] * stride_lane[inner_axis, e] * (spatial[inner_axis, e] - 1)
                    if sign * apart != moved[r]:
                        same = False
                        break
                if same:
                    return True
    return False


@inner(error_model="numpy", _nrt=False)
def linked_lanes(
    tab: Tables,
    t: int,
    level: int,
    spatial: Array,
    lane_order: Array,
    stride_lane: Array,
    lanes: int,
    moved: Array,
    offsets: Array,
    fed: Array,
) -> tuple[int, int]:
    """Lanes whose tile a neighbour had before all tiles moved by `moved`, and the different tiles that the other lanes hold."""
    ranks, dimensions = tab.rank_terms.shape[1], spatial.shape[1]
    first, last = tab.axis_first[level], tab.axis_first[level + 1]
    width, height = tab.width[level], tab.height[level]
    if width * height < lanes:
        width, height = lanes, 1
    if (width == 1 or height == 1) and not _steps_apart(tab, t, first, last, spatial, lane_order, stride_lane, moved):
        return 0, 1 << 60
    for lane in range(lanes):
        rest = lane
        fed[lane] = False
        for r in range(ranks):
            offsets[lane, r] = 0
        for axis in range(last - 1, first - 1, -1):
            for position in range(dimensions):
                d = lane_order[axis, position]
                if spatial[axis, d] > 1:
                    index = rest % spatial[axis, d]
                    rest //= spatial[axis, d]
                    for r in range(ranks):
                        for k in range(tab.rank_terms[t, r]):
                            if tab.rank_dimension[t, r, k] == d:
                                offsets[lane, r] += tab.rank_coefficient[t, r, k] * stride_lane[axis, d] * index
    count = 0
    for lane in range(lanes):
        x, y = lane % width, lane // width
        for side in range(4):
            nx = x + (side == 1) - (side == 0)
            ny = y + (side == 3) - (side == 2)
            other = ny * width + nx
            if 0 <= nx < width and 0 <= ny < height and other < lanes:
                same = True
                for r in range(ranks):
                    if offsets[other, r] - offsets[lane, r] != moved[r]:
                        same = False
                        break
                if same:
                    fed[lane] = True
                    count += 1
                    break
    groups = 0
    for lane in range(lanes):
        if fed[lane]:
            continue
        fresh = True
        for other in range(lane):
            if not fed[other]:
                same = True
                for r in range(ranks):
                    if offsets[other, r] != offsets[lane, r]:
                        same = False
                        break
                if same:
                    fresh = False
                    break
        groups += fresh
    return count, groups
