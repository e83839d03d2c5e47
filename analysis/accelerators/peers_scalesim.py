"""Runs SCALE-Sim on cases of ours and sets its numbers beside our model's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from analysis.accelerators.peers import SCALE_SIM, Step, install, run
from analysis.accelerators.systolic_cases import OUTPUTS, predict_cases
from analysis.errors import InputError

# Small on purpose: SCALE-Sim simulates some 750 cycles a second.
CASES = [
    (20, 12, 9, 8, 8, "ws"),
    (33, 31, 17, 16, 16, "os"),
    (33, 31, 17, 16, 16, "is"),
    (1, 64, 40, 4, 32, "ws"),
    (50, 7, 30, 32, 4, "os"),
    (64, 64, 64, 16, 16, "ws"),
    (13, 29, 64, 8, 24, "is"),
]

CONFIG = """[general]
run_name = peer
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
[layout]
IfmapCustomLayout = False
FilterCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[architecture_presets]
ArrayHeight = {rows}
ArrayWidth = {columns}
IfmapSramSzkB = 64
FilterSramSzkB = 64
OfmapSramSzkB = 64
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = {dataflow}
Bandwidth = 10
ReadRequestBuffer = 64
WriteRequestBuffer = 64
[sparsity]
SparsitySupport = false
"""


def parse_reports(folder: Path) -> dict[str, float]:
    """The first layer of COMPUTE_REPORT.csv and DETAILED_ACCESS_REPORT.csv, under our column names.

    demand_rows = printed compute cycles + 1 - stalls.

    Args:
        folder: the run's folder.

    Raises:
        InputError: a report is missing, or a column in it.
    """
    rows: dict[str, Any] = {}
    for name in ("COMPUTE_REPORT.csv", "DETAILED_ACCESS_REPORT.csv"):
        path = folder / name
        if not path.exists():
            raise InputError("SCALE-Sim left no such report", path=path)
        frame = pd.read_csv(path, index_col=False, skipinitialspace=True)
        rows |= {str(column).strip(): value for column, value in frame.iloc[0].items()}
    names = {
        "demand_rows": "Total Cycles",
        "mapping_eff_pct": "Mapping Efficiency %",
        "compute_util_pct": "Compute Util %",
        "ifmap_sram_reads": "SRAM IFMAP Reads",
        "filter_sram_reads": "SRAM Filter Reads",
        "ofmap_sram_writes": "SRAM OFMAP Writes",
    }
    for ours, theirs in names.items():
        if theirs not in rows:
            raise InputError(f"expected the column {theirs!r}", path=folder, key=ours)
    found = {ours: float(rows[theirs]) for ours, theirs in names.items()}
    found["demand_rows"] += 1 - float(rows["Stall Cycles"])
    return found


def compare(folder: Path) -> tuple[pd.DataFrame, list[Step]]:
    """Install SCALE-Sim, run the cases through its command line, compare every number.

    Args:
        folder: where environments and runs live.

    Returns:
        One row for each case and number: ours, theirs, difference; and the steps taken.
    """
    python, steps = install(SCALE_SIM, folder)
    cases = pd.DataFrame(CASES, columns=["M", "N", "K", "array_rows", "array_cols", "dataflow"])
    ours = predict_cases(cases)
    rows = []
    for i, (m, n, k, array_rows, array_columns, dataflow) in enumerate(CASES):
        home = folder.resolve() / "scalesim-runs" / f"case{i}"
        home.mkdir(parents=True, exist_ok=True)
        (home / "design.cfg").write_text(CONFIG.format(rows=array_rows, columns=array_columns, dataflow=dataflow))
        (home / "layers.csv").write_text(f"Layer,M,N,K,\nlayer,{m},{n},{k},\n")
        (home / "layout.csv").write_text("Layer,\n")
        (home / "out").mkdir(exist_ok=True)
        arguments = ["-c", "design.cfg", "-t", "layers.csv", "-l", "layout.csv", "-p", "out", "-i", "gemm", "-s", "N"]
        steps.append(run([str(python), "-m", "scalesim.scale", *arguments], "scalesim", f"run case {i}", home))
        if steps[-1].status != 0:
            raise InputError(f"case {i} failed: {steps[-1].message}", key="scalesim")
        theirs = parse_reports(home / "out" / "peer")
        case = {"tool": "SCALE-Sim 3.0.0", "case": f"{m}x{n}x{k} on {array_rows}x{array_columns} {dataflow}"}
        for column in OUTPUTS:
            value = float(ours[column].iloc[i])
            rows.append({**case, "quantity": column, "ours": value, "theirs": theirs[column], "difference": value - theirs[column]})
    return pd.DataFrame(rows), steps
