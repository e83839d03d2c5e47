"""Fits one set of efficiencies for a GPU type to published steps, and leaves one model out at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import least_squares

from analysis.composition.training.fixed_efficiency.kernel_time import Efficiencies
from analysis.composition.training.fixed_efficiency.published import Case

START = Efficiencies(gemm=0.75, memory=0.8, kernel_s=4e-6)
"""Where the fit starts, and to what the priors pull: shares that well-tuned kernels reach, and the cost of a launch."""

_CENTRE = np.log([START.gemm, START.memory, START.kernel_s])
_WIDTH = np.array([0.25, 0.25, 1.0])
_NOISE = 0.03


@dataclass(frozen=True)
class Form:
    """One form of the model that was tried.

    Attributes:
        interleave: rule of `published.interleave_of` for the runs that do not print it.
        wave_quantization: as in `Efficiencies`.
    """

    interleave: str
    wave_quantization: bool

    @property
    def name(self) -> str:
        """For the log."""
        return f"interleave={self.interleave} waves={'on' if self.wave_quantization else 'off'}"


FORMS = tuple(Form(interleave, waves) for interleave in ("one", "two", "most") for waves in (False, True))

CaseMaker = Callable[[Efficiencies], Sequence[Case]]


def errors(cases: Sequence[Case], efficiencies: Efficiencies) -> np.ndarray:
    """Signed relative errors, predicted / measured - 1, of every case."""
    return np.array([case.predicted_s(efficiencies) / case.measured_s - 1 for case in cases])


def fit(make: CaseMaker, wave_quantization: bool, rounds: int = 3) -> Efficiencies:
    """Efficiencies that make the log of the step times fit best: least squares with wide priors, a few rounds.

    Args:
        make: cases, given the efficiencies with which they choose a microbatch that the source does not print; made anew each round.
    """

    def build(vector: np.ndarray) -> Efficiencies:
        gemm, memory, kernel_s = np.exp(vector)
        return START.model_copy(
            update={
                "gemm": float(min(gemm, 1.0)),
                "memory": float(min(memory, 1.0)),
                "kernel_s": float(kernel_s),
                "wave_quantization": wave_quantization,
            }
        )

    vector = _CENTRE.copy()
    for _ in range(rounds):
        cases = make(build(vector))
        target = np.log([case.measured_s for case in cases])

        def residuals(trial: np.ndarray, cases: Sequence[Case] = cases, target: np.ndarray = target) -> np.ndarray:
            predicted = np.log([case.predicted_s(build(trial)) for case in cases])
            return np.r_[(predicted - target) / _NOISE, (trial - _CENTRE) / _WIDTH]

        vector = least_squares(residuals, vector, diff_step=1e-3).x
    return build(vector)


def left_out(make: CaseMaker, wave_quantization: bool, by: Literal["model", "name"] = "model") -> dict[str, np.ndarray]:
    """Signed errors on each model (or case, for tables whose rows are all of one model) by efficiencies fitted on the others.

    Returns:
        model, in alphabetical order, or name of the case, in the order of the cases -> errors of its cases.
    """
    groups, result = dict.fromkeys(getattr(case, by) for case in make(START)), {}
    for group in sorted(groups) if by == "model" else groups:

        def others(given: Efficiencies, group: str = group) -> Sequence[Case]:
            return [case for case in make(given) if getattr(case, by) != group]

        efficiencies = fit(others, wave_quantization)
        result[group] = errors([case for case in make(efficiencies) if getattr(case, by) == group], efficiencies)
    return result
