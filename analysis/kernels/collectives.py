"""Collectives of the GPUs of one node: measured curves of NCCL and of the frameworks' own all-reduce; else link bandwidth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.kernels import gpus, wheel
from analysis.kernels.gpus import Gpu
from analysis.kernels.latency import Latency
from analysis.kernels.work import Floats
from analysis.networks.collective_time import collective_time

NAMES = {"alltoall": "all_to_all"}
ELEMENT_BYTES = {"half": 2, "int8": 1, "bfloat16": 2}
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


def answer(gpu: Gpu, kind: str, size: Floats, devices: Floats, implementation: str, hide: str, framework: str | None = None) -> Latency:
    """Latency of a collective, arrays of one shape; see `library.Kernels.collective`."""
    seconds, log_sd = np.full(size.shape, np.nan), np.full(size.shape, np.nan)
    valid = (size >= 0) & np.isfinite(size) & (devices >= 1) & (devices <= 1e6)
    own = ALL_REDUCE_OF.get((gpu.architecture, framework or ""), framework)
    names = (own or "", "custom", "nccl") if implementation == "custom" else ("nccl",)
    hidden = gpu.node.load_device().architecture if hide != "none" and gpu.system else ""
    source, notes = "unmeasured gpu" if gpu.vendor == "NVIDIA" else "data sheet", list[str]()
    for count in np.unique(devices[valid]):
        at = valid & (devices == count)
        got = collective_time(kind, size[at], int(count), gpu.node, implementations=names, hide=hidden)
        seconds[at], log_sd[at] = got.seconds, got.log_sd
        notes += got.assumed
        if got.basis == "measured" and count > 1:
            source = "measured gpu"
    status = np.where(valid, "", "bytes must be at least 0 and devices at least 1").astype(object)
    return Latency(seconds, log_sd, source, status, "; ".join(dict.fromkeys(notes)))
