"""What the kernel models know of a GPU: the numbers of its data sheet, and under which name the tables measured it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, cached_property

from analysis.errors import InputError
from analysis.hardware import devices, own, systems
from analysis.hardware.devices import Device
from analysis.hardware.systems import System

ARCHITECTURES = {  # GPUs that are left out together, by their names in the tables
    "ampere": ("a100_sxm",),
    "ada": ("l40s",),
    "hopper": ("h100_sxm", "h200_sxm"),
    "blackwell": ("b200_sxm", "b300_sxm", "gb200", "gb300"),
    "blackwell workstation": ("rtx_pro_6000_server",),
}
SYSTEMS = tuple(system for systems in ARCHITECTURES.values() for system in systems)
_TYPES = {  # number type of a kernel: rate of the data sheet that bounds it; bytes of a weight, of an activation
    "bf16": ("bf16", 2.0, 2.0),
    "fp16": ("fp16", 2.0, 2.0),
    "fp8": ("fp8", 1.0, 1.0),
    "fp8_block": ("fp8", 1.0, 1.0),
    "nvfp4": ("fp4", 0.5625, 0.5625),
    "mxfp4": ("fp4", 0.53125, 1.0),
    "int8": ("int8", 1.0, 1.0),
    "int8_wo": ("bf16", 1.0, 2.0),
    "int4_wo": ("bf16", 0.5, 2.0),
}
PEAK_OF = {kind: rate for kind, (rate, _, _) in _TYPES.items()}
WEIGHT_BYTES = {kind: weight for kind, (_, weight, _) in _TYPES.items()}
ACTIVATION_BYTES = {kind: activation for kind, (_, _, activation) in _TYPES.items()}
SAME_TYPE = {
    "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float8": "fp8", "fp8_e4m3": "fp8", "int4": "int4_wo",
    "w4a16": "int4_wo", "w8a16": "int8_wo",
}  # fmt: skip


BLACKWELL_FLOP = 8192.0  # of 16 bits a cycle and multiprocessor: twice Hopper's (CUTLASS, media/docs/cpp/blackwell_functionality.md)


@dataclass(frozen=True)
class Gpu:
    """A device as the kernels of today's number types see it; what its data sheet lacks is assumed.

    Args:
        device: its data sheet.
        system: name in the kernel tables, empty where they lack it.
        architecture: key of `ARCHITECTURES`, or the data sheet's word.
        peak_flop_per_s: dense rate of each number type of `PEAK_OF` that the tensor cores have.
        node: what joins it to the others.
    """

    device: Device
    system: str
    architecture: str
    peak_flop_per_s: dict[str, float]
    node: System

    @property
    def name(self) -> str:
        """Name in `data/hardware`."""
        return self.device.name

    @property
    def vendor(self) -> str:
        """Of the card."""
        return self.device.vendor

    @cached_property
    def bandwidth_bytes_per_s(self) -> float:
        """Of device memory (bytes/s)."""
        return self.device.memory_bandwidth_bytes_per_s

    @cached_property
    def l2_bytes(self) -> float:
        """Last-level cache (bytes)."""
        return self.device.l2_bytes or 32e6

    @cached_property
    def sms(self) -> float:
        """Multiprocessors (count)."""
        return float(self.device.sm_count or 100)

    @property
    def tdp_w(self) -> float:
        """Board power (W)."""
        return self.device.tdp_w or 300.0

    @cached_property
    def clock_hz(self) -> float:
        """Boost clock (Hz); where the data sheet has none, of Blackwell the rate over `BLACKWELL_FLOP`, of others 1.9 GHz."""
        blackwell = self.architecture == "blackwell" and "bf16" in self.peak_flop_per_s
        return self.device.clock_hz or (self.peak_flop_per_s["bf16"] / self.sms / BLACKWELL_FLOP if blackwell else 1.9e9)


def from_device(device: Device) -> Gpu:
    """The GPU of a data sheet."""
    if device.sm_count is None and device.vendor == "NVIDIA":
        raise InputError(f"{device.name}: the data sheet lacks the number of multiprocessors (sms)", key="sms")
    architecture = device.architecture
    if architecture == "blackwell" and device.memory_type.startswith("GDDR"):
        architecture = "blackwell workstation"
    system = next((name for name in SYSTEMS if devices.load(name).name == own.measured_as(device.name)), "")
    rates = {dtype: device.peak[rate].value for dtype, rate in PEAK_OF.items() if rate in device.peak}  # type: ignore[index]
    if device.vendor != "NVIDIA":
        rates.pop("nvfp4", None)  # NVIDIA's own format; the 4-bit floats of AMD's matrix cores are mxfp4
    return Gpu(device, system, architecture, rates, systems.of_device(device))


@cache
def load(name: str) -> Gpu:
    """A GPU by its name in the tables (`h100_sxm`) or in `data/hardware`."""
    return from_device(devices.load(name))


def name(text: str) -> str:
    """Canonical name of a GPU: that of the kernel tables where they have it, else its data sheet's."""
    gpu = load(text)
    return gpu.name if own.system(gpu.name) else gpu.system or gpu.name


def siblings(gpu: Gpu) -> list[tuple[float, str]]:
    """Other timed GPUs of the same architecture, nearest first: distance and name in the tables.

    The distance is the sum of the absolute logarithms of the ratios of bf16 rate, bandwidth and multiprocessors; from 1 on (H20: a
    seventh of H100's rate) a card is not a sibling.
    """

    def distance(other: Gpu) -> float:
        rates = (gpu.peak_flop_per_s.get("bf16", 1.0), gpu.bandwidth_bytes_per_s, gpu.sms)
        theirs = (other.peak_flop_per_s["bf16"], other.bandwidth_bytes_per_s, other.sms)
        return sum(abs(math.log(a / b)) for a, b in zip(rates, theirs, strict=True))

    found = sorted((distance(load(name)), name) for name in ARCHITECTURES.get(gpu.architecture, ()) if name != gpu.system)
    return [(d, name) for d, name in found if d < 1.0]


def sixteen_bits(gpu: Gpu) -> Gpu:
    """A GPU whose bf16 kernels are its fp16 ones where it has no others (before Ampere): engines serve 16-bit checkpoints in fp16 there."""
    rates = gpu.peak_flop_per_s
    return gpu if "bf16" in rates or "fp16" not in rates else replace(gpu, peak_flop_per_s={**rates, "bf16": rates["fp16"]})


def number_type(dtype: str) -> str:
    """The plain name of a number type: `bfloat16` is `bf16`, `int4` is `int4_wo` (weights only)."""
    return SAME_TYPE.get(dtype.lower(), dtype.lower())


def kernel_type(dtype: str) -> str:
    """The type whose timings answer: fp16 takes bf16's."""
    plain = number_type(dtype)
    return "bf16" if plain == "fp16" else plain
