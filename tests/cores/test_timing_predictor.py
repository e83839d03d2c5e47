"""Branch prediction: what gem5's predictor must know and must not, and what it cannot learn."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.cores.riscv.trace import NO_REGISTER, OpClass, Trace
from analysis.cores.timing.designs import Design
from analysis.cores.timing.predictor import random_number
from analysis.cores.timing.simulation import predictor_state, simulate
from analysis.studies.cores.trace_files import trace_of

BASE = Design(name="base")


def test_random_numbers_are_those_of_the_c_library() -> None:
    # glibc, rand() without srand()
    state = predictor_state(BASE)[0]
    assert [random_number(state) for _ in range(3)] == [1804289383, 846930886, 1681692777]


@pytest.mark.parametrize(("depth", "wrong"), [(15, 0), (16, 0), (20, 4), (40, 24)])
def test_return_stack_holds_sixteen(depth: int, wrong: int) -> None:
    """A function that calls itself `depth` deep, again and again: the returns beyond the sixteen last calls are predicted wrongly."""
    times, found = 40, []
    for n in (0, depth):
        pc: list[int] = []
        kind: list[OpClass] = []
        for _ in range(times):
            pc += [0x10000 + 8 * k for k in range(n)] + [0x20000] + [0x10004 + 8 * k for k in reversed(range(n))] + [0x30000]
            kind += [OpClass.CALL] * n + [OpClass.RETURN] * (n > 0) + [OpClass.JUMP] * (n == 0)
            kind += [OpClass.RETURN] * max(0, n - 1) + [OpClass.JUMP] * (n > 0) + [OpClass.JUMP]
        size = len(pc)
        none = np.full(size, NO_REGISTER)
        trace = trace_of(
            np.array(pc), np.array(kind), np.zeros(size), np.full((size, 3), NO_REGISTER), none, np.zeros(size), np.full(size, 4), pc[0]
        )
        found.append(simulate(trace, BASE).mispredictions)
    assert (found[1] - found[0]) / times == pytest.approx(wrong, abs=0.6)


def steps(path: list[tuple[int, OpClass]]) -> Trace:
    """A trace of (address, class) without operands; the next instruction says whether a branch was taken."""
    n = len(path)
    none = np.full(n, NO_REGISTER)
    pc, kind = (np.array([step[k] for step in path]) for k in range(2))
    return trace_of(pc, kind, np.zeros(n), np.full((n, 3), NO_REGISTER), none, np.zeros(n), np.full(n, 4), path[0][0])


def wrong_branches(path: list[tuple[int, OpClass]], design: Design) -> int:
    """Mispredictions of the second half, from the start of a turn on."""
    calm = design.model_copy(update={"wrong_path": False})
    half = len(path) // 2
    while path[half][0] != path[0][0] or path[half - 1][1] != OpClass.JUMP:
        half += 1
    return simulate(steps(path), calm).mispredictions - simulate(steps(path[:half]), calm).mispredictions


@pytest.mark.parametrize(("turns", "share"), [(4, 0.0), (40, 1.0)])
def test_an_exit_is_learnt_within_the_histories(turns: int, share: float) -> None:
    """A loop, and behind it a branch that is taken two times of three: the exit of 40 turns lies beyond the 11 outcomes of the local
    and the 13 of the global history."""
    path = []
    for turn in range(600):
        path += [(0x10000, OpClass.INT_ALU), (0x10004, OpClass.BRANCH)] * turns + [(0x10008, OpClass.BRANCH)]
        path += [(0x1000C, OpClass.INT_ALU)] * (turn % 3 == 0) + [(0x10010, OpClass.JUMP)]
    assert wrong_branches(path, BASE) / 300 == pytest.approx(share, abs=0.05)
