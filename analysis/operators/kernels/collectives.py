"""Collectives of the GPUs of one node: measured curves of NCCL and of the frameworks' own all-reduce; else link bandwidth."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.operators.kernels import gpus, wheel
from analysis.operators.kernels.gpus import Gpu
from analysis.operators.kernels.latency import Latency
from analysis.operators.kernels.store import FOLDER
from analysis.operators.kernels.work import Floats
from analysis.tables import read_csv

# bytes over each GPU's link for a byte of the message as NCCL's tests count it; times (n - 1) / n
COLLECTIVES = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0, "send_recv": 1.0, "broadcast": 1.0}
NAMES = {"alltoall": "all_to_all"}
ELEMENT_BYTES = {"half": 2, "int8": 1, "bfloat16": 2}
INTERPOLATED_SD, SCALED_SD, UNMEASURED_SD, PCIE_SD = 0.08, 0.2, 0.35, 0.5
"""Of log latency; over PCIe whether GPUs may write to each other, and across how many sockets, decides a factor of two."""
LEAST_SHARE = 0.25
"""Share of the link's rate that a table must reach at some size to be believed: those of four and eight L40S reach 0.06 to 0.18 (1.4 to
5.7 GB/s, where PCIe has 31.5), a host without direct access between its cards; the lowest of all others 0.29 (all-to-all of eight RTX PRO
6000)."""
ALL_REDUCE_OF = {("blackwell", "vllm"): "trtllm"}
"""Architecture, framework: the framework whose all-reduce it runs. There vLLM calls FlashInfer's all-reduce with residual and norm,
TensorRT-LLM's kernel, by default (https://docs.vllm.ai/en/v0.18.2/design/fusions/) and in the scripts of before
(https://github.com/SemiAnalysisAI/InferenceX, benchmarks/70b_fp4_b200_docker.sh, enable_fi_allreduce_fusion)."""


def curves(path: Path) -> pd.DataFrame:
    """Median latency by GPU, collective, implementation, number of GPUs and size, of the newest NCCL and all framework versions.

    The tables count elements; 16-bit and 8-bit ones of equal bytes are pooled. `custom` is the frameworks' own all-reduce in a CUDA graph,
    of each framework and (framework empty) of all together.
    """
    found = []
    for table in wheel.tables(path):
        if table.system not in gpus.SYSTEMS or table.file not in ("nccl_perf.parquet", "custom_allreduce_perf.parquet"):
            continue
        frame = wheel.read(path, table)
        custom = table.file.startswith("custom")
        if custom and "backend" in frame:
            frame = frame[~frame["backend"].astype(str).str.endswith("eager")]
        if custom and "eager" in str(frame["kernel_source"].iloc[0] if len(frame) else ""):
            continue
        kind = frame["op_name"].astype(str).replace(NAMES)
        size = frame["message_size"] * frame["allreduce_dtype" if custom else "nccl_dtype"].astype(str).map(ELEMENT_BYTES)
        found.append(
            pd.DataFrame({
                "system": table.system, "implementation": "custom" if custom else "nccl", "kind": kind, "devices": frame["num_gpus"],
                "bytes": size, "latency_us": frame["latency"] * 1e3, "version": [wheel.version_order(table.version)] * len(frame),
                "framework": table.framework,
            })
        )  # fmt: skip
    every = pd.concat(found, ignore_index=True)
    every = every[every["latency_us"] > 0]
    newest = every[every["implementation"].eq("nccl")].groupby("system")["version"].transform("max")
    every = every.loc[(every["version"] == newest.reindex(every.index)) | every["implementation"].eq("custom")]
    every = pd.concat([every.assign(framework=""), every[every["implementation"].eq("custom")]])
    keys = ["system", "implementation", "framework", "kind", "devices", "bytes"]
    medians: pd.DataFrame = every.groupby(keys, as_index=False).agg(latency_us=("latency_us", "median"))
    return medians.assign(latency_us=medians["latency_us"].round(3))


@cache
def _curves() -> dict[tuple[str, str, str, int], tuple[Floats, Floats]]:
    """By GPU, implementation (`nccl`, `custom` or a framework's name), collective and number of GPUs."""
    frame = read_csv(FOLDER / "collectives.csv").fillna({"framework": ""})
    found = {}
    own = frame["framework"].where(frame["framework"] != "", frame["implementation"])
    for (system, implementation, kind, devices), part in frame.groupby(["system", own, "kind", "devices"]):
        part = part.sort_values("bytes")
        # noise of single points must not make a larger message faster
        found[(str(system), str(implementation), str(kind), int(str(devices)))] = (
            np.log(part["bytes"].to_numpy(np.float64)),
            np.log(np.maximum.accumulate(part["latency_us"].to_numpy(np.float64)) * 1e-6),
        )
    return found


@cache
def _believed(system: str, implementation: str, kind: str, devices: int) -> tuple[Floats, Floats] | None:
    """A measured curve of a host whose NCCL (where it was timed; else the curve itself) reaches `LEAST_SHARE` of the link."""
    curve = _curves().get((system, implementation, kind, devices))
    judge = _curves().get((system, "nccl", kind, devices), curve)
    return None if judge is None or bus_share(gpus.load(system), kind, devices, judge) < LEAST_SHARE else curve


def bus_share(gpu: Gpu, kind: str, devices: int, curve: tuple[Floats, Floats]) -> float:
    """Largest bus bandwidth of a curve over the one-way rate of the links that join so many GPUs."""
    reached = COLLECTIVES[kind] * (devices - 1) / devices * np.exp(curve[0] - curve[1]).max()
    return float(reached / gpu.node.group(devices).bandwidth_bytes_per_s)


def _interpolate(curve: tuple[Floats, Floats], size: Floats) -> Floats:
    """Straight lines in logarithms; below the smallest size flat, above the largest in proportion to the size."""
    x = np.log(np.maximum(size, 1.0))
    return np.exp(np.interp(x, *curve) + np.maximum(x - curve[0][-1], 0.0))


def bandwidth_model(
    gpu: Gpu, kind: str, size: Floats, devices: Floats, start_s: float = 6e-6, hop_s: float = 1.5e-6, share: float = 0.72
) -> Floats:
    """``start + hop (n - 1) + bytes over the link / (share x link)``; PCIe cards reach less of it and pass through the host."""
    moved = COLLECTIVES[kind] * size * (1.0 if kind == "send_recv" else (devices - 1) / devices)
    reached = np.empty_like(moved)
    for count in np.unique(devices):
        group = gpu.node.group(int(count))
        reached[devices == count] = share * group.bandwidth_bytes_per_s * (0.35 if group.level.topology == "host" else 1.0)
    return start_s + hop_s * (devices - 1) + moved / reached


def answer(gpu: Gpu, kind: str, size: Floats, devices: Floats, implementation: str, hide: str, framework: str | None = None) -> Latency:
    """Latency of a collective, arrays of one shape; see `library.Kernels.collective`."""
    seconds, log_sd = np.full(size.shape, np.nan), np.full(size.shape, np.nan)
    valid = (size >= 0) & np.isfinite(size) & (devices >= 1) & (devices <= 1e6)
    source, note = "unmeasured gpu" if gpu.vendor == "NVIDIA" else "data sheet", ""
    for count in np.unique(devices[valid]):
        at = valid & (devices == count)
        if count == 1:
            seconds[at], log_sd[at] = 0.0, 0.0
            continue
        names: tuple[str, ...] = ()
        if gpu.system and hide == "none":
            own = ALL_REDUCE_OF.get((gpu.architecture, framework or ""), framework)
            names = (own or "", "custom", "nccl") if implementation == "custom" else ("nccl",)
        curve = next((c for name in names if (c := _believed(gpu.system, name, kind, int(count))) is not None), None)
        if curve is not None:
            seconds[at], log_sd[at], source = _interpolate(curve, size[at]), INTERPOLATED_SD, "measured gpu"
            continue
        if any((gpu.system, name, kind, int(count)) in _curves() for name in names):
            note = f"measured {kind} of {count:.0f} {gpu.name} reaches under {LEAST_SHARE:.0%} of the link's rate and is not used"
        plain = bandwidth_model(gpu, kind, size[at], np.full(int(at.sum()), count))
        topology = gpu.node.group(int(count)).level.topology
        near = None
        if names and topology != "host":  # another number of GPUs of this node was measured: scale by the bandwidth model
            counts = sorted((abs(np.log(n / count)), n) for s, c, k, n in _curves() if (s, c, k) == (gpu.system, "nccl", kind))
            near = counts[0][1] if counts and counts[0][0] < 0.8 else None
        if near is None:
            seconds[at], log_sd[at] = plain, PCIE_SD if topology == "host" else UNMEASURED_SD
        else:
            other = _interpolate(_curves()[(gpu.system, "nccl", kind, near)], size[at])
            seconds[at] = other * plain / bandwidth_model(gpu, kind, size[at], np.full(int(at.sum()), float(near)))
            log_sd[at] = SCALED_SD
    return Latency(seconds, log_sd, source, np.where(valid, "", "bytes must be at least 0 and devices at least 1").astype(object), note)
