"""The whole weight simplex: in what share of all weightings does each order of the tools hold? Exactly, in fractions.

The set of weightings {w >= 0, sum w = 1} is a simplex. Two tools change places where (g_a - g_b) . w = 0, a plane. Each
plane cuts a simplex into simplices whose volumes follow from where it crosses the edges, so every share is a fraction.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

Point = tuple[Fraction, ...]
MAX_TOOLS = 7  # about 0.1 CPU-s for five tools, 2 for six, 20 for seven: the pieces multiply with every plane


@dataclass(frozen=True)
class Cell:
    """A piece of the weight simplex: its corners and its share of the whole volume."""

    corners: tuple[Point, ...]
    share: Fraction


def whole_simplex(n: int) -> Cell:
    """All weightings of n dimensions; its corners put all weight on one."""
    return Cell(tuple(tuple(Fraction(int(i == j)) for j in range(n)) for i in range(n)), Fraction(1))


def cut(cell: Cell, normal: Sequence[Fraction | int]) -> tuple[list[Cell], list[Cell]]:
    """Cut a simplex by the plane normal . w = 0.

    A corner p on the positive side and a corner q on the negative one are joined by an edge that meets the plane at
    x = (f_p q - f_q p) / (f_p - f_q), f the value of normal . w. Replacing q by x keeps the share f_p / (f_p - f_q) of the
    volume, replacing p by x the rest; repeat until no edge crosses.

    Returns:
        pieces where normal . w >= 0, and pieces where it is <= 0.
    """
    values = [sum((Fraction(c) * w for c, w in zip(normal, corner, strict=True)), Fraction(0)) for corner in cell.corners]
    above = next((i for i, v in enumerate(values) if v > 0), None)
    below = next((i for i, v in enumerate(values) if v < 0), None)
    if below is None:
        return [cell], []
    if above is None:
        return [], [cell]
    f_p, f_q = values[above], values[below]
    p, q = cell.corners[above], cell.corners[below]
    crossing = tuple((f_p * b - f_q * a) / (f_p - f_q) for a, b in zip(p, q, strict=True))
    kept = f_p / (f_p - f_q)
    positive: list[Cell] = []
    negative: list[Cell] = []
    for index, share in ((below, cell.share * kept), (above, cell.share * (1 - kept))):
        corners = tuple(crossing if i == index else corner for i, corner in enumerate(cell.corners))
        upper, lower = cut(Cell(corners, share), normal)
        positive += upper
        negative += lower
    return positive, negative


def share_ahead(first: Sequence[int | Fraction], second: Sequence[int | Fraction]) -> Fraction:
    """Share of all weightings in which the first tool scores higher than the second."""
    difference = [a - b for a, b in zip(first, second, strict=True)]
    if not any(difference):
        return Fraction(0)
    return sum((c.share for c in cut(whole_simplex(len(difference)), difference)[0]), Fraction(0))


def order_shares(grades: Mapping[str, Sequence[int | Fraction]]) -> dict[tuple[str, ...], Fraction]:
    """Share of all weightings for each strict order of the tools, best first.

    Tools with equal grades tie everywhere and stand as one entry joined by ` = `.
    """
    groups: dict[tuple[int | Fraction, ...], list[str]] = defaultdict(list)
    for tool in sorted(grades):
        groups[tuple(grades[tool])].append(tool)
    names = {vector: " = ".join(tools) for vector, tools in groups.items()}
    vectors = list(groups)
    if not vectors:
        return {}
    if len(vectors) > MAX_TOOLS:
        raise ValueError(f"exact shares of {len(vectors)} tools take too long; expected at most {MAX_TOOLS} with different grades")
    cells = [whole_simplex(len(vectors[0]))]
    for a, b in itertools.combinations(vectors, 2):
        difference = [x - y for x, y in zip(a, b, strict=True)]
        cells = [piece for cell in cells for side in cut(cell, difference) for piece in side]
    shares: dict[tuple[str, ...], Fraction] = defaultdict(Fraction)
    for cell in cells:
        middle = [sum(corner[i] for corner in cell.corners) for i in range(len(vectors[0]))]
        score = {v: sum((m * g for m, g in zip(middle, v, strict=True)), Fraction(0)) for v in vectors}
        shares[tuple(names[v] for v in sorted(vectors, key=lambda v: (-score[v], names[v])))] += cell.share
    return dict(sorted(shares.items(), key=lambda row: (-row[1], row[0])))


def place_shares(grades: Mapping[str, Sequence[int | Fraction]]) -> dict[str, list[Fraction]]:
    """Share of all weightings in which each tool (or group of equal tools) takes the first, second, ... place."""
    shares = order_shares(grades)
    names = next(iter(shares)) if shares else ()
    places = {name: [Fraction(0)] * len(names) for name in names}
    for order, share in shares.items():
        for place, name in enumerate(order):
            places[name][place] += share
    return {name: places[name] for name in sorted(places)}
