"""What a recommendation shows besides the plan: the best plans, the front, energy, other modes and types, and how the plan is started."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.errors import InputError
from analysis.predict.recommend import choice, front
from analysis.predict.recommend.emit import arguments
from analysis.serving.points.power import load

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
