"""The shares of `predict.program.efficiencies`, from measurements of single operators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis import datasets
from analysis.hardware import devices
from analysis.paths import DATA
from analysis.tables import read_csv

LARGE_FLOP = 2e10
LARGE_BYTES = 2e8
_MEASURED_AS = {
    "NVIDIA A100 80GB PCIe": "A100-PCIE-80GB",
    "NVIDIA A100-PCIE-40GB": "A100-PCIE-40GB",
    "NVIDIA H100 80GB HBM3": "H100-SXM5-80GB",
    "Tesla V100-PCIE-32GB": "V100-PCIE-32GB",
}
_SIBLINGS = {
    "A100-SXM4-80GB": "A100-PCIE-80GB",
    "A100-SXM4-40GB": "A100-PCIE-40GB",
    "V100-SXM2-16GB": "V100-PCIE-32GB",
    "V100-SXM2-32GB": "V100-PCIE-32GB",
}
"""Boards with the same chip and memory as the one that was measured."""


def measured_on_gpus() -> tuple[dict[str, float], dict[str, float], float]:
    """Medians of NeuSight's fp32 measurements: share of the fp32 peak of large products, of the bandwidth for large elementwise operators,
    and, over devices, the median of (median product / best product).
    """
    matrix, memory, typical = {}, {}, []
    linear, elem = datasets.load("neusight/linear_nvidia"), datasets.load("neusight/elem_nvidia")
    traffic = elem["op"].map(lambda op: 3 if str(op).removesuffix("u") in ("add", "mul", "div") and not str(op).endswith("u") else 2)
    for label, name in _MEASURED_AS.items():
        device = devices.load(name)
        peak, bandwidth = device.vector_flop_per_s("fp32"), device.memory_bandwidth_bytes_per_s
        part = linear[linear["device"] == label]
        flop = 2.0 * part["M"] * part["N"] * part["K"]
        size = 4.0 * (part["M"] * part["N"] + part["N"] * part["K"] + part["M"] * part["K"])
        large = (flop > LARGE_FLOP) & (flop / size > 2 * peak / bandwidth)
        share = (flop / (part["latency_ms"] * 1e-3) / peak)[large]
        matrix[name] = float(share.median())
        typical.append(float(share.median() / share.max()))
        at = elem["device"] == label
        moved = traffic[at] * 4.0 * elem["B"][at] * elem["H"][at]
        if (moved > LARGE_BYTES).any():
            memory[name] = float((moved / (elem["latency_ms"][at] * 1e-3) / bandwidth)[moved > LARGE_BYTES].median())
    return matrix, memory, float(pd.Series(typical).median())


def measured_on_tpu(published: pd.DataFrame) -> tuple[float, float]:
    """TPU v6e: median share of the peak of products with no side below 1,024, and of the bandwidth for the largest elementwise operators.

    Args:
        published: `data/published/gpu_tpu_workloads.csv`.
    """
    device = devices.load("TPU-v6e")
    rows = published[(published["system"] == "TPU v6e-1") & (published["kind"] == "measured")]
    products, streams = [], []
    for row in rows.to_dict("records"):
        sides = [int(side) for side in re.findall(r"[MKN](\d+)", row["model"])]
        if row["metric"] == "per-step time" and len(sides) == 3 and min(sides) >= 1024:
            products.append(2.0 * sides[0] * sides[1] * sides[2] / (row["value"] * 1e-6) / device.peak_flop_per_s("bf16"))
        if "n=268435456" in row["model"]:
            streams.append(float(str(row["note"]).split()[0]) * 1e9 / device.memory_bandwidth_bytes_per_s)
    return float(pd.Series(products).median()), float(pd.Series(streams).median())


def fit() -> dict[str, Any]:
    """Shares of every device of the study, as the file holds them (without hashes)."""
    fp32, memory, typical = measured_on_gpus()
    rates = read_csv(DATA / "published" / "operator_rates.csv", required=["device", "dtype", "value"])
    best: dict[str, float] = {}
    for name, part in rates.groupby("device"):
        peak = devices.load(str(name)).peak_flop_per_s("bf16" if part["dtype"].iloc[0] == "bf16" else "fp16")
        best[str(name)] = float(part["value"].median() * 1e12 / peak)
    tpu_matrix, tpu_memory = measured_on_tpu(read_csv(DATA / "published" / "gpu_tpu_workloads.csv"))
    found: dict[str, Any] = {}
    wanted = ["V100-SXM2-16GB", "V100-SXM2-32GB", "A100-SXM4-40GB", "A100-SXM4-80GB", "H100-SXM5-80GB", "H200-SXM5-141GB", "B200-SXM-180GB"]
    medians = {"matrix": _median(best), "fp32_matrix": _median(fp32), "memory": _median(memory)}
    for name in wanted:
        sibling = _SIBLINGS.get(name, name)
        chip = {"A100-SXM4-40GB": "A100-SXM4-80GB", "H200-SXM5-141GB": "H100-SXM5-80GB"}.get(name, name)
        own = {"matrix": best.get(chip), "fp32_matrix": fp32.get(sibling), "memory": memory.get(sibling)}
        carried = tuple(key for key, value in own.items() if value is None)
        share = {key: medians[key] if value is None else value for key, value in own.items()}
        found[name] = {**share, "matrix": share["matrix"] * typical, "carried": carried}
    found["default GPU"] = {**medians, "matrix": medians["matrix"] * typical, "carried": ("matrix", "fp32_matrix", "memory")}
    found["TPU-v6e"] = {"matrix": tpu_matrix, "fp32_matrix": tpu_matrix, "memory": tpu_memory, "carried": ("fp32_matrix",)}
    found["default TPU"] = {**found["TPU-v6e"], "carried": ("matrix", "fp32_matrix", "memory")}
    return {
        "fitted_on": "NeuSight fp32 operators (A100, H100, V100), published best products, TPU v6e operator probes; no training step",
        "typical_over_best": typical,
        "shares": {
            name: {key: list(value) if key == "carried" else value for key, value in share.items()} for name, share in found.items()
        },
    }


def _median(values: Mapping[str, float]) -> float:
    return float(pd.Series(list(values.values())).median())
