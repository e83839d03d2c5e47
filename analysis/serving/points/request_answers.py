"""Requests as vLLM would serve them, from profiles of the GPU's kernels: when does each get its first and its last token?"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from analysis.case_columns import Columns
from analysis.documents import LARGEST_BYTES, read_json
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.serving.coupled import Coupling, simulate
from analysis.serving.kv_cache import cache_bytes
from analysis.serving.limits import Limits
from analysis.serving.points.cases import served
from analysis.serving.points.request_profile import read_profile
from analysis.serving.requests import make_requests
from analysis.serving.steps import StepTime
from analysis.tables import numbers, read_csv
from analysis.workloads import models
from analysis.workloads.models import Model

LINK_BANDWIDTH, LINK_LATENCY = 15.92e9, 6.6e-6
"""Two RTX PRO 6000 of that machine, NCCL in a CUDA graph (LLMServingSim, profiler/perf/RTXPRO6000/hardware.yaml, commit e08dc38)."""
MEMORY_SHARE = 0.9
BLOCK = 16
PREPARE_S = 0.0224
"""From when a step with a prompt is scheduled to its first kernel, as no CUDA graph replays it; while a longer step runs, it is hidden.

Median of 29 steps of the recorded Llama 3.1 8B run: first 9.5 s, at most 60 requests decoding, all its prompts scheduled and finished
together; `first_token_s` - `scheduled_s` less the profiled time of the step, where that is within 16 ms of the step under way.
"""
MOST_BLOCKS = 10**9
BLOCK_COUNTS = ("num_gpu_blocks", "num_blocks", "kv_blocks", "total_blocks")
OUTSIDE_BYTES = 1.2 * 2**30
"""Beside weights and KV cache: peak of activations and sampler, and what is no tensor; graphs count only from vLLM 0.21 on.

Two startup logs, memory x utilisation - weights - "Available KV cache memory": Llama 3.1 8B by 0.15.1 (A100 of 40 GB, 0.9: 14.99 and
19.28 GiB; github.com/ilseokoh/vllm-gce, README), gpt-oss-20b by 0.19.0 (80 GB, 0.65: 13.72, 36.56; myoceane.fr, ai-vllm-a100-gemma-4).
"""


AS_PROFILED: dict[str, tuple[object, ...]] = {
    "pipeline_parallel_size": (1,),
    "dtype": ("auto", "bfloat16", "float16", "half"),
    "kv_cache_dtype": ("auto", "bfloat16", "float16"),
    "quantization": (),
    "speculative_config": ({},),
    "enforce_eager": (False,),
    "enable_chunked_prefill": (True,),
}
"""What a setting may be, where it is given: another value means other kernels or another engine than those that are simulated."""


class Settings(BaseModel):
    """Engine settings of a run; others in the file are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    tensor_parallel_size: int = Field(1, ge=1, le=1_000_000)
    data_parallel_size: int = Field(1, ge=1, le=1_000_000)
    enable_expert_parallel: bool = False
    max_num_seqs: int = Field(256, ge=1, le=1_000_000)
    max_num_batched_tokens: int = Field(2048, ge=1, le=1_000_000)
    gpu_memory_utilization: float = Field(MEMORY_SHARE, gt=0, le=1)
    max_model_len: int | None = Field(None, ge=1)
    async_scheduling: bool | None = True
    enable_prefix_caching: bool = True


def read_meta(path: str | Path) -> tuple[Model, Settings, int | None]:
    """Model, settings and, if given, KV blocks of a run."""
    content = read_json(path, LARGEST_BYTES)
    if not isinstance(content, dict):
        raise InputError("expected an object with engine settings", path=path)
    given = content.get("engine_kwargs", content)
    try:
        settings = Settings.model_validate({k: v for k, v in given.items() if v is not None})
    except (ValidationError, AttributeError) as error:
        reason = error.errors()[0] if isinstance(error, ValidationError) else {"loc": ("engine_kwargs",), "msg": "expected an object"}
        raise InputError(str(reason["msg"]), path=path, key=".".join(map(str, reason["loc"]))) from None
    for key, known in AS_PROFILED.items():
        if (value := given.get(key)) is not None and value not in known:
            raise InputError(f"{value} asks for other kernels or another engine than those that are simulated", path=path, key=key)
    name = content.get("model") or given.get("model")
    if not name:
        raise InputError("names no model", path=path, key="model")
    blocks, holders = None, [holder for holder in (content, content.get("kv_cache")) if isinstance(holder, dict)]
    for key, count in ((key, holder.get(key)) for holder in holders for key in BLOCK_COUNTS):
        if isinstance(count, (int, float)):
            if not 1 <= count <= MOST_BLOCKS:
                raise InputError(f"expected 1 to {MOST_BLOCKS:,}, got {count}", path=path, key=key)
            # vLLM adds the blocks of all replicas (`core_client.py`: "Sum values from all engines in DP case")
            blocks = int(count) // settings.data_parallel_size
    if settings.max_model_len is None:
        settings = settings.model_copy(update={"max_model_len": models.longest(str(name))})
    return served(str(name)), settings, blocks


