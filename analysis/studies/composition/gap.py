"""By how much does a measured whole differ from the sum of its predicted parts, and whose fault is it?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Gap:
    """The composition gap: `gamma` as the protocol prints it, and with its sign, which the print throws away."""

    gamma: float
    signed: float


def composition_gap(whole_s: float, parts_s: Sequence[float]) -> Gap:
    """gamma = |T_whole - sum T_k| / sum T_k.

    The protocol says that gamma above zero means unmodeled overhead; the absolute value is above zero for over-prediction, too,
    so the sign is kept here.

    Args:
        whole_s: measured time of the whole, a model or a system (s).
        parts_s: predicted times of its parts (kernels, or one-device models).
    Source: survey draft, section 6.1.
    """
    total = math.fsum(parts_s)
    if whole_s <= 0 or total <= 0:
        raise ValueError("expected times above zero")
    signed = (whole_s - total) / total
    return Gap(abs(signed), signed)


def gap_bound_from_error(error: float) -> float:
    """Largest gap that goes with a relative error of a plain sum: |T - S| <= e T means gamma <= e / (1 - e).

    Args:
        error: relative error e of the prediction against the measured time, 0 <= e < 1.
    """
    if not 0 <= error < 1:
        raise ValueError("expected an error from 0 to below 1")
    return error / (1 - error)


@dataclass(frozen=True)
class Attribution:
    """Signed parts of a gap, each as a share of the predicted sum; they add up to the signed gap."""

    signed: float
    kernel_error: float
    inter_kernel_overhead: float
    communication_error: float

    @property
    def parts(self) -> dict[str, float]:
        """The three parts by name."""
        return {
            "kernel error": self.kernel_error,
            "inter-kernel overhead": self.inter_kernel_overhead,
            "communication error": self.communication_error,
        }


def attribute_gap(
    whole_s: float,
    predicted_kernels_s: Sequence[float],
    measured_kernels_s: Sequence[float],
    predicted_communication_s: float = 0.0,
    measured_communication_s: float = 0.0,
) -> Attribution:
    """Split a gap into kernel error, inter-kernel overhead and communication error, exactly.

    With P and M the sums of predicted and measured kernels, C' and C predicted and measured communication, T the whole:
    T - (P + C') = (M - P) + (C - C') + (T - M - C). Each part is divided by P + C'. Parts may be negative and cancel.

    Args:
        whole_s: measured time of the whole.
        predicted_kernels_s, measured_kernels_s: the same kernels, predicted and measured alone.
        predicted_communication_s, measured_communication_s: exposed communication.
    """
    if len(predicted_kernels_s) != len(measured_kernels_s):
        raise ValueError("expected the same kernels predicted and measured")
    predicted, measured = math.fsum(predicted_kernels_s), math.fsum(measured_kernels_s)
    total = predicted + predicted_communication_s
    if whole_s <= 0 or total <= 0:
        raise ValueError("expected times above zero")
    return Attribution(
        signed=(whole_s - total) / total,
        kernel_error=(measured - predicted) / total,
        inter_kernel_overhead=(whole_s - measured - measured_communication_s) / total,
        communication_error=(measured_communication_s - predicted_communication_s) / total,
    )
