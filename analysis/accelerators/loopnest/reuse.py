"""How many words move from one storage level to the next: the walk over the loops above a tile, done in closed form.

A buffer that holds a tile receives, at each step of the loops above it, the words it does not hold yet. It can keep the overlap with
the tile before only while the tile goes on moving by the same displacement; when the displacement changes it starts afresh (a tile that
does not move at all stays). This is Timeloop's rule (`reset on stride change`); it is what an address generator with one stride can do.
Before January 2025 (github.com/NVlabs/timeloop, commit a12fff5) a step without movement was a change of displacement: `rest_resets`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from analysis.accelerators.loopnest.mapping import Loop
from analysis.accelerators.loopnest.problem import Tensor

Walk = Literal["sampled", "every"]
Displacement = tuple[int, ...]


@dataclass(frozen=True)
class TimedLoop:
    """A loop in time above a tile: its bound and how far one iteration moves the tile in each rank of the tensor."""

    bound: int
    move: Displacement


@dataclass(frozen=True)
class Lanes:
    """The children of one instance: where their tiles lie, and who is next to whom.

    Args:
        offsets: displacement of each child's tile from the first child's, by index of the child.
        width, height: of the mesh that the children sit in, row by row.
    """

    offsets: tuple[Displacement, ...]
    width: int
    height: int

    def multicast(self, without: frozenset[int] = frozenset()) -> Counter[int]:
        """How many groups there are of each size; a group shares one tile. Children in `without` are left out."""
        groups = Counter(offset for index, offset in enumerate(self.offsets) if index not in without)
        return Counter(groups.values())

    def fed_by_neighbours(self, moved: Displacement) -> frozenset[int]:
        """Children whose tile is the one a neighbour had a step ago, when all tiles have moved by `moved`."""
        fed = set()
        for index, offset in enumerate(self.offsets):
            x, y = index % self.width, index // self.width
            for nx, ny in ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)):
                other = ny * self.width + nx
                if 0 <= nx < self.width and 0 <= ny < self.height and other < len(self.offsets):
                    before = self.offsets[other]
                    if all(b - o == m for b, o, m in zip(before, offset, moved, strict=True)):
                        fed.add(index)
                        break
        return frozenset(fed)


def place_lanes(tensor: Tensor, loops: tuple[Loop, ...], strides: tuple[int, ...], physical: tuple[int, int]) -> Lanes:
    """Lay out the children that spatial loops make."""
    offsets: list[Displacement] = [(0,) * len(tensor.ranks)]
    used = 1
    for loop, stride in zip(loops, strides, strict=True):
        step = tensor.project({loop.dimension: stride})
        offsets = [tuple(o + i * s for o, s in zip(offset, step, strict=True)) for offset in offsets for i in range(loop.bound)]
        used *= loop.bound
    width, height = physical
    if width * height < used:
        width, height = used, 1
    return Lanes(tuple(offsets), width, height)


@dataclass(frozen=True)
class Traffic:
    """Words that one parent instance hands to its children over the whole run.

    Args:
        by_multicast: words read at the parent, by how many children each of them reaches.
        by_link: words that children took from neighbours instead.
    """

    by_multicast: dict[int, int]
    by_link: int

    @property
    def reads(self) -> int:
        """Words read at the parent; a multicast counts once."""
        return sum(self.by_multicast.values())

    @property
    def delivered(self) -> int:
        """Words that arrive at the children; a multicast counts once for each."""
        return sum(words * multicast for multicast, words in self.by_multicast.items())


# What the buffer was doing: the displacement it keeps up (None: none yet), and what its last delivery was.
_State = tuple[Displacement | None, str]


class _Walker:
    """Walks the loops above one tile and adds up what is delivered, remembering sub-nests it has walked from the same state."""

    def __init__(self, extents: tuple[int, ...], loops: tuple[TimedLoop, ...], walk: Walk, retain: bool, rest_resets: bool) -> None:
        self.extents, self.loops, self.walk, self.retain, self.rest_resets = extents, loops, walk, retain, rest_resets
        self.full = 1
        for extent in extents:
            self.full *= extent
        self.steps = [self._displacement(index) for index in range(len(loops))]
        self.known: dict[tuple[int, _State], tuple[Counter[Displacement | None], _State]] = {}

    def _displacement(self, index: int) -> Displacement:
        """When loop `index` advances, every loop inside it goes back from its last visited iteration to its first."""
        moved = list(self.loops[index].move)
        for inner in self.loops[index + 1 :]:
            back = 1 if self.walk == "sampled" else inner.bound - 1
            moved = [m - back * step for m, step in zip(moved, inner.move, strict=True)]
        return tuple(moved)

    def _fresh(self, moved: Displacement) -> int:
        """Words of a tile that the tile `moved` earlier does not hold."""
        overlap = 1
        for extent, m in zip(self.extents, moved, strict=True):
            overlap *= max(0, extent - abs(m))
        return self.full - overlap

    def visit(self, moved: Displacement, state: _State) -> tuple[int, Displacement | None, _State]:
        """Words delivered by one step, the displacement if a neighbour may have had them, and the new state."""
        kept, last = state
        if not any(moved) and self.retain:
            return 0, None, (moved if self.rest_resets else kept, "nothing")
        if not self.retain:
            size, kept = self.full, None
        elif kept is None or kept == moved:
            size, kept = self._fresh(moved), moved
        else:
            size, kept = self.full, None
        kind = "tile" if size == self.full else "part"
        return size, moved if kind == last else None, (kept, kind)

    def rest(self, index: int, state: _State) -> tuple[Counter[Displacement | None], _State]:
        """Everything after the first visit of the sub-nest from loop `index` inward: words by displacement, and the last state."""
        if index == len(self.loops):
            return Counter(), state
        key = (index, state)
        if key not in self.known:
            total, now = self.rest(index + 1, state)
            total = Counter(total)
            bound = self.loops[index].bound
            if self.walk == "sampled":
                # Iteration 1 stands for all the later ones.
                rounds, weight = min(1, bound - 1), bound - 1
            else:
                rounds, weight = bound - 1, 1
            for _ in range(rounds):
                size, link, now = self.visit(self.steps[index], now)
                inner, now = self.rest(index + 1, now)
                total[link] += weight * size
                for displacement, words in inner.items():
                    total[displacement] += weight * words
            self.known[key] = (total, now)
        return self.known[key]

    def run(self) -> Counter[Displacement | None]:
        later, _ = self.rest(0, (None, "tile"))
        total = Counter(later)
        total[None] += self.full
        return total


def traffic(
    extents: tuple[int, ...],
    loops: tuple[TimedLoop, ...],
    lanes: Lanes,
    *,
    walk: Walk = "sampled",
    links: bool = True,
    retain: bool = True,
    rest_resets: bool = False,
) -> Traffic:
    """Words that one parent instance delivers to its children.

    `words = sum over steps of |tile minus what is kept| * groups of children with equal tiles`, less what neighbours pass on.

    Args:
        walk: `sampled` visits iterations 0 and 1 of each loop and lets the second stand for the rest, as Timeloop does;
            `every` visits all. They differ where a loop over a sliding window is split in two.
        links: children may take a tile from a neighbour that had it one step ago, when that saves reads.
        retain: False when the children are arithmetic units, which keep nothing.
        rest_resets: a step in which the tile does not move breaks its run: the next that moves fetches it whole.
    """
    walker = _Walker(extents, loops, walk, retain, rest_resets)
    groups = lanes.multicast()
    by_multicast: Counter[int] = Counter()
    by_link = 0
    for displacement, words in walker.run().items():
        if not words:
            continue
        used = groups
        if links and retain and displacement is not None and len(lanes.offsets) > 1:
            fed = lanes.fed_by_neighbours(displacement)
            remaining = lanes.multicast(without=fed)
            if fed and remaining.total() < groups.total():
                used = remaining
                by_link += words * len(fed)
        for multicast, count in used.items():
            by_multicast[multicast] += words * count
    return Traffic(dict(by_multicast), by_link)
