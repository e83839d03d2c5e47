"""At what rate does a device run arithmetic of a StableHLO type, and what share of its peaks does it reach on single operators?

The rate is the type's own peak, or that of the type it is run in instead. Shares are from measurements of operators, never of models,
three a device. `matrix`: the best published rate of a matrix product over the peak, times what a typical large product reaches of it.
`fp32_matrix`: the median of large fp32 products (tensor cores off). `memory`: the median of large elementwise operators. What was not
measured on a device is the median of those of the same kind of device where it was, and is marked as carried over.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.hardware.devices import Device
from analysis.paths import DATA

_INSTEAD = {
    "f64": ("fp64",),
    "f32": ("fp32", "bf16"),  # a TPU without an fp32 unit runs f32 products in bf16 passes; one pass is counted
    "bf16": ("bf16", "fp32"),
    "f16": ("fp16", "bf16", "fp32"),
    "f8": ("fp8", "fp16", "bf16", "fp32"),
    "f6": ("fp6", "fp8", "fp16", "bf16", "fp32"),
    "f4": ("fp4", "fp8", "fp16", "bf16", "fp32"),
    "i8": ("int8", "fp16", "bf16", "fp32"),
    "i4": ("int4", "int8", "fp16", "bf16", "fp32"),
    "tf32": ("tf32", "fp32", "bf16"),
}


@dataclass(frozen=True)
class Rate:
    """Peak of one type of arithmetic.

    Args:
        flop_per_s: FLOP/s; infinite where the device's source gives no figure and the memory decides.
        runs_in: the device's type that is used.
        instead: whether that is not the type asked for.
    """

    flop_per_s: float
    runs_in: str
    instead: bool = False


@cache
def family(dtype: str) -> str:
    """The kind of arithmetic of an element type: ``f8`` for all 8-bit floats, ``i8``, ``i4``, ``f32`` for a complex number's parts."""
    plain = re.sub(r"^complex<(.*)>$", r"\1", dtype)
    quantised = re.search(r"quant.*<u?(i\d+)", plain)
    if quantised:
        plain = quantised.group(1)
    small = re.match(r"f([468])E", plain)
    if small:
        return f"f{small.group(1)}"
    integer = re.match(r"u?s?i(\d+)$", plain)
    if integer:
        return "i4" if int(integer.group(1)) in (2, 4) else "i8" if integer.group(1) == "8" else "f32"
    return plain if plain in _INSTEAD else "f32"


def matrix_rate(device: Device, dtype: str, f32_in: str = "fp32") -> Rate | None:
    """Peak of products and convolutions; `None` where the device cannot run the type.

    Args:
        f32_in: type that f32 products run in: ``fp32``, ``tf32`` or ``bf16``.
    """
    kind = family(dtype)
    chain = _INSTEAD[{"fp32": "f32"}.get(f32_in, f32_in)] if kind == "f32" else _INSTEAD[kind]
    for place, name in enumerate(chain):
        if name in device.peak:
            return Rate(device.peak_flop_per_s(name), name, place > 0)
    return None


def vector_rate(device: Device, dtype: str) -> Rate | None:
    """Peak of elementwise arithmetic: the vector unit's; a TPU's has no published figure, and there the memory decides."""
    if device.kind == "tpu":
        return None if family(dtype) == "f64" else Rate(math.inf, "fp32")
    name = "fp64" if family(dtype) == "f64" else "fp32"
    if name in device.vector or name in device.peak:
        return Rate(device.vector_flop_per_s(name), name)
    return None


PATH = DATA / "models" / "operator_efficiencies.yaml"


class Share(Strict):
    """Shares of the peaks of one device (1), and which were carried over from others."""

    matrix: float
    fp32_matrix: float
    memory: float
    carried: tuple[str, ...] = ()

    def of(self, dtype: str) -> float:
        """Share of the matrix peak for a data type."""
        return self.fp32_matrix if dtype in ("f32", "fp32") else self.matrix


class ShareFile(Strict):
    """`data/models/operator_efficiencies.yaml`.

    Args:
        typical_over_best: what a typical large product reaches of the best (1).
        hashes: of what the shares were fitted on.
    """

    fitted_on: str
    typical_over_best: float
    shares: dict[str, Share]
    hashes: dict[str, str]


@cache
def shares() -> dict[str, Share]:
    """The frozen shares by device."""
    return read_yaml(PATH, ShareFile).shares


def share_of(device: str) -> Share:
    """Shares of a device; those of `default GPU` or `default TPU` for one that is not listed."""
    if not has_share(device):
        raise InputError(
            f"no share of the peak is known for {device} nor for its kind; covered: {', '.join(sorted(shares()))}", key="device"
        )
    return shares().get(device) or shares()[f"default {devices.load(device).kind.upper()}"]


def has_share(device: str) -> bool:
    """Whether `share_of` has shares for a device."""
    return device in shares() or f"default {devices.load(device).kind.upper()}" in shares()
