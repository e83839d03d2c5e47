"""Every command that answers a training question gives the same digits."""

from __future__ import annotations

import json
import random
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from pydantic import ValidationError
from typer.testing import CliRunner

import analysis
from analysis.artifact.explorers import training_planner
from analysis.commands.models.train import app
from analysis.errors import InputError
from analysis.studies.intervals import next_group
from analysis.studies.training import drawn_schedule, fit, schedule, tpus
from analysis.tables import read_csv, write_csv
from analysis.training import answers as trained
from analysis.training import interval, kernels, views
from analysis.training import schedule as training_schedule
from analysis.training.answers import COLUMNS, Fitted, answered, answers
from analysis.training.cases import case
from analysis.training.config import Cluster, Training, row_of, search_of
from analysis.training.machines import machine_of, of_row
from analysis.training.search import PLAN as PLANNED
from analysis.training.search import Choices, search
from analysis.training.search import plans as plans_of
from analysis.training.step import NAMES, PRIOR, Plans, step
from analysis.training.work import parts
from tests.golden import answer, kept

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
    ({"model": "llama-3-8b", "system": "HGX-H100", "plan": PLAN, "precision": "fp8"}, {"precision": "fp8"}),
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


ASKED = ["--model", "llama-3-8b", "--device", "h100", "--gpus", "8", "--global-batch", "64", "--sequence-length", "8192"]


def test_a_question_in_words_is_a_row_of_predict_training() -> None:
    printed = CliRunner().invoke(app, [*ASKED, "--set", "program=fsdp", "--set", "dp=8", "--json"])
    row = {
        "model": "llama-3-8b",
        "device": "h100",
        "gpus": 8,
        "global_batch": 64,
        "sequence_length": 8192,
        "program": "fsdp",
        "data_parallel": 8,
    }
    expected = answers(pd.DataFrame([row])).iloc[0]
    assert json.loads(printed.stdout)["step_time_s"] == pytest.approx(expected["step_time_s"], rel=1e-12)
    wrong = {
        "--set zro=3": "did you mean zero",
        "--set zero": "COLUMN=VALUE",
        "--set zero=nan": "COLUMN=VALUE",
        "--set foo=1": "no column",
        "--set gpus=4": "given twice",
    }
    for words, said in wrong.items():
        with pytest.raises(InputError, match=said):
            CliRunner().invoke(app, [*ASKED, *words.split()], catch_exceptions=False)


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


@pytest.mark.parametrize("plan", [{}, {"interleave": 4}, {"recompute": "full"}, {"tensor_parallel": 8, "pipeline_parallel": 2}])
def test_the_drawn_schedule_takes_as_long_as_the_step(plan: dict[str, object]) -> None:
    """The step less what follows the pipeline is the end of its last pass; interleaved, the output layer is on one of the chunks."""
    answer = views.ask(row_of(Training.model_validate({"model": "llama-3-70b", "system": "HGX-H100", "plan": {**PLAN, **plan}})))
    ends = schedule.makespan_s(drawn_schedule.tasks(answer))
    once = answer.time_s["reduce"] + answer.time_s["optimizer"]
    assert ends == pytest.approx(answer.row["step_time_s"] - once, rel=0.01 if "interleave" in plan else 1e-9)


