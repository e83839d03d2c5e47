"""What share of its data sheet does a GPU reach in large kernels? Medians over the public kernel tables, kept in a small file.

The tables are those of aiconfigurator-core 0.12.0 (Apache-2.0), unpacked; none is shipped here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pandas as pd
import yaml

from analysis.configs import Strict, read_yaml
from analysis.hardware import devices
from analysis.paths import DATA
from analysis.tables import write_atomic

PATH = DATA / "models" / "training_kernels.yaml"
LEAST = 4096
"""Rows, columns and depth of a product, or tokens of a prompt, from which a kernel counts as large."""
GPUS = {
    "a100_sxm": "A100-SXM4-80GB",
    "h100_sxm": "H100-SXM5-80GB",
    "h200_sxm": "H200-SXM5-141GB",
    "b200_sxm": "B200-SXM-180GB",
    "b300_sxm": "B300-SXM-270GB",
    "gb200": "GB200-186GB",
    "gb300": "GB300-279GB",
}
TYPES = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "nvfp4"}
PEAKS = {"bf16": "bf16", "fp8": "fp8", "nvfp4": "fp4"}


class DeviceShares(Strict):
    """Shares of the data sheet's matrix rate (1): products by type, and causal attention of prompts in 16 bits."""

    bf16: float
    fp8: float | None = None
    nvfp4: float | None = None
    attention: float


class ShareFile(Strict):
    """`data/models/training_kernels.yaml`."""

    source: str
    devices: dict[str, DeviceShares]


@cache
def shares() -> dict[str, DeviceShares]:
    """The committed shares, by device."""
    return read_yaml(PATH, ShareFile).devices


def of(device: devices.Device, hide: str = "none") -> DeviceShares:
    """Shares of a device: its own, else the median of its architecture, else of all.

    Args:
        device: any; hide: none; device: as if its own were not known; architecture: neither its own nor its architecture's.
    """
    known = shares()
    if hide == "none":
        for name, found in known.items():
            other = devices.load(name)
            if name == device.name or (other.architecture, other.peak.keys()) == (device.architecture, device.peak.keys()):
                return found
    near = [found for name, found in known.items() if devices.load(name).architecture == device.architecture and name != device.name]
    if hide == "architecture" or not near:
        near = [found for name, found in known.items() if devices.load(name).architecture != device.architecture]
    table = pd.DataFrame([item.model_dump() for item in near]).astype(float).median()
    return DeviceShares.model_validate({str(name): float(value) for name, value in table.items() if value == value})


def measure(folder: Path) -> None:
    """Write the shares from the unpacked wheel: medians over large kernels, then over tables; the better of two kernels of one type.

    Args:
        folder: `aiconfigurator_core/systems/data`.
    """
    found = {}
    for system, name in GPUS.items():
        device = devices.load(name)
        rates: dict[str, list[float]] = {}
        for path in sorted(folder.glob(f"{system}/gemm/*/*/gemm_perf.parquet")):
            table = pd.read_parquet(path)
            table = table[(table["m"] >= LEAST) & (table["n"] >= LEAST) & (table["k"] >= LEAST) & (table["latency"] > 0)]
            rate = 2e3 * table["m"] * table["n"] * table["k"] / table["latency"]
            best: dict[str, float] = {}
            for kind, values in rate.groupby(table["gemm_dtype"]):
                ours = TYPES.get(str(kind))
                if ours and PEAKS[ours] in device.peak:
                    best[ours] = max(best.get(ours, 0.0), float(values.median()) / device.peak_flop_per_s(PEAKS[ours]))
            for ours, value in best.items():
                rates.setdefault(ours, []).append(value)
        for path in sorted(folder.glob(f"{system}/attention/*/*/context_attention_perf.parquet")):
            table = pd.read_parquet(path)
            table = table[
                (table["isl"] >= LEAST) & (table["head_dim"] == 128) & (table["attn_dtype"] == "bfloat16") & (table["latency"] > 0)
            ]
            for name_of in {"window_size", "step"} & set(table.columns):
                table = table[table[name_of] == 0]
            flop = 2.0 * table["batch_size"] * table["num_heads"] * table["isl"] ** 2 * 128
            if len(table):
                rates.setdefault("attention", []).append(float((1e3 * flop / table["latency"]).median()) / device.peak_flop_per_s("bf16"))
        found[name] = {kind: round(float(pd.Series(values).median()), 4) for kind, values in rates.items()}
    text = yaml.safe_dump(
        {"source": "aiconfigurator-core 0.12.0, gemm_perf and context_attention_perf tables, Apache-2.0", "devices": found}
    )
    write_atomic(PATH, f"# Written by analysis.composition.training.kernel_shares.measure.\n{text}".encode())
