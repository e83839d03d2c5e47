"""Fits one set of efficiencies for a GPU type to published steps, leaves one model out at a time, and scores other runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import pandas as pd
import yaml
from scipy.optimize import least_squares

from analysis.studies.freezing import digests
from analysis.studies.training.fixed_efficiency import published, published_other
from analysis.studies.training.fixed_efficiency.kernel_time import Efficiencies, EfficiencyFile
from analysis.studies.training.fixed_efficiency.published import Case

START = Efficiencies(gemm=0.75, memory=0.8, kernel_s=4e-6)
"""Where the fit starts, and to what the priors pull: shares that well-tuned kernels reach, and the cost of a launch."""

_CENTRE = np.log([START.gemm, START.memory, START.kernel_s])
_WIDTH = np.array([0.25, 0.25, 1.0])
_NOISE = 0.03


CaseMaker = Callable[[Efficiencies], Sequence[Case]]


def errors(cases: Sequence[Case], efficiencies: Efficiencies) -> np.ndarray:
    """Signed relative errors, predicted / measured - 1, of every case."""
    return np.array([case.predicted_s(efficiencies) / case.measured_s - 1 for case in cases])


def fit(make: CaseMaker, rounds: int = 3) -> Efficiencies:
    """Efficiencies that make the log of the step times fit best: least squares with wide priors, a few rounds.

    Args:
        make: cases, given the efficiencies with which they choose a microbatch that the source does not print; made anew each round.
    """

    def build(vector: np.ndarray) -> Efficiencies:
        gemm, memory, kernel_s = np.exp(vector)
        return START.model_copy(update={"gemm": float(min(gemm, 1.0)), "memory": float(min(memory, 1.0)), "kernel_s": float(kernel_s)})

    vector = _CENTRE.copy()
    for _ in range(rounds):
        cases = make(build(vector))
        target = np.log([case.measured_s for case in cases])

        def residuals(trial: np.ndarray, cases: Sequence[Case] = cases, target: np.ndarray = target) -> np.ndarray:
            predicted = np.log([case.predicted_s(build(trial)) for case in cases])
            return np.r_[(predicted - target) / _NOISE, (trial - _CENTRE) / _WIDTH]

        vector = least_squares(residuals, vector, diff_step=1e-3).x
    return build(vector)


def left_out(make: CaseMaker, by: Literal["model", "name"] = "model") -> dict[str, np.ndarray]:
    """Signed errors on each model (or case, for tables whose rows are all of one model) by efficiencies fitted on the others.

    Returns:
        model, in alphabetical order, or name of the case, in the order of the cases -> errors of its cases.
    """
    groups, result = dict.fromkeys(getattr(case, by) for case in make(START)), {}
    for group in sorted(groups) if by == "model" else groups:

        def others(given: Efficiencies, group: str = group) -> Sequence[Case]:
            return [case for case in make(given) if getattr(case, by) != group]

        efficiencies = fit(others)
        result[group] = errors([case for case in make(efficiencies) if getattr(case, by) == group], efficiencies)
    return result


SPLIT = (
    "fitted on the 16 PTD rows of Narayanan et al., SC 2021 (Tables 1 and 2) alone; the form (interleave of those rows, wave quantization) "
    "chosen by leave-one-model-out on the same rows; tested on Korthikanti et al. 2022 and on all other published runs"
)
DEVICE_FITS: dict[str, tuple[str, CaseMaker]] = {
    "A100-SXM4-80GB": (SPLIT, lambda efficiencies: published.sc21_cases(efficiencies, "one")),
    "V100-SXM3-32GB": ("fitted on the four DGX-2 rows of Megatron-LM's 2020 table", lambda _: published.scaling_2020_cases("DGX-2")),
    "TPU-v6e": ("fitted on the six Llama 3.1 8B rows of tpu-recipes", lambda _: published_other.v6e_cases("Llama3.1-8B-MaxText")),
}
"""Device -> what its efficiencies are fitted on, in words and as cases; the forms that were tried are in the log."""


def fit_devices() -> EfficiencyFile:
    """Every committed set of efficiencies; a device without rows carries over the A100's shares of the data sheet."""
    found = {device: fit(make) for device, (_, make) in DEVICE_FITS.items()}
    splits = {device: words for device, (words, _) in DEVICE_FITS.items()}
    a100 = found["A100-SXM4-80GB"]
    splits["default"] = "as A100-SXM4-80GB: the shares of the data sheet are carried over, nothing was fitted on the device"
    return EfficiencyFile(efficiencies={"default": a100, "A100-SXM4-40GB": a100, **found}, splits=splits, hashes=input_hashes())


def input_hashes() -> dict[str, str]:
    """SHA-256 of the table that the A100's fit reads."""
    path = published.PUBLISHED / "megatron_sc21.csv"
    return digests({f"published/{path.name}": path})


def efficiencies_yaml(table: EfficiencyFile) -> str:
    """The text of `data/models/training_efficiencies.yaml`."""
    head = f"# Fitted by {__name__}; the full tier of the notebook training_validation writes this file.\n"
    return head + yaml.safe_dump(table.model_dump(), sort_keys=False, width=140)


def evaluate(cases: Sequence[Case], efficiencies: Efficiencies) -> pd.DataFrame:
    """Measured and predicted steps of cases: case, source, gpus (count), measured_s, predicted_s (s), error (1, signed), assumed."""
    predicted = np.array([case.predicted_s(efficiencies) for case in cases])
    measured = np.array([case.measured_s for case in cases])
    return pd.DataFrame(
        {
            "case": [case.name for case in cases],
            "source": [case.source for case in cases],
            "gpus": [case.plan.gpus for case in cases],
            "measured_s": measured,
            "predicted_s": predicted,
            "error": predicted / measured - 1,
            "assumed": [case.assumed for case in cases],
        }
    )
