"""Laws of the timing model, on traces made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from analysis.cores.riscv.trace import NO_REGISTER, OpClass, Trace
from analysis.cores.timing.designs import BranchPrediction, Design, Units, load_design
from analysis.cores.timing.simulation import simulate
from analysis.errors import InputError
from analysis.studies.cores.trace_files import trace_of

BASE = load_design("8w")
PERFECT = BASE.model_copy(
    update={
        "branch_prediction": BranchPrediction(kind="perfect"),
        "l1i": BASE.l1i.model_copy(update={"perfect": True}),
        "l1d": BASE.l1d.model_copy(update={"perfect": True}),
        "units": Units(load_store_ports=16),
    }
)
WIDE = PERFECT.model_copy(update={"width": 16, "rob_entries": 1024, "issue_queue_entries": 512})
START_CYCLES = 12  # an instruction fetched from a perfect L1I retires after 2 + 7 cycles
LATENCY = {OpClass.INT_ALU: 1, OpClass.INT_MULT: 3, OpClass.FLOAT_ADD: 2, OpClass.FLOAT_MULT: 4}  # FuncUnitConfig.py


def loop(body: list[tuple[OpClass, int, int]], times: int) -> Trace:
    """A loop of at most 15 instructions (class, destination, source) and a jump back, all in one fetch block."""
    n = len(body) + 1
    opclass = [int(kind) for kind, _, _ in body] + [int(OpClass.JUMP)]
    destination = [to for _, to, _ in body] + [NO_REGISTER]
    sources = [[of, NO_REGISTER, NO_REGISTER] for _, _, of in body] + [[NO_REGISTER] * 3]
    rows = np.tile(np.arange(n), times)
    return trace_of(
        0x10000 + 4 * rows,
        np.array(opclass)[rows],
        np.zeros(len(rows)),
        np.array(sources)[rows],
        np.array(destination)[rows],
        np.zeros(len(rows)),
        np.full(len(rows), 4),
        0x10000,
    )


def critical_path(body: list[tuple[OpClass, int, int]], times: int) -> int:
    ready = dict.fromkeys(range(64), 0)
    for _ in range(times):
        for kind, to, of in body:
            ready[to] = ready.get(of, 0) + LATENCY[kind]
    return max(ready.values())


integer = st.tuples(st.sampled_from([OpClass.INT_ALU, OpClass.INT_MULT]), st.integers(5, 12), st.integers(5, 12))
floating = st.tuples(st.sampled_from([OpClass.FLOAT_ADD, OpClass.FLOAT_MULT]), st.integers(40, 47), st.integers(40, 47))
bodies = st.lists(st.one_of(integer, floating), min_size=1, max_size=15)


@st.composite
def memory_traces(draw: st.DrawFn) -> Trace:
    """Loads, stores, branches and arithmetic with random addresses and outcomes."""
    seed = draw(st.integers(0, 2**32 - 1))
    span = draw(st.sampled_from([1 << 10, 1 << 17, 1 << 22]))
    rng = np.random.default_rng(seed)
    kinds = rng.choice(
        [OpClass.INT_ALU, OpClass.MEM_READ, OpClass.MEM_WRITE, OpClass.INT_MULT, OpClass.BRANCH], 64, p=[0.4, 0.25, 0.1, 0.1, 0.15]
    )
    kinds[-1] = OpClass.JUMP
    rows, at = [], 0
    for _ in range(3000):
        rows.append(at)
        at = 0 if at == 63 else at + (2 if kinds[at] == OpClass.BRANCH and at < 60 and rng.random() < 0.3 else 1)
    row = np.array(rows)
    memory = np.isin(kinds, [OpClass.MEM_READ, OpClass.MEM_WRITE])
    reads = rng.integers(5, 20, (64, 2))
    sources = np.column_stack([reads, np.full(64, NO_REGISTER)])
    destination = np.where(np.isin(kinds, [OpClass.INT_ALU, OpClass.MEM_READ, OpClass.INT_MULT]), rng.integers(5, 20, 64), NO_REGISTER)
    address = np.where(memory[row], 0x100000 + 8 * rng.integers(0, span // 8, len(row)), 0)
    return trace_of(
        0x10000 + 4 * row, kinds[row], address, sources[row], destination[row], memory[row] * 8, np.full(len(row), 4), 0x10000 + 4 * at
    )


def test_nop_stream_runs_at_full_width() -> None:
    nop = (OpClass.INT_ALU, NO_REGISTER, NO_REGISTER)
    units = Units.model_validate({"int_alu": {"count": 16, "latency_cycles": {"int_alu": 1}}})
    for width in (1, 2, 4, 8):
        trace = loop([nop] * 15, 2000)
        design = PERFECT.model_copy(update={"width": width, "units": units})
        assert simulate(trace, design).cycles == pytest.approx(len(trace) / width, abs=40)


def slowest(body: list[tuple[OpClass, int, int]], times: int) -> float:
    """No greedy schedule takes longer: whenever the longest chain waits, all units of its next operation's kind are busy.

    Longest chain + work of each kind / its units, summed over the kinds, + a cycle of fetch for each turn. Oldest first lets what nobody
    waits for go before the chain, so that chain and work do add up.
    """
    units = {OpClass.INT_ALU: 6, OpClass.INT_MULT: 2, OpClass.FLOAT_ADD: 4, OpClass.FLOAT_MULT: 2}
    kinds = [kind for kind, _, _ in body] + [OpClass.INT_ALU]  # the jump
    return critical_path(body, times) + times * (sum(1 / units[kind] for kind in kinds) + 1)


@settings(max_examples=30, deadline=None)
@given(bodies)
@example([(OpClass.FLOAT_MULT, 40, 45), (OpClass.FLOAT_MULT, 42, 45), (OpClass.FLOAT_MULT, 45, 45)])
def test_dataflow_limit(body: list[tuple[OpClass, int, int]]) -> None:
    """Perfect caches and predictor: never faster than the dependences, never slower than a greedy schedule can be."""
    found = simulate(loop(body, 60), WIDE).cycles
    assert critical_path(body, 60) <= found <= slowest(body, 60) + START_CYCLES + 2 * len(body)


def test_a_chain_alone_takes_its_latencies() -> None:
    """Three multiplies of 3 cycles a turn, each of the one before, and adders with nothing to wait for: no cycle more than the chain."""
    body = [(OpClass.INT_MULT, 5, 5), (OpClass.INT_MULT, 5, 5), (OpClass.INT_MULT, 5, 5), (OpClass.INT_ALU, 6, 7)]
    assert simulate(loop(body, 60), WIDE).cycles <= critical_path(body, 60) + START_CYCLES == 60 * 9 + START_CYCLES


LARGER = {
    "width": {"width": 16},
    "rob": {"rob_entries": 384},
    "issue queue": {"issue_queue_entries": 128},
    "load and store queues": {"load_queue_entries": 64, "store_queue_entries": 64},
    "ports": {"units": Units(load_store_ports=4)},
    "data cache": {"l1d": BASE.l1d.model_copy(update={"ways": 4, "size_bytes": 131072})},
    "faster second level": {"l2": BASE.l2.model_copy(update={"tag_cycles": 10, "data_cycles": 10, "response_cycles": 10})},
    "misses in flight": {"l1d": BASE.l1d.model_copy(update={"mshrs": 16})},
    "perfect prediction": {"branch_prediction": BranchPrediction(kind="perfect")},
}


@pytest.mark.parametrize("what", LARGER)
@settings(max_examples=6, deadline=None)
@given(trace=memory_traces())
def test_wider_larger_or_faster_is_not_slower(what: str, trace: Trace) -> None:
    """Tolerance 12 % and 60 cycles: addresses here are random, so that more loads in flight pass more stores and are squashed for it."""
    better: Design = BASE.model_copy(update=LARGER[what])
    assert simulate(trace, better).cycles <= 1.12 * simulate(trace, BASE).cycles + 60


@pytest.mark.parametrize("what", LARGER)
@settings(max_examples=6, deadline=None)
@given(trace=memory_traces())
def test_without_speculation_the_tolerance_is_small(what: str, trace: Trace) -> None:
    """Perfect prediction, loads that wait for older stores: 3 % and 60 cycles, for the order in which misses take their places."""
    calm = BASE.model_copy(update={"branch_prediction": BranchPrediction(kind="perfect"), "memory_speculation": False})
    assert simulate(trace, calm.model_copy(update=LARGER[what])).cycles <= 1.03 * simulate(trace, calm).cycles + 60


@settings(max_examples=10, deadline=None)
@given(memory_traces())
def test_retirement_is_in_order_and_within_width(trace: Trace) -> None:
    found = simulate(trace, BASE)
    assert (np.diff(found.retire_cycle) >= 0).all()
    assert np.bincount(found.retire_cycle).max() <= BASE.width
    assert found.retire_latency.sum() == found.retire_cycle[-1] == found.cycles - 1


def test_same_input_same_output() -> None:
    trace = loop([(OpClass.INT_MULT, 5, 5), (OpClass.INT_ALU, 6, 5)], 300)
    assert (simulate(trace, BASE).retire_cycle == simulate(trace, BASE).retire_cycle).all()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x\nwidht: 4\n", "widht"),
        ("name: x\nwidth: 40\n", "width"),
        ("name: x\nl1d: {size_bytes: 60000, ways: 2, tag_cycles: 2, data_cycles: 2, response_cycles: 2, mshrs: 4}\n", "power of two"),
        ("name: x\nbranch_prediction: {btb_entries: 1000}\n", "power of two"),
        ("name: x\nmemory: {refresh_interval_ps: 0, refresh_ps: 9000000}\n", "at most 8192 cycles"),
    ],
)
def test_bad_designs_are_named(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "design.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        load_design(path)


def test_unknown_design() -> None:
    with pytest.raises(InputError, match=r"known: 4w\+mem, 6w\+ls, 8w, lsq, rob"):
        load_design("5w")
