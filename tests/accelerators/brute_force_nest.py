"""A machine that runs a loop nest step by step and counts every word it moves. Shares no code with the model but the data classes.

Time steps in the order of the loops; every buffer holds a set of words; what it lacks is fetched; equal fetches of siblings are one read.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field

from analysis.accelerators.loopnest.architecture import Architecture
from analysis.accelerators.loopnest.mapping import Mapping
from analysis.accelerators.loopnest.problem import Problem, Tensor

Words = frozenset[tuple[int, ...]]


@dataclass
class Buffer:
    held: Words = frozenset()
    corner: tuple[int, ...] | None = None
    run: tuple[int, ...] | None = None

    def load(self, wanted: Words) -> Words:
        """What must be fetched. The overlap is kept only while tiles go on moving by one displacement."""
        corner = min(wanted)
        if self.corner is None:
            fetched = wanted
        else:
            moved = tuple(a - b for a, b in zip(corner, self.corner, strict=True))
            if not any(moved):
                fetched = wanted - self.held
            elif self.run is None or self.run == moved:
                fetched, self.run = wanted - self.held, moved
            else:
                fetched, self.run = wanted, None
        self.held, self.corner = wanted, corner
        return fetched


@dataclass
class Counted:
    """Totals over all instances, by level."""

    reads: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    received: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    linked: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    touched: dict[int, dict[tuple[int, ...], set[tuple[int, ...]]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    steps: float = 0


def box(points: list[tuple[int, ...]]) -> Words:
    """All words between the smallest and the largest index of each rank: what a buffer that stores rectangles holds."""
    ranks = zip(*points, strict=True)
    return frozenset(itertools.product(*(range(min(rank), max(rank) + 1) for rank in ranks)))


class Machine:
    """One problem, one design, one mapping."""

    def __init__(self, problem: Problem, architecture: Architecture, mapping: Mapping, sampled: bool, links: bool) -> None:
        self.problem, self.architecture, self.sampled, self.links = problem, architecture, sampled, links
        # (level, is_space, dimension, bound), outermost first
        self.loops = []
        for index, level in enumerate(architecture.levels):
            self.loops += [(index, False, loop.dimension, loop.bound) for loop in mapping.at.get(level.name, ())]
            for axis in level.fanout:
                self.loops += [(index, True, loop.dimension, loop.bound) for loop in mapping.at.get(axis.name, ())]

    def words(self, tensor: Tensor, fixed: dict[int, int]) -> Words:
        """Box of what is touched when some loops stand still and all others run."""
        points = []
        free = [range(bound) if at not in fixed else (fixed[at],) for at, (_, _, _, bound) in enumerate(self.loops)]
        for indices in itertools.product(*free):
            point = dict.fromkeys(self.problem.sizes, 0)
            for (_, _, dimension, bound), index in zip(self.loops, indices, strict=True):
                point[dimension] = point[dimension] * bound + index
            points.append(tuple(sum(c * point[d] for d, c in rank) for rank in tensor.ranks))
        return box(points)

    def times(self, level: int) -> list[tuple[dict[int, int], float]]:
        """Steps of the loops in time down to `level`, in order, with how many steps each stands for."""
        here = [at for at, (l, space, _, _) in enumerate(self.loops) if l <= level and not space]
        ranges = [range(min(2, self.loops[at][3]) if self.sampled else self.loops[at][3]) for at in here]
        steps = []
        for indices in itertools.product(*ranges):
            weight = 1
            for at, index in zip(here, indices, strict=True):
                if self.sampled and index == 1:
                    weight *= self.loops[at][3] - 1
            steps.append((dict(zip(here, indices, strict=True)), float(weight)))
        return steps

    def places(self, level: int, only: bool) -> list[dict[int, int]]:
        """Positions in space: of the fan-out below `level` alone, or of everything above and at `level`."""
        here = [at for at, (l, space, _, _) in enumerate(self.loops) if space and (l == level if only else l < level)]
        return [dict(zip(here, indices, strict=True)) for indices in itertools.product(*(range(self.loops[at][3]) for at in here))]

    def neighbours(self, level: int, index: int, count: int) -> list[int]:
        sizes = [axis.size for axis in self.architecture.levels[level].fanout] + [1, 1]
        width, height = sizes[0], sizes[1]
        x, y = index % width, index // width
        around = [(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)]
        return [b * width + a for a, b in around if 0 <= a < width and 0 <= b < height and b * width + a < count]

    def run(self, tensor: Tensor) -> Counted:
        """Run once and count. Levels that do not keep the tensor hand requests on."""
        counted = Counted()
        levels = self.architecture.levels
        keeps = [level for level in range(len(levels)) if tensor.name in levels[level].keeps]
        for index, level in enumerate(keeps):
            child = keeps[index + 1] if index + 1 < len(keeps) else len(levels)
            self._between(tensor, counted, level, child)
        for level in keeps:
            inside = {at for at, (l, space, _, _) in enumerate(self.loops) if l < level and not space}
            for position in self.places(level, only=False):
                for steps in itertools.product(*(range(self.loops[at][3]) for at in sorted(inside))):
                    fixed = dict(zip(sorted(inside), steps, strict=True)) | position
                    counted.touched[level][tuple(sorted(position.items()))] |= self.words(tensor, fixed)
        return counted

    def _between(self, tensor: Tensor, counted: Counted, level: int, child: int) -> None:
        """Traffic from instances of `level` to those of `child`, the next level inward that keeps the tensor (or the arithmetic)."""
        arithmetic = child == len(self.architecture.levels)
        buffers: dict[tuple, Buffer] = defaultdict(Buffer)
        before: dict[tuple, list[Words]] = {}
        for now, weight in self.times(child - 1):
            for parent in self.places(level, only=False):
                bundle = self._bundle(tensor, counted, level, child, now, parent, buffers, before, weight, arithmetic)
                counted.reads[level] += weight * sum(len(words) for words in bundle)

    def _bundle(self, tensor, counted, level, child, now, position, buffers, before, weight, arithmetic) -> tuple[Words, ...]:
        """The distinct fetches that one instance of `level` sees from below at one step."""
        requests = []
        lanes = self.places(level, only=True)
        for lane in lanes:
            where = position | lane
            if level == child - 1:
                wanted = self.words(tensor, now | where)
                fetched = wanted if arithmetic else buffers[tuple(sorted(where.items()))].load(wanted)
                requests.append((fetched,) if fetched else ())
            else:
                requests.append(self._bundle(tensor, counted, level + 1, child, now, where, buffers, before, weight, arithmetic))
        free: set[int] = set()
        if self.links and not arithmetic:
            key = tuple(sorted(position.items()))
            past = before.get(key, [])
            for index, request in enumerate(requests):
                around = self.neighbours(level, index, len(requests))
                if request and any(other < len(past) and past[other] == request for other in around):
                    free.add(index)
            before[key] = requests
            with_links = {r for i, r in enumerate(requests) if r and i not in free}
            if len(with_links) >= len({r for r in requests if r}):
                free = set()
        if level == child - 1:
            for index, request in enumerate(requests):
                size = sum(len(words) for words in request)
                (counted.linked if index in free else counted.received)[child] += weight * size
        distinct = {r for i, r in enumerate(requests) if r and i not in free}
        return tuple(sorted(itertools.chain.from_iterable(distinct), key=sorted))
