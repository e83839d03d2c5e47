"""What a recommendation shows besides the plan: the best plans, the front, energy, other modes and types, and how the plan is started."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.errors import InputError
from analysis.predict.recommend import choice, emit, front, serving, training
from analysis.predict.recommend.emit import arguments
from analysis.serving.points.answers import ENDS
from analysis.serving.points.power import load
from analysis.workloads import models
from tests.golden import kept

ASKED = {
    "model": "llama-3.1-8b", "devices": "h100_sxm h200_sxm", "engines": "vllm", "max_gpus": "2", "tpot_target_ms": "12",
    "grid_g_per_kwh": "400",
}  # fmt: skip


@pytest.fixture(scope="module")
def tried() -> pd.DataFrame:
    return choice.candidates({**ASKED, "modes": "agg,disagg", "precision": "bf16 fp8"})


def test_the_front_by_hand() -> None:
    user, gpu = [10.0, 20.0, 20.0, 30.0, 40.0], [9.0, 8.0, 7.0, 8.5, 1.0]
    found = pd.DataFrame({"device": ["a"] * 5, "mode": "agg", front.USER: user, front.GPU: gpu})
    kept = front.pareto(pd.concat([found, found.iloc[[2]].assign(device="b")], ignore_index=True))
    assert kept[["device", front.USER]].values.tolist() == [["a", 10], ["a", 30], ["a", 40], ["b", 20]]
    # a second plan that is no faster for users and as fast for GPUs is none of the front
    assert len(front.pareto(pd.concat([found, found], ignore_index=True))) == 3


def test_the_best_plans_are_the_cheapest_that_meet_each_once(tried: pd.DataFrame) -> None:
    best = front.best(tried)
    meeting = tried[tried["excess"] <= 1]
    assert len(best) == 10 and best["cost"].is_monotonic_increasing and best["cost"][0] == meeting["cost"].min()
    plan = [name for name in front.PLAN if name in tried]
    assert not best.duplicated(plan).any()
    for row in best.to_dict("records"):
        same = meeting[(meeting[plan] == pd.Series({name: row[name] for name in plan})).all(axis=1)]
        assert row["cost"] == same["cost"].min()


def test_modes_types_and_stages_are_tried(tried: pd.DataFrame) -> None:
    assert set(tried["mode"]) == {"agg", "disagg"} and set(tried["precision"]) == {"bf16", "fp8"}
    assert {1, 2} <= set(tried["pipeline_parallel"])
    apart = tried[tried["mode"] == "disagg"]
    assert (
        apart["gpus"] == apart["prefill_workers"] * apart["prefill_tensor_parallel"] + apart["decode_workers"] * apart["tensor_parallel"]
    ).all()
    assert (tried["gpus"] <= 2).all()
    alone = choice.candidates(dict(ASKED))
    assert set(alone["mode"]) == {"agg"} and len(alone) < len(tried)


def test_a_disaggregated_plan_is_answered_as_predict_serving_answers_it(tried: pd.DataFrame) -> None:
    from analysis.serving.points.answers import answers

    plan = tried[(tried["mode"] == "disagg") & (tried["precision"] == "fp8")].iloc[3]
    row = {
        "model_path": "llama-3.1-8b", "system": plan["device"], "backend": "vllm", "mode": "disagg", "isl": 1024, "osl": 1024,
        "precision": "fp8",
        "prefill_num_workers": plan["prefill_workers"], "prefill_tp_size": plan["prefill_tensor_parallel"],
        "decode_num_workers": plan["decode_workers"], "decode_tp_size": plan["tensor_parallel"],
        "decode_batch_size": plan["clients"] // plan["decode_workers"],
    }  # fmt: skip
    said = answers(pd.DataFrame([row]).astype(str)).iloc[0]
    assert (
        said["status"] == ""
        and said["tpot_ms"] == pytest.approx(plan["tpot_ms"])
        and said["ttft_upper_ms"] == pytest.approx(plan["ttft_upper_ms"])
    )
    assert plan["tokens_per_s_per_gpu"] == pytest.approx(said["output_tokens_per_s"] * plan["decode_workers"] / plan["gpus"])


def test_energy_follows_from_power_and_rate(tried: pd.DataFrame) -> None:
    rows = tried[tried["mode"] == "agg"]
    power = load()
    assert (rows["watts_per_gpu"] >= 700 * power.base).all() and (rows["watts_per_gpu_upper"] <= 700).all()  # both boards: 700 W
    joules = rows["watts_per_gpu"] / rows["tokens_per_s_per_gpu"]
    pd.testing.assert_series_equal(rows["joules_per_token"], joules, check_names=False)
    pd.testing.assert_series_equal(rows["carbon_g_per_million_tokens"], joules * 1e6 / 3.6e6 * 400, check_names=False)
    assert (rows["joules_per_token_lower"] < joules).all() and (rows["joules_per_token_upper"] > joules).all()
    assert tried[tried["mode"] == "disagg"]["watts_per_gpu"].isna().all()  # prompts have GPUs of their own: no power is answered


DOCUMENTED = {
    "vllm": "--tensor-parallel-size --pipeline-parallel-size --data-parallel-size --enable-expert-parallel --max-num-seqs "
    "--max-num-batched-tokens --gpu-memory-utilization --kv-cache-dtype",
    "sglang": "--model-path --tp-size --pp-size --dp-size --enable-dp-attention --ep-size --max-running-requests --chunked-prefill-size "
    "--mem-fraction-static --kv-cache-dtype",
    "trtllm": "--tp_size --pp_size --ep_size --max_batch_size --max_num_tokens --kv_cache_free_gpu_memory_fraction --extra_llm_api_options",
}
"""docs.vllm.ai/en/v0.8.5/serving/engine_args, docs.sglang.io/advanced_features/server_arguments, nvidia.github.io/TensorRT-LLM/1.0.0
commands/trtllm-serve."""


@pytest.mark.parametrize("engine", DOCUMENTED)
def test_a_plan_is_started_with_documented_arguments_alone(engine: str) -> None:
    plan = {
        "engine": engine, "mode": "agg", "clients": 64, "replicas": 1, "tensor_parallel": 2, "pipeline_parallel": 1,
        "attention_data_parallel": 4, "expert_parallel": 8, "max_num_seqs": 256, "max_batched_tokens": 8192, "memory_utilization": 0.9,
        "precision": "fp8", "kv_precision": "fp8",
    }  # fmt: skip
    said = arguments(plan, "deepseek-v3")
    assert set(re.findall(r"--[a-z_-]+", said)) <= set(DOCUMENTED[engine].split())
    assert "deepseek-ai/DeepSeek-V3" in said
    assert "'a folder; echo x'" in arguments(plan, "a folder; echo x/config.json")  # a shell takes it as one word
    # of attention in 4 groups of 2: vLLM counts GPUs of a group, the others all eight
    assert {"vllm": "--tensor-parallel-size 2", "sglang": "--tp-size 8", "trtllm": "--tp_size 8"}[engine] in said
    assert {"vllm": "--enable-expert-parallel", "sglang": "--ep-size 8", "trtllm": "enable_attention_dp: true"}[engine] in said
    with pytest.raises(InputError, match="only a plan of serving"):
        arguments({"step_time_s": 1.0}, "llama3-8b")


def test_the_command_prints_writes_and_draws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out, plot = tmp_path / "plans.csv", tmp_path / "front.png"
    options = [word for key, value in ASKED.items() for word in (f"--{key.replace('_', '-')}", value)]
    assert main(["predict", "recommend", *options, "--out", str(out), "--plot", str(plot), "--emit", "vllm"]) == 0
    said = capsys.readouterr().out
    assert "the best plans" in said and "tokens/s of a user (right)" in said and re.search(r"vllm serve \S+/\S*Llama-3.1-8B", said)
    assert plot.read_bytes()[:4] == b"\x89PNG" and len(pd.read_csv(out)) > 50
    assert main(["predict", "recommend", *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (
        found["best"][0]["cost"] == found["cost"]
        and len(found["front"]) > 3
        and found["joules_per_token_upper"] > found["joules_per_token"]
    )
    assert main(["predict", "recommend", *options, "--modes", "apart"]) == 2
    assert "unknown mode 'apart'; known: agg, disagg" in capsys.readouterr().err


def _answered(read: list[Any], *_: Any) -> Any:
    """Answers of our own in place of the predictor's: smooth in plan and clients, with ends; one plan is refused."""
    rows = []
    for case in read:
        plan, clients = case.plan, case.clients
        tpot = 40.0 / plan.tensor**0.8 * (1 + 0.03 * clients) * (1 + 0.1 * plan.pipeline) + 3 * plan.attention_data
        ttft, rate = 90.0 / plan.gpus + 4 * clients, clients * plan.ranks * 1e3 / (900 * tpot)
        times = {
            f"{name}{end}_ms": value * factor
            for name, value in (("ttft", ttft), ("tpot", tpot))
            for end, factor in zip(ENDS, (1, 0.8, 1.3), strict=True)
        }
        rates = {
            f"{name}{end}": value * factor
            for name, value in (("output_tokens_per_s", 900 * rate), ("requests_per_s", rate))
            for end, factor in zip(ENDS, (1, 0.7, 1.2), strict=True)
        }
        status = "not covered" if (plan.tensor, clients) == (2, 8) else ""
        rows.append(
            {
                **times,
                **rates,
                "kv_cache_tokens": 1000.0 * plan.gpus,
                "most_requests": 10.0 * plan.gpus,
                "assumed": "as said",
                "status": status,
            }
        )
    return SimpleNamespace(table=pd.DataFrame(rows))


