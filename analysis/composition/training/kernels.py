"""How long does a kernel of a training step take on a device? The kernel library, as the training predictor asks it."""

from __future__ import annotations

from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from analysis.composition.training import kernel_shares
from analysis.hardware import devices

Floats = NDArray[np.float64]


class Kernels(Protocol):
    """Seconds of kernels on one device; arrays broadcast."""

    def gemm_s(self, m: Floats, n: Floats, k: Floats, dtype: str) -> Floats:
        """(m x k) times (k x n)."""
        ...

    def batched_gemm_s(self, matrices: float, m: float, n: float, k: float) -> float:
        """`matrices` products of (m x k) and (k x n), 16 bits."""
        ...

    def attention_s(self, batch: Floats, heads: Floats, kv_heads: Floats, size: Floats, tokens: Floats, value: Floats) -> Floats:
        """Causal fused attention, forward."""
        ...

    def stream_s(self, size: Floats) -> Floats:
        """A kernel that moves `size` bytes."""
        ...


class DataSheet:
    """Rates of the data sheet times the shares that large kernels reach in the public tables, tiles and waves, and a launch."""

    def __init__(self, device: devices.Device, hide: str = "none") -> None:
        self.device = device
        self.shares = kernel_shares.of(device, hide)
        self.bandwidth = device.memory_bandwidth_bytes_per_s * 0.85
        self.sms = float(device.sm_count or 100)

    def _peak(self, dtype: str) -> tuple[float, float]:
        names = {"bf16": ("bf16", "fp16"), "fp8": ("fp8",), "nvfp4": ("fp4",)}[dtype]
        for name in names:
            if name in self.device.peak:
                return self.device.peak_flop_per_s(name), {"bf16": 2.0, "fp8": 1.0, "nvfp4": 0.5625}[dtype]
        return self.device.peak_flop_per_s("fp16"), 2.0

    def gemm_s(self, m: Floats, n: Floats, k: Floats, dtype: str) -> Floats:
        """Roofline with tiles of 128 x 128 and a launch of 4 us."""
        peak, size = self._peak(dtype)
        share = getattr(self.shares, dtype) or self.shares.fp8 or self.shares.bf16
        tiles = np.ceil(m / 128) * np.ceil(n / 128)
        waves = np.ceil(tiles / self.sms)
        compute = waves * self.sms * 128 * 128 * 2 * k / (share * peak)
        moved = size * (m * k + n * k) + 2 * m * n
        return np.asarray(np.maximum(np.minimum(compute, 2 * m * n * k / (0.2 * peak)), moved / self.bandwidth) + 4e-6, dtype=float)

    def batched_gemm_s(self, matrices: float, m: float, n: float, k: float) -> float:
        """Half the peak at most, and the matrix written or read once."""
        peak, _ = self._peak("bf16")
        return max(2 * matrices * m * n * k / (0.6 * peak), 2 * matrices * (m * n + m * k + n * k) / self.bandwidth) + 4e-6

    def attention_s(self, batch: Floats, heads: Floats, kv_heads: Floats, size: Floats, tokens: Floats, value: Floats) -> Floats:
        """Half of the square at the share of large prompts."""
        peak, _ = self._peak("bf16")
        flop = batch * heads * tokens**2 * (size + value)
        return np.asarray(flop / (self.shares.attention * peak) + 6e-6, dtype=float)

    def stream_s(self, size: Floats) -> Floats:
        """Bytes over 85 % of the bandwidth, and a launch."""
        return np.asarray(size / self.bandwidth + 3e-6, dtype=float)


@cache
def kernels_of(device: str, hide: str = "none") -> Kernels:
    """The kernels of a device.

    Args:
        device: as the hardware room names it; hide: none, device or architecture, as of the kernel library.
    """
    return DataSheet(devices.load(device), hide)
