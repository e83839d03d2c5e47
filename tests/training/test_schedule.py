"""The pipeline schedule against its closed form, by hand and as a property."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.errors import InputError
from analysis.studies.training.schedule import bubble_share, makespan_s, simulate
from analysis.training.schedule import task_order


def test_two_stages_by_hand() -> None:
    """Two stages, two microbatches, forward 1, backward 2: B0 runs as soon as stage 1 gives it; ends at (m + p - 1)(f + b) = 9."""
    tasks = simulate([1.0, 1.0], [2.0, 2.0], 2)
    assert [(t.stage, t.phase, t.microbatch, t.start_s) for t in tasks] == [
        (0, "forward", 0, 0.0),
        (0, "forward", 1, 1.0),
        (1, "forward", 0, 1.0),
        (1, "backward", 0, 2.0),
        (0, "backward", 0, 4.0),
        (1, "forward", 1, 4.0),
        (1, "backward", 1, 5.0),
        (0, "backward", 1, 7.0),
    ]
    assert makespan_s(tasks) == 9.0


@given(st.integers(1, 8), st.integers(1, 24), st.floats(0.1, 10), st.floats(0.1, 10))
def test_plain_schedule_is_the_closed_form(stages: int, microbatches: int, forward: float, backward: float) -> None:
    """Narayanan et al. 2021, section 2.2.1: (m + p - 1)(f + b), a bubble of (p - 1) / m of the ideal time."""
    tasks = simulate([forward] * stages, [backward] * stages, microbatches)
    assert makespan_s(tasks) == pytest.approx((microbatches + stages - 1) * (forward + backward), rel=1e-9)
    assert bubble_share(tasks) == pytest.approx((stages - 1) / (microbatches + stages - 1), abs=1e-9)


@given(st.integers(2, 6), st.integers(1, 4), st.integers(2, 4), st.floats(0.1, 10))
def test_interleaved_schedule_is_the_closed_form(stages: int, groups: int, interleave: int, forward: float) -> None:
    """Section 2.2.2: m (f + b) + (p - 1)(f + b) / v, with b = 2 f as for transformers."""
    microbatches = groups * stages
    tasks = simulate([forward] * stages, [2 * forward] * stages, microbatches, interleave)
    each = 3 * forward
    assert makespan_s(tasks) == pytest.approx(microbatches * each + (stages - 1) * each / interleave, rel=1e-9)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 3))
def test_every_pass_runs_once_and_after_what_it_needs(stages: int, groups: int, interleave: int) -> None:
    microbatches = groups * stages
    tasks = simulate([1.0] * stages, [2.0] * stages, microbatches, interleave)
    assert len(tasks) == 2 * stages * interleave * microbatches
    end = {(t.phase, t.chunk * stages + t.stage, t.microbatch): t.end_s for t in tasks}
    for task in tasks:
        depth = task.chunk * stages + task.stage
        if task.phase == "forward" and depth:
            assert task.start_s >= end["forward", depth - 1, task.microbatch]
        if task.phase == "backward":
            assert task.start_s >= end["forward", depth, task.microbatch]
    for stage in range(stages):
        mine = sorted((t.start_s, t.end_s) for t in tasks if t.stage == stage)
        assert all(first[1] <= second[0] + 1e-9 for first, second in itertools.pairwise(mine))


def test_interleaving_needs_whole_groups() -> None:
    with pytest.raises(InputError, match="6 microbatches over 4 stages"):
        task_order(0, 4, 6, 2)
