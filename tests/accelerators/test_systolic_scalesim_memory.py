"""SCALE-Sim's own memory model, faults included: every recorded run with bandwidth given."""

from __future__ import annotations

import pandas as pd
import pytest

from analysis.accelerators.systolic.array import SCALE_SIM_3, count
from analysis.paths import DATA
from analysis.studies.accelerators.systolic.scalesim_memory import scale_sim_drained, scale_sim_memory

RECORDED = DATA / "recorded" / "scale-sim"


def test_recorded_runs_of_both_versions() -> None:
    # data/recorded/scale-sim/README.md: 30 runs of 3.0.0 and 31 of 2.0.2 with 4 KiB SRAMs and 10 words a cycle.
    frame = pd.read_csv(RECORDED / "layers.csv")
    frame = frame[(frame["run_kind"] == "full") & (frame["bw_mode"] == "USER")]
    assert frame["version"].value_counts().to_dict() == {"2.0.2": 31, "3.0.0": 30}
    for row in frame.itertuples():
        shape = (row.M, row.N, row.K, row.array_rows, row.array_cols, row.dataflow)
        got = scale_sim_memory(*shape, row.ifmap_sram_kB * 1024, row.bandwidth, row.version)
        assert got.stall_cycles == row.stall_cycles, row
        reads_and_writes = (got.ifmap_dram_reads, got.filter_dram_reads, got.ofmap_dram_writes)
        assert reads_and_writes == (row.ifmap_dram_reads, row.filter_dram_reads, row.ofmap_dram_writes), row
        assert got.compute_cycles == (row.compute_cycles_reported if row.version == "3.0.0" else row.total_cycles_reported)


def test_other_sizes_and_bandwidths() -> None:
    frame = pd.read_csv(RECORDED / "user_bandwidth.csv")
    assert len(frame) == 40
    for row in frame.itertuples():
        got = scale_sim_memory(row.M, row.N, row.K, row.array_rows, row.array_cols, row.dataflow, row.sram_kib * 1024, row.bandwidth)
        printed = (row.stall_cycles, row.compute_cycles, row.ifmap_dram_reads, row.filter_dram_reads, row.ofmap_dram_writes)
        assert (got.stall_cycles, got.compute_cycles, got.ifmap_dram_reads, got.filter_dram_reads, got.ofmap_dram_writes) == printed, row


def test_writes_with_free_bandwidth() -> None:
    # 43 recorded CALC runs with 64 KiB SRAMs; in nine of them the padding of flushed lines is counted as written.
    frame = pd.read_csv(RECORDED / "layers.csv")
    frame = frame[(frame["run_kind"] == "full") & (frame["bw_mode"] == "CALC")]
    assert len(frame) == 43
    for row in frame.itertuples():
        drained = scale_sim_drained(row.M, row.N, row.K, row.array_rows, row.array_cols, row.dataflow, row.ofmap_sram_kB * 1024)
        assert drained == row.ofmap_dram_writes, row


@pytest.mark.parametrize("dataflow", ["os", "ws", "is"])
def test_demand_rows_are_those_of_the_formula(dataflow: str) -> None:
    # With room and bandwidth for everything nothing stalls, and the last row has the index that the formula gives.
    got = scale_sim_memory(19, 13, 11, 4, 6, dataflow, 1 << 20, 1 << 16)
    assert got.stall_cycles == 0
    assert got.compute_cycles == count(19, 13, 11, 4, 6, dataflow, SCALE_SIM_3).compute_cycles


def test_unknown_version() -> None:
    with pytest.raises(ValueError, match=r"1\.0"):
        scale_sim_memory(1, 1, 1, 1, 1, "os", 1024, 10, "1.0")