def test_tpus_are_predicted_from_other_models_of_the_same_device() -> None:
    """MaxText, tpu-recipes: Llama 3.1 70B on four v6e slices took no part; the rows of the fit have no error in the median."""
    judged = tpus.prepared()
    given = {name: item for name, item in judged.items() if " " not in name}
    assert set(given) == set(kernels.tpus().product) and all(
        abs(np.median(tpus.errors(given[name], kernels.tpus().product[name]))) < 1e-4 for name in given
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
    assert fit.any() and (~fit).any() and fit[: fit.sum()].all()
    order = table["fits"].fillna("no").map(["yes", "tight", "no"].index)  # most tight plans of the playbook did not run
    assert order.is_monotonic_increasing and (order == 1).any()
    assert all(part.is_monotonic_increasing for _, part in table.loc[fit, "step_time_s"].groupby(order[fit]))
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
    [({"memory": "80"}, "no unit"), ({"model": "gpt-9"}, "gpt-9"), ({"system": "Juno"}, "Juno"), ({"dropout": True}, "dropout")],
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
    config, out = tmp_path / "run.yaml", tmp_path / "run.json"
    config.write_text(CONFIG)
    result = CliRunner().invoke(app, [str(config), "--out", str(out)])
    assert result.exit_code == 0, result.output
    content = json.loads(out.read_text())
    assert content["step_time_s"] == pytest.approx(sum(content["time_s"].values()))
    assert content["memory_gib"] == pytest.approx(sum(content["memory_bytes"].values()) / 2**30)
    assert result.output.splitlines()[0] == "llama-2-7b on 8 x H100-SXM5-80GB, bf16, megatron"
    assert "bubble" in result.output and "90 %" in result.output
    printed = CliRunner().invoke(app, [str(config), "--json"])
    assert json.loads(printed.output) == content
    assert {"step_time_s", "lower_s", "upper_s", "memory_gib", "fits", "assumed", "status"} <= set(content)


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
        ("model: llama-2-7b\nsystem: A100\nprecision: fp8\nplan: {global_batch: 8, sequence_length: 8}\n", "run.yaml: A100"),
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
    told = training_planner.answer(values | {"price": 3})
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


def _own(monkeypatch: pytest.MonkeyPatch) -> Fitted:
    """Shares of our own in place of the fitted ones, so that a fit moves nothing here."""
    value = np.array([prior * (1 + zlib.crc32(name.encode()) % 89 / 1000) for name, prior in zip(NAMES, PRIOR, strict=True)])
    spread = np.array([0.01 + zlib.crc32(name.encode()) % 83 / 1000 for name in NAMES])
    stretch = {"core": (-1.1, 1.3), "torch": (-1.7, 1.9), "amd": (-2.3, 2.9), "mixture": (-3.1, 3.7), "tpu": (-4.1, 4.3)}
    known = {"core": frozenset(["H100-SXM5-80GB"]), "torch": frozenset(["A100-SXM4-80GB"]), "mixture": frozenset(["B200-SXM-180GB"])}
    model = Fitted(value, spread, stretch, frozenset(["megatron", "fsdp", "maxtext"]), known, frozenset(["fsdp"]))
    for module in (trained, views):
        monkeypatch.setattr(module, "fitted", lambda: model)
    return model


TOLD: dict[str, dict[str, str]] = {
    "plain": {},
    "stages": {"gpus": "64", "model": "llama-3-70b", "tensor_parallel": "4", "pipeline_parallel": "8", "virtual_pipeline": "2"},
    "mixture": {"model": "mixtral-8x7b", "gpus": "16", "expert_parallel": "8", "context_parallel": "2"},
    "recompute full": {"recompute": "full"},
    "does not fit": {"model": "llama-3-70b"},
    "fits with recomputation": {"micro_batch": "4", "zero": "3", "recompute": "none"},
    "another program": {"program": "mine"},
    "adapters": {"kind": "lora"},
    "adapters by fsdp": {"kind": "lora", "program": "fsdp"},
    "of other kinds": {"device": "A100"},
    "unmeasured": {"device": "L40S"},
    "AMD": {"device": "MI300X", "program": "fsdp"},
    "mxfp8": {"device": "GB200", "precision": "mxfp8"},
    "fp8": {"precision": "fp8"},
    "hybrid": {"model": "nemotron-3-super", "gpus": "64", "expert_parallel": "8"},
    "llm_foundry": {"program": "llm_foundry"},
    "TPU": {"device": "TPU-v5p", "program": "maxtext"},
    "refused": {"gpus": "0"},
}


def test_what_is_told_of_every_kind_of_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers, words and file of `train` and `predict training`, by shares of our own; the step's sums are held in
    test_training_predictor.py, ends by hand below."""
    model = _own(monkeypatch)
    base = {"model": "llama-3.1-8b", "device": "H100", "gpus": "8", "global_batch": "32", "sequence_length": "8192", "program": "megatron"}
    table = answers(pd.DataFrame([{**base, **row} for row in TOLD.values()]).fillna(""))
    found: dict[str, object] = {}
    for k, (name, row) in enumerate(TOLD.items()):
        found[name] = {"row": table.iloc[k].to_dict()}
        if table["status"][k]:
            continue
        item = case({**base, **row})
        told = views.answer_of(item)
        passes = views.stage_s(told.time_s, item, 0.3)
        twin = model.twin(item)
        found[name] |= {  # type: ignore[operator]
            "text": views.text(told).split("\n"),
            "json": json.loads(views.as_json(told)),
            "passes": passes,
            "arithmetic": trained.arithmetic_s(item),
            "tasks": [
                len(drawn_schedule.tasks(told)),
                schedule.makespan_s(drawn_schedule.tasks(told)),
                schedule.bubble_share(drawn_schedule.tasks(told)),
            ],
            "group": interval.group(item),
            "ends": model.ends(item),
            "unmeasured": model.unmeasured(item),
            "other": model.of_other_kinds(item),
            "twin": twin.device if twin else "",
            "forward": views.forward_share([item])[0],
        }
    kept("told", found)


def test_ends_of_an_interval_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """exp(stretch x doubt); doubt^2 = floor^2 + sum of (d log T / d log share x spread)^2; half as wide again unmeasured."""
    model = _own(monkeypatch)
    base = {"model": "llama-3.1-8b", "device": "H100", "gpus": "8", "global_batch": "32", "sequence_length": "8192"}
    seen, unseen = (answers(pd.DataFrame([{**base, "program": name}])).iloc[0] for name in ("megatron", "other"))
    item = case({**base, "program": "megatron"})
    work, plans = parts([item]), Plans.of([item])
    moved = []
    for k in range(len(model.shares)):
        other = model.shares.copy()
        other[k] *= 1.05
        moved.append(
            np.log(step(work, plans, other)["total"][0] / step(work, plans, model.shares)["total"][0]) / np.log(1.05) * model.spread[k]
        )
    doubt = np.sqrt(interval.FLOOR**2 + sum(x**2 for x in moved))
    assert np.log([seen["lower_s"] / seen["step_time_s"], seen["upper_s"] / seen["step_time_s"]]) == pytest.approx(
        [-1.1 * doubt, 1.3 * doubt]
    )
    assert (interval.UNSEEN, fit.LEVEL) == (1.5, 0.9)
    assert model.ends(case({**base, "program": "other"})) == pytest.approx((1.5 * -1.7, 1.5 * 1.9))  # PyTorch's own
    assert np.log(unseen["upper_s"] / unseen["lower_s"]) > 1.4 * np.log(seen["upper_s"] / seen["lower_s"])


def test_the_stretch_of_sources_by_hand() -> None:
    """Two sources of means 0.2 and 0.6 and variances 0.01 and 0.04: half = t sqrt(s^2 - noise + mean variance), at least 0.3 each way."""
    scores = [np.array([0.1, 0.3]), np.array([0.4, 0.8])]
    between = 0.08 - (0.01 / 2 + 0.04 / 2) / 2
    half = next_group(2, 0.9) * np.sqrt(between + 0.025)
    assert fit.stretch(scores, 2) == pytest.approx((min(0.4 - half, -0.3), 0.4 + half))
    assert fit.stretch([], 2) == (-2.0, 2.0) and fit.stretch([np.array([0.01, -0.01])], 40) == (-0.3, 0.3)
    assert fit.stretch([np.array([1.0, 1.0])], 9)[1] == pytest.approx(1.0) and fit.stretch(scores, 1) == fit.stretch(scores, 2)
    z = np.array([-3.0, 0.0, 0.1, 4.0])
    assert fit.soft(z) ** 2 == pytest.approx(2 * (np.sqrt(1 + z**2) - 1)) and np.sign(fit.soft(z)).tolist() == [-1, 0, 1, 1]


def test_every_plan_that_divides_is_tried() -> None:
    """The plans of small clusters, in their order: ways that divide GPUs, heads, blocks, batch and experts."""
    base = {"model": "llama-3.2-1b", "device": "H100", "sequence_length": "4096", "global_batch": "8", "program": "megatron"}
    asked = {
        "8 GPUs": ({}, 8, Choices()),
        "long": ({"sequence_length": "16384"}, 4, Choices(virtual_pipeline=(1,), micro_batch=(1,))),
        "not yet long": ({"sequence_length": "16383"}, 4, Choices(micro_batch=(1,))),
        "odd length": ({"sequence_length": "16386"}, 4, Choices(virtual_pipeline=(1,), micro_batch=(1,), recompute=("none",))),
        "three": ({"global_batch": "9"}, 3, Choices()),
        "mixture": ({"model": "mixtral-8x7b"}, 8, Choices(micro_batch=(1,), virtual_pipeline=(1,), recompute=("none",))),
        "experts": ({"model": "mixtral-8x7b"}, 8, Choices(expert_parallel=(4,), micro_batch=(1,), tensor_parallel=(2,))),
        "written out": ({"program": "megatron_2021", "device": "A100"}, 4, Choices(micro_batch=(2,))),
        "sharded": ({}, 4, Choices(zero=(0, 2), micro_batch=(2,), pipeline_parallel=(1, 2), virtual_pipeline=(1,))),
        "fsdp": ({"program": "fsdp"}, 2, Choices(micro_batch=(1, 2))),
        "a wide node": (
            {"device": "GB200", "global_batch": "64"},
            64,
            Choices(micro_batch=(1,), pipeline_parallel=(1,), recompute=("none",)),
        ),
    }
    found = {
        name: [" ".join(plan[key] for key in PLANNED) for plan in plans_of({**base, **row}, gpus, tried)]
        for name, (row, gpus, tried) in asked.items()
    }
    kept("plans", found)
    with pytest.raises(InputError, match="no plan of 7 GPUs"):
        search({**base}, 7, Choices(tensor_parallel=(2,)))


def test_every_search_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Table and words of searches: nothing fits, some plans do, by memory of one's own; shares of our own."""
    _own(monkeypatch)
    base = {"model": "llama-3.2-1b", "device": "H100", "sequence_length": "4096", "global_batch": "8", "program": "megatron"}
    few = Choices(virtual_pipeline=(1, 2), micro_batch=(1, 2), tensor_parallel=(1, 2))
    found: dict[str, object] = {}
    for name, row, gpus, capacity in (
        ("all fit", {}, 4, 0.0),
        ("some fit", {}, 4, 16 * 2**30),
        ("none", {"model": "llama-3-70b"}, 4, 0.0),
        ("too small for one", {"model": "llama-3-8b", "device": "L40S"}, 4, 0.0),
    ):
        table = search({**base, **row}, gpus, few, capacity)
        found[name] = [
            views.search_text(table, 4).split("\n"),
            table.iloc[[0, -1]].astype(object).fillna("").to_dict("records"),
            table["step_time_s"].sum(),
        ]
    kept("searches", found)


MACHINES = (
    "H100 h100_80gb DGX-H100 HGX-H200 8xH100 NVIDIA-A100 a100_40gb A100-SXM4-40GB dgx_gb200_nvl72 GB300 GH200 V100 v100_sxm3 "
    "L40S L4 T4 P100 MI300X MI100 "
    "MI250 TPU-v5e TPU-v5p TPU-v6e TPU-v6e-pod TPU-v3 Selene HGX-H100 Gaudi3 SN40L 8xA800 H20 B300 RTX-PRO-6000 nowhere"
)


@pytest.mark.parametrize("device", ["P100", "P4"])
def test_a_gpu_before_volta_has_no_training_model_in_memory_either(device: str) -> None:
    """It had a memory and no time, while the refusal said that GPUs are covered from Volta on (Pascal is the one before: GP100)."""
    with pytest.raises(InputError, match=f"no training model for {device}.*: NVIDIA GPUs from Volta on"):
        machine_of(device)


def test_machines_of_every_name() -> None:
    """Device, domain, network and host of each name that tables use; cells that change them, and what is refused."""
    found: dict[str, object] = {name: answer(lambda name=name: machine_of(name)) for name in MACHINES.split()}  # type: ignore[misc]
    rows: list[dict[str, str]] = [
        {},
        {"device": "H100"},
        {"system": "DGX-H100", "device": "H100"},
        {"system": "DGX-H100", "device": "A100"},
        {"device": "H100", "gpus_per_node": "4", "gpus": "8"},
        {"device": "H100", "gpus_per_node": "4", "gpus": "6"},
        {"device": "H100", "gpus_per_node": "4", "gpus": "3"},
        {"device": "GB200", "gpus_per_node": "4", "gpus": "8"},
        {"device": "TPU-v5e", "gpus_per_node": "4"},
        {"device": "H100", "network_gbit_per_s_per_gpu": "0"},
        {"device": "H100", "network_gbit_per_s_per_gpu": "100"},
        {"device": "H100", "power_limit_w": "350", "memory_gb": "64"},
        {"device": "H100", "power_limit_w": "900"},
        {"device": "A100-PCIE-80GB"},
        {"device": "L40S"},
        {"device": "MI300X"},
    ]
    for row in rows:
        assumed: list[str] = []
        found[json.dumps(row)] = [answer(lambda row=row, assumed=assumed: of_row(row, assumed)), assumed]  # type: ignore[misc]
    kept("training_machines", found)


def test_a_schedule_in_order_by_hand() -> None:
    """Narayanan et al. 2021, figure 4: a stage of p runs p - 1 - stage forwards first; interleaved, groups of p go through the chunks."""
    assert [name[0] + str(m) for name, _, m in training_schedule.task_order(0, 3, 4, 1)] == ["f0", "f1", "f2", "b0", "f3", "b1", "b2", "b3"]
    assert [name[0] + str(m) for name, _, m in training_schedule.task_order(2, 3, 2, 1)] == ["f0", "b0", "f1", "b1"]
    assert [f"{name[0]}{c}{m}" for name, c, m in training_schedule.task_order(1, 2, 2, 2)] == [
        "f00",
        "f01",
        "f10",
        "b10",
        "f11",
        "b11",
        "b00",
        "b01",
    ]
    tasks = schedule.simulate([1.0, 2.0], [3.0, 5.0], 2, 1, 0.5)
    assert [(t.stage, t.microbatch, t.phase, t.start_s, t.end_s) for t in tasks] == [
        (0, 0, "forward", 0, 1),
        (0, 1, "forward", 1, 2),
        (1, 0, "forward", 1.5, 3.5),
        (1, 0, "backward", 3.5, 8.5),
        (1, 1, "forward", 8.5, 10.5),
        (0, 0, "backward", 9, 12),
        (1, 1, "backward", 10.5, 15.5),
        (0, 1, "backward", 16, 19),
    ]
    assert schedule.makespan_s(tasks) == 19 and schedule.bubble_share(tasks) == pytest.approx(1 - 22 / 38)
    halves = schedule.simulate([1.0, 2.0], [3.0, 5.0], 2, 2)
    assert len({(t.phase, t.microbatch, t.chunk, t.stage) for t in halves}) == len(halves) == 2 * 2 * 2 * 2
    first = [(t.start_s, t.end_s, t.stage) for t in halves if (t.phase, t.microbatch, t.chunk) == ("forward", 0, 0)]
    assert first == [(0, 0.5, 0), (0.5, 1.5, 1)]
