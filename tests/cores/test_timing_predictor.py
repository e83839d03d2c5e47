"""Branch prediction: what gem5's predictor must know and must not, and what TAGE learns that it cannot."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.cores.designs import Design
from analysis.cores.timing import predictor_state, simulate
from analysis.cores.timing_predictor import random_number
from analysis.cores.trace import NO_REGISTER, OpClass, trace_of

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
