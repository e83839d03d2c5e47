"""The compiled evaluator equals the reference path, count by count."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from analysis.accelerators.loopnest.architecture import Architecture
from analysis.accelerators.loopnest.evaluation import evaluate
from analysis.accelerators.loopnest.fast import count_many, new_work
from analysis.accelerators.loopnest.mapping import Mapping
from analysis.accelerators.loopnest.problem import Problem
from analysis.accelerators.loopnest.tables import tables, to_mapping
from tests.accelerators.nest_strategies import cases, to_layout


def fast(problem: Problem, architecture: Architecture, mapping: Mapping):
    tab, layout = tables(problem, architecture), to_layout(problem, architecture, mapping)
    energy, cycles, overflows = np.zeros(1), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    counts = np.zeros((1, len(architecture.levels), len(problem.tensors), 5), dtype=np.int64)
    stacked = (layout.temporal[None], layout.order[None], layout.spatial[None], layout.lane_order[None])
    count_many(tab, problem.macs, *stacked, new_work(tab), energy, cycles, overflows, counts)
    return energy[0], cycles[0], counts[0]


@settings(max_examples=1500, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(case=cases(points=4000))
def test_compiled_equals_reference(case: tuple[Problem, Architecture, Mapping]) -> None:
    problem, architecture, mapping = case
    expected = evaluate(problem, architecture, mapping)
    energy, cycles, counts = fast(problem, architecture, mapping)
    names = [level.name for level in architecture.levels]
    tensors = [tensor.name for tensor in problem.tensors]
    for a in expected.accesses:
        got = counts[names.index(a.level), tensors.index(a.tensor)]
        assert list(got) == [a.reads, a.fills, a.updates, a.tile_words, a.partition_words], (a.level, a.tensor)
    assert cycles == expected.cycles
    assert energy == pytest.approx(expected.energy_j, rel=1e-12)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(case=cases())
def test_layouts_stand_for_their_mapping(case: tuple[Problem, Architecture, Mapping]) -> None:
    problem, architecture, mapping = case
    back = to_mapping(problem, architecture, to_layout(problem, architecture, mapping))
    assert {p: tuple(l for l in ls if l.bound > 1) for p, ls in mapping.loops} == back.at
