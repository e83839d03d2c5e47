"""nn-Meter's two ideas: find out by timing which operators a device fuses, then add up the kernels that remain.

Two operators are fused when running them one after the other saves much: T(a) + T(b) - T(a, b) > alpha min(T(a), T(b)), alpha = 0.5.
Source: Zhang et al. 2021 (nn-Meter), section 4: fusion rules from black-box test cases, and a search for the kernels of a network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestRegressor

Floats = NDArray[np.float64]
Timer = Callable[[nx.DiGraph], float]

ALPHA = 0.5
KINDS = ("conv", "depthwise", "batch norm", "relu", "hard swish", "add", "pool", "dense")


@dataclass(frozen=True)
class TimedOperator:
    """One operator of a network.

    Attributes:
        kind: of `KINDS`.
        size: height and width of its output (pixels).
        channels_in: channels of its input.
        channels_out: channels of its output.
        window: height and width of its window (pixels).
    """

    kind: str
    size: int
    channels_in: int
    channels_out: int
    window: int = 1

    @property
    def multiply_adds(self) -> float:
        """Multiply-adds; one an element for what has no weights."""
        outputs = float(self.size**2 * self.channels_out)
        if self.kind == "conv":
            return outputs * self.channels_in * self.window**2
        if self.kind == "depthwise" or self.kind == "pool":
            return outputs * self.window**2
        if self.kind == "dense":
            return float(self.channels_in * self.channels_out)
        return outputs

    @property
    def moved(self) -> float:
        """Numbers read and written, weights and activations."""
        weights = {"conv": self.channels_in * self.window**2, "depthwise": self.window**2, "dense": self.channels_in}.get(self.kind, 0)
        return float(self.size**2 * (self.channels_in + self.channels_out) + weights * self.channels_out)


def chain(operators: Sequence[TimedOperator]) -> nx.DiGraph:
    """A network of operators one after the other; nodes are numbers, each with its `operator`."""
    graph = nx.DiGraph()
    for number, operator in enumerate(operators):
        graph.add_node(number, operator=operator)
        if number:
            graph.add_edge(number - 1, number)
    return graph


def probe(kind: str, size: int = 28, channels: int = 64) -> TimedOperator:
    """The operator that stands for its kind in test cases."""
    return TimedOperator(kind, 1 if kind == "dense" else size, channels, channels, 3 if kind in ("conv", "depthwise", "pool") else 1)


def fusion_rules(timer: Timer, kinds: Sequence[str] = KINDS, alpha: float = ALPHA, repeats: int = 5) -> dict[tuple[str, str], bool]:
    """Which pairs of kinds a device fuses, by timing each kind by itself and each pair.

    Args:
        repeats: timings of each test case, of which the median counts.
        timer: latency of a network on the device, the black box.
        alpha: share of the faster operator that must be saved.
    """

    def median(operators: Sequence[TimedOperator]) -> float:
        return float(np.median([timer(chain(operators)) for _ in range(repeats)]))

    alone = {kind: median([probe(kind)]) for kind in kinds}
    rules = {}
    for first in kinds:
        for second in kinds:
            saved = alone[first] + alone[second] - median([probe(first), probe(second)])
            rules[first, second] = saved > alpha * min(alone[first], alone[second])
    return rules


def kernels(graph: nx.DiGraph, rules: Mapping[tuple[str, str], bool]) -> list[tuple[int, ...]]:
    """The kernels of a network: from each operator, in order, fuse on along single edges while the rules allow.

    A result that is read twice ends its kernel, since it has to be written out.
    """
    kernel_of: dict[int, int] = {}
    groups: list[list[int]] = []
    for node in nx.topological_sort(graph):
        joined = None
        for before in sorted(graph.predecessors(node)):
            pair = (graph.nodes[before]["operator"].kind, graph.nodes[node]["operator"].kind)
            last = groups[kernel_of[before]][-1] == before
            if joined is None and last and graph.out_degree(before) == 1 and rules.get(pair, False):
                joined = kernel_of[before]
        if joined is None:
            groups.append([])
            joined = len(groups) - 1
        groups[joined].append(node)
        kernel_of[node] = joined
    return [tuple(group) for group in groups]


def kernel_name(graph: nx.DiGraph, nodes: Sequence[int]) -> str:
    """Kinds of a kernel's operators, joined."""
    return "-".join(graph.nodes[node]["operator"].kind for node in nodes)


def kernel_features(graph: nx.DiGraph, nodes: Sequence[int]) -> list[float]:
    """Features of a kernel: shapes of its first operator, and work and traffic of all, as logarithms."""
    operators = [graph.nodes[node]["operator"] for node in nodes]
    first = operators[0]
    work, moved = sum(o.multiply_adds for o in operators), first.moved
    return [
        float(v) for v in (first.size, first.channels_in, first.channels_out, first.window, np.log(work), np.log(moved), len(operators))
    ]


