"""The mapper against exhaustive enumeration on small spaces, and against Timeloop's recorded searches."""

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis.__main__ import main as command
from analysis.accelerators.loopnest.architecture import Architecture, Axis, Level, Rule, read_architecture
from analysis.accelerators.loopnest.evaluation import evaluate
from analysis.accelerators.loopnest.fast import count_many, new_work
from analysis.accelerators.loopnest.mapping import Loop, Mapping
from analysis.accelerators.loopnest.problem import Problem, batched_matmul, convolution, matmul, problem_of
from analysis.accelerators.loopnest.tables import tables
from analysis.accelerators.mapper.best_mapping import best_mapping, value_of
from analysis.accelerators.mapper.search import bound_configurations, open_configurations
from analysis.accelerators.mapper.space import build_space, divisors, splits
from analysis.accelerators.timeloop.files import read_constrained
from analysis.compiled import plain_python
from analysis.errors import InputError
from analysis.paths import DATA, EXAMPLES
from tests.accelerators.nest_strategies import to_layout

RECORDED = DATA / "recorded" / "timeloop"
EYERISS = read_architecture(RECORDED / "architecture.yaml")
RUNS = pd.read_csv(RECORDED / "runs.csv").set_index("run")


def with_capacity(design: Architecture, name: str, capacity_words: int) -> Architecture:
    """The same design with another capacity at one level."""
    levels = list(design.levels)
    levels[design.level_index(name)] = replace(levels[design.level_index(name)], capacity_words=capacity_words)
    return replace(design, levels=tuple(levels))


def small_design(draw: st.DrawFn) -> Architecture:
    """Three levels and up to two axes, small buffers, some bypassing, some bandwidth limits."""
    tensors = ("Weights", "Inputs", "Outputs")
    first = draw(st.sampled_from([1, 2, 4]))
    second = draw(st.sampled_from([1, 2, 3]))
    energies = [[draw(st.integers(1, 60)) * 1e-12 for _ in range(3)] for _ in range(3)]
    inner = tuple(draw(st.lists(st.sampled_from(tensors), unique=True)))
    middle = tuple(draw(st.lists(st.sampled_from(tensors), min_size=1, unique=True)))
    capacity = [None, draw(st.sampled_from([8, 16, 40, None])), draw(st.sampled_from([4, 8, None]))]
    bandwidth = draw(st.sampled_from([None, 1.0, 0.5]))
    levels = (
        Level("L0", tensors, 1, None, None, None, None, 1, *energies[0], (Axis("spatial_X", first),)),
        Level(
            "L1",
            middle,
            first,
            capacity[1],
            bandwidth,
            None,
            None,
            draw(st.sampled_from([1, 2])),
            *energies[1],
            (Axis("spatial_Y", second),),
        ),
        Level("L2", inner, first * second, capacity[2], None, None, None, 1, *energies[2]),
    )
    return Architecture("small", levels, first * second, 1e-12)


def small_problem(draw: st.DrawFn) -> Problem:
    kind = draw(st.sampled_from(["convolution", "matmul", "depthwise", "batched"]))
    size = st.sampled_from([1, 2, 3, 4])
    if kind == "matmul":
        return matmul(m=draw(size), n=draw(size), k=draw(size))
    if kind == "batched":
        return batched_matmul(b=draw(st.sampled_from([1, 2])), m=draw(size), n=draw(size), k=draw(st.sampled_from([1, 2])))
    window = {"p": draw(st.sampled_from([2, 3, 4])), "r": draw(st.sampled_from([1, 2, 3])), "stride": draw(st.sampled_from([1, 2]))}
    if kind == "depthwise":
        sizes = {"N": 1, "C": draw(st.sampled_from([1, 2])), "P": window["p"], "Q": 1, "R": window["r"], "S": 1}
        return problem_of("depthwise", sizes, window["stride"])
    return convolution(c=draw(st.sampled_from([1, 2])), m=draw(st.sampled_from([1, 2])), q=draw(st.sampled_from([1, 2])), **window)


@st.composite
def searches(draw: st.DrawFn) -> tuple[Problem, Architecture]:
    return small_problem(draw), small_design(draw)


def lanes_in_the_mappers_order(problem: Problem, loops: list[tuple[str, int]]) -> tuple[Loop, ...]:
    sliding = {d for t in problem.tensors for rank in t.ranks if sum(problem.sizes[x] > 1 for x, _ in rank) > 1 for d, _ in rank}
    names = [d for d, _ in problem.bounds]
    return tuple(Loop(d, b) for d, b in sorted(loops, key=lambda loop: (loop[0] not in sliding, names.index(loop[0])), reverse=True))


