"""What do Neutrino's printed rate, power and area imply: clock, energy of a prediction, ratios to a GPU, seconds between sampled epochs?"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.errors import InputError

EPOCH = 100_000
"""Instructions of an epoch (NeuroScalar, section 4.1.1)."""

HOST_RATE = 3e9
"""Instructions a second of the host: 3 GHz at one instruction a cycle (NeuroScalar, section 4.2)."""


def clock_hz(instructions_per_s: float, cycles_per_instruction: float) -> float:
    """Clock that a rate implies: rate x cycles of the whole machine for each predicted instruction.

    Args:
        instructions_per_s: predicted. cycles_per_instruction: of all tiles together, so that eight tiles have an eighth.
    """
    return instructions_per_s * cycles_per_instruction


@dataclass(frozen=True)
class Sampling:
    """How often an epoch can be predicted.

    Args:
        interval_s: between the starts of two epochs. share: of the host's instructions that are predicted (1).
        busy_s: predictor time an epoch.
    """

    interval_s: float
    share: float
    busy_s: float

    @property
    def one_in(self) -> float:
        """The share as the paper prints it: one instruction (or epoch) in so many."""
        return 1 / self.share


def sampling(instructions_per_s: float, duty: float = 1.0, host_rate: float = HOST_RATE, epoch: int = EPOCH) -> Sampling:
    """Time between epochs (s) of a predictor that may work for a share of the time: interval_s = epoch / rate / duty.

    With the paper's numbers: 1/152642 of 3e9 instructions a second is 19,654 a second, 5.09 s an epoch; the text says 4.9.
    Source: NeuroScalar, Tables 2 and 3.

    Args:
        instructions_per_s: of the predictor at work. duty: share of the time it may work (a GPU that others use: 0.001).
        host_rate: instructions that the host retires a second. epoch: instructions.
    Raises:
        InputError: a rate or duty that is not above zero, or a duty above one.
    """
    if not instructions_per_s > 0 or not host_rate > 0:
        raise InputError("expected rates above zero", key="instructions_per_s")
    if not 0 < duty <= 1:
        raise InputError(f"expected above 0 to 1, got {duty}", key="duty")
    busy = epoch / instructions_per_s
    return Sampling(busy / duty, duty * instructions_per_s / host_rate, busy)


def energy_j(power_w: float, instructions_per_s: float) -> float:
    """Energy of one predicted instruction: power / rate."""
    return power_w / instructions_per_s


def efficiency_ratio(rate: float, power_w: float, other_rate: float, other_power_w: float) -> float:
    """Predictions a joule over those of another machine: (rate / power) / (other rate / other power).

    Args:
        power_w, other_power_w: while predicting; for a GPU usually its board limit, which it may not reach.
    """
    return energy_j(other_power_w, other_rate) / energy_j(power_w, rate)


def power_for_ratio(ratio: float, rate: float, power_w: float, other_rate: float) -> float:
    """Power of the other machine at which the efficiency ratio is a given one (W)."""
    return ratio * energy_j(power_w, rate) * other_rate