CHOICES: dict[str, dict[str, str]] = {
    "plain": {},
    "sure": {"sure": "yes"},
    "two limits": {"ttft_target_ms": "70"},
    "rate": {"requests_per_s": "33"},
    "prices": {"devices": "h100_sxm,l40s", "prices": "h100_sxm=2.5,l40s=0.9", "requests_per_s": "33"},
    "apart": {"modes": "agg disagg", "max_gpus": "4"},
    "mixture": {"model": "qwen3-30b-a3b", "max_gpus": "8"},
    "grid": {"grid_g_per_kwh": "400"},
    "types": {"precision": "bf16 fp8"},
    "engines": {"engines": "trtllm vllm"},
    "nothing": {"tpot_target_ms": "0.5"},
    "nothing sure": {"tpot_target_ms": "9", "sure": "1"},
    "lengths": {"input_tokens": "2000", "output_tokens": "300", "max_gpus": "2"},
    "one GPU": {"max_gpus": "1"},
    "many GPUs": {"max_gpus": "64"},
    "no target": {"tpot_target_ms": ""},
    "target 0": {"tpot_target_ms": "0"},
    "mode": {"modes": "both"},
    "engine": {"engines": "mine"},
    "no devices": {"devices": " "},
    "price": {"prices": "h100_sxm"},
    "price 0": {"prices": "h100_sxm=0"},
    "no price": {"devices": "h100_sxm l40s", "prices": "h100_sxm=2"},
    "sure?": {"sure": "perhaps"},
    "of training": {"tokens": "1e9"},
    "too large": {"model": "llama-3.1-405b", "max_gpus": "2"},
    "no fp8": {"devices": "a100_sxm", "precision": "fp8"},
    "fp8 or not": {"devices": "a100_sxm", "precision": "fp8 bf16"},
    "trtllm on AMD": {"devices": "MI300X", "engines": "trtllm"},
    "a step": {"tpot_target_ms": "", "step_target_s": "5"},
}


