"""Adapters to other tools: reports parsed as they are printed, failures told, recorded comparisons in agreement with our model."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

from analysis.accelerators.systolic.cases import OUTPUTS, predict_cases
from analysis.accelerators.systolic.files import read_design
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.studies.accelerators.peers.environments import run
from analysis.studies.accelerators.peers.scalesim import CASES, CONFIG, parse_reports, predict_case, write_case

# Printed by SCALE-Sim 3.0.0 for M, N, K = 20, 12, 9 on an 8 x 8 array, weight stationary.
COMPUTE = """LayerID, Total Cycles (incl. prefetch), Total Cycles, Stall Cycles, Overall Util %, Mapping Efficiency %, Compute Util %,
0, 292, 167, 0, 20.209580838323355, 42.1875, 17.21938775510204,
"""
ACCESSES = (
    "LayerID, SRAM IFMAP Start Cycle, SRAM IFMAP Stop Cycle, SRAM IFMAP Reads, SRAM Filter Start Cycle, SRAM Filter Stop Cycle, "
    "SRAM Filter Reads, SRAM OFMAP Start Cycle, SRAM OFMAP Stop Cycle, SRAM OFMAP Writes, DRAM IFMAP Start Cycle, "
    "DRAM IFMAP Stop Cycle, DRAM IFMAP Reads, DRAM Filter Start Cycle, DRAM Filter Stop Cycle, DRAM Filter Reads, "
    "DRAM OFMAP Start Cycle, DRAM OFMAP Stop Cycle, DRAM OFMAP Writes,\n"
    "0, 9.0, 154.0, 360, 1.0, 134.0, 108, 15.0, 163.0, 480, -66.0, -1.0, 180, -66.0, -1.0, 108, 167.0, 226.0, 480,\n"
)


def test_reports_are_parsed_as_printed(tmp_path: Path) -> None:
    (tmp_path / "COMPUTE_REPORT.csv").write_text(COMPUTE)
    with pytest.raises(InputError, match="DETAILED_ACCESS_REPORT"):
        parse_reports(tmp_path)
    (tmp_path / "DETAILED_ACCESS_REPORT.csv").write_text(ACCESSES)
    theirs = parse_reports(tmp_path)
    case = pd.DataFrame([(20, 12, 9, 8, 8, "ws")], columns=["M", "N", "K", "array_rows", "array_cols", "dataflow"])
    ours = predict_cases(case)
    assert {column: float(ours[column].iloc[0]) for column in OUTPUTS} == pytest.approx(theirs)


def test_the_configuration_written_is_one_that_we_read(tmp_path: Path) -> None:
    path = tmp_path / "design.cfg"
    path.write_text(CONFIG.format(rows=8, columns=24, dataflow="is"))
    design = read_design(path)
    assert (design.rows, design.columns, design.dataflow, design.mode) == (8, 24, "is", "CALC")


def test_recorded_live_comparisons_agree(tmp_path: Path) -> None:
    scale_sim = pd.read_csv(DATA / "recorded" / "scale-sim" / "live_comparison.csv")
    assert len(scale_sim) == len(CASES) * len(OUTPUTS) and (scale_sim["difference"].abs() <= 1e-9 * scale_sim["theirs"].abs()).all()
    zigzag = pd.read_csv(DATA / "recorded" / "zigzag" / "live_comparison.csv")
    assert len(zigzag) == 15 and (zigzag["difference"].abs() <= 1e-9 * zigzag["theirs"].abs()).all()
    # and they are about our model as it is now, from the files that the tool read
    now = []
    for i, (rows, columns, dataflow, layer) in enumerate(CASES):
        write_case(tmp_path / str(i), rows, columns, dataflow, layer)
        now += list(predict_case(tmp_path / str(i)).values())
    assert now == pytest.approx(scale_sim["theirs"].to_numpy())


def test_failures_are_told(tmp_path: Path) -> None:
    step = run([sys.executable, "-c", "raise SystemExit('no luck')"], "x", "try", tmp_path)
    assert step.status == 1 and step.message == "no luck"
    assert run([sys.executable, "-c", "pass"], "x", "try", tmp_path).message == ""
    slow = run([sys.executable, "-c", "import time; time.sleep(9)"], "x", "wait", tmp_path, timeout_s=0.2)
    assert slow.status == 124 and "0 s" in slow.message
