"""What share of its peaks does a device reach on single operators? From measurements of operators, never of models.

Three shares a device. `matrix`: the best published rate of a matrix product over the peak, times what a typical large product reaches of
the best one. `fp32_matrix`: the median of large fp32 products (tensor cores off). `memory`: the median of large elementwise operators.
What was not measured on a device is the median of those of the same kind of device where it was, and is marked as carried over.
"""

from __future__ import annotations

from functools import cache

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.paths import DATA

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


def load(device: str) -> Share:
    """Shares of a device; those of `default GPU` or `default TPU` for one that is not listed."""
    if not covers(device):
        raise InputError(
            f"no share of the peak is known for {device} nor for its kind; covered: {', '.join(sorted(shares()))}", key="device"
        )
    return shares().get(device) or shares()[f"default {devices.load(device).kind.upper()}"]


def covers(device: str) -> bool:
    """Whether `load` has shares for a device."""
    return device in shares() or f"default {devices.load(device).kind.upper()}" in shares()
