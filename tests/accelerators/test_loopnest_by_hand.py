"""Layers, meshes and bandwidths small enough to count by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.accelerators.loopnest.architecture import Architecture, Axis, Level, read_architecture
from analysis.accelerators.loopnest.evaluation import Slowdown, evaluate, report, statistics
from analysis.accelerators.loopnest.layer import read_layer
from analysis.accelerators.loopnest.mapping import Loop, Mapping, lay_out, mapping_yaml, read_mapping
from analysis.accelerators.loopnest.problem import Problem, batched_matmul, convolution, matmul, problem_of
from analysis.accelerators.loopnest.reuse import Lanes, place_lanes
from analysis.accelerators.loopnest.tables import tables
from analysis.errors import InputError
from analysis.paths import DATA, EXAMPLES
from tests.golden import answer, kept

RECORDED = DATA / "recorded" / "timeloop"

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


def _problems() -> dict[str, Problem]:
    return {
        "reference": read_layer(EXAMPLES / "loopnest" / "layer.yaml")
        if (EXAMPLES / "loopnest" / "layer.yaml").exists()
        else matmul(m=8, n=8, k=8),
        "conv": convolution(n=1, c=3, m=32, p=112, q=112, r=3, s=3, stride=2),
    }


def test_every_recorded_mapping_in_full() -> None:
    """Accesses, energy, cycles and slowdown of the recorded mapping, and of designs with leaks, ports and blocks of other sizes: the counts
    agree with Timeloop's recorded ones in test_loopnest_recorded.py."""
    base = read_architecture(RECORDED / "architecture.yaml")
    mapping, layer = read_mapping(RECORDED / "mappings" / "refmodel.yaml", base), _problems()["conv"]
    found: dict[str, Any] = {"architecture": base, "mapping": mapping, "yaml": mapping_yaml(mapping, base, "r").split("\n")}
    glb = base.levels[1]
    designs = {
        "as recorded": {},
        "slow": {"read_bandwidth": 0.5},
        "slow writes": {"write_bandwidth": 0.25},
        "one port": {"shared_bandwidth": 0.75, "read_bandwidth": None},
        "blocks": {"block_words": 4},
        "leaks": {"leak_energy_j": 1e-12},
    }
    for name, change in designs.items():
        made = replace(base, levels=(base.levels[0], replace(glb, **change), *base.levels[2:]))
        one = evaluate(layer, made, mapping)
        found[name] = report(one)
        found[f"{name} accesses"] = [[a.tensor, a.level, statistics(a)] for a in one.accesses]
    found["too small"] = answer(
        lambda: evaluate(layer, replace(base, levels=(base.levels[0], replace(glb, capacity_words=100), *base.levels[2:])), mapping).cycles
    )
    found["tables"] = tables(layer, base)
    kept("loopnest", found)


LOOPS = """run: r
loops:
  - {at: DRAM, dim: P, bound: 112}
  - {at: DRAM, dim: Q, bound: 112}
  - {at: DRAM, dim: M, bound: 32}
  - {at: DRAM, dim: C, bound: 3}
  - {at: spatial_Y, dim: S, bound: 3, spatial: Y}
  - {at: weights_spad, dim: R, bound: 3}
"""


def test_files_of_ours_at_their_edges(tmp_path: Path) -> None:
    """Designs, layers and mappings: each value that is refused, with file, line and key."""
    text = (RECORDED / "architecture.yaml").read_text()
    found: dict[str, Any] = {}
    designs = {
        "as it is": ("", ""),
        "count": ("count: 168", "count: 167"),
        "count 0": ("count: 168", "count: 0"),
        "mesh": ("mesh: [14, 12]", "mesh: [14]"),
        "instances": ("ifmap_spad,   instances: 168", "ifmap_spad,   instances: 167"),
        "depth 0": ("depth: 12,", "depth: 0,"),
        "width": ("width_bits: 16, word_bits: 16", "width_bits: 8, word_bits: 16"),
        "keeps": ("keeps: [Weights]", "keeps: [Weight]"),
        "port 0": ("read_bandwidth: 16", "read_bandwidth: 0"),
        "energy": ("read: 18.183829", "read: -1"),
        "another key": ("depth: 16384", "dept: 16384"),
        "axis": ("X: {size: 14, between: [shared_glb, column]}", "X: {size: 14, between: [glb, column]}"),
        "size": ("size: 12", "size: 13"),
        "rule": ("DRAM:            {permutation_innermost: N}", "DRUM:            {permutation_innermost: N}"),
        "dimension": ("factor_one: [N, P, Q, R]", "factor_one: [N, P, Q, X]"),
        "twice": ("name: psum_spad", "name: ifmap_spad"),
    }
    for name, (old, new) in designs.items():
        assert old in text
        (tmp_path / "a.yaml").write_text(text.replace(old, new) if old else text)
        found[f"design {name}"] = answer(lambda: len(read_architecture(tmp_path / "a.yaml").levels), tmp_path)
    base = read_architecture(RECORDED / "architecture.yaml")
    loops = {
        "as it is": ("", ""),
        "level": ("at: weights_spad", "at: weights"),
        "dim": ("dim: M", "dim: X"),
        "bound 0": ("bound: 32", "bound: 0"),
        "no axis": (", spatial: Y", ""),
        "other axis": ("spatial: Y", "spatial: X"),
        "axis of a level": ("dim: P, bound: 112", "dim: P, bound: 112, spatial: Y"),
        "order": ("at: DRAM, dim: P", "at: psum_spad, dim: P"),
    }
    for name, (old, new) in loops.items():
        (tmp_path / "m.yaml").write_text(LOOPS.replace(old, new, 1) if old else LOOPS)
        found[f"mapping {name}"] = answer(lambda: read_mapping(tmp_path / "m.yaml", base), tmp_path)
        found[f"laid out {name}"] = answer(lambda: lay_out(_problems()["conv"], base, read_mapping(tmp_path / "m.yaml", base)), tmp_path)
    layers = (
        "{N: 1, C: 3, M: 32, P: 112, Q: 112, R: 3, S: 3, stride: 2}",
        "{M: 4, N: 5, K: 6}",
        "{kind: matmul, m: 4, n: 5, k: 6}",
        "{N: 0, C: 3, M: 32, P: 112, Q: 112, R: 3, S: 3}",
        "{N: 1, C: 3}",
        "{N: 1, C: 3, M: 32, P: 112, Q: 112, R: 3, S: 3, stride: 0}",
        "[]",
        "{N: 1, C: 3, M: 32, P: 112, Q: 112, R: 3, S: 3, stride: [2, 1], dilation: 2}",
        "{kind: depthwise, N: 1, C: 3, P: 4, Q: 5, R: 3, S: 3}",
    )
    for layer in layers:
        (tmp_path / "l.yaml").write_text(layer + "\n")
        found[f"layer {layer}"] = answer(lambda: read_layer(tmp_path / "l.yaml"), tmp_path)
    kept("loopnest_files", found)
