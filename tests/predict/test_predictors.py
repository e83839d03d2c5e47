"""One interface: every predictor meets it, gives what its own command gives, refuses in words, and lies above its bound."""

from __future__ import annotations

from typing import Any

import pytest

from analysis import face
from analysis.errors import InputError
from analysis.predict.interface import DESCRIPTIONS, Prediction, Workload
from analysis.studies.composition.predictors import PREDICTORS, ask

PRODUCT = {"op": "gemm", "dtype": "bf16", "M": 4096, "N": 4096, "K": 4096}
LLAMA = {"model": "llama-2-7b", "clients": 4, "input_tokens": 1024, "output_tokens": 64, "precision": "bf16"}
STEP = {"model": "llama-2-7b", "gpus": 8, "sequence_length": 4096, "global_batch": 64, "precision": "bf16"}


def test_every_predictor_reads_a_known_description_and_has_its_own_name() -> None:
    assert {each.reads for each in PREDICTORS} == set(DESCRIPTIONS)
    assert len({each.name for each in PREDICTORS}) == len(PREDICTORS)


def test_answers_are_those_of_the_commands() -> None:
    """Kernels, serving and training, to the digit."""
    asked = Workload("all", {"kernel": PRODUCT, "served": {**LLAMA, "target": "tpot_ms"}, "training": STEP})
    found = ask(asked, "h100_sxm").set_index("predictor")
    kernel = face.predict_kernels({**PRODUCT, "device": "h100_sxm"}).iloc[0]
    served = face.predict_one(device="h100_sxm", **LLAMA).answer
    step = face.predict_training({**STEP, "device": "h100_sxm"}).iloc[0]
    assert found.loc["kernels", ["seconds", "lower_s", "upper_s"]].tolist() == [
        kernel["latency_ms"] / 1e3, kernel["lower_ms"] / 1e3, kernel["upper_ms"] / 1e3,
    ]  # fmt: skip
    assert found.loc["serving engine", "upper_s"] == served["tpot_upper_ms"] / 1e3
    assert found.loc["training", ["seconds", "lower_s"]].tolist() == [step["step_time_s"], step["lower_s"]]


@pytest.mark.parametrize("device", ["h100_sxm", "a100_sxm", "b200_sxm", "mi300x"])
@pytest.mark.parametrize("target", ["tpot_ms", "ttft_ms"])
def test_no_prediction_is_below_its_bound(device: str, target: str) -> None:
    found = ask(Workload("all", {"served": {**LLAMA, "target": target}, "training": STEP}), device).set_index("predictor")["seconds"]
    assert found["serving engine"] > found["serving, bound"] > 0
    assert found["training"] > found["training, bound"] > 0


def test_the_bound_of_a_token_is_its_bytes_over_the_bandwidth() -> None:
    """Llama 2 7B: 6.738e9 parameters less the input embedding of 4096 x 32000, 524,288 bytes of cache a token, 3.35e12 bytes/s."""
    found = ask(Workload("one", {"served": {**LLAMA, "target": "tpot_ms"}}), "h100_sxm").set_index("predictor")["seconds"]
    weights = 2 * (6.738e9 - 4096 * 32000)
    assert found["serving, bound"] == pytest.approx((weights + 4 * 524288 * (1024 + 32)) / 3.35e12, rel=2e-3)


def test_a_refusal_says_why_and_leaves_the_others_alone() -> None:
    found = ask(Workload("one", {"kernel": {**PRODUCT, "dtype": "fp3"}, "training": STEP}), "h100_sxm").set_index("predictor")
    assert "fp3" in found.loc["kernels", "reason"] and found.loc["training", "seconds"] > 0
    assert found.loc["serving engine", "reason"] == "the workload has no description of kind served"


def test_a_predictor_of_ones_own_joins() -> None:
    class Rule:
        name, reads = "rule of thumb", "training"

        def __call__(self, workload: Workload, hardware: str, **parameters: Any) -> Prediction:
            if hardware != "h100_sxm":
                raise InputError("only for one device")
            return Prediction(parameters["factor"] * 2.0, "a guess")

    asked = Workload("one", {"training": STEP})
    assert ask(asked, "h100_sxm", [Rule()], rule_of_thumb={"factor": 3})["seconds"].tolist() == [6.0]
    assert ask(asked, "v100", [Rule()])["reason"].tolist() == ["only for one device"]
