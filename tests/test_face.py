"""The functions that a user calls from Python: every one answers its example, and what is wrong is an InputError in a line."""

import inspect
import math

import pytest

import analysis
from analysis.errors import InputError
from analysis.paths import EXAMPLES

STEP = {"model": "llama3-8b", "device": "h100", "gpus": 8, "sequence_length": 8192, "global_batch": 128}


def test_every_function_says_what_it_gives() -> None:
    assert all(inspect.getdoc(getattr(analysis, name)) for name in analysis.FACE)


def test_one_case_a_list_and_a_file_give_the_same(tmp_path) -> None:
    path = tmp_path / "cases.csv"
    path.write_text(",".join(STEP) + "\n" + ",".join(map(str, STEP.values())) + "\n")
    answers = [analysis.predict_training(cases).loc[0, "step_time_s"] for cases in (STEP, [STEP], path)]
    assert len(set(answers)) == 1 and answers[0] > 0


def test_configurations_are_simulated_and_trained() -> None:
    assert len(analysis.serve(EXAMPLES / "serve" / "simulate.yaml").e2e_s) == 200
    assert analysis.train(EXAMPLES / "train" / "train.yaml")["step_time_s"] > 0
    assert len(analysis.replay(EXAMPLES / "replay" / "nodes.csv", EXAMPLES / "replay" / "network.yaml")) > 0
    assert analysis.predict_one("llama-3.1-8b", "h100").answer["tpot_ms"] > 0


@pytest.mark.parametrize(
    "ask",
    [
        lambda: analysis.predict_training(None),
        lambda: analysis.predict_training([1, 2]),
        lambda: analysis.predict_training([]),
        lambda: analysis.predict_training({**STEP, "tensor_paralel": 8}),
        lambda: analysis.predict_one("llama-3.1-8b", "h100", gpus="2"),
        lambda: analysis.predict_one("llama-3.1-8b", "h100", clients=math.nan),
        lambda: analysis.predict_one("llama-3.1-8b", "h100", client=2),
        lambda: analysis.train({"model": "llama3-8b"}),
        lambda: analysis.train(None),
        lambda: analysis.map_layer(EXAMPLES / "map" / "arch.yaml", EXAMPLES / "map" / "layer.yaml", "speed"),
        lambda: analysis.simulate_core(EXAMPLES / "core" / "program.elf", limit=0),
        lambda: analysis.recommend(model="llama-3.1-8b", device_s="h100"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(ask) -> None:
    with pytest.raises(InputError) as told:
        ask()
    assert "\n" not in str(told.value) and "pydantic" not in str(told.value)


def test_an_infinite_number_of_gpus_is_a_reason_not_a_crash() -> None:
    assert analysis.predict_training({**STEP, "gpus": math.inf}).loc[0, "status"]
