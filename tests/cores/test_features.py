"""Addresses survive the split bit for bit; distances agree with caches and brute force; features look back only."""

from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from cores.toy_traces import toy_retire, toy_trace
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.compiled import dispatchers as compiled
from analysis.compiled import plain_python
from analysis.cores.riscv.elf import read_elf
from analysis.cores.riscv.emulator import trace_program
from analysis.cores.riscv.trace import NO_REGISTER, Code, OpClass, Trace
from analysis.cores.timing.designs import load_design
from analysis.cores.timing.simulation import simulate
from analysis.paths import EXAMPLES
from analysis.studies.cores.first_order.branch_history import NAMES as SURPRISES
from analysis.studies.cores.first_order.dataflow_limits import limits, load_latencies
from analysis.studies.cores.first_order.reuse import COLD, set_distances, stack_distances
from analysis.studies.cores.learning.corpus import (
    BLOCK,
    TEST,
    TRAIN,
    VALIDATION,
    instructions_of,
    paper_features,
    program,
    register_pairs,
    split_blocks,
)
from analysis.studies.cores.learning.instruction_features import FEATURES, Window, fit_scaling, split_address
from analysis.studies.cores.learning.latency_target import from_log_target, is_long, log_target, retire_latencies
from analysis.studies.cores.learning.program_features import NAMES, LatencyClasses, places, program_features
from analysis.studies.cores.trace_files import read_trace, trace_of, write_trace

CORES = [load_design("4w+mem"), load_design("8w")]
lines = st.lists(st.integers(0, 40), min_size=1, max_size=300)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=50))
def test_the_split_keeps_all_64_bits_in_float32(addresses: list[int]) -> None:
    """NeuroScalar, section 3.1.2: 22 + 22 + 20 bits as fp32 'in order to preserve the entire bit-sequence'."""
    pieces = split_address(np.array(addresses, dtype=np.uint64))
    assert pieces.dtype == np.float32
    low, middle, high = pieces.astype(np.uint64).T
    assert (low | middle << np.uint64(22) | high << np.uint64(44)).tolist() == addresses


def test_a_whole_address_would_not_survive_in_float32() -> None:
    address = np.array([2**24 + 1], dtype=np.uint64)
    assert address.astype(np.float32).astype(np.uint64)[0] != address[0]
    assert split_address(address).tolist() == [[1.0, 4.0, 0.0]]


def test_thirteen_features_in_the_papers_order() -> None:
    """Six properties, 13 numbers: 3 for the PC, opclass, 3 for the address, class and number of three registers (section 3)."""
    assert len(FEATURES) == 13
    trace = trace_of([0x10000000004], [OpClass.MEM_READ], [(1 << 44) + 5], [[2, 33, NO_REGISTER]], [NO_REGISTER], [8], [4], 0x10000000008)
    assert paper_features(trace).tolist() == [[4, 1 << 18, 0, OpClass.MEM_READ, 5, 0, 1, 0, 2, 1, 1, 2, 0]]
    assert register_pairs(np.array([0, 31, 32, 63, NO_REGISTER], np.uint8)).tolist() == [[0, 0], [0, 31], [1, 0], [1, 31], [2, 0]]


