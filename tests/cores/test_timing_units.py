"""Small kernels whose cycles follow by hand from gem5's rules: latencies, units, forwarding, store sets."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.cores.riscv.trace import NO_REGISTER, OpClass, Trace
from analysis.cores.timing.designs import BranchPrediction, load_design
from analysis.cores.timing.simulation import simulate
from analysis.studies.cores.trace_files import trace_of

BASE = load_design("8w")
IDEAL = BASE.model_copy(
    update={
        "branch_prediction": BranchPrediction(kind="perfect"),
        "l1i": BASE.l1i.model_copy(update={"perfect": True}),
        "l1d": BASE.l1d.model_copy(update={"perfect": True}),
    }
)

# src/cpu/o3/FuncUnitConfig.py (opLat, pipelined, count of the unit) and src/arch/riscv/isa/decoder.isa (class of each instruction)
CLASSES = [
    (OpClass.INT_ALU, 1, True, 6),
    (OpClass.INT_MULT, 3, True, 2),  # mul, mulw, mulh...
    (OpClass.INT_DIV, 20, False, 2),  # div, rem, divu, remuw...
    (OpClass.FLOAT_ADD, 2, True, 4),  # fadd, fsub
    (OpClass.FLOAT_CMP, 2, True, 4),  # feq, flt, fle, fmin, fmax
    (OpClass.FLOAT_CVT, 2, True, 4),  # fcvt, fmv.x.d, fmv.d.x
    (OpClass.FLOAT_MULT, 4, True, 2),
    (OpClass.FLOAT_MULT_ACC, 5, True, 2),  # fmadd, fmsub, fnmadd, fnmsub
    (OpClass.FLOAT_MISC, 3, True, 2),  # fsgnj, fsgnjn, fsgnjx, fclass
    (OpClass.FLOAT_DIV, 12, False, 2),
    (OpClass.FLOAT_SQRT, 24, False, 2),
]
NONE = NO_REGISTER


def loop(body: list[tuple[OpClass, int, int, int, int, int]], times: int, step: int = 0) -> Trace:
    """A loop of (class, destination, source, second source, address, bytes) and a jump back, all in one fetch block.

    Addresses move on by `step` bytes a turn.
    """
    rows = np.tile(np.arange(len(body) + 1), times)
    body = [*body, (OpClass.JUMP, NONE, NONE, NONE, 0, 0)]
    columns = [np.array(column) for column in zip(*body, strict=True)]
    kind, to, one, two, address, size = columns
    sources = np.column_stack([one, two, np.full(len(body), NONE)])
    where = address[rows] + step * (address[rows] > 0) * np.repeat(np.arange(times), len(body))
    return trace_of(0x10000 + 4 * rows, kind[rows], where, sources[rows], to[rows], size[rows], np.full(len(rows), 4), 0x10000)


def cycles_a_turn(body: list[tuple[OpClass, int, int, int, int, int]], times: int = 200) -> float:
    """Cycles a turn of the loop once it runs steadily."""
    retire = simulate(loop(body, times), IDEAL).retire_cycle
    turn = len(body) + 1
    return (retire[turn * (times - 20)] - retire[turn * 60]) / (times - 80)


def register(kind: OpClass, number: int) -> int:
    return number + (32 if OpClass.FLOAT_ADD <= kind <= OpClass.FLOAT_SQRT else 0)


@pytest.mark.parametrize(("kind", "latency", "pipelined", "units"), CLASSES)
def test_a_chain_takes_the_latency_of_each_link(kind: OpClass, latency: int, pipelined: bool, units: int) -> None:
    """inst_queue.cc, scheduleReadyInsts: issued in t, executed and dependents woken in t + latency."""
    at = register(kind, 9)
    assert cycles_a_turn([(kind, at, at, NONE, 0, 0)] * 4) == 4 * latency


@pytest.mark.parametrize(("kind", "latency", "pipelined", "units"), CLASSES)
def test_units_limit_independent_operations(kind: OpClass, latency: int, pipelined: bool, units: int) -> None:
    """fu_pool.cc: a pipelined unit takes one operation a cycle, another (div, sqrt) one every `latency` cycles."""
    body = [(kind, register(kind, 8 + k), register(kind, 30), NONE, 0, 0) for k in range(12)]
    apart = 1 if pipelined else latency
    front_end = 13 / BASE.width
    found = cycles_a_turn(body)
    assert found == pytest.approx(max(12 / units * apart, 2), rel=0.02) or (apart == 1 and found <= max(12 / units, front_end) + 1)


def test_multiply_waits_for_the_unit_of_a_divide() -> None:
    """FuncUnitConfig.py: IntMult and IntDiv share two units; two divides at work hold both until they are done."""
    alone = [(OpClass.INT_DIV, 8, 30, NONE, 0, 0), (OpClass.INT_DIV, 9, 30, NONE, 0, 0)]
    assert cycles_a_turn(alone) == 20
    assert cycles_a_turn([*alone, (OpClass.INT_MULT, 10, 30, NONE, 0, 0), (OpClass.INT_MULT, 11, 30, NONE, 0, 0)]) == 21


def through_memory(stored: int, loaded: int) -> list[tuple[OpClass, int, int, int, int, int]]:
    return [
        (OpClass.MEM_WRITE, NONE, 30, 5, 0x100000, stored),
        (OpClass.MEM_READ, 6, 30, NONE, 0x100000, loaded),
        (OpClass.INT_ALU, 5, 6, NONE, 0, 0),
    ]


@pytest.mark.parametrize("loaded", [8, 4, 1])
def test_a_store_forwards_to_a_load_inside_it(loaded: int) -> None:
    """Store issued in t: the load of its store set issues in t + 1, looks up the store queue in t + 2, has its data in t + 3
    (lsq_unit.cc, read: forwarding takes a cycle), the add executes in t + 4, when the next store issues: 4 cycles a turn."""
    assert cycles_a_turn(through_memory(8, loaded)) == 4


def test_a_load_of_more_than_the_store_waits_until_the_store_is_sent() -> None:
    """Store issued in t, executed t + 1, marked done t + 2, committed t + 3, free to go t + 4, sent t + 5 (commit.cc, iew.cc: a cycle
    each way); the load issues again t + 6, asks the cache t + 7, has its data t + 9 (2 cycles), the add executes t + 10."""
    assert cycles_a_turn(through_memory(4, 8)) == 10


def test_store_sets_are_forgotten_after_so_many_stores_of_any_kind() -> None:
    """store_set.cc, checkClear: insertStore counts every store; after a clearing comes one violation.

    The store of each turn waits for a divide, the load behind it does not; with three other stores a turn, 3,000 turns insert 12,000
    and those that are fetched again after a violation. If only stores with a set counted, there would be one clearing, not six.
    """
    late = [
        (OpClass.INT_DIV, 31, 31, NONE, 0, 0),
        (OpClass.MEM_WRITE, NONE, 31, 5, 0x100000, 8),
        (OpClass.MEM_READ, 6, 30, NONE, 0x100000, 8),
    ]
    other = [(OpClass.MEM_WRITE, NONE, 30, 30, 0x800000 + 16 * k, 8) for k in range(3)]

    def violations(period: int) -> int:
        found = simulate(loop([*late, *other], 3000, 64), IDEAL.model_copy(update={"store_set_clear_period": period}))
        return found.memory_order_violations

    assert violations(250_000) == 1
    assert 1 + 5 <= violations(2000) <= 1 + 7
