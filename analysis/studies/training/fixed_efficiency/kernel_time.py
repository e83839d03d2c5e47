"""Time of the kernels of a block: roofline with one efficiency for matrix arithmetic and one for memory, and a cost for each launch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from pydantic import Field

from analysis.configs import Strict, read_yaml
from analysis.hardware.devices import Device
from analysis.hardware.roofline import Rates, time_on_device
from analysis.paths import DATA
from analysis.studies.training.fixed_efficiency.block import FusedAttention, Kernel, Stream
from analysis.studies.training.fixed_efficiency.communication import NETWORK_EFFICIENCY


class Efficiencies(Strict):
    """What a GPU type reaches of its data sheet.

    Args:
        gemm: share of the dense matrix peak in large products (1).
        memory: share of the memory bandwidth in streaming kernels (1).
        kernel_s: time that each kernel adds (s).
        attention: share of the matrix peak in fused attention (1).
        network: share of the bandwidth between nodes (1).
    """

    gemm: float = Field(gt=0, le=1)
    memory: float = Field(gt=0, le=1)
    kernel_s: float = Field(ge=0)
    attention: float = Field(default=0.5, gt=0, le=1)
    network: float = Field(default=NETWORK_EFFICIENCY, gt=0, le=1)


class EfficiencyFile(Strict):
    """`data/models/training_efficiencies.yaml`.

    Args:
        efficiencies: by device name, with `default` for those that are not there.
        splits: what each was fitted on, in words; hashes: SHA-256 of the inputs.
    """

    efficiencies: dict[str, Efficiencies]
    splits: dict[str, str] = Field(default_factory=dict)
    hashes: dict[str, str] = Field(default_factory=dict)


@cache
def committed() -> dict[str, Efficiencies]:
    """The committed efficiencies by device."""
    return read_yaml(DATA / "models" / "training_efficiencies.yaml", EfficiencyFile).efficiencies


def efficiencies_of(device: str) -> Efficiencies:
    """The committed efficiencies of a device; the default where there are none."""
    return committed().get(device, committed()["default"])


@dataclass(frozen=True)
class KernelTime:
    """Seconds of matrix arithmetic, of memory-bound work, and of launches."""

    matrix_s: float = 0.0
    memory_s: float = 0.0
    launch_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Sum of the parts."""
        return self.matrix_s + self.memory_s + self.launch_s

    def __add__(self, other: KernelTime) -> KernelTime:
        return KernelTime(self.matrix_s + other.matrix_s, self.memory_s + other.memory_s, self.launch_s + other.launch_s)

    def times(self, factor: float) -> KernelTime:
        """Every part times a factor."""
        return KernelTime(self.matrix_s * factor, self.memory_s * factor, self.launch_s * factor)


def kernel_time(kernel: Kernel, device: Device, dtype: str, efficiencies: Efficiencies) -> KernelTime:
    """Time of one kernel: max(FLOP / (gemm peak), bytes / (memory bandwidth)) + launches; filed under the larger of the two."""
    bandwidth = device.memory_bandwidth_bytes_per_s * efficiencies.memory
    if isinstance(kernel, Stream):
        return KernelTime(memory_s=kernel.bytes / bandwidth, launch_s=kernel.kernels * efficiencies.kernel_s)
    if isinstance(kernel, FusedAttention):
        sustained = device.peak_flop_per_s("bf16" if dtype == "fp8" else dtype) * efficiencies.attention
    else:
        sustained = device.peak_flop_per_s(dtype) * efficiencies.gemm
    time = time_on_device(kernel.flop, kernel.bytes, Rates(sustained, bandwidth))
    if time.is_compute_bound:
        return KernelTime(matrix_s=time.compute_s, launch_s=efficiencies.kernel_s)
    return KernelTime(memory_s=time.memory_s, launch_s=efficiencies.kernel_s)


def total(kernels: Iterable[Kernel], device: Device, dtype: str, efficiencies: Efficiencies) -> KernelTime:
    """Sum over kernels."""
    result = KernelTime()
    for kernel in kernels:
        result = result + kernel_time(kernel, device, dtype, efficiencies)
    return result