def kv_blocks(model: Model, settings: Settings, memory_bytes: float) -> int:
    """KV blocks of one replica: memory x utilisation - weights - what else is held, in blocks of 16 tokens (bf16)."""
    ranks = settings.tensor_parallel_size
    sharing = ranks * settings.data_parallel_size
    weights = model.matrices
    held = 2 * (weights["attention"] + weights["dense"] + weights["vocabulary"]) / ranks + 2 * weights["experts"] / sharing
    size = cache_bytes(memory_bytes, held, settings.gpu_memory_utilization, OUTSIDE_BYTES)
    blocks = int(size / (BLOCK * model.growing_bytes_per_token(2.0, ranks)))
    if blocks < 1:
        raise InputError(
            f"the weights ({held / 1e9:.1f} GB a GPU) leave no room for a KV cache in {memory_bytes / 1e9:.0f} GB", key="model"
        )
    return blocks


def gpu_memory(prefix: str | Path, gpu: str) -> float:
    """Memory of the profiled GPU (bytes), from `gpu` or the profile's name (`rtx4090_...`)."""
    device = devices.load(gpu) if gpu else devices.known(Path(prefix).name.split("_")[0])
    if device is None:
        raise InputError("the profile's name begins with no GPU we know; name it with --gpu", key="gpu")
    return device.usable_bytes


def _check_profile(prefix: str | Path, model: Model, tensor: int) -> None:
    """A profile whose name says its model and its ranks (GPU_MODEL_tpRANKS) must be of those of the run."""
    named = re.fullmatch(r"[^_]+_(.+)_tp(\d+)", Path(prefix).name)
    if named is None:
        return
    if int(named[2]) != tensor:
        raise InputError(f"is of one GPU of {named[2]}, the run has tensor_parallel_size {tensor}", path=prefix, key="profile")
    try:
        of = models.load(named[1])
    except InputError:
        return
    if of is not model:
        raise InputError(f"is of {of.name}, the run serves {model.name}", path=prefix, key="profile")


READS = Columns(names=("request_id", "input_tokens", "output_tokens", "arrived_s"), required=("input_tokens", "output_tokens", "arrived_s"))
"""Columns of a table of requests."""


def answer(
    requests: str | Path,
    meta: str | Path,
    profile: str | Path,
    gpu: str = "",
    link_bandwidth: float = LINK_BANDWIDTH,
    link_latency: float = LINK_LATENCY,
) -> pd.DataFrame:
    """Times of the first and the last token of each request, in the file's order.

    Args:
        requests: CSV with input_tokens, output_tokens, arrived_s (and request_id).
        meta: JSON with the engine's settings; profile: prefix of the kernel profiles.
        gpu: a device of `data/hardware`, where the profile's name does not say it.
        link_bandwidth, link_latency: of the link between GPUs (bytes/s, s).
    Returns: request_id, first_token_s, last_token_s (on the clock of arrived_s).
    """
    frame = read_csv(requests, required=["input_tokens", "output_tokens", "arrived_s"])
    if frame.empty:
        raise InputError("has no requests", path=requests, line=2)
    leasts = {"input_tokens": 1, "output_tokens": 1, "arrived_s": 0}
    columns = {key: numbers(frame, key, f"a number of at least {least}", requests, least, 1e9) for key, least in leasts.items()}
    model, settings, blocks = read_meta(meta)
    if blocks is None:
        blocks = kv_blocks(model, settings, gpu_memory(profile, gpu))
    inputs, outputs = columns["input_tokens"].astype(np.int64), columns["output_tokens"].astype(np.int64)
    longest = int((inputs + outputs).max())
    if longest > (settings.max_model_len or longest):
        raise InputError(f"the longest request has {longest} tokens, vLLM takes {settings.max_model_len} (max_model_len)", path=requests)
    _check_profile(profile, model, settings.tensor_parallel_size)
    if longest > blocks * BLOCK:
        raise InputError(f"the longest request has {longest} tokens, the KV cache {blocks * BLOCK}", path=requests, key="input_tokens")
    replicas = settings.data_parallel_size
    shared = model.experts is not None and replicas > 1
    table = read_profile(
        profile, model, settings.tensor_parallel_size, replicas if shared else 1,
        settings.max_num_batched_tokens, settings.max_num_seqs, link_bandwidth, link_latency,
    )  # fmt: skip
    limits = Limits(
        block_size=BLOCK,
        kv_blocks=blocks,
        watermark=0.0,
        max_batch=settings.max_num_seqs,
        max_batch_tokens=settings.max_num_batched_tokens,
        prefix_caching=settings.enable_prefix_caching,
    )
    coupling = Coupling(ahead=int(settings.async_scheduling is not False), together=int(shared), prepare_s=PREPARE_S)
    arriving = make_requests(columns["arrived_s"], inputs, outputs)
    records = simulate(arriving, StepTime(profile=table), limits, coupling, replicas).records
    names = frame["request_id"] if "request_id" in frame.columns else pd.Series(np.arange(len(frame)))
    return pd.DataFrame({"request_id": names, "first_token_s": records["prefill_completed_at"], "last_token_s": records["completed_at"]})
