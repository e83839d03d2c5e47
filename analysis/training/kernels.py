"""How long does a kernel of a training step take on a device? The kernel library, as the training predictor asks it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray

from analysis.case_rows import alike
from analysis.configs import Strict, read_yaml
from analysis.hardware import devices
from analysis.kernels.library import FRAMEWORKS, Hide, KernelLibrary
from analysis.paths import DATA

Floats = NDArray[np.float64]

AMD_ATTENTION = 0.4
"""Share of the peak in fused attention on AMD, whose kernels no table holds, before the share that is fitted on GPUs: assumed. Products are
counted at the peak, before the share that is fitted on AMD."""

OLDER = ("volta", "turing", "ampere")
"""Architectures whose programs are older than the tables' libraries, and have no attention kernels of their own there."""


def beyond_flash_2(device: devices.Device) -> float:
    """Peak of an SM over Hopper's (1 or more) where attention has kernels of its own, on Hopper and Blackwell with HBM; elsewhere 0.

    FlashAttention 2 is written for Ampere, whose instructions do no more on a later SM (docs.nvidia.com/cutlass, blackwell_functionality:
    tcgen05.mma has twice the throughput of Hopper's instructions).
    """
    if device.architecture not in ("hopper", "blackwell") or not device.memory_type.startswith("HBM"):
        return 0.0
    per_sm, hopper = (one.peak_flop_per_s("bf16") / float(one.sm_count or 1) for one in (device, devices.load("H100-SXM5-80GB")))
    return max(1.0, per_sm / hopper)


LARGE = (4096.0, 8192.0, 16384.0)
"""Rows, columns and depth of the products whose median rate stands for a device's kernels where their shapes are not asked for."""
NARROW = 1024.0
"""Columns at which quantisation is read off the tables, and twice as many."""


TPUS = DATA / "models" / "training_tpu.yaml"


class TpuFile(Strict):
    """Share of the peak in large products by TPU (below 1), stretch of the interval, and what they were fitted on."""

    split: str
    product: dict[str, float]
    stretch: tuple[float, float]
    hashes: dict[str, str]


@cache
def tpus() -> TpuFile:
    """The committed shares of TPUs."""
    return read_yaml(TPUS, TpuFile)


def tpu_share(device: devices.Device, known: Mapping[str, float]) -> float:
    """Share of the peak in large products of a TPU that is not among the known ones (1).

    share = 1 / (1 + ridge / intensity): arithmetic, and the bytes of tiles that on-chip memory does not hold; ridge is the data sheet's
    FLOP over its bytes, and the intensity of the products (FLOP over byte) is the known TPUs' geometric mean.
    """

    def ridge(one: devices.Device) -> float:
        return one.peak_flop_per_s("bf16") / one.memory_bandwidth_bytes_per_s

    bytes_over_flop = [np.log((1 / share - 1) / ridge(devices.load(name))) for name, share in known.items()]
    return float(1 / (1 + ridge(device) * np.exp(np.mean(bytes_over_flop))))


TPU_ATTENTION = 0.5
"""Share of a TPU's peak in fused attention: assumed."""
TPU_LANES = 128
"""A TPU's registers have as many lanes, to which sizes of a head are filled up."""
TPU_BLOCK = 1024
"""Queries and keys of a block of its fused attention, whose blocks on the diagonal and at a window's end are computed whole
(github.com/jax-ml/jax, pallas/ops/tpu/splash_attention): MaxText's base.yml has 512, Google's recipes for v6e and v7x 1,024 to 2,048."""

TPU_TILE = 512.0
"""Rows of a tile of a TPU's grouped product: a tile in which two experts meet is computed for each, so that every expert costs one more
(github.com/jax-ml/jax, pallas/ops/tpu/megablox, make_group_metadata; wi_tile_fwd_batch_seq of MaxText's base.yml)."""
TPU_CORES = {"TPU-v7x": 2}
"""TensorCores of a chip that are devices of their own, each with its half of the memory, all gathered weights and its part of the rows
(docs.cloud.google.com/tpu/docs/tpu7x)."""


