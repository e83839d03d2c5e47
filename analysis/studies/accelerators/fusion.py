"""How much of a network's traffic runs between layers, and how much of it does fusion keep on chip?

Run layer by layer, every result is written to DRAM and read back. Layers that run together as a group hand their results on through an
on-chip buffer: a tensor used only inside the group never reaches DRAM. There are two ways to do it, and a group takes the one that needs
the smaller buffer:

- by rows: all weights of the group stay on chip, and of each tensor only the rows that the next output row depends on;
- whole: layers run one after the other, weights stream through, and every tensor of the group stays on chip while it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from analysis.studies.workloads.layers import Layer

Layers = tuple[Layer, ...]


@dataclass(frozen=True)
class Group:
    """Layers that run together.

    Args:
        first, last: positions of the first and last layer (index, both inside).
        weight_words: read from DRAM once (words).
        read_words, write_words: activations from and to DRAM (words).
        rows_buffer_words, whole_buffer_words: on-chip words that each of the two ways needs; 0 for a lone layer (words).
    """

    first: int
    last: int
    weight_words: int
    read_words: int
    write_words: int
    rows_buffer_words: int
    whole_buffer_words: int

    @property
    def traffic_words(self) -> int:
        """All DRAM traffic (words)."""
        return self.weight_words + self.read_words + self.write_words

    @property
    def buffer_words(self) -> int:
        """The smaller of the two buffers (words)."""
        return min(self.rows_buffer_words, self.whole_buffer_words)


@dataclass(frozen=True)
class Traffic:
    """DRAM traffic of a network.

    Args:
        groups: in the order of execution.
        weight_words: weights, each once (words).
        boundary_words: the network's input, its state (a cache) and its result (words).
        between_words: results of one layer that another layer reads, out and back (words).
    """

    groups: tuple[Group, ...]
    weight_words: int
    boundary_words: int
    between_words: int

    @property
    def total_words(self) -> int:
        """All DRAM traffic (words)."""
        return self.weight_words + self.boundary_words + self.between_words

    @property
    def between_share(self) -> float:
        """Part of the traffic that runs between layers (1)."""
        return self.between_words / self.total_words


@dataclass(frozen=True)
class _Graph:
    words: dict[str, int]
    readers: dict[str, tuple[int, ...]]


def _graph(layers: Layers) -> _Graph:
    readers: dict[str, list[int]] = {}
    for i, layer in enumerate(layers):
        for source in dict.fromkeys(layer.inputs):
            readers.setdefault(source, []).append(i)
    return _Graph({layer.name: layer.output_words for layer in layers}, {name: tuple(users) for name, users in readers.items()})


def _read_words(reader: Layer, source: str, words: dict[str, int]) -> int:
    """Words a layer reads of one of its inputs."""
    if source in words:
        return words[source]
    if reader.operand == "activations" and reader.inputs.index(source) > 0:
        # State from outside, such as a key-value cache: what the operand holds beyond the part produced here.
        produced = sum(words[other] for other in reader.inputs[1:] if other in words)
        return max(reader.operand_words - produced, 0)
    return reader.input_words


def _outside_reads(layers: Layers, words: dict[str, int], first: int, last: int) -> dict[str, int]:
    """Words of each tensor that a group reads from DRAM, each once."""
    inside = {layers[i].name for i in range(first, last + 1)}
    found: dict[str, int] = {}
    for i in range(first, last + 1):
        for source in layers[i].inputs:
            if source not in inside:
                found[source] = max(found.get(source, 0), _read_words(layers[i], source, words))
    return found


def group(layers: Sequence[Layer], first: int, last: int) -> Group:
    """Traffic and buffers of the layers from first to last run together.

    By rows, a tensor keeps the rows that one row of the group's results depends on, through every path: a reader that needs rows
    l .. h of its own result needs l stride - padding .. h stride - padding + window - 1 of its input, and all rows of the second
    operand of a product. A group with one product and element-wise layers around it needs no weights on chip: it runs tile by tile.
    Whole, the buffer is the largest sum of tensors alive at a time.
    """
    layers = tuple(layers)
    return _group(layers, _graph(layers), first, last)


def _group(layers: Layers, graph: _Graph, first: int, last: int) -> Group:
    inside = range(first, last + 1)
    weights = sum(layers[i].weight_words for i in inside)
    reads = _outside_reads(layers, graph.words, first, last)
    users = {layers[i].name: graph.readers.get(layers[i].name, ()) for i in inside}
    written = sum(graph.words[name] for name, by in users.items() if not by or any(not first <= reader <= last for reader in by))
    if first == last:
        return Group(first, last, weights, sum(reads.values()), written, 0, 0)

    # First and last row of each tensor that row 0 of the group's results depends on; both move on by the stride from row to row.
    window: dict[str, tuple[float, float]] = {}
    rows = 0.0
    for i in reversed(inside):
        layer = layers[i]
        low, high = window.get(layer.name, (0.0, 0.0))
        if layer.name in window:
            rows += min(high - low + 1, layer.p) * graph.words[layer.name] / layer.p
        for position, source in enumerate(layer.inputs):
            needed = (low * layer.stride - layer.padding, high * layer.stride - layer.padding + layer.r - 1)
            if layer.operand == "activations" and position > 0:
                needed = (-float("inf"), float("inf"))
            before = window.get(source, needed)
            window[source] = (min(before[0], needed[0]), max(before[1], needed[1]))
    if sum(layers[i].operand != "none" for i in inside) > 1:
        rows += weights
        for source, size in reads.items():
            height = max(layers[i].p * layers[i].stride for i in inside if source in layers[i].inputs)
            rows += size * min((window[source][1] - window[source][0] + 1) / height, 1.0)

    change = [0] * (last - first + 2)
    for i, name in enumerate(users):
        inner = [reader for reader in users[name] if reader <= last]
        if inner:
            change[i] += graph.words[name]
            change[max(inner) - first + 1] -= graph.words[name]
    whole = max(accumulate(change))
    return Group(first, last, weights, sum(reads.values()), written, int(-(-rows // 1)), whole)


@lru_cache(maxsize=16)
def _candidates(layers: Layers, longest: int) -> tuple[tuple[Group, ...], ...]:
    """For each position, the groups that end there."""
    graph = _graph(layers)
    return tuple(tuple(_group(layers, graph, i, j) for i in range(max(0, j + 1 - longest), j + 1)) for j in range(len(layers)))


def _sum(layers: Layers, groups: Sequence[Group]) -> Traffic:
    graph = _graph(layers)
    boundary = sum(graph.words[layer.name] for layer in layers if layer.name not in graph.readers)
    for part in groups:
        reads = _outside_reads(layers, graph.words, part.first, part.last)
        boundary += sum(size for source, size in reads.items() if source not in graph.words)
    weights = sum(part.weight_words for part in groups)
    total = sum(part.traffic_words for part in groups)
    return Traffic(tuple(groups), weights, boundary, total - weights - boundary)


def layer_by_layer(layers: Sequence[Layer]) -> Traffic:
    """Every layer on its own: reads its inputs and weights, writes its result."""
    return _sum(tuple(layers), [group(layers, i, i) for i in range(len(layers))])


def with_epilogues(layers: Sequence[Layer]) -> Traffic:
    """Element-wise layers run with the layer just before them if they read it, as compilers do; everything else on its own."""
    groups: list[Group] = []
    first = 0
    for i in range(1, len(layers) + 1):
        joins = i < len(layers) and layers[i].kind == "elementwise" and layers[i - 1].name in layers[i].inputs
        if not joins:
            groups.append(group(layers, first, i - 1))
            first = i
    return _sum(tuple(layers), groups)


def fused(layers: Sequence[Layer], buffer_words: float, longest: int = 24) -> Traffic:
    """The cut of the network into consecutive groups that moves the fewest words, with every group inside the buffer.

    best(j) = min over i of best(i) + traffic(i .. j-1), over the groups that fit: exact over all cuts with groups up to `longest`.
    """
    layers = tuple(layers)
    best: list[int] = [0]
    cut: list[Group] = []
    for choices in _candidates(layers, longest):
        chosen = min(
            (part for part in choices if part.first == part.last or part.buffer_words <= buffer_words),
            key=lambda part: (best[part.first] + part.traffic_words, part.last - part.first),
        )
        best.append(best[chosen.first] + chosen.traffic_words)
        cut.append(chosen)
    groups: list[Group] = []
    j = len(layers)
    while j > 0:
        groups.append(cut[j - 1])
        j = cut[j - 1].first
    return _sum(layers, groups[::-1])
