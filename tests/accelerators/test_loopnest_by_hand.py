"""Layers, meshes and bandwidths small enough to count by hand."""

from dataclasses import replace

import pytest

from analysis.accelerators.loopnest.architecture import Architecture, Axis, Level
from analysis.accelerators.loopnest.evaluation import Slowdown, evaluate
from analysis.accelerators.loopnest.mapping import Loop, Mapping, lay_out
from analysis.accelerators.loopnest.problem import batched_matmul, convolution, matmul, problem_of
from analysis.accelerators.loopnest.reuse import Lanes, place_lanes
from analysis.errors import InputError

KEEPS = ("Weights", "Inputs", "Outputs")


def test_every_kind_of_layer_touches_the_words_of_its_tiles() -> None:
    product = matmul(m=2, n=3, k=4)
    assert product.sizes == {"N": 1, "C": 4, "M": 3, "P": 2, "Q": 1, "R": 1, "S": 1} and product.macs == 24
    attention = batched_matmul(b=2, m=4, n=3, k=5)
    assert attention.macs == 2 * 4 * 3 * 5
    assert [tensor.extents(attention.sizes) for tensor in attention.tensors] == [(2, 5, 3), (2, 4, 5), (2, 4, 3)]
    channels = problem_of("depthwise", {"N": 2, "C": 3, "P": 4, "Q": 5, "R": 2, "S": 3}, stride=(2, 3), dilation=(1, 2))
    assert channels.macs == 2 * 3 * 4 * 5 * 2 * 3
    # windows: 1 + (r - 1) + 2 (p - 1) = 8 rows, 1 + 2 (s - 1) + 3 (q - 1) = 17 columns
    assert [tensor.extents(channels.sizes) for tensor in channels.tensors] == [(3, 2, 3), (2, 3, 8, 17), (2, 3, 5, 4)]
    window = convolution(n=2, c=3, m=6, p=4, q=5, r=2, s=3, stride=2)
    assert [tensor.extents(window.sizes) for tensor in window.tensors] == [(3, 6, 2, 3), (2, 3, 8, 11), (2, 6, 5, 4)]


@pytest.mark.parametrize(("needed", "available", "factor"), [(4.0, 1.0, 0.25), (2.0, 2.0, 1.0), (2.0, 3.0, 1.0), (0.0, 0.0, 1.0)])
def test_a_port_never_speeds_up(needed: float, available: float, factor: float) -> None:
    assert Slowdown("L0", "read", needed, available).factor == factor


def test_the_narrowest_port_sets_the_cycles() -> None:
    """A sum of eight products on one unit: DRAM reads a weight and an input a cycle; half of that halves the speed, all of it does not."""
    problem, mapping = matmul(m=1, n=1, k=8), Mapping((("L0", (Loop("C", 8),)),))
    wide = Architecture("two", (Level("L0", KEEPS), Level("L1", KEEPS)), 1, 0.0)
    free = evaluate(problem, wide, mapping)
    needed = sum(access.reads for access in free.accesses if access.level == "L0") / 8
    assert (free.cycles, free.bound_by, needed >= 2) == (8, "compute", True)

    def limited(outer: float, inner: float | None = None) -> tuple[int, str]:
        levels = (replace(wide.levels[0], read_bandwidth=outer), replace(wide.levels[1], shared_bandwidth=inner))
        found = evaluate(problem, replace(wide, levels=levels), mapping)
        return found.cycles, found.bound_by

    assert limited(needed) == (8, "compute")
    assert limited(needed / 2) == (16, "L0 read")
    assert limited(needed / 2, 0.01)[1] == "L1 shared" and limited(needed / 2, 1e9) == (16, "L0 read")


def test_lanes_lie_in_rows() -> None:
    """Two axes are a mesh, one is a row; loops of bound 1 are gone; more lanes than there are is refused."""
    mesh = Architecture("mesh", (Level("L0", KEEPS, fanout=(Axis("X", 3), Axis("Y", 2))), Level("L1", KEEPS, 6)), 6, 0.0)
    problem = matmul(m=2, n=3, k=4)
    nest = lay_out(
        problem, mesh, Mapping((("L0", (Loop("C", 4), Loop("R", 1))), ("X", (Loop("M", 3),)), ("Y", (Loop("P", 2), Loop("S", 1)))))
    )
    assert nest.physical == ((3, 2), (1, 1))
    assert nest.temporal[0] == (Loop("C", 4),) and nest.spatial[0] == (Loop("M", 3), Loop("P", 2))
    with pytest.raises(InputError, match="4 lanes used, there are 3"):
        lay_out(problem, mesh, Mapping((("L0", (Loop("M", 3), Loop("P", 2))), ("X", (Loop("C", 4),)))))
    inputs = problem.tensors[1]
    assert place_lanes(inputs, (Loop("P", 2),), (1,), (1, 1)) == Lanes(((0, 0, 0, 0), (0, 0, 1, 0)), 2, 1)
    assert place_lanes(inputs, (Loop("P", 2),), (3,), (2, 1)) == Lanes(((0, 0, 0, 0), (0, 0, 3, 0)), 2, 1)
    assert place_lanes(inputs, (Loop("P", 2),), (1,), (1, 2)) == Lanes(((0, 0, 0, 0), (0, 0, 1, 0)), 1, 2)


def test_neighbours_are_up_down_left_and_right() -> None:
    """Two by two, tiles one apart in a row and ten in a column: a step of one feeds from the right, of ten from below."""
    lanes = Lanes(((0,), (1,), (10,), (11,)), 2, 2)
    assert lanes.fed_by_neighbours((1,)) == {0, 2} and lanes.fed_by_neighbours((-1,)) == {1, 3}
    assert lanes.fed_by_neighbours((10,)) == {0, 1} and lanes.fed_by_neighbours((-10,)) == {2, 3}
    assert lanes.fed_by_neighbours((11,)) == frozenset()  # none is fed across the diagonal
    assert lanes.multicast() == {1: 4} and Lanes(((0,), (0,), (1,)), 3, 1).multicast(frozenset({2})) == {2: 1}
