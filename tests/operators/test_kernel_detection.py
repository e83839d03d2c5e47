"""Kernel detection: rules of known devices, kernels by hand, sums that are exact where they must be."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.studies.kernels.networks import fusion_detection as detection
from analysis.studies.kernels.networks.fusion_detection import SimulatedDevice, TimedOperator

LIGHT = ("batch norm", "relu", "hard swish", "add")
PAIRS = list(itertools.product(detection.KINDS, LIGHT))


@given(st.sets(st.sampled_from(PAIRS), max_size=8))
@settings(max_examples=20, deadline=None)
def test_without_noise_every_rule_is_found_and_none_invented(fused: set[tuple[str, str]]) -> None:
    device = SimulatedDevice(frozenset(fused), noise=0.0)
    found = {pair for pair, fuses in detection.fusion_rules(device, repeats=1).items() if fuses}
    assert found == fused


def operators(*kinds: str) -> list[TimedOperator]:
    return [TimedOperator(kind, 14, 8, 8) for kind in kinds]


def test_kernels_are_cut_where_no_rule_holds_or_a_result_is_read_twice() -> None:
    """A residual block by hand: conv-bn-relu fuses, the result is also added later, so the next conv begins a kernel."""
    rules = {
        ("conv", "batch norm"): True,
        ("batch norm", "relu"): True,
        ("batch norm", "add"): True,
        ("add", "relu"): True,
        ("relu", "conv"): True,
    }
    graph = detection.chain(operators("conv", "batch norm", "relu", "conv", "batch norm", "add", "relu"))
    assert detection.kernels(graph, rules) == [tuple(range(7))]
    graph.add_edge(2, 5)
    assert detection.kernels(graph, rules) == [(0, 1, 2), (3, 4, 5, 6)]
    assert detection.kernels(graph, {}) == [(i,) for i in range(7)]


@given(st.integers(0, 200), st.booleans())
@settings(max_examples=25, deadline=None)
def test_every_operator_is_in_one_kernel_and_kernels_are_chains(seed: int, fuse: bool) -> None:
    graph = detection.made_up_network(np.random.default_rng(seed))
    groups = detection.kernels(graph, dict.fromkeys(itertools.product(detection.KINDS, repeat=2), fuse))
    assert sorted(node for group in groups for node in group) == sorted(graph)
    assert all(graph.has_edge(a, b) for group in groups for a, b in itertools.pairwise(group))
    assert nx.is_directed_acyclic_graph(graph)


def test_the_sum_over_kernels_is_right_where_kernels_do_not_overlap() -> None:
    rng = np.random.default_rng(5)
    networks = [detection.made_up_network(rng) for _ in range(16)]
    device = SimulatedDevice(frozenset({("conv", "batch norm"), ("batch norm", "relu")}), noise=0.0)
    rules = detection.fusion_rules(device, repeats=1)
    errors = {}
    for name, used in (("kernels", rules), ("operators", {})):
        predictor = detection.fit_additive(device, used, networks[:8], 60, 0, trees=10)
        errors[name] = np.mean(np.abs(predictor.predict(networks[8:]) / [device.truth(graph) for graph in networks[8:]] - 1))
    assert errors["kernels"] < 0.15 and errors["operators"] > 2 * errors["kernels"]


def test_overlap_makes_a_network_faster_than_its_kernels() -> None:
    graph = detection.made_up_network(np.random.default_rng(1))
    one_by_one, overlapping = SimulatedDevice(frozenset()), SimulatedDevice(frozenset(), overlap=0.3)
    alone = sum(one_by_one.truth(detection.chain([graph.nodes[node]["operator"]])) for node in graph)
    assert one_by_one.truth(graph) == pytest.approx(alone)
    assert overlapping.truth(graph) < one_by_one.truth(graph)