@given(st.integers(1, 64), st.integers(1, 64), st.integers(0, 500), st.integers(1, 500))
def test_windows_tile_their_targets(length: int, target: int, first: int, size: int) -> None:
    """Equation 1: C = L - T, floor(C / 2) on the left and the rest on the right."""
    window = Window(max(length, target), target)
    assert window.left + target + window.right == window.length
    assert window.left == (window.length - target) // 2
    starts = window.starts(first, first + size)
    tiled = (starts[:, None] + window.left + np.arange(target)).ravel()
    assert tiled.tolist() == list(range(first, first + size // target * target))


def test_a_target_longer_than_the_window_is_refused() -> None:
    with pytest.raises(ValueError, match="1 to 8"):
        Window(8, 9)


def test_scaling_is_the_training_sets() -> None:
    features = np.array([[1, 5], [3, 5]], np.float32)
    scaling = fit_scaling(features)
    assert ((features - scaling.mean) / scaling.deviation).tolist() == [[-1, 0], [1, 0]]


@settings(deadline=None)
@given(st.lists(st.integers(0, 3000), min_size=1, max_size=100))
def test_latencies_sum_to_the_cycles_of_the_run(steps: list[int]) -> None:
    """Section 4.4: cycles elapsed since the previous instruction retired."""
    cycles = np.cumsum(steps)
    latency = retire_latencies(cycles)
    assert latency.sum() == cycles[-1]
    padded = np.resize(latency, 100)  # one length: compiled once
    assert np.allclose(from_log_target(log_target(padded)), np.minimum(padded, 1000), atol=1e-3, rtol=1e-5)
    assert (is_long(padded) == (padded > 10)).all()
    classes = LatencyClasses()
    place = classes.of(latency)
    assert (classes.edges[place] <= latency).all()
    assert np.isclose(classes.means(latency)[place].sum(), latency.sum(), rtol=1e-5)
    assert (classes.edges[:10] == np.arange(10)).all()


def test_a_retirement_out_of_order_is_refused() -> None:
    with pytest.raises(ValueError, match="instruction 2"):
        retire_latencies(np.array([1, 5, 4]))


@settings(deadline=None)
@given(lines)
def test_stack_distance_is_the_number_of_other_lines_between(touched: list[int]) -> None:
    got = stack_distances(np.array(touched, np.int64), 41)
    for i, line in enumerate(touched):
        before = [k for k in range(i) if touched[k] == line]
        assert got[i] == (len(set(touched[before[-1] + 1 : i])) if before else COLD)


@settings(deadline=None)
@given(lines, st.integers(0, 3), st.integers(1, 4))
def test_distances_say_for_every_cache_whether_it_hits(touched: list[int], set_bits: int, ways: int) -> None:
    """Mattson 1970; Hill and Smith 1989: an LRU cache of that many ways hits exactly below its distance."""
    distance = set_distances(np.array(touched, np.int64), set_bits, 9)
    cache: dict[int, OrderedDict[int, None]] = {}
    for i, line in enumerate(touched):
        held = cache.setdefault(line % (1 << set_bits), OrderedDict())
        assert (line in held) == (distance[i] < ways)
        held[line] = None
        held.move_to_end(line)
        if len(held) > ways:
            held.popitem(last=False)


def test_a_chain_waits_and_independent_instructions_do_not() -> None:
    n = 50
    latency, none = np.full(n, 3, np.int64), np.full(n, -1, np.int64)
    chain = np.tile(np.array([5, 255, 255], np.uint8), (n, 1))
    free = np.full((n, 3), 255, np.uint8)
    five, quiet = np.full(n, 5, np.uint8), np.zeros(n, np.uint8)
    assert limits(latency, chain, five, none, quiet, 0, False)[:, 0].tolist() == [3] * n
    assert limits(latency, free, five, none, quiet, 0, False)[:, 0].sum() == 3
    assert limits(latency, free, five, none, quiet, 10, False)[:, 0].sum() == 3 * n // 10
    surprising = np.ones(n, np.uint8)
    assert limits(latency, free, five, none, surprising, 0, True)[:, 0].tolist() == [3] * n
    assert load_latencies(np.array([0, 64, 128, COLD])).tolist() == [4, 4, 12, 128]


def test_what_repeats_is_predictable_and_what_is_random_is_not() -> None:
    """A loop of eight turns: its exit has a history; a coin has none (Yeh and Patt 1991)."""
    turns = 2000
    coin = np.random.default_rng(0).random(turns) < 0.5
    pcs, ops = [], []
    for turn in range(turns):
        pcs += [0, 4] if not coin[turn] else [0]
        ops += [OpClass.BRANCH, OpClass.INT_ALU] if not coin[turn] else [OpClass.BRANCH]
        pcs.append(8)
        ops.append(OpClass.INT_ALU)
    random_branch = trace_of(
        pcs, ops, np.zeros(len(pcs)), np.full((len(pcs), 3), 255), np.full(len(pcs), 255), np.zeros(len(pcs)), np.full(len(pcs), 4), 12
    )
    wrong = program_features(random_branch, CORES).numbers[:, [NAMES.index(name) for name in SURPRISES]]
    share = wrong[np.array(ops) == OpClass.BRANCH].mean(axis=0)
    assert np.abs(share[:4] - 0.5).max() < 4.5 * 0.5 / turns**0.5  # nobody can do better than a coin, or worse
    pcs = ([0, 4] * 8 + [8]) * 400
    ops = ([OpClass.INT_ALU, OpClass.BRANCH] * 8 + [OpClass.JUMP]) * 400
    loop = trace_of(
        pcs, ops, np.zeros(len(pcs)), np.full((len(pcs), 3), 255), np.full(len(pcs), 255), np.zeros(len(pcs)), np.full(len(pcs), 4), 0
    )
    wrong = program_features(loop, CORES).numbers[:, [NAMES.index(name) for name in SURPRISES]][np.array(ops) == OpClass.BRANCH][800:]
    bias, by_global, by_local, either, _ = wrong.mean(axis=0)
    assert 0.1 < bias < 0.3
    assert by_global == by_local == either == 0


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.integers(50, 900))
def test_features_look_back_only(seed: int, cut: int) -> None:
    """Features of the first instructions do not change when the trace goes on (its last branch aside)."""
    trace = toy_trace(1000, seed)
    whole, part = program_features(trace, CORES), program_features(trace.slice(0, cut), CORES)
    targets = [NAMES.index(name) for name in NAMES if name != "target_wrong"]
    assert np.array_equal(whole.numbers[: cut - 1, targets], part.numbers[: cut - 1, targets])
    assert np.array_equal(whole.step[: cut - 1], part.step[: cut - 1])
    assert np.isfinite(whole.numbers).all() and np.abs(whole.numbers).max() <= 1.25


@given(st.integers(1, 100_000), st.integers(0, 100))
def test_every_instruction_is_in_one_part(instructions: int, seed: int) -> None:
    part = split_blocks(instructions, seed)
    assert len(part) == -(-instructions // BLOCK)
    masks = [instructions_of(part, which, instructions) for which in (TRAIN, VALIDATION, TEST)]
    assert (np.sum(masks, axis=0) == 1).all()
    if len(part) >= 10:
        assert abs((part == TEST).mean() - 0.15) <= 0.1


def test_a_program_holds_latencies_of_each_design() -> None:
    trace = toy_trace(500, 1)
    retire = toy_retire(trace)
    one = program("toy", trace, retire, CORES)
    assert one.latency.sum(axis=0).tolist() == retire[-1].tolist()
    assert one.raw.shape == (500, 13) and one.features.numbers.shape == (500, len(NAMES))


def test_a_place_is_the_code_not_its_address_or_how_the_trace_was_stored(tmp_path: Path) -> None:
    trace = toy_trace(300, 5)
    moved = trace_of(
        trace.pc + np.uint64(0x4000),
        trace.opclass,
        trace.address,
        trace.sources,
        trace.destination,
        trace.size,
        np.full(300, 4),
        trace.end_pc,
    )
    write_trace(trace, tmp_path / "t.npz")
    assert np.array_equal(places(trace), places(moved))
    assert np.array_equal(places(trace), places(read_trace(tmp_path / "t.npz")))
    padding = Code(*(np.append(column, column[:1], axis=0) for column in vars(trace.code).values()))
    assert np.array_equal(places(trace), places(Trace(padding, trace.index, trace.address, trace.end_pc)))
    assert len(np.unique(places(trace))) > 10


@pytest.mark.parametrize("design", ["8w", "lsq", "4w+mem"])
def test_few_instructions_in_plain_python_are_timed_and_modelled_as_in_compiled_code(design: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, _ = trace_program(EXAMPLES / "core" / "program.elf", 1200)
    program, core, found = read_elf(EXAMPLES / "core" / "program.elf"), load_design(design), []
    for chosen in (
        lambda function, *_, **__: function,
        lambda function, *_, **__: lambda *arguments: plain_python.run_plain(function.plain, arguments),
    ):
        monkeypatch.setattr(compiled._Outer, "chosen", chosen)
        timed, features = simulate(trace, core, program), program_features(trace, [core])
        found.append(
            [np.asarray(value).tobytes() for value in (*vars(timed).values(), *vars(features).values()) if not isinstance(value, dict)]
        )
        found[-1].append(repr((timed.accesses, timed.misses)).encode())
    assert found[0] == found[1]
