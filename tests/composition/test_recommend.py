"""The recommended plan against the predictors that it searches, by law and by hand."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from analysis.commands.models.predict import app
from analysis.errors import InputError
from analysis.predict.recommend.choice import CENTRAL, SURE, answers, candidates, choose, one
from analysis.serving.points import waterfall
from analysis.training.answers import answers as training_answers
from analysis.training.search import PLAN

SERVING = {"model": "llama-3.1-8b", "devices": "h100_sxm h200_sxm", "engines": "vllm", "max_gpus": "2", "tpot_target_ms": "12"}
TRAINING = {
    "model": "llama3-8b", "devices": "h100", "max_gpus": "16", "sequence_length": "8192", "global_batch": "32", "step_target_s": "8",
}  # fmt: skip


def test_a_looser_target_never_costs_more():
    for question, name, targets in ((SERVING, "tpot_target_ms", (5, 8, 12, 40)), (TRAINING, "step_target_s", (4, 8, 16))):
        rows = pd.DataFrame([{**question, name: str(target), "sure": sure} for sure in ("no", "yes") for target in targets])
        found = answers(rows)
        cost = found["cost"].fillna(math.inf).to_numpy().reshape(2, -1)  # nothing meets it: no money is enough
        assert (cost[:, 1:] <= cost[:, :-1]).all() and math.isfinite(cost[0, -1])
        assert (cost[1] >= cost[0]).all()  # certainty has a price


def test_more_to_choose_from_never_costs_more():
    few = one(**{**SERVING, "devices": "h100_sxm", "max_gpus": 1})
    assert one(**SERVING)["cost"] <= few["cost"]


def test_the_plan_is_answered_as_predict_one_answers_it():
    found = one(**SERVING)
    said = waterfall.one("llama-3.1-8b", found["device"], gpus=found["gpus"], clients=found["clients"]).answer
    assert found["tpot_ms"] == pytest.approx(said["tpot_ms"]) and found["tpot_upper_ms"] == pytest.approx(said["tpot_upper_ms"])
    assert found["cost"] == pytest.approx(1e6 / said["throughput_tokens_per_s_per_gpu"] / 3600)  # GPU hours of a million tokens
    assert found["tpot_ms"] <= 12 and found["meets"] == (SURE if found["tpot_upper_ms"] <= 12 else CENTRAL)


def test_replicas_carry_the_load_at_the_price_given():
    found = one(**SERVING, requests_per_s=50, prices="h100_sxm=2 h200_sxm=3")
    each = found["clients"] * 0.9 * 1024 / (found["ttft_ms"] + found["tpot_ms"] * (0.9 * 1024 - 1)) * 1e3  # Little's law
    assert found["replicas"] == math.ceil(50 * 0.9 * 1024 / each)
    assert found["cost"] == found["replicas"] * found["gpus"] * {"h100_sxm": 2, "h200_sxm": 3}[found["device"]]


def test_the_training_plan_is_answered_as_predict_training_answers_it():
    found = one(**TRAINING, precision="bf16")
    names = ["device", *PLAN]
    row = {
        "precision": "bf16",
        **{k: TRAINING[k] for k in ("model", "sequence_length", "global_batch")},
        **{k: str(found[k]) for k in names},
    }
    said = training_answers(pd.DataFrame([row])).iloc[0]
    assert (said["status"], said["fits"]) == ("", "yes") and said["step_time_s"] <= 8
    assert [found[name] for name in ("step_time_s", "step_lower_s", "step_upper_s", "memory_gib", "assumed")] == [
        said[name] for name in ("step_time_s", "lower_s", "upper_s", "memory_gib", "assumed")
    ]
    assert found["cost"] == pytest.approx(found["gpus"] * said["step_time_s"] / 3600 / (32 * 8192 / 1e6))


def test_days_of_a_run_follow_from_its_step():
    found = one(**{**TRAINING, "step_target_s": ""}, tokens=1e9, days_target=1)
    assert found["days"] == pytest.approx(found["step_time_s"] * 1e9 / (32 * 8192) / 86400) and found["days"] <= 1
    assert found["cost"] == pytest.approx(24 * found["days"] * found["gpus"])


def test_the_cheapest_of_those_that_meet_is_chosen_by_hand():
    costs, excess = [1.0, 2.0, 3.0, 2.0], [1.1, 0.9, 0.2, 0.8]
    found = pd.DataFrame({"device": list("abcd"), "gpus": 1, "cost": costs, "excess": excess, "sure": [False, False, True, False]})
    assert choose(found)["device"] == "d" and choose(found)["meets"] == CENTRAL and choose(found)["sure_cost"] == 3.0
    assert choose(found, sure=True)["device"] == "c"
    none = choose(found.assign(excess=found["excess"] + 2, sure=False))
    assert none["status"].startswith("none of 4 plans meets it by its central answer; nearest: 2.20 x the target (device c")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model": "no-such"}, "unknown model"),
        ({"devices": ""}, "devices is missing"),
        ({"devices": "no_such_gpu"}, "no_such_gpu"),
        ({"engines": "other"}, "unknown engine"),
        ({"tpot_target_ms": ""}, "needs a target"),
        ({"tpot_target_ms": "0.01"}, "none of"),
        ({"prices": "h100_sxm=2"}, "no price of h200_sxm"),
        ({"prices": "h100_sxm=x"}, "is not device=price"),
        ({"model": "llama-3.1-405b", "max_gpus": "1"}, "does not fit"),
        ({"global_batch": "8"}, "belongs to a question about serving"),
        ({"tokens": "1e12"}, "tokens belongs to a question about training"),
        ({**TRAINING, "engines": "", "tpot_target_ms": "", "max_gpus": ""}, "max_gpus is missing"),
        ({**TRAINING, "engines": "", "tpot_target_ms": "", "max_gpus": "7"}, "no plan of 7 GPUs"),
        ({**TRAINING, "engines": "", "tpot_target_ms": "", "model": "llama3-70b", "max_gpus": "1"}, "does not fit"),
    ],
)
def test_a_question_without_an_answer_has_its_reason(change, reason):
    with pytest.raises(InputError, match=reason):
        one(**{**SERVING, **change})


def test_a_file_of_questions_keeps_its_order_and_its_bad_rows(tmp_path: Path):
    path, out = tmp_path / "questions.csv", tmp_path / "plans.csv"
    rows = [{**SERVING, "devices": "h100_sxm", "max_gpus": "1"}, {**SERVING, "model": "no-such"}]
    pd.DataFrame(rows).to_csv(path, index=False)
    said = CliRunner().invoke(app, ["recommend", str(path), "--out", str(out)])
    assert said.exit_code == 0 and "1 cases answered, 1 not" in said.output
    found = pd.read_csv(out, keep_default_na=False)
    assert list(found["model"]) == ["llama-3.1-8b", "no-such"] and found["device"][0] == "h100_sxm"
    assert found["status"][0] == "" and "unknown model" in found["status"][1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-gpus", "0"], "max_gpus 0 must be a whole number, at least 1"),  # was answered with the default, 8
        (["--input-tokens", "0"], "input_tokens 0 must be a whole number, at least 1"),
        (["--ttft-target-ms", "0"], "needs a target above 0"),
        (["--modes", "disagg", "--max-gpus", "1"], "max_gpus: no plan of up to 1 GPUs has others for prompts than for answers"),
        (["--emit", "vllm", "--engines", "trtllm"], "--engines: 'trtllm' lacks vllm, which --emit asks for"),
    ],
)
def test_what_an_option_says_is_heard(options: list[str], message: str):
    asked = ["recommend", "--model", "llama-3.1-8b", "--devices", "h100_sxm", "--tpot-target-ms", "20", *options]
    with pytest.raises(InputError, match=re.escape(message)):
        CliRunner().invoke(app, asked, catch_exceptions=False, standalone_mode=False)


def test_a_plan_in_python_holds_pythons_own_numbers():
    """`json` knows no numbers of NumPy's."""
    assert json.loads(json.dumps(one(**SERVING)))["gpus"] == one(**SERVING)["gpus"]


def test_mixtures_are_tried_with_experts_spread():
    found = candidates({**SERVING, "model": "qwen3-30b-a3b", "devices": "h200_sxm"})
    assert set(zip(found["tensor_parallel"], found["attention_data_parallel"], found["expert_parallel"], strict=True)) == {
        (1, 1, 1), (2, 1, 1), (2, 1, 2), (1, 2, 2),
    }  # fmt: skip
