"""Latency of one kernel on one GPU: the door that serving, training and the command line use.

>>> from analysis.operators.kernels.library import KernelLibrary
>>> h100 = KernelLibrary.load().on("h100_sxm")
>>> answer = h100.gemm([1, 4096], 4096, 4096, "bf16")
>>> bool(answer.s[1] > answer.s[0])
True
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.hardware.devices import Device
from analysis.operators.kernels import gpus, work
from analysis.operators.kernels.gpus import Gpu
from analysis.operators.kernels.work import Floats, Work
from analysis.paths import DATA

PARAMETERS = DATA / "models" / "gpu_kernels"
Hide = Literal["none", "device", "architecture"]


@dataclass(frozen=True)
class Latency:
    """Answers of one call, shapes (n,) or ().

    Args:
        s: central latency (seconds); NaN where not covered.
        log_sd: standard deviation of its logarithm: the model's own doubt.
        source: "measured gpu", "unmeasured gpu" (fitted on other GPUs) or "data sheet" (nothing fitted).
        status: empty, or why there is no answer.
    """

    s: Floats
    log_sd: Floats
    source: str
    status: NDArray[np.object_]


class Share(Strict):
    """Parameters of one operator and number type.

    Args:
        floor_s: latency of the smallest kernel (s).
        compute: share of the data sheet's matrix rate; memory: of its bandwidth; log_sd: spread of log latency around the answer.
    """

    floor_s: float
    compute: float
    memory: float
    log_sd: float


class Shares(Strict):
    """`shares.yaml`: operator, number type, parameters; `*` stands for every other type."""

    shares: dict[str, dict[str, Share]]


@cache
def _shares() -> dict[str, dict[str, Share]]:
    return read_yaml(PARAMETERS / "shares.yaml", Shares).shares


@dataclass(frozen=True)
class Kernels:
    """The kernels of one GPU, by framework and version where given; every call takes arrays that broadcast."""

    gpu: Gpu
    framework: str | None = None
    version: str | None = None
    hide: Hide = "none"

    def _refuse(self, shape: tuple[int, ...], reason: str) -> Latency:
        return Latency(np.full(shape, np.nan), np.full(shape, np.nan), "none", np.full(shape, reason, dtype=object))

    def _answer(self, op: str, dtype: str, done: Work, valid: NDArray[np.bool_]) -> Latency:
        share = _shares()[op].get(dtype) or _shares()[op].get("*")
        peak = self.gpu.peak_flop_per_s.get(dtype)
        shape = np.broadcast(done.flop, done.bytes).shape
        if peak is None:
            return self._refuse(shape, f"{self.gpu.name} has no {dtype} rate in its data sheet")
        if share is None:
            return self._refuse(shape, f"number type {dtype} of {op} is not covered; covered: {', '.join(_shares()[op])}")
        busy = np.maximum(done.flop / (peak * share.compute), done.bytes / (self.gpu.bandwidth_bytes_per_s * share.memory))
        valid = np.broadcast_to(valid, shape)
        return Latency(
            np.where(valid, share.floor_s + busy, np.nan),
            np.where(valid, share.log_sd if self.gpu.vendor == "NVIDIA" else share.log_sd + 0.3, np.nan),
            "unmeasured gpu" if self.gpu.vendor == "NVIDIA" else "data sheet",
            np.where(valid, "", "every size must be at least 1").astype(object),
        )

    def gemm(self, m: ArrayLike, n: ArrayLike, k: ArrayLike, dtype: str) -> Latency:
        """C (m, n) = A (m, k) B (k, n)."""
        dtype = gpus.number_type(dtype)
        if dtype not in gpus.WEIGHT_BYTES:
            return self._refuse(np.broadcast(m, n, k).shape, f"number type {dtype} is not covered; covered: {', '.join(gpus.WEIGHT_BYTES)}")
        return self._answer("gemm", dtype, work.gemm(m, n, k, dtype), _positive(m, n, k))

    def attention_prefill(
        self, batch: ArrayLike, query_heads: ArrayLike, kv_heads: ArrayLike, head_size: ArrayLike, query_tokens: ArrayLike,
        kv_tokens: ArrayLike,
        dtype: str, kv_dtype: str | None = None, causal: bool = True, value_head_size: ArrayLike | None = None, window: ArrayLike = 0,
    ) -> Latency:  # fmt: skip
        """Attention of prompts: `query_tokens` new ones a sequence over `kv_tokens` in all (grouped or multi-head)."""
        dtype, kv = gpus.number_type(dtype), gpus.number_type(kv_dtype or dtype)
        value = head_size if value_head_size is None else value_head_size
        sizes = (batch, query_heads, kv_heads, head_size, value, query_tokens, kv_tokens)
        if dtype not in ("bf16", "fp16", "fp8") or kv not in ("bf16", "fp16", "fp8"):
            return self._refuse(
                np.broadcast(*sizes).shape, f"attention in {dtype} with {kv} cached is not covered; covered: bf16, fp16, fp8"
            )
        done = work.attention_prefill(*sizes, gpus.WEIGHT_BYTES[kv], window, causal)
        return self._answer("attention_prefill", dtype, done, _positive(*sizes))

    def attention_decode(
        self, batch: ArrayLike, query_heads: ArrayLike, kv_heads: ArrayLike, head_size: ArrayLike, kv_tokens: ArrayLike,
        dtype: str, kv_dtype: str | None = None, window: ArrayLike = 0,
    ) -> Latency:  # fmt: skip
        """Attention of one new token a sequence over `kv_tokens` cached ones."""
        dtype, kv = gpus.number_type(dtype), gpus.number_type(kv_dtype or dtype)
        sizes = (batch, query_heads, kv_heads, head_size, kv_tokens)
        if dtype not in ("bf16", "fp16", "fp8") or kv not in ("bf16", "fp16", "fp8"):
            return self._refuse(
                np.broadcast(*sizes).shape, f"attention in {dtype} with {kv} cached is not covered; covered: bf16, fp16, fp8"
            )
        done = work.attention_decode(*sizes, gpus.WEIGHT_BYTES[kv], window)
        return self._answer("attention_decode", "bf16" if dtype == "fp8" else dtype, done, _positive(*sizes))

    def latent_attention_prefill(
        self, batch: ArrayLike, heads: ArrayLike, query_tokens: ArrayLike, kv_tokens: ArrayLike, dtype: str, kv_dtype: str | None = None
    ) -> Latency:
        """Multi-head latent attention of prompts, keys and values expanded (512 + 64 latent, 192 and 128 a head)."""
        dtype, kv = gpus.number_type(dtype), gpus.number_type(kv_dtype or dtype)
        sizes = (batch, heads, query_tokens, kv_tokens)
        if dtype not in ("bf16", "fp16", "fp8") or kv not in ("bf16", "fp16", "fp8"):
            return self._refuse(
                np.broadcast(*sizes).shape, f"latent attention in {dtype} with {kv} cached is not covered; covered: bf16, fp16, fp8"
            )
        return self._answer(
            "latent_prefill", "bf16" if dtype == "fp8" else dtype, work.latent_prefill(*sizes, gpus.WEIGHT_BYTES[kv]), _positive(*sizes)
        )

    def latent_attention_decode(
        self, batch: ArrayLike, heads: ArrayLike, kv_tokens: ArrayLike, dtype: str, kv_dtype: str | None = None
    ) -> Latency:
        """Multi-head latent attention of one new token a sequence, over the latent cache."""
        dtype, kv = gpus.number_type(dtype), gpus.number_type(kv_dtype or dtype)
        sizes = (batch, heads, kv_tokens)
        if dtype not in ("bf16", "fp16", "fp8") or kv not in ("bf16", "fp16", "fp8"):
            return self._refuse(
                np.broadcast(*sizes).shape, f"latent attention in {dtype} with {kv} cached is not covered; covered: bf16, fp16, fp8"
            )
        return self._answer(
            "latent_decode", "bf16" if dtype == "fp8" else dtype, work.latent_decode(*sizes, gpus.WEIGHT_BYTES[kv]), _positive(*sizes)
        )

    def moe(
        self, tokens: ArrayLike, experts: ArrayLike, top_k: ArrayLike, hidden: ArrayLike, intermediate: ArrayLike, dtype: str,
        tensor_parallel: ArrayLike = 1, expert_parallel: ArrayLike = 1, distribution: str = "power_law_1.01",
    ) -> Latency:  # fmt: skip
        """Expert GEMMs of one GPU for a batch of `tokens` over all GPUs that share the experts.

        Args:
            distribution: balanced, power_law_1.01 or power_law_1.2: how unevenly tokens choose experts.
        """
        dtype = gpus.number_type(dtype)
        sizes = (tokens, experts, top_k, hidden, intermediate, tensor_parallel, expert_parallel)
        if dtype not in gpus.WEIGHT_BYTES:
            return self._refuse(np.broadcast(*sizes).shape, f"number type {dtype} is not covered; covered: {', '.join(gpus.WEIGHT_BYTES)}")
        done = work.moe(tokens, experts, top_k, hidden, intermediate, dtype, tensor_parallel, expert_parallel)
        return self._answer("moe", dtype, done.work, _positive(*sizes))

    def memory_bound(self, bytes: ArrayLike) -> Latency:
        """A pass over memory that reads and writes `bytes` in all: norms, activations, quantisation, embeddings."""
        moved = np.asarray(bytes, dtype=np.float64)
        return self._answer("memory_bound", "bf16", Work(np.zeros_like(moved), moved), moved >= 0)

    def collective(self, kind: str, bytes: ArrayLike, devices: ArrayLike, implementation: str = "nccl") -> Latency:
        """A collective of `devices` GPUs of one node on `bytes` a GPU (all_gather, reduce_scatter and all_to_all: of the whole message)."""
        size, count = np.broadcast_arrays(np.asarray(bytes, dtype=np.float64), np.asarray(devices, dtype=np.float64))
        if kind not in COLLECTIVES:
            return self._refuse(size.shape, f"collective {kind} is not covered; covered: {', '.join(COLLECTIVES)}")
        share = _shares()["collective"]["*"]
        moved = COLLECTIVES[kind] * size * (1.0 if kind == "send_recv" else np.maximum(count - 1, 0) / np.maximum(count, 1))
        seconds = share.floor_s + moved / (self.gpu.link_bytes_per_s * share.memory)
        valid = (size >= 0) & (count >= 1)
        alone = count == 1
        return Latency(
            np.where(valid, np.where(alone, 0.0, seconds), np.nan),
            np.where(valid, share.log_sd if self.gpu.vendor == "NVIDIA" else share.log_sd + 0.3, np.nan),
            "unmeasured gpu" if self.gpu.vendor == "NVIDIA" else "data sheet",
            np.where(valid, "", "bytes must be at least 0 and devices at least 1").astype(object),
        )


COLLECTIVES = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0, "send_recv": 1.0, "broadcast": 1.0}


def _positive(*sizes: ArrayLike) -> NDArray[np.bool_]:
    good = np.asarray(True)
    for size in sizes:
        values = np.asarray(size, dtype=np.float64)
        good = good & (values >= 1) & np.isfinite(values)
    return good


@dataclass(frozen=True)
class KernelLibrary:
    """The committed kernel models of every GPU."""

    @classmethod
    def load(cls) -> KernelLibrary:
        """The committed parameters; no dataset is needed."""
        return cls()

    def on(self, device: str | Device | Gpu, framework: str | None = None, version: str | None = None, hide: Hide = "none") -> Kernels:
        """The kernels of one GPU.

        Args:
            device: name in the tables (`h100_sxm`), in `data/hardware`, or a data sheet of your own.
            framework: trtllm, vllm or sglang; None: the tables' mean.
            version: of the framework.
            hide: "device" or "architecture": answer as if that GPU, or all of its architecture, had never been measured.
        Raises:
            InputError: no such device or framework, or not a GPU.
        """
        if isinstance(device, Gpu):
            gpu = device
        elif isinstance(device, Device):
            gpu = gpus.from_device(device)
        else:
            gpu = gpus.load(device)
        if framework is not None and framework not in FRAMEWORKS:
            raise InputError(f"no framework {framework!r}; expected one of {', '.join(FRAMEWORKS)}", key="framework")
        return Kernels(gpu, framework, version, hide)


FRAMEWORKS = ("sglang", "trtllm", "vllm")