def every_mapping(problem: Problem, architecture: Architecture) -> list[Mapping]:
    """All factors at all places, all orders of loops in time; written down without the mapper's code."""
    places = architecture.places
    axes = {axis.name: axis.size for level in architecture.levels for axis in level.fanout}
    per_dimension = []
    for dimension, size in problem.bounds:
        ways = [w for w in itertools.product(*(divisors(size) for _ in places)) if np.prod(w) == size]
        per_dimension.append([(dimension, w) for w in ways])
    found = []
    for ways in itertools.product(*per_dimension):
        at: dict[str, list[tuple[str, int]]] = {place: [(d, w[i]) for d, w in ways if w[i] > 1] for i, place in enumerate(places)}
        if any(np.prod([b for _, b in at[axis]], dtype=int) > size for axis, size in axes.items()):
            continue
        if any(at[level.name] for level in architecture.levels if not level.keeps):
            continue
        orders = []
        for place in places:
            if place in axes:
                orders.append([lanes_in_the_mappers_order(problem, at[place])])
            else:
                orders.append([tuple(Loop(d, b) for d, b in order) for order in itertools.permutations(at[place])])
        for order in itertools.product(*orders):
            found.append(Mapping(tuple(zip(places, order, strict=True))))
            if len(found) > 60_000:
                return []
    return found


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(case=searches(), objective=st.sampled_from(["latency", "energy", "edp"]))
def test_the_proven_optimum_is_the_optimum(case: tuple[Problem, Architecture], objective) -> None:
    problem, architecture = case
    mappings = every_mapping(problem, architecture)
    if not mappings:
        return
    tab, n = tables(problem, architecture), len(mappings)
    layouts = [to_layout(problem, architecture, mapping) for mapping in mappings]
    stacked = [np.stack([getattr(layout, name) for layout in layouts]) for name in ("temporal", "order", "spatial", "lane_order")]
    energy, cycles, over = np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    count_many(tab, problem.macs, *stacked, new_work(tab), energy, cycles, over, np.zeros((n, 3, 3, 5), dtype=np.int64))
    seconds = cycles * architecture.cycle_s
    value = {"latency": seconds, "energy": energy, "edp": energy * seconds}[objective]
    fits = over < 0
    if not fits.any():
        with pytest.raises(InputError, match="no valid mapping"):
            best_mapping(problem, architecture, objective)
        return
    found = best_mapping(problem, architecture, objective)
    assert found.proven
    assert found.value == pytest.approx(value[fits].min(), rel=1e-12)


def test_a_small_search_in_plain_python_is_that_of_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    _, architecture = read_constrained(EXAMPLES / "map" / "arch.yaml", EXAMPLES / "map" / "layer.yaml")
    problem, found = convolution(c=2, m=4, p=7, q=7, r=3, s=3), []
    for in_plain in (False, True):
        for function in (bound_configurations, open_configurations):
            call = partial(lambda of, *arguments: plain_python.run_plain(of.plain, arguments), function) if in_plain else function
            monkeypatch.setattr(function, "chosen", lambda small, call=call: call)
        found.append(replace(best_mapping(problem, architecture, "edp"), cpu_s=0.0))
    assert found[0] == found[1] and found[0].proven


LAYERS = ["c2_c_r1", "c3_c_r1", "c5_c_r1", "conv1_r1", "refmodel", "c4_b_v100", "c2_b_v100"]


def layer_of(run: str) -> Problem:
    row = RUNS.loc[run]
    return convolution(**{d.lower(): int(row[d]) for d in "NCMPQRS"}, stride=int(row["stride"]))


@pytest.mark.parametrize("run", LAYERS)
def test_recorded_layers_are_searched_to_the_end_and_never_worse_than_timeloop(run: str) -> None:
    found = best_mapping(layer_of(run), EYERISS, "edp")
    same_layer = RUNS[RUNS["input"].str[:4] == RUNS.loc[run, "input"][:4]]
    best_recorded = (same_layer["cycles"] * 1e-9 * same_layer["energy_uJ"] * 1e-6).min()
    assert found.proven
    assert found.value <= best_recorded
    assert found.value == pytest.approx(value_of(evaluate(layer_of(run), EYERISS, found.mapping), "edp", EYERISS.cycle_s))


def test_a_space_too_large_is_searched_with_a_seed_and_says_so() -> None:
    exact = best_mapping(layer_of("c3_c_r1"), EYERISS, "edp")
    one, two = (best_mapping(layer_of("c3_c_r1"), EYERISS, "edp", most_configurations=10, seed=3) for _ in range(2))
    assert not one.proven
    assert one.value == two.value
    assert exact.value <= one.value * (1 + 1e-12)
    assert one.value == pytest.approx(value_of(one.evaluation, "edp", EYERISS.cycle_s))