@dataclass(frozen=True)
class AdditivePredictor:
    """One forest a kind of kernel; a network takes the sum.

    Attributes:
        rules: fusion rules that networks are cut by.
        forests: by kernel name; each predicts the logarithm of the latency.
    """

    rules: Mapping[tuple[str, str], bool]
    forests: Mapping[str, RandomForestRegressor]

    def predict(self, graphs: Sequence[nx.DiGraph]) -> Floats:
        """Latency of each network: the sum over its kernels; a kernel that was never sampled counts as its operators one by one.

        Each forest is asked once, about all kernels of its kind: a forest's answer costs milliseconds however few rows it is about.
        """
        asked: dict[str, list[list[float]]] = {}
        places: list[list[tuple[str, int]]] = []
        for graph in graphs:
            here = []
            for nodes in kernels(graph, self.rules):
                parts = [nodes] if kernel_name(graph, nodes) in self.forests else [(node,) for node in nodes]
                for part in parts:
                    name = kernel_name(graph, part)
                    if name in self.forests:
                        rows = asked.setdefault(name, [])
                        here.append((name, len(rows)))
                        rows.append(kernel_features(graph, part))
            places.append(here)
        answers = {name: np.exp(self.forests[name].predict(rows)) for name, rows in asked.items()}
        return np.array([sum(float(answers[name][row]) for name, row in here) for here in places])


def fit_additive(
    timer: Timer, rules: Mapping[tuple[str, str], bool], networks: Sequence[nx.DiGraph], samples: int, seed: int, trees: int = 60
) -> AdditivePredictor:
    """Sample kernels as they occur in networks, vary their shapes, time each by itself, and fit a forest for each kind."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[list[TimedOperator]]] = {}
    for graph in networks:
        for nodes in kernels(graph, rules):
            for part in [nodes, *[(node,) for node in nodes]]:
                found.setdefault(kernel_name(graph, part), []).append([graph.nodes[node]["operator"] for node in part])
    forests = {}
    for name in sorted(found):
        rows, targets = [], []
        for _ in range(samples):
            template = found[name][int(rng.integers(len(found[name])))]
            scale = rng.choice([0.5, 0.75, 1.0, 1.25, 1.5], 2)
            varied = [
                TimedOperator(o.kind, o.size, max(round(o.channels_in * scale[0]), 1), max(round(o.channels_out * scale[1]), 1), o.window)
                for o in template
            ]
            case = chain(varied)
            rows.append(kernel_features(case, range(len(varied))))
            targets.append(np.log(timer(case)))
        forests[name] = RandomForestRegressor(trees, random_state=seed, n_jobs=1).fit(rows, targets)
    return AdditivePredictor(rules, forests)


@dataclass
class SimulatedDevice:
    """A black box with fusion rules of its own, which the methods above may only time.

    Attributes:
        fused: pairs of kinds that it fuses.
        rate: multiply-adds a second.
        bandwidth: numbers moved a second.
        launch_s: cost of starting a kernel.
        overlap: share of a kernel's time that hides behind the kernel before it; nothing additive can see this.
        noise: spread of a timing, as a share.
        seed: of the noise.
    """

    fused: frozenset[tuple[str, str]]
    rate: float = 2e10
    bandwidth: float = 4e9
    launch_s: float = 2e-5
    overlap: float = 0.0
    noise: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        """Begin the noise."""
        self._random = np.random.default_rng(self.seed)

    def truth(self, graph: nx.DiGraph) -> float:
        """Latency without noise: each fused group reads once, writes once, and takes the longer of work and traffic (s)."""
        rules = dict.fromkeys(self.fused, True)
        total, previous = 0.0, 0.0
        for nodes in kernels(graph, rules):
            operators = [graph.nodes[node]["operator"] for node in nodes]
            work = sum(o.multiply_adds for o in operators) / self.rate
            kernel = self.launch_s + max(work, operators[0].moved / self.bandwidth)
            total += kernel - self.overlap * min(kernel, previous)
            previous = kernel
        return total

    def __call__(self, graph: nx.DiGraph) -> float:
        """One timing (s)."""
        return self.truth(graph) * float(np.exp(self.noise * self._random.standard_normal()))


def made_up_network(rng: np.random.Generator) -> nx.DiGraph:
    """A convolutional network in the style of mobile ones: convolution, normalization and activation, some with a shortcut."""
    graph, node, size, channels = nx.DiGraph(), 0, 112, int(rng.choice([16, 24, 32]))

    def add(operator: TimedOperator, *before: int) -> int:
        nonlocal node
        graph.add_node(node, operator=operator)
        graph.add_edges_from((b, node) for b in before)
        node += 1
        return node - 1

    last = add(TimedOperator("conv", size, 3, channels, 3))
    last = add(TimedOperator("batch norm", size, channels, channels), last)
    last = add(TimedOperator("relu", size, channels, channels), last)
    for _ in range(int(rng.integers(4, 9))):
        if size > 7 and rng.random() < 0.5:
            size //= 2
        wide, out = channels * int(rng.choice([1, 3, 6])), int(channels * rng.choice([1, 1, 1.5]))
        activation, window, start = str(rng.choice(["relu", "hard swish"])), int(rng.choice([3, 5])), last
        for kind, into, onto, w in (("conv", channels, wide, 1), ("depthwise", wide, wide, window), ("conv", wide, out, 1)):
            last = add(TimedOperator(kind, size, into, onto, w), last)
            last = add(TimedOperator("batch norm", size, onto, onto), last)
            if onto == wide:
                last = add(TimedOperator(activation, size, onto, onto), last)
        if out == channels and graph.nodes[start]["operator"].size == size:
            last = add(TimedOperator("add", size, out, out), last, start)
        channels = out
    last = add(TimedOperator("pool", 1, channels, channels, size), last)
    add(TimedOperator("dense", 1, channels, 1000), last)
    return graph