def _once(function: Callable[..., Floats], *sizes: Floats | float) -> Floats:
    """A function of arrays, called once with the distinct rows of its arguments."""
    arrays = np.broadcast_arrays(*[np.asarray(values, dtype=float) for values in sizes])
    rows = [values.ravel() for values in arrays]
    codes, first = alike(*rows)
    return np.asarray(function(*(values[first] for values in rows))[codes].reshape(arrays[0].shape))


class Kernels:
    """Seconds of kernels on one device; arrays broadcast.

    On Ada and later each product and each attention is the fastest of the tables' frameworks at its own shape. The programs that were
    measured on Volta and Ampere are older than the tables' libraries: there a device has one rate, the median over large kernels, and
    tiles and waves. A TPU has a share of its peak, and no waves. `hide`: as of the kernel library.
    """

    def __init__(self, device: devices.Device, hide: Hide = "none") -> None:
        self.device = device
        timed = device.kind == "gpu" and device.vendor == "NVIDIA"
        self.tables = [KernelLibrary.load().on(device, framework, hide=hide) for framework in FRAMEWORKS] if timed else []
        self.by_shape = timed and device.architecture not in OLDER
        self.bandwidth = device.memory_bandwidth_bytes_per_s * 0.85
        self.sms = float(device.sm_count or 100)
        self.peak = device.peak_flop_per_s("bf16" if "bf16" in device.peak else "fp16")
        self.lanes, self.block = (TPU_LANES, TPU_BLOCK) if device.kind == "tpu" else (1, 0)
        if device.kind == "tpu":
            share = tpus().product.get(device.name) or tpu_share(device, tpus().product)
            self.sms, self.product_rate, self.attention_rate = 1.0, share * self.peak, TPU_ATTENTION * self.peak
        elif not timed:
            self.product_rate, self.attention_rate = self.peak, AMD_ATTENTION * self.peak
        elif not self.by_shape:
            m, n, k = (values.ravel() for values in np.meshgrid(LARGE, LARGE, LARGE))
            tokens = np.array(LARGE)
            products = self._product(m, n, k, "bf16")
            prompts = self._attention(np.ones(3), np.full(3, 32.0), np.full(3, 8.0), np.full(3, 128.0), tokens, np.full(3, 128.0))
            self.product_rate = float(np.median(2 * m * n * k / products))
            self.attention_rate = float(np.median(2 * 32 * tokens**2 * 128 / prompts))
            if not np.isfinite(self.product_rate):  # Volta and Turing, of which no table is: the shares of the peak that an A100 reaches
                known = kernels_of("A100-SXM4-80GB")
                self.product_rate, self.attention_rate = (
                    rate / known.peak * self.peak for rate in (known.product_rate, known.attention_rate)
                )

    def _product(self, m: Floats, n: Floats, k: Floats, dtype: str) -> Floats:
        return np.asarray(
            np.min([table.gemm(np.maximum(m, 1), np.maximum(n, 1), np.maximum(k, 1), dtype).s for table in self.tables], axis=0)
        )

    def _attention(self, batch: Floats, heads: Floats, kv: Floats, size: Floats, tokens: Floats, value: Floats) -> Floats:
        found = [
            table.attention_prefill(batch, heads, np.minimum(kv, heads), size, tokens, tokens, "bf16", value_head_size=value).s
            for table in self.tables
        ]
        return np.asarray(np.min(found, axis=0))

    def gemm_s(self, m: Floats, n: Floats, k: Floats, dtype: str) -> Floats:
        """(m x k) times (k x n), inputs in their type already.

        The tables' products in 8 and 4 bits include the quantisation of their input, which does not depend on n: its time is what is left
        at no columns, and is taken off. A training step quantises a tensor once for two products; `work` counts that by its bytes.
        """
        if not self.by_shape:
            tiles = np.ceil(m / 128) * np.ceil(n / 128)
            faster = self.device.peak_flop_per_s("fp8") / self.peak if dtype == "fp8" and "fp8" in self.device.peak else 1.0
            compute = np.ceil(tiles / self.sms) * self.sms * 128 * 128 * 2 * k / (self.product_rate * faster)
            moved = 2 * (m * k + n * k + m * n) / self.bandwidth
            return np.asarray(np.maximum(np.minimum(compute, 2 * m * n * k / (0.2 * self.peak)), moved) + 4e-6, dtype=float)

        def product(m: Floats, n: Floats, k: Floats) -> Floats:
            whole = self._product(m, n, k, dtype)
            if dtype == "bf16":
                return whole
            narrow, twice = (
                _once(lambda m, k, columns=columns: self._product(m, np.full_like(m, columns), k, dtype), m, k)
                for columns in (NARROW, 2 * NARROW)
            )
            return np.asarray(np.maximum(whole - np.maximum(0.0, 2 * narrow - twice), 0.3 * whole) + 4e-6)

        return _once(product, m, n, k)

    def batched_gemm_s(self, matrices: Floats, m: Floats, n: Floats, k: Floats) -> Floats:
        """`matrices` products of (m x k) and (k x n), 16 bits: 0.6 of the peak at most, and the matrix written or read once."""
        compute, moved = 2 * matrices * m * n * k / (0.6 * self.peak), 2 * matrices * (m * n + m * k + n * k) / self.bandwidth
        return np.asarray(np.maximum(compute, moved) + 4e-6)

    def attention_s(self, batch: Floats, heads: Floats, kv_heads: Floats, size: Floats, tokens: Floats, value: Floats) -> Floats:
        """Causal fused attention, forward, 16 bits."""
        if self.by_shape:
            return _once(self._attention, batch, heads, kv_heads, size, tokens, value)
        width = sum(np.ceil(each / self.lanes) * self.lanes for each in (size, value))
        pairs = tokens * (tokens + np.minimum(self.block, tokens))
        return np.asarray(batch * heads * pairs * width / self.attention_rate + 6e-6, dtype=float)

    def experts_s(
        self, tokens: Floats, experts: Floats, per_token: Floats, hidden: Floats, width: Floats, over: Floats, dtype: str
    ) -> Floats:
        """Routed experts of one GPU, forward, gated: `tokens` of each of the `over` GPUs that share the experts, dealt evenly.

        The tables hold 16,384 tokens of all GPUs together; a training step has as many on each. The same rows for the same local experts
        are asked for on one GPU.
        """
        local = np.maximum(experts / over, 1.0)
        if not self.tables:
            rows = tokens * per_token / local  # of each local expert
            rows += TPU_TILE * TPU_CORES.get(self.device.name, 1) if self.device.kind == "tpu" else 0.0
            pairs = ((2 * width, hidden), (hidden, width))
            return np.asarray(sum(local * self.gemm_s(rows, n, k, dtype) for n, k in pairs))
        chosen = np.minimum(per_token, local)
        types = ("fp8", "fp8_block") if dtype == "fp8" else (dtype,)

        def fastest(rows: Floats, count: Floats, top_k: Floats, inner: Floats, across: Floats) -> Floats:
            asked = [
                table.moe(rows, count, top_k, inner, across, kind, distribution="balanced").s for table in self.tables for kind in types
            ]
            return np.asarray(np.fmin.reduce(asked, axis=0))  # NaN where no table has the type

        return _once(fastest, np.maximum(tokens * per_token / chosen, 1.0), local, chosen, hidden, width)

    def stream_s(self, size: Floats) -> Floats:
        """Bytes over 85 % of the bandwidth, and a launch."""
        return np.asarray(size / self.bandwidth + 3e-6, dtype=float)


@cache
def kernels_of(device: str, hide: Hide = "none") -> Kernels:
    """The kernels of a device."""
    return Kernels(devices.load(device), hide)
