"""Runs ZigZag on recorded layers and compares its numbers with the recorded ones and the bounds that our models give."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from analysis.errors import InputError
from analysis.paths import DATA
from analysis.studies.accelerators.peers.environments import run
from analysis.tables import read_csv

DESIGNS = {
    "tpu_like": {"D1": ["K, 32"], "D2": ["C, 32"]},
    "eyeriss_like": {"D1": ["K, 14"], "D2": ["C, 12"]},
}
LAYERS = [("tpu_like", "c2_a"), ("tpu_like", "c4_c"), ("eyeriss_like", "c3_a")]

# Runs inside ZigZag's environment: one layer in case.json, the answer in answer.json.
DRIVER = """
import json, logging
from importlib.resources import files
import yaml
logging.disable(logging.CRITICAL)
from zigzag.api import get_hardware_performance_zigzag
case = json.load(open("case.json"))
layer, stride = case["layer"], case["stride"]
workload = [{"id": 0, "name": "layer", "operator_type": "Conv",
             "equation": "O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]",
             "dimension_relations": [f"ix={stride}*ox+1*fx", f"iy={stride}*oy+1*fy"],
             "loop_dims": list(layer), "loop_sizes": list(layer.values()),
             "operand_precision": {"W": 8, "I": 8, "O": 16, "O_final": 8}, "operand_source": {"I": 0, "W": 0}}]
mapping = [{"name": "default", "spatial_mapping": case["spatial"], "memory_operand_links": {"O": "O", "W": "I2", "I": "I1"}}]
yaml.safe_dump(workload, open("workload.yaml", "w"))
yaml.safe_dump(mapping, open("mapping.yaml", "w"))
design = str(files("zigzag") / "inputs" / "hardware" / (case["design"] + ".yaml"))
energy, latency, found = get_hardware_performance_zigzag(
    "workload.yaml", design, "mapping.yaml", opt="energy", lpf_limit=6, dump_folder="out", loma_show_progress_bar=False)
best = found[0][0]
json.dump({"energy_pJ": float(energy), "latency_total2_cycles": float(latency), "latency_total0": float(best.latency_total0),
           "ideal_cycle": float(best.ideal_cycle), "mac_spatial_util": float(best.mac_spatial_utilization)}, open("answer.json", "w"))
"""


def compare(python: Path, folder: Path) -> pd.DataFrame:
    """Run three recorded layers through ZigZag and compare with the recorded runs.

    Args:
        python: of its environment.
    Returns:
        One row for each layer and number: ours (recorded), theirs (now), difference.
    """
    recorded = read_csv(DATA / "recorded" / "zigzag" / "layers.csv", required=["hardware", "layer"])
    recorded = recorded[recorded["network"] == "resnet50"]
    rows = []
    for design, name in LAYERS:
        row = recorded[(recorded["hardware"] == design) & (recorded["layer"] == name)].iloc[0]
        home = folder.resolve() / "zigzag-runs" / f"{design}-{name}"
        home.mkdir(parents=True, exist_ok=True)
        layer = {dimension: int(row[dimension]) for dimension in ("B", "K", "C", "OY", "OX", "FY", "FX")}
        stride = int(str(row["dim_rel"]).split("=")[1].split("*")[0])
        (home / "case.json").write_text(json.dumps({"design": design, "layer": layer, "stride": stride, "spatial": DESIGNS[design]}))
        (home / "driver.py").write_text(DRIVER)
        step = run([str(python), "driver.py"], "zigzag", f"run {name} on {design}", home)
        if step.status != 0:
            raise InputError(f"{name} on {design} failed: {step.message}", key="zigzag")
        answer = json.loads((home / "answer.json").read_text())
        for quantity, value in answer.items():
            before = float(row[quantity])
            case = {"tool": "ZigZag 3.9.1", "case": f"{name} on {design}", "quantity": quantity}
            rows.append({**case, "ours": before, "theirs": value, "difference": before - value})
    return pd.DataFrame(rows)
