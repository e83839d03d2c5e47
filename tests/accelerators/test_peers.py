"""What SCALE-Sim and ZigZag answered when they ran live is what our model, reading the same files, and the recorded runs say."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from analysis.accelerators.systolic.cases import OUTPUTS, predict_cases
from analysis.accelerators.systolic.files import cases
from analysis.paths import DATA

HEADERS = {3: "Layer,M,N,K,", 7: "Layer,IFMAP Height,IFMAP Width,Filter Height,Filter Width,Channels,Num Filter,Strides,"}
CONFIG = """[general]
run_name = peer
[run_presets]
InterfaceBandwidth = CALC
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
"""


def answers(case: str, folder: Path) -> list[float]:
    """Ours to a recorded case, such as `gemm 20x12x9 on 8x8 ws`, from files as SCALE-Sim reads them."""
    _, layer, rows, columns, dataflow = re.fullmatch(r"(gemm|conv) ([\dx]+) on (\d+)x(\d+) (\w+)", case).groups()
    numbers = layer.split("x")
    (folder / "design.cfg").write_text(CONFIG.format(rows=rows, columns=columns, dataflow=dataflow))
    (folder / "layers.csv").write_text(f"{HEADERS[len(numbers)]}\nlayer,{','.join(numbers)},\n")
    found = predict_cases(cases(folder / "layers.csv", folder / "design.cfg"))
    return [float(found[column].iloc[0]) for column in OUTPUTS]


def test_recorded_live_comparisons_agree(tmp_path: Path) -> None:
    scale_sim = pd.read_csv(DATA / "recorded" / "scale-sim" / "live_comparison.csv")
    assert len(scale_sim) == 10 * len(OUTPUTS) and (scale_sim["difference"].abs() <= 1e-9 * scale_sim["theirs"].abs()).all()
    zigzag = pd.read_csv(DATA / "recorded" / "zigzag" / "live_comparison.csv")
    assert len(zigzag) == 15 and (zigzag["difference"].abs() <= 1e-9 * zigzag["theirs"].abs()).all()
    # and they are about our model as it is now, from the files that the tool read
    assert list(scale_sim["quantity"][: len(OUTPUTS)]) == list(OUTPUTS)
    now = [value for case in scale_sim["case"].drop_duplicates() for value in answers(case, tmp_path)]
    assert now == pytest.approx(scale_sim["theirs"].to_numpy())
