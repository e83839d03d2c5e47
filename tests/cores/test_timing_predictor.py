"""Branch prediction: what gem5's predictor must know and must not, and what TAGE learns that it cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.cores.riscv.trace import NO_REGISTER, OpClass, Trace, trace_of
from analysis.cores.timing.designs import BranchPrediction, Design, Tage, load_design
from analysis.cores.timing.predictor import random_number
from analysis.cores.timing.simulation import predictor_state, simulate
from analysis.cores.timing.tage import fold, history_lengths
from analysis.errors import InputError

BASE = Design(name="base")
TAGE = BASE.model_copy(update={"branch_prediction": BranchPrediction(kind="tage")})


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


def test_tage_learns_a_long_loop_with_a_pattern_behind_it() -> None:
    """A loop of 40 turns, and behind it a branch that is taken two times of three, in a loop.

    The exit is 40 outcomes away, beyond the 11 of the local and the 13 of the global history; the third last outcome of the branch
    behind is 84 away, within TAGE's 130.
    """
    path = []
    for turn in range(600):
        path += [(0x10000, OpClass.INT_ALU), (0x10004, OpClass.BRANCH)] * 40 + [(0x10008, OpClass.BRANCH)]
        path += [(0x1000C, OpClass.INT_ALU)] * (turn % 3 == 0) + [(0x10010, OpClass.JUMP)]
    exits = 300
    assert wrong_branches(path, BASE) >= 0.95 * exits
    assert wrong_branches(path, TAGE) <= 0.05 * exits


def test_tage_learns_what_follows_from_a_distant_branch() -> None:
    """A branch does what another did 20 branches ago; those between are never taken, and the first is random."""
    draw = np.random.default_rng(3)
    path = []
    for _ in range(600):
        skip = bool(draw.integers(2))
        path += [(0x10000, OpClass.BRANCH)] + [(0x10004, OpClass.INT_ALU)] * (not skip)
        path += [(0x10008 + 4 * k, OpClass.BRANCH) for k in range(20)] + [(0x10058, OpClass.BRANCH)]
        path += [(0x1005C, OpClass.INT_ALU)] * (not skip) + [(0x10060, OpClass.JUMP)]
    unknown = 300 / 2  # the first branch of each turn cannot be known
    assert wrong_branches(path, BASE) >= 1.7 * unknown
    assert wrong_branches(path, TAGE) <= 1.3 * unknown


def test_history_lengths_are_geometric() -> None:
    # Seznec and Michaud 2006, section 3.1: L(i) = int(alpha^(i-1) L(1) + 0.5); here 5 to 130 in seven steps
    assert history_lengths(7, 5, 130) == [5, 9, 15, 25, 44, 76, 130]


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.integers(0, 1), min_size=1, max_size=300), st.integers(1, 130), st.integers(3, 12))
def test_folded_history_forgets_what_left_it(outcomes: list[int], length: int, bits: int) -> None:
    """Folded step by step, or from its last `length` outcomes alone: the same."""
    padded = [0] * length + outcomes
    rolling = 0
    for at, entering in enumerate(outcomes):
        rolling = fold(rolling, entering, padded[at], length, bits)
    fresh = 0
    for entering in padded[-length:]:
        fresh = fold(fresh, entering, 0, length, bits)
    assert rolling == fresh


def test_design_with_tage(tmp_path: Path) -> None:
    path = tmp_path / "design.yaml"
    path.write_text("name: x\nbranch_prediction:\n  kind: tage\n  tage: {tables: 5, longest_history: 80}\n")
    assert load_design(path).branch_prediction.tage == Tage(tables=5, longest_history=80)
    path.write_text("name: x\nbranch_prediction:\n  kind: tage\n  tage: {shortest_history: 50, longest_history: 20}\n")
    with pytest.raises(InputError, match="longest_history"):
        load_design(path)
