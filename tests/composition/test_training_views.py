"""Every command that answers a training question gives the same digits."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pandas as pd
import pytest
import yaml
from pydantic import ValidationError
from typer.testing import CliRunner

import analysis
from analysis.artifact.explorers import training_planner
from analysis.commands.models.train import app
from analysis.configs import read_yaml
from analysis.errors import InputError
from analysis.studies.training import tpus
from analysis.tables import read_csv, write_csv
from analysis.training import kernels, schedule, views
from analysis.training.answers import COLUMNS, answered, answers
from analysis.training.config import Cluster, Training, search_of
from analysis.training.search import PLAN as PLANNED
from analysis.training.search import search

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
    ends = schedule.makespan_s(views.tasks(answer))
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
        ({"model": "nemotron-3-nano"}, "state spaces"),
        ({"program": "megatron"}, "maxtext is covered"),
        ({"precision": "nvfp4"}, "bf16 and fp8 are covered"),
        ({"gpus": "512", "global_batch": "512"}, "a pod of TPU-v6e has 256"),
    ],
)
def test_what_no_tpu_run_tells_is_refused(change: dict[str, str], word: str) -> None:
    row = {"model": "llama-3-8b", "device": "TPU-v6e", "gpus": "8", "global_batch": "24", "sequence_length": "8192", **change}
    assert word in answers(pd.DataFrame([row])).iloc[0]["status"]


CLUSTER = {"model": "llama-2-13b", "system": "HGX-H100", "gpus": 32, "global_batch": 64, "sequence_length": 4096}


def found(**changed: object) -> pd.DataFrame:
    return search(*search_of(Cluster.model_validate({**CLUSTER, **changed})))


def test_a_search_answers_each_plan_as_predict_training_does(tmp_path: Path) -> None:
    """Its table is a table of cases: asked again it gives the same digits; each plan uses all GPUs and is there once."""
    table = found()
    plans = table[list(PLANNED)]
    ways = plans[["tensor_parallel", "pipeline_parallel", "data_parallel", "context_parallel"]].prod(axis=1)
    assert (ways == 32).all() and not plans.duplicated().any()
    fit = table["reason"] == ""
    assert fit.any() and (~fit).any() and fit[: fit.sum()].all() and table.loc[fit, "step_time_s"].is_monotonic_increasing
    assert (
        table.loc[~fit, "step_time_s"].isna().all()
        and table.loc[~fit, "reason"].str.fullmatch(r"memory: [\d.]+ GiB, [\d.]+ GiB there").all()
    )
    write_csv(table, tmp_path / "plans.csv")
    asked = read_csv(tmp_path / "plans.csv", dtype=str, keep_default_na=False)[
        [*PLANNED, "system", "model", "global_batch", "sequence_length"]
    ]
    again = answers(asked)
    for name in ("step_time_s", "lower_s", "upper_s", "memory_gib", "fits", "assumed"):
        assert again.loc[fit, name].tolist() == table.loc[fit, name].tolist()
    assert set(again.loc[~fit, "fits"]) == {"no"}


def test_less_memory_never_helps_a_search() -> None:
    roomy, tight = found(), found(memory="40 GB")
    assert (tight["reason"] == "").sum() < (roomy["reason"] == "").sum() and tight["step_time_s"].min() >= roomy["step_time_s"].min()
    assert (found(model="llama-3-405b", gpus=8, global_batch=8)["reason"] != "").all()


def test_what_a_cluster_names_is_tried_alone() -> None:
    table = found(tensor_parallel=[2], pipeline_parallel=[2], microbatch=[1, 2], recompute=["full"], interleave=[1], zero=[0])
    assert len(table) == 2 and set(table["recompute"]) == {"full"} and set(table["zero"]) == {0} and set(table["data_parallel"]) == {8}
    with pytest.raises(InputError, match="no plan of 7 GPUs"):
        found(gpus=7, tensor_parallel=[2])


@pytest.mark.parametrize(
    ("changed", "says"),
    [({"memory": "80"}, "no unit"), ({"model": "gpt-9"}, "gpt-9"), ({"system": "Juno"}, "Juno"), ({"efficiencies": "x"}, "no longer")],
)
def test_impossible_clusters_are_refused(changed: dict[str, object], says: str) -> None:
    with pytest.raises((ValidationError, InputError), match=says):
        found(**changed)


CONFIG = """
model: llama-2-7b
system: HGX-H100
plan: {tensor_parallel: 2, pipeline_parallel: 2, data_parallel: 2, global_batch: 16, sequence_length: 4096}
"""


def test_command_prints_and_writes(tmp_path: Path) -> None:
    config, out, trace = tmp_path / "run.yaml", tmp_path / "run.json", tmp_path / "trace.json"
    config.write_text(CONFIG)
    result = CliRunner().invoke(app, [str(config), "--out", str(out), "--trace", str(trace)])
    assert result.exit_code == 0, result.output
    content = json.loads(out.read_text())
    assert content["step_time_s"] == pytest.approx(sum(content["time_s"].values()))
    assert content["memory_gib"] == pytest.approx(sum(content["memory_bytes"].values()) / 2**30)
    assert result.output.splitlines()[0] == "llama-2-7b on 8 x H100-SXM5-80GB, bf16, megatron"
    assert "bubble" in result.output and "90 %" in result.output
    printed = CliRunner().invoke(app, [str(config), "--json"])
    assert json.loads(printed.output) == content
    assert {"step_time_s", "lower_s", "upper_s", "memory_gib", "fits", "assumed", "status"} <= set(content)
    assert json.loads(trace.read_text())["traceEvents"]


def test_search_command(tmp_path: Path) -> None:
    config, out = tmp_path / "cluster.yaml", tmp_path / "plans.csv"
    config.write_text("model: llama-2-7b\nsystem: HGX-H100\ngpus: 16\nglobal_batch: 32\nsequence_length: 4096\n")
    result = CliRunner().invoke(app, ["search", str(config), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("llama-2-7b on 16 x H100-SXM5-80GB, bf16, megatron\n") and "feasible" in result.output
    assert {"step_time_s", "memory_gib", "reason"} <= set(pd.read_csv(out).columns)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("model: llama-2-7b\nsystem: HGX-H100\nefficiencies: default\nplan: {global_batch: 8, sequence_length: 8}\n", "efficiencies"),
        ("model: llama-2-7b\nsystem: A100\nsoftware: {dtype: fp8}\nplan: {global_batch: 8, sequence_length: 8}\n", "run.yaml: A100"),
        ("model: llama-2-7b\nsystem: Juno\nplan: {global_batch: 8, sequence_length: 8}\n", "Juno"),
        ("model: llama-2-7b\nsystem: HGX-H100\nplan: {global_batch: 0, sequence_length: 8}\n", "global_batch"),
        ("model: llama-2-7b\nsystem: HGX-H100\nplan: {global_batch: 8, sequence_length: 8, colour: 1}\n", "unknown key"),
        ("model: llama-2-7b\nsystem: HGX-H100\nplan: {global_batch: 8, sequence_length: 8, pipeline_parallel: 33}\n", "33 pipeline stages"),
    ],
)
def test_bad_configurations_leave_nothing_behind(tmp_path: Path, text: str, says: str) -> None:
    config, out = tmp_path / "run.yaml", tmp_path / "run.json"
    config.write_text(text)
    result = CliRunner().invoke(app, [str(config), "--out", str(out)])
    assert isinstance(result.exception, InputError)
    assert says in str(result.exception)
    assert not out.exists()


@pytest.mark.parametrize("seed", range(20))
def test_the_planner_in_the_page_says_what_predict_training_says(seed: int) -> None:
    """Its record has four digits, as `train` prints."""
    drawn = random.Random(seed)
    values = {name: drawn.choice(options) for name, options in training_planner.SET.items()}
    told = training_planner.answer(values)
    if "broken" in told:
        assert values["tensor"] * values["pipeline"] > values["gpus"] or (values["zero"] == "3" and values["pipeline"] > 1)
        return
    names = {"tensor": "tensor_parallel", "pipeline": "pipeline_parallel", "microbatch": "micro_batch"}
    sequence = 2048 if values["model"] == "gpt3-175b" else 4096
    cells = {names.get(name, name): str(value) for name, value in values.items()}
    asked = {**cells, "virtual_pipeline": "1", "sequence_length": str(sequence), "global_batch": str(4 * 2**20 // sequence)}
    row_said = answers(pd.DataFrame([{**asked, "program": "megatron", "precision": "bf16"}])).iloc[0]
    assert row_said["status"] == "" and told["fits"] == row_said["fits"]
    assert [f"{told['memory']:.4g}", *(f"{end:.4g}" for end in told["ends"])] == [
        f"{row_said[name]:.4g}" for name in ("memory_gib", "memory_lower_gib", "memory_upper_gib")
    ]
    assert ("step" in told) == (row_said["fits"] != "no")
    if "step" in told:
        assert [f"{value:.4g}" for value in told["step"]] == [f"{row_said[name]:.4g}" for name in ("step_time_s", "lower_s", "upper_s")]
        assert sum(told["time"]) == pytest.approx(row_said["step_time_s"], rel=1e-3)


def test_a_plan_takes_the_names_of_files_of_cases(tmp_path) -> None:
    text = "model: llama-2-7b\nsystem: HGX-H100\nplan: {pipeline_parallel: 2, data_parallel: 4, global_batch: 64, sequence_length: 2048, "
    answers = []
    for number, keys in enumerate(("microbatch: 2, interleave: 2}", "micro_batch: 2, virtual_pipeline: 2}")):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text + keys + "\n")
        answers.append(analysis.train(path))
    assert answers[0] == answers[1]
    path.write_text(text + "microbatch: 2, micro_batch: 2}\n")
    with pytest.raises(InputError, match="are one key"):
        analysis.train(path)
