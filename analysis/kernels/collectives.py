"""Collectives of the GPUs of one node: measured curves of NCCL and of the frameworks' own all-reduce; else link bandwidth."""

from __future__ import annotations

import numpy as np

from analysis.kernels.gpus import Gpu
from analysis.kernels.latency import Latency
from analysis.kernels.work import Floats
from analysis.networks.collective_time import collective_time

ALL_REDUCE_OF = {("blackwell", "vllm"): "trtllm"}
"""Architecture, framework: the framework whose all-reduce it runs. There vLLM calls FlashInfer's all-reduce with residual and norm,
TensorRT-LLM's kernel, by default (https://docs.vllm.ai/en/v0.18.2/design/fusions/) and in the scripts of before
(https://github.com/SemiAnalysisAI/InferenceX, benchmarks/70b_fp4_b200_docker.sh, enable_fi_allreduce_fusion)."""


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
        held, network = gpu.node.devices_per_node, gpu.node.network
        if count > held and network is not None:
            notes.append(f"{count:.0f} GPUs over nodes of {held}, {8e-9 * network.bandwidth_bytes_per_s:.0f} Gbit/s of network a GPU")
        if got.basis == "measured" and count > 1:
            source = "measured gpu"
    status = np.where(valid, "", "bytes must be at least 0 and devices at least 1").astype(object)
    return Latency(seconds, log_sd, source, status, "; ".join(dict.fromkeys(notes)))
