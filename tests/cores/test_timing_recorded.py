"""The timing model beside gem5 24.0.0.1 (data/recorded/gem5: three programs, five designs, retire cycles on 8w)."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import spearmanr

from analysis.cores.riscv.elf import Program, read_elf
from analysis.cores.riscv.emulator import trace_program
from analysis.cores.riscv.trace import Trace
from analysis.cores.timing.designs import TABLE_4, load_design
from analysis.cores.timing.simulation import Timing, simulate
from analysis.paths import DATA
from analysis.studies.cores.recorded_retirement import NOT_RECORDED, align
from analysis.tables import read_csv

RECORDED = DATA / "recorded" / "gem5"
PROGRAMS = ("json", "matmul", "sort")
GEM5 = read_csv(RECORDED / "ipc.csv").set_index(["program", "design"])


@cache
def program(name: str) -> tuple[Trace, Program]:
    path = RECORDED / f"{name}.elf"
    return trace_program(path, 1_000_000)[0], read_elf(path)


@cache
def timing(name: str, design: str) -> Timing:
    trace, executable = program(name)
    return simulate(trace, load_design(design), executable)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("design", TABLE_4)
def test_cycles_near_gem5(name: str, design: str) -> None:
    # ipc.csv: cycles of the first 1,000,000 instructions; the worst of the fifteen is sort on 4w+mem, 0.6 %
    assert timing(name, design).cycles == pytest.approx(GEM5.loc[(name, design), "cycles"], rel=0.01)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("design", TABLE_4)
def test_counters_near_gem5(name: str, design: str) -> None:
    """Misses and mispredictions; loads on the wrong path have the addresses of their stride, not their own."""
    found, recorded = timing(name, design), GEM5.loc[(name, design)]
    assert found.misses["l2"] == pytest.approx(recorded["l2_misses"], rel=0.03)
    assert found.misses["l1d"] == pytest.approx(recorded["l1d_misses"], rel=0.05)
    assert abs(found.misses["l1i"] - recorded["l1i_misses"]) <= 10
    assert found.mispredictions == pytest.approx(recorded["branch_mispredicts"], rel=0.015)


def test_programs_and_designs_ranked_as_gem5_ranks_them() -> None:
    """Over all fifteen runs, and over the programs within each design, two of which are within 1.2 % of each other on one."""
    groups = [[(name, design) for name in PROGRAMS] for design in TABLE_4]
    for runs in (*groups, [run for group in groups for run in group]):
        assert spearmanr([timing(*run).ipc for run in runs], [GEM5.loc[run, "ipc"] for run in runs]).statistic >= 0.95


def test_designs_ordered_as_gem5_orders_them() -> None:
    right = clear = 0
    for name in PROGRAMS:
        for one, other in combinations(TABLE_4, 2):
            recorded = GEM5.loc[(name, one), "ipc"] / GEM5.loc[(name, other), "ipc"]
            if abs(recorded - 1) > 0.02:
                clear += 1
                right += (timing(name, one).ipc > timing(name, other).ipc) == (recorded > 1)
    assert clear >= 15
    assert right / clear >= 0.9


@pytest.mark.parametrize(("name", "tolerance", "same"), [("sort", 1, 0.9999), ("matmul", 100, 0.9998), ("json", 150, 0.984)])
def test_retire_cycles_follow_gem5(name: str, tolerance: int, same: float) -> None:
    """retire_*_8w.csv.gz, 70,000 cycles: sort to the cycle over 99,997 instructions; matmul apart at two cold misses at the start only.

    Between two instructions lie as many cycles as in gem5 for all but one in 10,000 (sort), 5,000 (matmul), 60 (json).
    """
    trace, executable = program(name)
    recorded = align(trace, RECORDED / f"retire_{name}_8w.csv.gz")
    found = simulate(trace.slice(0, 110_000), load_design("8w"), executable).retire_cycle[: len(recorded)]
    known = recorded != NOT_RECORDED
    assert known.sum() > 99_900
    assert np.abs(found[known] - recorded[known]).max() <= tolerance
    assert (np.diff(found[known]) == np.diff(recorded[known])).mean() >= same