def test_two_threads_give_the_same_answer() -> None:
    one, two = (best_mapping(layer_of("c3_c_r1"), EYERISS, "edp", workers=workers) for workers in (1, 2))
    assert one.value == two.value


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    c=st.sampled_from([4, 8, 16]),
    m=st.sampled_from([8, 12, 32]),
    p=st.sampled_from([6, 7, 14]),
    r=st.sampled_from([1, 3]),
    capacity=st.sampled_from([256, 1024, 4096]),
    level=st.sampled_from(["shared_glb", "weights_spad", "psum_spad"]),
    objective=st.sampled_from(["energy", "edp", "latency"]),
)
def test_a_bigger_buffer_never_raises_the_optimum(c, m, p, r, capacity, level, objective) -> None:
    layer = convolution(c=c, m=m, p=p, q=p, r=r, s=r)
    small = best_mapping(layer, with_capacity(EYERISS, level, capacity), objective)
    large = best_mapping(layer, with_capacity(EYERISS, level, 2 * capacity), objective)
    assert small.proven and large.proven
    assert large.value <= small.value


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    c=st.sampled_from([3, 8, 16]),
    m=st.sampled_from([8, 12, 32]),
    p=st.sampled_from([6, 7, 14]),
    r=st.sampled_from([1, 3]),
    s=st.sampled_from([1, 2]),
)
def test_energy_is_at_least_the_arithmetic_and_one_read_of_each_operand(c, m, p, r, s) -> None:
    layer = convolution(c=c, m=m, p=p, q=p, r=r, s=r, stride=s)
    got = best_mapping(layer, EYERISS, "energy").evaluation
    dram = EYERISS.levels[0]
    # With a stride beyond the filter some inputs are never touched; what is touched is at least P x Q x C.
    inputs = c * max(p, r) * max(p, r)
    once = (layer.tensors[0].size(layer.sizes) + inputs) / dram.block_words * dram.read_energy_j
    assert got.energy_j >= layer.macs * EYERISS.mac_energy_j + once


def test_no_valid_mapping_names_what_kills_it(tmp_path, capsys) -> None:
    layer = layer_of("c5_c_r1")
    with pytest.raises(InputError, match="psum_spad: no valid mapping: the smallest tiles need 1 words, there are 0"):
        best_mapping(layer, with_capacity(EYERISS, "psum_spad", 0))
    stuck = replace(EYERISS, rules=tuple((level.name, Rule(factor_one=("P",))) for level in EYERISS.levels) + EYERISS.rules[2:4])
    with pytest.raises(InputError, match=r"P: no valid mapping: the constraints of .* leave no way to split P = 7"):
        best_mapping(layer, stuck)
    wide = replace(EYERISS, rules=(*EYERISS.rules[3:], ("spatial_X", Rule(factors=(("M", 16),)))))
    with pytest.raises(InputError, match=r"constraints.spatial_X: asks for 16 lanes of M, there are 14"):
        best_mapping(layer, wide)


def test_the_command_prints_a_mapping_that_loopnest_reads(tmp_path, capsys) -> None:
    (tmp_path / "layer.yaml").write_text("C: 16\nM: 32\nP: 14\nQ: 14\nR: 3\nS: 3\n")
    arch = ["--arch", str(RECORDED / "architecture.yaml"), "--layer", str(tmp_path / "layer.yaml")]
    assert command(["map", *arch, "--objective", "energy", "--out", str(tmp_path / "best.yaml")]) == 0
    assert "proven optimum for energy" in capsys.readouterr().err
    assert yaml.safe_load((tmp_path / "best.yaml").read_text())["loops"]
    assert command(["loopnest", *arch, "--mapping", str(tmp_path / "best.yaml"), "--out", str(tmp_path / "out.json")]) == 0


def test_splits_and_spaces_by_hand() -> None:
    assert divisors(12) == (1, 2, 3, 4, 6, 12)
    assert sorted(splits(4, (4, 4))) == [(1, 4), (2, 2), (4, 1)]
    assert splits(4, (4, 1)) == [(4, 1)]
    # 6 splits over two levels in 4 ways and 4 in 3, with no axes: 12 tilings.
    two = Architecture("two", (Level("L0", ("Weights", "Inputs", "Outputs")), Level("L1", ("Weights", "Inputs", "Outputs"))), 1, 0.0)
    assert build_space(matmul(m=6, n=4, k=1), two).tilings == 12
