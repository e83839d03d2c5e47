"""Runs SCALE-Sim on cases of ours and compares its numbers with our model's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from analysis.accelerators.systolic.cases import OUTPUTS, predict_cases
from analysis.accelerators.systolic.files import cases
from analysis.errors import InputError
from analysis.studies.accelerators.peers.environments import run

# Small on purpose: SCALE-Sim simulates some 750 cycles a second. Array rows and columns, dataflow, and one row of a topology file:
# three numbers are M, N, K; seven are ifmap height and width, filter height and width, channels, filters, stride.
CASES: list[tuple[int, int, str, tuple[int, ...]]] = [
    (8, 8, "ws", (20, 12, 9)),
    (16, 16, "os", (33, 31, 17)),
    (16, 16, "is", (33, 31, 17)),
    (4, 32, "ws", (1, 64, 40)),
    (32, 4, "os", (50, 7, 30)),
    (16, 16, "ws", (64, 64, 64)),
    (8, 24, "is", (13, 29, 64)),
    (16, 8, "os", (12, 12, 3, 3, 4, 10, 1)),
    (16, 8, "ws", (14, 11, 3, 2, 3, 9, 2)),
    (8, 16, "is", (10, 10, 5, 5, 2, 6, 3)),
]
HEADERS = {3: "Layer,M,N,K,", 7: "Layer,IFMAP Height,IFMAP Width,Filter Height,Filter Width,Channels,Num Filter,Strides,"}

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


def write_case(folder: Path, rows: int, columns: int, dataflow: str, layer: tuple[int, ...]) -> None:
    """The files of one run: design.cfg, layers.csv, layout.csv.

    Args:
        rows, columns: the array (count).
        layer: three or seven numbers, see `CASES`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "design.cfg").write_text(CONFIG.format(rows=rows, columns=columns, dataflow=dataflow))
    (folder / "layers.csv").write_text(f"{HEADERS[len(layer)]}\nlayer,{','.join(str(x) for x in layer)},\n")
    (folder / "layout.csv").write_text("Layer,\n")


def predict_case(folder: Path) -> dict[str, float]:
    """Our numbers for a run, from the very files that SCALE-Sim reads."""
    answer = predict_cases(cases(folder / "layers.csv", folder / "design.cfg"))
    return {column: float(answer[column].iloc[0]) for column in OUTPUTS}


def compare(python: Path, folder: Path) -> pd.DataFrame:
    """Run the cases through SCALE-Sim's command line and compare every number.

    Args:
        python: of its environment.
    Returns:
        One row for each case and number: ours, theirs, difference.
    """
    rows = []
    for i, (array_rows, array_columns, dataflow, layer) in enumerate(CASES):
        home = folder.resolve() / "scalesim-runs" / f"case{i}"
        write_case(home, array_rows, array_columns, dataflow, layer)
        (home / "out").mkdir(exist_ok=True)
        arguments = ["-c", "design.cfg", "-t", "layers.csv", "-l", "layout.csv", "-p", "out", "-s", "N"]
        kind = "gemm" if len(layer) == 3 else "conv"
        step = run([str(python), "-m", "scalesim.scale", *arguments, "-i", kind], "scalesim", f"run case {i}", home)
        if step.status != 0:
            raise InputError(f"case {i} failed: {step.message}", key="scalesim")
        ours, theirs = predict_case(home), parse_reports(home / "out" / "peer")
        case = {"tool": "SCALE-Sim 3.0.0", "case": f"{kind} {'x'.join(str(x) for x in layer)} on {array_rows}x{array_columns} {dataflow}"}
        for column in OUTPUTS:
            difference = ours[column] - theirs[column]
            rows.append({**case, "quantity": column, "ours": ours[column], "theirs": theirs[column], "difference": difference})
    return pd.DataFrame(rows)
