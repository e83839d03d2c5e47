"""Latency of one kernel on one GPU: the entry point of serving, training and the command line.

>>> from analysis.kernels.library import KernelLibrary
>>> h100 = KernelLibrary.load().on("h100_sxm")
>>> answer = h100.gemm([1, 4096], 4096, 4096, "bf16")
>>> bool(answer.s[1] > answer.s[0])
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.errors import InputError
from analysis.hardware.devices import Device
from analysis.kernels import gpus, laws, physics, trees, work
from analysis.kernels.gpus import Gpu
from analysis.kernels.physics import Features, Sustained
from analysis.kernels.work import Floats
from analysis.networks.calibrated.form import KINDS as COLLECTIVES
from analysis.networks.collective_time import collective_time
from analysis.vocabulary import engine

Hide = Literal["none", "device", "architecture"]


ALL_REDUCE_OF = {("blackwell", "vllm"): "trtllm"}
"""Architecture, framework: the framework whose all-reduce it runs. There vLLM calls FlashInfer's all-reduce with residual and norm,
TensorRT-LLM's kernel, by default (https://docs.vllm.ai/en/v0.18.2/design/fusions/) and in the scripts of before
(https://github.com/SemiAnalysisAI/InferenceX, benchmarks/70b_fp4_b200_docker.sh, enable_fi_allreduce_fusion)."""


@dataclass(frozen=True)
class Latency:
    """Answers of one call, in the shape that its arguments broadcast to.

    Args:
        s: central latency (seconds); NaN where not covered.
        log_sd: standard deviation of its logarithm: the model's own doubt; a 90 % interval is ``s exp(-+1.645 log_sd)``.
        source: "measured gpu", "unmeasured gpu" (fitted on other GPUs), "data sheet" (nothing fitted) or "none".
        status: empty, or why there is no answer.
        note: empty, or what else the reader must know, such as a measured table that was not believed.
    """

    s: Floats
    log_sd: Floats
    source: str
    status: NDArray[np.object_]
    note: str = ""


STREAM_FLOOR_S, STREAM_SHARE, STREAM_SD = 2.29e-06, 0.791, 0.652
"""A pass over memory: latency of the smallest (s), share of the data sheet's bandwidth (1), spread of log latency; fitted on the tables for
the first version of these models, which had shares of all kernels (shares.yaml before commit 5147d260). No command fits them anew."""


_forests, _laws, _sustained = cache(trees.read), cache(laws.read), cache(physics.read_sustained)


def _window(keys: Floats) -> Floats:
    return np.where(keys >= 1e8, 0.0, keys)


def _middle(own: list[Latency], engines: tuple[str, ...]) -> Latency:
    """The median of several engines' kernels for one question; its doubt has their spread and that of measuring again."""
    logs = np.log([each.s for each in own])
    log_s = np.median(logs, axis=0)
    apart = ((logs - log_s) ** 2).sum(axis=0) / max(len(own) - 1, 1)
    doubt = np.median([each.log_sd for each in own], axis=0)
    note = f"median of {', '.join(engines)}, since no engine is named" if len(own) > 1 else ""
    return replace(own[0], s=np.exp(log_s), log_sd=np.sqrt(doubt**2 + apart + MEASURED_AGAIN_SD**2), note=note or own[0].note)


def _not_covered(operator: str, dtype: str, types: tuple[str, ...]) -> str:
    return "" if dtype in types else f"number type {dtype} of {operator} is not covered; covered: {', '.join(types)}"


@dataclass(frozen=True)
class Kernels:
    """The kernels of one GPU; every call takes arrays that broadcast.

    Args:
        framework: the engine whose kernels run; None: the median of all whose kernels were timed, its doubt with their spread.
    """

    gpu: Gpu
    framework: str | None = None
    hide: Hide = "none"

    def timed_version(self, operator: str, dtype: str) -> str:
        """Version of the framework whose timings answer, such as "vllm 0.24.0"; empty where no single one does."""
        if self.framework is None:
            return ""
        fitted, framework, source, _ = self._model(operator, dtype)
        return f"{framework} {fitted.version}" if fitted and fitted.version and source != "none" else ""

    def _refuse(self, shape: tuple[int, ...], reason: str) -> Latency:
        return Latency(np.full(shape, np.nan), np.full(shape, np.nan), "none", np.full(shape, reason, dtype=object))

    @property
    def _hidden(self) -> str:
        return self.gpu.architecture if self.hide != "none" and self.gpu.architecture in gpus.ARCHITECTURES else "none"

    def measured_by(self, operator: str, dtype: str) -> tuple[str, ...]:
        """Frameworks whose tables of an operator and number type may be used here: this GPU's, or where it has none, any other's."""
        keys = [key.split("/") for key in _forests(f"measured_{operator}")]
        own = tuple(f for system, f, t in keys if t == gpus.kernel_type(dtype) and system == self.gpu.system and self.hide == "none")
        near = {name for _, name in gpus.siblings(self.gpu)} if self.hide != "architecture" else set()
        seen = [k for k in keys if k[2] == gpus.kernel_type(dtype) and (k[0] in near or gpus.load(k[0]).architecture != self._hidden)]
        return own or tuple(f for f in FRAMEWORKS if any(k[1] == f for k in seen))

    def _model(self, operator: str, dtype: str) -> tuple[trees.Fitted | None, str, str, str]:
        """The forest that answers, the framework it is for, the source, and the reason where there is none."""
        measured = _forests(f"measured_{operator}")
        wanted = (self.framework,) if self.framework else ORDER
        if self.gpu.system and self.hide == "none":
            for framework in wanted:
                found = measured.get(f"{self.gpu.system}/{framework}/{dtype}")
                if found:
                    return found, framework, "measured gpu", ""
        if self.hide != "architecture":
            for framework in wanted:
                for distance, sibling in gpus.siblings(self.gpu):
                    found = measured.get(f"{sibling}/{framework}/{dtype}")
                    if found:
                        wider = np.hypot(found.log_sd, SIBLING_SD[operator] * (1 + distance))
                        return found._replace(log_sd=wider), framework, "unmeasured gpu", ""
        known = {
            key.split("/")[2] for key in measured if self._hidden == "none" or gpus.load(key.split("/")[0]).architecture != self._hidden
        }
        if dtype not in known:
            return None, "", "none", f"{operator} in {dtype} was measured on no other GPU; covered: {', '.join(sorted(known))}"
        frameworks = [f for f in wanted if any(key.split("/")[1:] == [f, dtype] for key in measured)] or list(wanted)
        pooled = _forests(f"pooled_{operator}")
        return pooled.get(f"{self._hidden}/{dtype}") or pooled.get(f"{self._hidden}/"), frameworks[0], "unmeasured gpu", ""

    def _answer(
        self,
        operator: str,
        cell_type: str,
        rate_type: str,
        sizes: tuple[ArrayLike, ...],
        build: Callable[[Any, str, Sustained], Features],
        hull: Callable[[Any], list[Floats]],
        variant: str = "",
        reason: str = "",
    ) -> Latency:
        """Time of one operator; `reason`: why it is refused whatever the GPU. Other makers' cards have tiles, waves and memory alone."""
        arrays = np.broadcast_arrays(*[np.asarray(v, dtype=np.float64) for v in sizes])
        shape, flat = arrays[0].shape, tuple(a.ravel() for a in arrays)
        if reason or rate_type not in self.gpu.peak_flop_per_s:
            return self._refuse(shape, reason or f"{self.gpu.name} has no {rate_type} rate in its data sheet")
        valid = np.logical_and.reduce([np.isfinite(values) & (values >= 1) & (values < 1e9) for values in flat])
        safe = tuple(np.where(valid, values, 1.0) for values in flat)

        def latency(seconds: Floats, log_sd: Floats | float, source: str) -> Latency:
            status = np.where(valid, "", "every size must be at least 1 and below 1e9").astype(object)
            s, sd = (np.where(valid, values, np.nan).reshape(shape) for values in (seconds, log_sd))
            return Latency(s, sd, source, status.reshape(shape))

        if self.gpu.vendor != "NVIDIA" or not _forests(f"measured_{operator}"):
            return latency(build(safe, ORDER[0], _sustained()["none"]).base_s, 0.5, "data sheet")
        if self.framework is None and (engines := self.measured_by(operator, cell_type)):
            own = [replace(self, framework=f)._answer(operator, cell_type, rate_type, sizes, build, hull, variant) for f in engines]
            return _middle(own, engines)
        fitted, framework, source, reason = self._model(operator, cell_type)
        if fitted is None:
            return self._refuse(shape, reason or f"{operator} has no fitted parameters")
        one_gpus = bool(fitted.version)  # forests of one GPU, this or a sibling, were fitted with the levels of all GPUs
        levels = _sustained()["none"] if one_gpus else physics.carried(operator, _sustained()[self._hidden])
        got = build(safe, framework, levels)
        if not one_gpus and laws.used(operator, f"{self._hidden}/{cell_type}", _forests(f"pooled_{operator}")):
            got = laws.widen(got, _laws()[operator][self._hidden].log_theta(self.gpu, framework, cell_type, variant, levels))
        family = "" if one_gpus else laws.called(operator, framework, self.gpu.architecture, variant)
        seconds = got.base_s * np.exp(laws.answer(operator, got, fitted.forest, self.gpu, family))
        log_sd = fitted.log_sd[np.digitize(got.base_s, fitted.edges)]
        if fitted.hull.shape[1]:
            logs = np.stack(hull(safe))
            outside = np.maximum(fitted.hull[:1].T - logs, 0) + np.maximum(logs - fitted.hull[1:].T, 0)
            log_sd = log_sd + 0.1 * np.minimum(outside.sum(axis=0), 5.0)
        return latency(seconds, log_sd, source)

    def gemm(self, m: ArrayLike, n: ArrayLike, k: ArrayLike, dtype: str) -> Latency:
        """C (m, n) = A (m, k) B (k, n); the answer includes the framework's quantisation of A where it quantises on the way.

        Where no engine is named, A may come quantised: the interval reaches down to the product alone.
        """
        dtype = gpus.kernel_type(dtype)
        got = self._answer(
            "gemm", dtype, dtype, (m, n, k),
            lambda z, f, s: physics.gemm(z[0], z[1], z[2], dtype, f, self.gpu, s),
            lambda z: [np.log(v) for v in z],
            reason=_not_covered("gemm", dtype, GEMM_TYPES),
        )  # fmt: skip
        if self.framework is None and dtype in QUANTISED and got.source != "none":
            pass_s = self.memory_bound(3 * np.asarray(m, np.float64) * np.asarray(k, np.float64)).s  # 2 bytes read, 1 written
            got = replace(got, log_sd=np.hypot(got.log_sd, -np.log1p(-np.minimum(pass_s / got.s, 0.6)) / 1.645))
        return got

    def _attention_types(self, dtype: str, kv_dtype: str | None) -> tuple[str, str, str]:
        dtype, kv = gpus.kernel_type(dtype), gpus.kernel_type(kv_dtype or dtype)
        bad = [d for d in (dtype, kv) if d not in ("bf16", "fp8")]
        return dtype, kv, f"number type {bad[0]} of attention is not covered; covered: bf16, fp16, fp8" if bad else ""

    def attention_prefill(
        self,
        batch: ArrayLike,
        query_heads: ArrayLike,
        kv_heads: ArrayLike,
        head_size: ArrayLike,
        query_tokens: ArrayLike,
        kv_tokens: ArrayLike,
        dtype: str,
        kv_dtype: str | None = None,
        causal: bool = True,
        value_head_size: ArrayLike | None = None,
        window: ArrayLike = 0,
    ) -> Latency:
        """Attention of prompts: `query_tokens` new ones a sequence over `kv_tokens` in all (grouped or multi-head).

        Args:
            window: keys that a query sees at most; 0: all.
        """
        value = head_size if value_head_size is None else value_head_size
        sizes = (batch, query_heads, kv_heads, head_size, value, query_tokens, kv_tokens, np.where(np.asarray(window) > 0, window, 1e8))
        dtype, kv, reason = self._attention_types(dtype, kv_dtype)
        return self._answer(
            "attention_prefill", "", dtype, sizes,
            lambda z, f, s: physics.attention_prefill(
                z[0], z[1], z[2], z[3], z[4], z[5], z[6], _window(z[7]), dtype, kv, f, self.gpu, s, causal=causal),
            lambda z: [np.log(z[i]) for i in (0, 1, 2, 3, 6)] + [np.full(len(z[0]), np.log(0.5))],
            f"{dtype}/{kv}", reason,
        )  # fmt: skip

    def attention_decode(
        self,
        batch: ArrayLike,
        query_heads: ArrayLike,
        kv_heads: ArrayLike,
        head_size: ArrayLike,
        kv_tokens: ArrayLike,
        dtype: str,
        kv_dtype: str | None = None,
        window: ArrayLike = 0,
    ) -> Latency:
        """Attention of one new token a sequence over `kv_tokens` cached ones, its own among them; the arithmetic is in 16 bits."""
        sizes = (batch, query_heads, kv_heads, head_size, kv_tokens, np.where(np.asarray(window) > 0, window, 1e8))
        _, kv, reason = self._attention_types(dtype, kv_dtype)
        return self._answer(
            "attention_decode", "", "bf16", sizes,
            lambda z, f, s: physics.attention_decode(z[0], z[1], z[2], z[3], z[4], _window(z[5]), "bf16", kv, f, self.gpu, s),
            lambda z: [np.log(z[i]) for i in (0, 1, 2, 3)] + [np.log(np.maximum(z[4] - 1, 0.5)), np.full(len(z[0]), np.log(0.5))],
            f"bf16/{kv}", reason,
        )  # fmt: skip

    def latent_attention_prefill(
        self, batch: ArrayLike, heads: ArrayLike, query_tokens: ArrayLike, kv_tokens: ArrayLike, dtype: str, kv_dtype: str | None = None
    ) -> Latency:
        """Multi-head latent attention of prompts, keys and values expanded (512 + 64 latent; 192 and 128 a head)."""
        sizes = (batch, heads, query_tokens, kv_tokens)
        _, kv, reason = self._attention_types(dtype, kv_dtype)
        d, v = work.QK_LATENT, work.V_LATENT
        return self._answer(
            "latent_prefill", "", "bf16", sizes,
            lambda z, f, s: physics.attention_prefill(z[0], z[1], z[1], d, v, z[2], z[3], 0, "bf16", kv, f, self.gpu, s, latent=True),
            lambda z: [np.log(z[i]) for i in (1, 0, 3)],
            reason=reason,
        )  # fmt: skip

    def latent_attention_decode(
        self, batch: ArrayLike, heads: ArrayLike, kv_tokens: ArrayLike, dtype: str, kv_dtype: str | None = None
    ) -> Latency:
        """Multi-head latent attention of one new token a sequence, over the latent cache."""
        sizes = (batch, heads, kv_tokens)
        _, kv, reason = self._attention_types(dtype, kv_dtype)
        d = work.LATENT + work.ROPE
        return self._answer(
            "latent_decode", "", "bf16", sizes,
            lambda z, f, s: physics.attention_decode(z[0], z[1], z[1], d, z[2], 0, "bf16", kv, f, self.gpu, s, latent=True),
            lambda z: [np.log(z[1]), np.log(z[0]), np.log(np.maximum(z[2] - 1, 0.5))],
            reason=reason,
        )  # fmt: skip

    def moe(
        self,
        tokens: ArrayLike,
        experts: ArrayLike,
        top_k: ArrayLike,
        hidden: ArrayLike,
        intermediate: ArrayLike,
        dtype: str,
        tensor_parallel: ArrayLike = 1,
        expert_parallel: ArrayLike = 1,
        distribution: str = "power_law_1.01",
    ) -> Latency:
        """Expert GEMMs of one GPU for a batch of `tokens` over all GPUs that share the experts.

        Args:
            distribution: balanced, power_law_1.01 or power_law_1.2: how unevenly tokens choose experts.
        """
        dtype = gpus.kernel_type(dtype)
        sizes = (tokens, experts, top_k, hidden, intermediate, tensor_parallel, expert_parallel)
        stray = "" if distribution in DISTRIBUTIONS else f"distribution {distribution!r} is not covered"
        return self._answer(
            "moe", dtype, dtype, sizes,
            lambda z, f, s: physics.moe(z[0], z[1], z[2], z[3], z[4], z[5], z[6], dtype, distribution, f, self.gpu, s),
            lambda z: [np.log(z[i]) for i in (0, 1, 2, 3, 4, 5, 6)],
            distribution, _not_covered("moe", dtype, MOE_TYPES) or stray,
        )  # fmt: skip

    def memory_bound(self, bytes: ArrayLike) -> Latency:
        """A pass over memory that reads and writes `bytes` in all: norms, activations, quantisation, embeddings."""
        moved = np.asarray(bytes, dtype=np.float64)
        seconds = STREAM_FLOOR_S + physics.memory_time(moved, self.gpu) / STREAM_SHARE
        valid = (moved >= 0) & np.isfinite(moved)
        return Latency(
            np.where(valid, seconds, np.nan),
            np.where(valid, STREAM_SD, np.nan),
            "unmeasured gpu" if self.gpu.vendor == "NVIDIA" else "data sheet",
            np.where(valid, "", "bytes must be at least 0").astype(object),
        )

    def collective(self, kind: str, bytes: ArrayLike, devices: ArrayLike, implementation: str = "nccl", stride: int = 1) -> Latency:
        """A collective, NCCL's or the framework's own all-reduce (`custom`), as `networks.collective_time` has it.

        Args:
            bytes: of the message as NCCL's tests count it: a GPU's vector for all_reduce, the whole of all GPUs otherwise.
            devices: GPUs; one takes no time. stride: how far apart they lie (1: neighbours).
        """
        size, counts = np.broadcast_arrays(np.asarray(bytes, dtype=np.float64), np.asarray(devices, dtype=np.float64))
        if kind not in COLLECTIVES or implementation not in ("nccl", "custom"):
            return self._refuse(size.shape, f"collective {kind} ({implementation}) is not covered; covered: {', '.join(COLLECTIVES)}")
        gpu = self.gpu
        seconds, log_sd = np.full(size.shape, np.nan), np.full(size.shape, np.nan)
        valid = (size >= 0) & np.isfinite(size) & (counts >= 1) & (counts <= 1e6)
        own = ALL_REDUCE_OF.get((gpu.architecture, self.framework or ""), self.framework)
        names = (own or "", "custom", "nccl") if implementation == "custom" else ("nccl",)
        hidden = gpu.node.load_device().architecture if self.hide != "none" and gpu.system else ""
        source, notes = "unmeasured gpu" if gpu.vendor == "NVIDIA" else "data sheet", list[str]()
        for count in np.unique(counts[valid]):
            at = valid & (counts == count)
            got = collective_time(kind, size[at], int(count), gpu.node, stride, implementations=names, hide=hidden)
            seconds[at], log_sd[at] = got.seconds, got.log_sd
            notes += got.assumed
            held, network = gpu.node.devices_per_node, gpu.node.network
            if count > held and network is not None:
                notes.append(f"{count:.0f} GPUs over nodes of {held}, {8e-9 * network.bandwidth_bytes_per_s:.0f} Gbit/s of network a GPU")
            if got.basis == "measured" and count > 1:
                source = "measured gpu"
        status = np.where(valid, "", "bytes must be at least 0 and devices at least 1").astype(object)
        return Latency(seconds, log_sd, source, status, "; ".join(dict.fromkeys(notes)))


@dataclass(frozen=True)
class KernelLibrary:
    """The committed kernel models of every GPU."""

    @classmethod
    def load(cls) -> KernelLibrary:
        """The committed parameters; no dataset is needed."""
        return cls()

    def on(self, device: str | Device | Gpu, framework: str | None = None, hide: Hide = "none") -> Kernels:
        """The kernels of one GPU.

        Args:
            device: name in the tables (`h100_sxm`), in `data/hardware`, or a data sheet of your own.
            framework: trtllm, vllm or sglang; None: the tables' mean.
            hide: "device" or "architecture": answer as if that GPU, or all of its architecture, had never been measured. A GPU that was
                not measured, or is hidden, is answered by the forests of its nearest sibling (`gpus.siblings`), else by the pooled ones.
        """
        if isinstance(device, Gpu):
            gpu = device
        elif isinstance(device, Device):
            gpu = gpus.from_device(device)
        else:
            gpu = gpus.load(device)
        framework = framework and engine(framework)
        if framework is not None and framework not in FRAMEWORKS:
            raise InputError(f"no engine {framework!r}; expected one of {', '.join(FRAMEWORKS)}", key="engine")
        return Kernels(gpu, framework, hide)


FRAMEWORKS = physics.FRAMEWORKS
SIBLING_SD = {  # of log latency when a GPU is answered by a sibling's forest: from the six timed GPUs that have one, fitted shapes only
    "gemm": 0.11, "attention_prefill": 0.16, "attention_decode": 0.09, "latent_prefill": 0.13, "latent_decode": 0.1, "moe": 0.11,
}  # fmt: skip
MEASURED_AGAIN_SD = 0.105
"""Of log latency, of one kernel measured again with another release: products in bf16 are cuBLAS's in all three engines, and between two of
their tables |log ratio| has its 90th percentile at 1.645 times this (27 pairs in aiconfigurator-core 0.12.0)."""
ORDER = ("vllm", "trtllm", "sglang")  # whose kernels answer where none is named
GEMM_TYPES = ("bf16", "fp8", "fp8_block", "nvfp4", "int8", "int8_wo", "int4_wo")
QUANTISED = ("fp8", "fp8_block", "nvfp4", "int8")  # types whose activations an engine quantises on the way
MOE_TYPES = ("bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int4_wo")
DISTRIBUTIONS = ("balanced", "power_law_1.01", "power_law_1.2")
