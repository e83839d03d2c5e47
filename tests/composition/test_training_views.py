"""Every command that answers a training question gives the same digits."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from analysis.commands.models.train import app
from analysis.composition.training import schedule, views
from analysis.composition.training.answers import COLUMNS, answers
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
    device = {"HGX-H100": "DGX-H100", "Selene": "DGX-A100", "HGX-H200": "H200"}[question["system"]]
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
