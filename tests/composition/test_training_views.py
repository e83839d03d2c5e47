"""Every command that answers a training question gives the same digits."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from analysis.commands.models.train import app
from analysis.composition.training import kernels, schedule, tpus, views
from analysis.composition.training.answers import COLUMNS, answered, answers
from analysis.configs import read_yaml
from analysis.training.plan import Training

PLAN = {"tensor_parallel": 4, "pipeline_parallel": 4, "data_parallel": 4, "global_batch": 128, "sequence_length": 8192}
QUESTIONS = [
    ({"model": "llama-3-70b", "system": "HGX-H100", "plan": PLAN}, {}),
    ({"model": "llama-3-70b", "system": "HGX-H100", "plan": {**PLAN, "recompute": "full", "interleave": 4, "microbatch": 2}}, {}),
    ({"model": "gpt3-175b", "system": "Selene", "plan": {**PLAN, "tensor_parallel": 8, "sequence_length": 2048}}, {}),
    (
        {"model": "mixtral-8x7b", "system": "HGX-H200", "plan": {**PLAN, "expert_parallel": 8, "pipeline_parallel": 1, "data_parallel": 8}},
        {},
    ),
    (
        {"model": "llama-3-8b", "system": "HGX-H100", "plan": {"data_parallel": 8, "zero": 3, "global_batch": 16, "sequence_length": 8192}},
        {},
    ),
    ({"model": "llama-3-8b", "system": "TPU-v6e-pod", "plan": {"data_parallel": 8, "global_batch": 24, "sequence_length": 8192}}, {}),
    ({"model": "llama-3-8b", "system": "HGX-H100", "plan": PLAN, "software": {"dtype": "fp8"}}, {"precision": "fp8"}),
]
"""A file of `train`, and what its row of `predict training` says besides the plan."""

ROW = {
    **dict.fromkeys(("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel", "global_batch", "sequence_length")),
    "microbatch": "micro_batch", "interleave": "virtual_pipeline", "recompute": "recompute", "zero": "zero",
}  # fmt: skip


def row(question: dict, more: dict[str, str]) -> dict[str, str]:
    """The same question, written by hand as a row."""
    plan = question["plan"]
    gpus = plan.get("tensor_parallel", 1) * plan.get("pipeline_parallel", 1) * plan["data_parallel"]
    device = {"HGX-H100": "DGX-H100", "Selene": "DGX-A100", "HGX-H200": "H200", "TPU-v6e-pod": "TPU-v6e"}[question["system"]]
    cells = {ROW[key] or key: str(value) for key, value in plan.items() if key in ROW}
    return {"model": question["model"], "system": device, "gpus": str(gpus), **cells, **more}


@pytest.mark.parametrize(("question", "more"), QUESTIONS)
def test_train_answers_as_predict_training_does(tmp_path: Path, question: dict, more: dict[str, str]) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(yaml.safe_dump(question))
    printed = CliRunner().invoke(app, [str(config), "--json"])
    assert printed.exit_code == 0, printed.output
    said, row_said = json.loads(printed.output), answers(pd.DataFrame([row(question, more)])).iloc[0]
    assert row_said["status"] == ""
    assert {name: said[name] for name in COLUMNS if name != "assumed"} == {name: row_said[name] for name in COLUMNS if name != "assumed"}
    assert "; ".join(said["assumed"]) == row_said["assumed"]


def test_a_setting_that_is_not_used_is_named(tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(
        "model: llama-2-7b\nsystem: HGX-H100\nsoftware: {gradient_bytes: 2, dropout: true}\n"
        "plan: {tensor_parallel: 8, data_parallel: 2, global_batch: 16, sequence_length: 4096, sequence_parallel: false}\n"
    )
    assumed = "; ".join(views.ask(read_yaml(config, Training)).case.assumed)
    assert all(word in assumed for word in ("sequence_parallel", "gradient_bytes", "dropout"))


@pytest.mark.parametrize("plan", [{}, {"interleave": 4}, {"recompute": "full"}, {"tensor_parallel": 8, "pipeline_parallel": 2}])
def test_the_drawn_schedule_takes_as_long_as_the_step(plan: dict[str, object]) -> None:
    """The step less what follows the pipeline is the end of its last pass; interleaved, the output layer is on one of the chunks."""
    answer = views.ask(Training.model_validate({"model": "llama-3-70b", "system": "HGX-H100", "plan": {**PLAN, **plan}}))
    ends = schedule.makespan_s(views.tasks(answer.case))
    once = answer.time_s["reduce"] + answer.time_s["optimizer"]
    assert ends == pytest.approx(answer.row["step_time_s"] - once, rel=0.01 if "interleave" in plan else 1e-9)


def test_tpus_are_predicted_from_other_models_of_the_same_device() -> None:
    """MaxText, tpu-recipes: Llama 3.1 70B on four v6e slices took no part; the rows of the fit have no error in the mean."""
    judged = tpus.prepared()
    given = {name: item for name, item in judged.items() if " " not in name}
    assert set(given) == set(kernels.tpus().product) and all(
        abs(tpus.errors(given[name], kernels.tpus().product[name]).mean()) < 1e-4 for name in given
    )
    runs = judged["TPU-v6e judged"].runs
    said = answered(runs.cases)
    assert len(said) == 4 and (abs(said["step_time_s"] / runs.step_s - 1) < 0.08).all()
    assert ((said["lower_s"] < runs.step_s) & (runs.step_s < said["upper_s"])).all()
    assert not (said["fits"] == "no").any()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"model": "mixtral-8x7b"}, "mixtures of experts"),
        ({"program": "megatron"}, "maxtext is covered"),
        ({"precision": "fp8"}, "bf16 is covered"),
        ({"gpus": "512", "global_batch": "512"}, "a pod of TPU-v6e has 256"),
    ],
)
def test_what_no_tpu_run_tells_is_refused(change: dict[str, str], word: str) -> None:
    row = {"model": "llama-3-8b", "device": "TPU-v6e", "gpus": "8", "global_batch": "24", "sequence_length": "8192", **change}
    assert word in answers(pd.DataFrame([row])).iloc[0]["status"]
