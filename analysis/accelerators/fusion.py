"""How much of a network's traffic runs between layers, and how much of it does fusion keep on chip?

Run layer by layer, every result is written to DRAM and read back. Layers that run together as a group pass rows of their results
to each other through an on-chip buffer: a tensor used only inside the group never reaches DRAM. The group needs its weights on chip
(they serve every row) and, of each tensor that flows in it, as many rows as one output row of the group depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.workloads.layers import Layer


@dataclass(frozen=True)
class Group:
    """Layers that run together.

    Args:
        first, last: positions of the first and last layer (index, both inside).
        weight_words: read from DRAM once (words).
        read_words, write_words: activations from and to DRAM (words).
        buffer_words: on-chip words the group needs; 0 for a single layer, which streams (words).
    """

    first: int
    last: int
    weight_words: int
    read_words: int
    write_words: int
    buffer_words: int

    @property
    def traffic_words(self) -> int:
        """All DRAM traffic (words)."""
        return self.weight_words + self.read_words + self.write_words


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


def _read_words(reader: Layer, source: str, words: dict[str, int]) -> int:
    """Words a layer reads of one of its inputs."""
    if source in words:
        return words[source]
    if reader.operand == "activations" and reader.inputs.index(source) > 0:
        # State from outside, such as a key-value cache: what the operand holds beyond the part produced here.
        produced = sum(words[other] for other in reader.inputs[1:] if other in words)
        return max(reader.operand_words - produced, 0)
    return reader.input_words


def group(layers: Sequence[Layer], first: int, last: int) -> Group:
    """Traffic and buffer of the layers from first to last run together.

    A tensor that flows in the group keeps the rows that one row of the group's results depends on, through every path: a reader
    that needs rows l .. h of its own result needs l stride - padding .. h stride - padding + window - 1 of its input, and all rows
    of the second operand of a product.

    Args:
        layers: the network.
        first, last: positions (index, both inside).
    """
    words = {layer.name: layer.output_words for layer in layers}
    inside = {layers[i].name: i for i in range(first, last + 1)}
    readers: dict[str, list[int]] = {}
    for i, layer in enumerate(layers):
        for source in layer.inputs:
            readers.setdefault(source, []).append(i)

    weights = sum(layers[i].weight_words for i in range(first, last + 1))
    read = 0
    sources = dict.fromkeys(s for i in range(first, last + 1) for s in layers[i].inputs)
    for source in sources:
        if source not in inside:
            users = [i for i in readers[source] if first <= i <= last]
            read += max(_read_words(layers[i], source, words) for i in users)
    written = sum(words[name] for name in inside if name not in readers or any(not first <= reader <= last for reader in readers[name]))
    if first == last:
        return Group(first, last, weights, read, written, 0)

    # Rows of each tensor that row 0 of the group's results depends on: (first, last), moving on by the stride from row to row.
    window: dict[str, tuple[float, float]] = {}
    buffer = float(weights)
    for i in range(last, first - 1, -1):
        layer = layers[i]
        low, high = window.get(layer.name, (0.0, 0.0))
        if layer.name in window:
            buffer += min(high - low + 1, layer.p) * words[layer.name] / layer.p
        for position, source in enumerate(layer.inputs):
            needed = (low * layer.stride - layer.padding, high * layer.stride - layer.padding + layer.r - 1)
            if layer.operand == "activations" and position > 0:
                needed = (-float("inf"), float("inf"))
            before = window.get(source, needed)
            window[source] = (min(before[0], needed[0]), max(before[1], needed[1]))
    for source in sources:
        if source not in inside:
            inner = [layers[i] for i in readers[source] if first <= i <= last]
            size = max(_read_words(reader, source, words) for reader in inner)
            height = max(reader.p * reader.stride for reader in inner)
            buffer += size * min((window[source][1] - window[source][0] + 1) / height, 1.0)
    return Group(first, last, weights, read, written, int(-(-buffer // 1)))


def _sum(layers: Sequence[Layer], groups: Sequence[Group]) -> Traffic:
    names = {layer.name for layer in layers}
    words = {layer.name: layer.output_words for layer in layers}
    read_by = {source for layer in layers for source in layer.inputs}
    boundary = sum(words[layer.name] for layer in layers if layer.name not in read_by)
    for part in groups:
        outside: dict[str, int] = {}
        for i in range(part.first, part.last + 1):
            for source in layers[i].inputs:
                if source not in names:
                    outside[source] = max(outside.get(source, 0), _read_words(layers[i], source, words))
        boundary += sum(outside.values())
    weights = sum(part.weight_words for part in groups)
    total = sum(part.traffic_words for part in groups)
    return Traffic(tuple(groups), weights, boundary, total - weights - boundary)


def layer_by_layer(layers: Sequence[Layer]) -> Traffic:
    """Every layer on its own: reads its inputs and weights, writes its result.

    Args:
        layers: the network.
    """
    return _sum(layers, [group(layers, i, i) for i in range(len(layers))])


def with_epilogues(layers: Sequence[Layer]) -> Traffic:
    """Element-wise layers run with the layer just before them if they read it, as compilers do; everything else on its own.

    Args:
        layers: the network.
    """
    groups: list[Group] = []
    first = 0
    for i in range(1, len(layers) + 1):
        joins = i < len(layers) and layers[i].kind == "elementwise" and layers[i - 1].name in layers[i].inputs
        if not joins:
            groups.append(group(layers, first, i - 1))
            first = i
    return _sum(layers, groups)


def fused(layers: Sequence[Layer], buffer_words: float, longest: int = 24) -> Traffic:
    """The cut of the network into consecutive groups that moves the fewest words, with every group inside the buffer.

    best(j) = min over i of best(i) + traffic(i .. j-1), over the groups that fit: exact over all cuts with groups up to `longest`.

    Args:
        layers: the network.
        buffer_words: on-chip buffer (words).
        longest: layers in a group, at most (count).
    """
    best: list[int] = [0]
    cut: list[Group] = []
    for j in range(1, len(layers) + 1):
        choices = (group(layers, i, j - 1) for i in range(max(0, j - longest), j))
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