def test_every_kind_of_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans tried, cost, ends, power and choice from answers of our own; each refusal in its words (costs by hand: test_recommend.py)."""
    monkeypatch.setattr(serving, "answer", _answered)
    monkeypatch.setattr(serving.power, "drawn_w", lambda case, tpot_s: None if case.prefill else (300.0 + 10 * case.clients, 250.0, 500.0))
    choice._candidates.cache_clear()
    base = {"model": "llama-3.1-8b", "devices": "h100_sxm", "engines": "vllm", "max_gpus": "4", "tpot_target_ms": "20", "precision": "fp8"}
    found: dict[str, Any] = {}
    for name, change in CHOICES.items():
        row = {**base, **change}
        found[name] = {key: value for key, value in choice.answers(pd.DataFrame([row])).iloc[0].items() if value == value}
    tried = choice.candidates({**base, "modes": "agg disagg", "max_gpus": "8"})
    found["tried"] = [len(tried), tried.groupby(["gpus", "tensor_parallel", "pipeline_parallel", "mode"]).size().to_dict().items()]
    chosen = choice.recommended(**base)
    found["report"], found["json"] = choice.report(chosen).split("\n"), choice.as_json(chosen)["best"][:2]
    sure = choice.recommended(**{**base, "requests_per_s": "33", "grid_g_per_kwh": "400", "tpot_target_ms": "26", "prices": "h100_sxm=2.5"})
    found["report of a rate"] = choice.report(sure).split("\n")
    found["plans"] = [
        [vars(plan) for plan in serving.plans(gpus, models.load(name))]
        for name in ("llama-3.1-8b", "mixtral-8x7b")
        for gpus in (1, 2, 4, 8)
    ]
    found["fronts"] = [
        front.terminal(front.pareto(tried)).split("\n"),
        front.table(tried.head(5)).split("\n"),
        front.table(front.best(tried)).split("\n"),
    ]
    found["started"] = [
        emit.arguments(
            {**chosen.plan, "engine": engine, "kv_precision": kv, "replicas": 2, "attention_data_parallel": data, "expert_parallel": data},
            "llama-3.1-8b",
        )
        for engine in ("vllm", "sglang", "trtllm")
        for kv in ("fp8", "bf16")
        for data in (1, 2)
    ]
    choice._candidates.cache_clear()
    kept("choices", found)


def test_every_choice_of_a_training_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs, days and targets from times of our own: cost = price x GPUs x steps x seconds / 3600; the run's tokens over a step's."""

    def timed(rows: list[dict[str, str]]) -> pd.DataFrame:
        out = pd.DataFrame(rows).astype(
            dict.fromkeys(("gpus", "tensor_parallel", "pipeline_parallel", "micro_batch", "zero", "virtual_pipeline"), int)
        )
        step = 100.0 / out["gpus"] * (1 + 0.1 * out["tensor_parallel"]) * (1 + 0.2 * out["pipeline_parallel"]) / out["micro_batch"] ** 0.1
        fits = np.where(out["tensor_parallel"] * out["pipeline_parallel"] >= 2, "yes", "tight")
        reason = np.where(out["recompute"] == "full", "", np.where(out["tensor_parallel"] > 1, "", "memory"))
        return out.assign(
            step_time_s=step,
            lower_s=0.9 * step,
            upper_s=1.2 * step,
            memory_gib=50.0,
            fits=fits,
            reason=reason,
            status="",
            assumed="as said",
        )

    monkeypatch.setattr(training, "timed", timed)
    choice._candidates.cache_clear()
    base = {
        "model": "llama-3-8b",
        "devices": "h100",
        "max_gpus": "12",
        "sequence_length": "8192",
        "global_batch": "24",
        "step_target_s": "20",
        "program": "megatron",
    }
    asked: dict[str, dict[str, str]] = {
        "plain": {},
        "sure": {"sure": "yes"},
        "days": {"step_target_s": "", "days_target": "10", "tokens": "1e9"},
        "both": {"days_target": "0.9", "tokens": "1e9"},
        "prices": {"devices": "h100 b200", "prices": "h100=2 b200=3"},
        "no target": {"step_target_s": ""},
        "days alone": {"step_target_s": "", "days_target": "10"},
        "no GPUs": {"max_gpus": ""},
        "nothing": {"step_target_s": "1"},
        "odd": {"global_batch": "7", "max_gpus": "8"},
        "of serving": {"tpot_target_ms": "9"},
    }
    found = {
        name: {key: value for key, value in choice.answers(pd.DataFrame([{**base, **change}])).iloc[0].items() if value == value}
        for name, change in asked.items()
    }
    choice._candidates.cache_clear()
    plain, run = found["plain"], found["days"]
    assert (
        plain["cost"] == pytest.approx(plain["gpus"] * plain["step_time_s"] * 1e6 / (24 * 8192) / 3600)
        and plain["cost_of"] == "a million tokens, in GPU hours"
    )
    assert run["days"] == pytest.approx(run["step_time_s"] * 1e9 / (24 * 8192) / 86400) and run["cost"] == pytest.approx(
        24 * run["days"] * run["gpus"]
    )
    kept("training_choices", found)
