"""Chooses and fits the A100 efficiencies on the SC'21 rows alone, then measures them on runs that the fit never saw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import yaml

from analysis import attempts
from analysis.composition.training.fixed_efficiency import calibrate, published, published_other
from analysis.composition.training.fixed_efficiency.kernel_time import Efficiencies, EfficiencyFile
from analysis.composition.training.fixed_efficiency.published import Case
from analysis.freezing import digests

SPLIT = (
    "fitted on the 16 PTD rows of Narayanan et al., SC 2021 (Tables 1 and 2) alone; the form (interleave of those rows, wave quantization) "
    "chosen by leave-one-model-out on the same rows; tested on Korthikanti et al. 2022 and on all other published runs"
)


@dataclass(frozen=True)
class Choice:
    """The fit that was chosen, and every form that was tried."""

    form: calibrate.Form
    efficiencies: Efficiencies
    attempts: pd.DataFrame
    left_out: pd.DataFrame


def choose() -> Choice:
    """Fits every form on the SC'21 rows and takes the one with the smallest mean leave-one-model-out error on them.

    The errors on the 2022 rows are logged beside it for every form, after the choice; they play no part in it.
    """
    rows, candidates = [], []
    for form in calibrate.FORMS:

        def make(efficiencies: Efficiencies, form: calibrate.Form = form) -> Sequence[Case]:
            return published.sc21_cases(efficiencies, form.interleave)

        efficiencies = calibrate.fit(make, form.wave_quantization)
        left_out = calibrate.left_out(make, form.wave_quantization)
        selection = float(np.mean(np.abs(np.concatenate(list(left_out.values())))))
        candidates.append((selection, form, efficiencies, left_out, make))
        rows.append({"configuration": form.name, "selection_value": selection})
    _, form, efficiencies, left_out, make = min(candidates, key=lambda candidate: candidate[0])
    for row, (_, tried, fitted, _, _) in zip(rows, candidates, strict=True):
        test = np.abs(calibrate.errors(published.korthikanti_cases(), fitted))
        note = "" if tried == form else "test value computed after the choice, for the log"
        row |= {"test_value": float(test.mean()), "test_max": float(test.max()), "chosen": tried == form, "note": note}
    cases = {group: [case for case in make(efficiencies) if case.model == group] for group in left_out}
    table = pd.DataFrame(
        [
            {"model": group, "case": case.name, "measured_s": case.measured_s, "error_left_out": float(error)}
            for group, group_errors in left_out.items()
            for case, error in zip(cases[group], group_errors, strict=True)
        ]
    )
    table["error_in_fit"] = calibrate.errors([case for group in left_out for case in cases[group]], efficiencies)
    tried_forms = attempts.rows(
        rows,
        room="training",
        experiment="a100_step_time",
        fitted_on="SC'21 PTD rows (16)",
        selection_metric="mean |error|, leave one model out, SC'21",
        tested_on="Korthikanti 2022, Table 5 (8)",
        test_metric="mean |error|",
    )
    return Choice(form, efficiencies, tried_forms, table)


DEVICE_FITS = {
    "V100-SXM3-32GB": ("the four DGX-2 rows of Megatron-LM's 2020 table", lambda efficiencies: published.scaling_2020_cases("DGX-2")),
    "TPU-v6e": ("the six Llama 3.1 8B rows of tpu-recipes", lambda efficiencies: published_other.v6e_cases("Llama3.1-8B-MaxText")),
}
"""Device -> the rows that its efficiencies are fitted on, in words and as cases; the form is the one chosen for the A100."""


def fit_devices() -> tuple[EfficiencyFile, pd.DataFrame]:
    """Every committed set of efficiencies, and the log of what was tried for the devices other than the A100.

    The H100 keeps the A100's shares: a fit on its only single-node rows (MPT-7B, 2023) was tried and tells less about Llama 3, as logged.
    """
    choice = choose()
    table = {"default": choice.efficiencies, "A100-SXM4-80GB": choice.efficiencies, "A100-SXM4-40GB": choice.efficiencies}
    splits = {
        "default": "as A100-SXM4-80GB: the shares of the data sheet are carried over, nothing was fitted on the device",
        "A100-SXM4-80GB": SPLIT,
        "A100-SXM4-40GB": "as A100-SXM4-80GB",
    }
    logged = [choice.attempts]
    tests: dict[str, tuple[str, Sequence[Case]]] = {
        "V100-SXM3-32GB": ("leave one model out on the same rows", ()),
        "TPU-v6e": ("Llama 3.1 70B on four slices", published_other.v6e_cases("Llama3.1-70B-MaxText")),
    }
    for device, (words, make) in DEVICE_FITS.items():
        table[device] = calibrate.fit(make, choice.form.wave_quantization)
        splits[device] = f"fitted on {words}"
        name, cases = tests[device]
        left_out = np.concatenate(list(calibrate.left_out(make, choice.form.wave_quantization, by="name").values()))
        error = calibrate.errors(cases, table[device]) if cases else left_out
        logged.append(_device_attempt(device, "fitted", words, name, left_out, error, True))
    llama = published_other.llama3_cases()
    mpt = calibrate.fit(lambda efficiencies: published_other.mpt_cases("H100 80GB", "HGX-H100"), choice.form.wave_quantization)
    none = np.array([np.nan])
    for configuration, words, efficiencies, chosen in (
        ("A100's shares", "nothing", choice.efficiencies, True),
        ("fitted", "the four MPT-7B rows on 8 H100", mpt, False),
    ):
        error = calibrate.errors(llama, efficiencies)
        logged.append(_device_attempt("H100-SXM5-80GB", configuration, words, "Llama 3 405B (2)", none, error, chosen))
    return EfficiencyFile(efficiencies=table, splits=splits, hashes=input_hashes()), pd.concat(logged, ignore_index=True)


def _device_attempt(
    device: str, configuration: str, fitted_on: str, tested_on: str, selection: np.ndarray, test: np.ndarray, chosen: bool
) -> pd.DataFrame:
    error = np.abs(test)
    row = {"attempt": 1 if chosen else 2, "configuration": configuration, "selection_value": float(np.mean(np.abs(selection)))}
    row |= {"tested_on": tested_on, "test_value": float(np.mean(error)), "test_max": float(np.max(error)), "chosen": chosen}
    common = {"fitted_on": fitted_on, "selection_metric": "mean |error|, leave one out", "test_metric": "mean |error|"}
    return attempts.rows([row], room="training", experiment=f"step_time_{device}", **common)


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


def input_hashes() -> dict[str, str]:
    """SHA-256 of the table that the fit reads."""
    path = published.PUBLISHED / "megatron_sc21.csv"
    return digests({f"published/{path.name}": path})


def efficiencies_yaml(table: EfficiencyFile) -> str:
    """The text of `data/models/training_efficiencies.yaml`."""
    head = f"# Fitted by {__name__}; the full tier of the notebook training_validation writes this file.\n"
    return head + yaml.safe_dump(table.model_dump(), sort_keys=False, width=140)
