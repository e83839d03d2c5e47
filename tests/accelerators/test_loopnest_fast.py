"""The compiled evaluator equals the reference path, count by count."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
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


@settings(max_examples=80, deadline=None, derandomize=True)
@given(case=cases(points=4000), leak=st.floats(1e-15, 1e-11), gated=st.booleans())
def test_compiled_leakage_equals_reference(case: tuple[Problem, Architecture, Mapping], leak: float, gated: bool) -> None:
    """Leakage comes on top, and is by hand: joules a cycle times cycles times the instances in use (of the gate, all that belong to it)."""
    problem, architecture, mapping = case
    levels, last = architecture.levels, len(architecture.levels) - 1
    inner = replace(levels[last], leak_energy_j=leak, gate=levels[0].name if gated else "")
    leaky = replace(architecture, levels=(*levels[:last], inner))
    dry, wet = evaluate(problem, architecture, mapping), evaluate(problem, leaky, mapping)
    used = max(a.instances for a in wet.accesses if a.level == inner.name) if any(a.level == inner.name for a in wet.accesses) else None
    if used is not None:
        on = inner.instances if gated and inner.instances > 1 else used
        assert wet.energy_j - dry.energy_j == pytest.approx(leak * wet.cycles * on, rel=1e-6, abs=1e-12 * dry.energy_j)
    energy, cycles, _ = fast(problem, leaky, mapping)
    assert (energy, cycles) == (pytest.approx(wet.energy_j, rel=1e-12), wet.cycles)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(case=cases())
def test_layouts_stand_for_their_mapping(case: tuple[Problem, Architecture, Mapping]) -> None:
    problem, architecture, mapping = case
    back = to_mapping(problem, architecture, to_layout(problem, architecture, mapping))
    assert {p: tuple(l for l in ls if l.bound > 1) for p, ls in mapping.loops} == back.at
