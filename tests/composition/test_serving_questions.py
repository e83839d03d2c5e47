"""Questions about serving that cannot be answered, or that differ from what was measured: refused, modelled or named."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from analysis.artifact.explorers.records.asked_grid import grid
from analysis.commands.models.predict import app
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.kernels import gpus as gpus_module
from analysis.kernels.library import KernelLibrary
from analysis.paths import DATA
from analysis.predict.recommend import choice
from analysis.serving.batch import answers as batch_answers
from analysis.serving.points import cases, operators, settings, waterfall
from analysis.serving.points import points as points_module
from analysis.serving.points.answers import answers
from analysis.serving.points.closed_loop import RESULT
from analysis.serving.points.operators import BEFORE, PROMPT, TOKENS
from analysis.serving.points.points import LONGEST, points
from analysis.tables import read_csv
from analysis.training.cases import case as training_case
from analysis.workloads import models

ROW = {"backend": "vllm", "model_path": "llama-3.1-70b", "system": "h100_sxm", "mode": "agg", "isl": "1024", "osl": "1024", "tp_size": "8"}
ROW |= {"batch_size": "16", "gemm_quant_mode": "fp8"}


def row(**change: object) -> pd.DataFrame:
    return pd.DataFrame([{**ROW, **{key: str(value) for key, value in change.items()}}])


WITHOUT_ROOM = [
    ("llama-3.1-70b", "h100_sxm", 1, "fp8", 100_000),
    ("llama-3.1-8b", "L4", 1, "bf16", 60_000),
    ("deepseek-v3", "h100_sxm", 8, "fp8", 1024),
    ("llama-3.1-8b", "TPU-v5e", 1, "bf16", 1024),
]


def test_the_gpus_of_a_replica_are_its_tensor_width_or_agree_with_its_plan() -> None:
    """GPUs of a replica = tensor x attention data x pipeline; a point without `mode` is aggregated."""
    plain = {key: value for key, value in ROW.items() if key not in ("mode", "tp_size")}
    plans = [case.plan for case in map(cases.case, ({**plain, "gpus": "8"}, {**plain, "gpus": "8", "pp_size": "2"}, {**ROW, "gpus": "8"}))]
    assert [(plan.tensor, plan.pipeline, plan.gpus) for plan in plans] == [(8, 1, 8), (4, 2, 8), (8, 1, 8)]
    assert not any("not given" in words and "tensor" in words for words in cases.case({**plain, "gpus": "8"}).assumed)
    for change, found in (({"tp_size": "4"}, 4), ({"pp_size": "3"}, 6)):
        with pytest.raises(InputError, match=f"8 GPUs of a replica, but its plan has {found}"):
            cases.case({**plain, "gpus": "8", **change})
    apart = {**plain, "mode": "disagg", "prefill_num_workers": "2", "prefill_tp_size": "2", "prefill_batch_size": "1"}
    apart |= {"decode_num_workers": "1", "decode_tp_size": "4", "decode_batch_size": "16"}
    assert cases.case({**apart, "gpus": "8"}).plan.gpus == 4
    with pytest.raises(InputError, match="the workers of both kinds have 8"):
        cases.case({**apart, "gpus": "16"})


@pytest.mark.parametrize(("model", "device", "gpus", "precision", "prompt"), WITHOUT_ROOM)
def test_a_replica_without_room_for_one_request_is_refused_everywhere_with_the_numbers(model, device, gpus, precision, prompt):
    """Reviews, bugs K2 and newcomer S6: these were answered with an invented KV cache of four requests."""
    with pytest.raises(InputError, match=r"GB of weights a GPU of .* KV cache of [\d,]+ tokens; one request needs [\d,]+"):
        waterfall.one(model, device, gpus, input_tokens=prompt, precision=precision)
    moe = {"moe_tp_size": gpus, "moe_ep_size": 1, "attention_dp_size": 1} if model == "deepseek-v3" else {}
    found = answers(row(model_path=model, system=device, tp_size=gpus, gemm_quant_mode=precision, isl=prompt, **moe)).iloc[0]
    assert "does not fit" in found["status"] and np.isnan(found["tpot_ms"])
    with pytest.raises(InputError, match="one request needs"):
        choice.one(
            model=model, devices=device, engines="vllm", max_gpus=gpus, input_tokens=prompt, precision=precision, tpot_target_ms=1000
        )


def test_the_kv_cache_is_what_weights_leave_by_hand():
    """8.03 G weights of 2 bytes; 2 x 32 layers x 8 heads x 128 x 2 bytes a token; 90 % of 80 GiB less 1.5 %, less 4 GiB."""
    found = waterfall.one("llama-3.1-8b", "h100_sxm", precision="bf16")
    left = 0.9 * 80 * 2**30 * 0.985 - 2 * 8.03e9 - 4 * 2**30
    assert found.answer["kv_cache_tokens"] == pytest.approx(left / 131_072, rel=0.01)
    assert found.answer["most_requests"] == found.answer["kv_cache_tokens"] // 2048
    assert f"{found.answer['kv_cache_tokens']:,.0f} tokens" in waterfall.report(found)


def test_clients_that_do_not_fit_are_said_to_queue():
    """Bugs K2: a 405B in FP8 leaves eight H100 two requests of 131,024 tokens."""
    long = waterfall.one("llama-3.1-405b", "h100_sxm", 8, input_tokens=130_000, precision="fp8")
    assert any("holds 2 requests of full length, of 16 clients" in text for text in long.assumed)
    found = waterfall.one("llama-3.1-8b", "L4", clients=64, precision="bf16")
    assert found.answer["most_requests"] < 64
    assert any(f"holds {found.answer['most_requests']:.0f} requests of full length, of 64 clients" in text for text in found.assumed)
    table = answers(row(model_path="llama-3.1-8b", system="L4", tp_size=1, batch_size=64, gemm_quant_mode="bf16"))
    assert "of 64 clients: the rest queue" in table["assumed"][0] and table["kv_cache_tokens"][0] == found.answer["kv_cache_tokens"]


@pytest.mark.parametrize(
    ("device", "least", "most"), [("TPU-v5e", 16.5e9, 16 * 2**30), ("L4", 23.5e9, 23_034 * 2**20), ("MI300X", 200e9, 192 * 2**30)]
)
def test_usable_memory_is_not_more_than_there_is(device, least, most):
    """16 GiB of a TPU v5e; 23,034 MiB of an L4 (nvidia-smi, codes in its memory); 192 GiB of an MI300X."""
    assert least < devices.load(device).usable_bytes <= most


@pytest.mark.parametrize(("device", "gpus", "most"), [("h100_sxm", 16, 8), ("mi300x", 16, 8), ("gb200", 128, 72)])
def test_a_replica_over_a_network_says_so_and_waits_for_it(device, gpus, most):
    asked = row(model_path="llama-3.1-405b", system=device, tp_size=gpus, gemm_quant_mode="fp8")
    found = answers(asked).iloc[0]
    assert found["status"] == "" and f"{gpus} GPUs over nodes of {most}, " in found["assumed"]
    inside, over = (
        points([cases.case({**asked.iloc[0].to_dict(), "tp_size": count})], KernelLibrary.load()).tables[0].seconds["tokens"][3, 0]
        for count in (8, gpus)
    )
    assert over > inside  # part 3: communication
    assert waterfall.Question("llama-3.1-405b", "gb200", 16).case().plan.gpus == 16  # one rack's NVLink


HYBRIDS = [
    ("gemma-4-31b", "h200_sxm", 1), ("gemma-4-26b-a4b", "h200_sxm", 1), ("nemotron-3-nano", "b200_sxm", 1), ("jamba-v0.1", "h200_sxm", 2),
    ("nemotron-3-super", "h200_sxm", 4), ("kimi-linear-48b-a3b", "MI300X", 4), ("step-3.5-flash", "h200_sxm", 4),
    ("granite-4.0-h-small", "h100_sxm", 2),
]  # fmt: skip


@pytest.mark.parametrize(("model", "device", "gpus"), HYBRIDS)
def test_mixed_layers_are_answered_above_their_roofline(model, device, gpus):
    """Windows of other widths, Mamba, Kimi's delta rule, experts of a latent width, blocks without attention or feed-forward."""
    found = waterfall.one(model, device, gpus, clients=8, precision="bf16")
    read = 2 * sum(size for part, size in found.case.model.matrices.items() if part in ("attention", "dense")) / gpus
    assert found.answer["tpot_ms"] > 1e3 * read / gpus_module.load(found.case.device).bandwidth_bytes_per_s
    assert found.answer["tpot_ms"] == pytest.approx(found.parts.query("target == 'tpot'")["ms"].sum())


def test_a_batch_of_prompts_that_is_not_used_is_named():
    """Prompts of a prefill worker share a step by its token budget: a column that says otherwise was read and used by nothing."""
    pools = {"mode": "disagg", "prefill_num_workers": "1", "decode_num_workers": "1", "decode_batch_size": "8", "backend": "vllm"}
    row = pools | {"model_path": "llama-3.1-8b", "system": "h100_sxm", "isl": "1024", "osl": "128"}
    said = {size: "; ".join(cases.case(row | {"prefill_batch_size": size}).assumed) for size in ("", "1", "4")}
    assert "prefill_batch_size 4 not used" in said["4"] and not any("prefill_batch_size" in said[size] for size in ("", "1"))


def test_a_plan_that_is_not_given_is_the_engines_default():
    found = answers(row(model_path="llama-3.1-8b", tp_size="")).iloc[0]
    assert found["status"] == "" and "tensor parallel 1 (not given)" in found["assumed"]


def test_a_prefix_in_the_cache_is_not_processed_again():
    """One client, equal lengths: a prompt of 4,096 tokens of which 3,072 are held takes a step of 1,024 behind 3,072."""
    asked = {"model_path": "llama-3.1-70b", "system": "h100_sxm", "batch_size": 1, "isl": 4096, "osl": 64, "length_low": 1, "tp_size": 8}
    held, whole = (points([cases.case({**ROW, **asked, "prefix": n})], KernelLibrary.load()) for n in (3072, 0))
    table = held.tables[0]
    step = np.interp(1024.0, TOKENS, table.total("tokens")) + table.total("sequences")[0] + held.engines[0]["host_s"]
    between = table.total("prefill")[list(PROMPT).index(1024)]
    step += np.interp(3072.0, BEFORE, between)
    least = held.engines[0]["prompt_host_s"]
    sent = held.engines[0]["send_s"] + 4096 * held.engines[0]["send_token_s"]
    assert held.result[0, 0] == pytest.approx(max(step, least) + sent, rel=1e-6) and held.result[0, 0] < 0.6 * whole.result[0, 0]
    assert "not shorter than the prompt" in answers(row(prefix=4096, isl=4096)).iloc[0]["status"]


def test_workers_for_prompts_and_for_answers_are_named_and_more_of_the_first_answer_sooner():
    pools = {"mode": "disagg", "tp_size": "", "batch_size": "", "decode_tp_size": 8, "decode_num_workers": 1, "decode_batch_size": 64}
    few, many = (answers(row(**pools, prefill_tp_size=4, prefill_num_workers=count)).iloc[0] for count in (1, 4))
    assert few["status"] == many["status"] == "" and many["ttft_ms"] < few["ttft_ms"]
    assert "4 workers of 4 GPUs process prompts for 1 of 8; their cache of" in many["assumed"]


POOLS = {"mode": "disagg", "model_path": "llama-3.1-70b", "system": "h100_sxm", "tp_size": "", "batch_size": "", "length_low": 1}
POOLS |= {"decode_tp_size": 8, "decode_num_workers": 1, "decode_batch_size": 1, "prefill_tp_size": 4, "prefill_num_workers": 1}
POOLS |= {"kvcache_quant_mode": "bf16"}


def test_a_prompts_cache_travels_before_its_first_token():
    """Llama 3.1 70B: 2 x 80 layers x 8 / 4 KV heads x 128 x 2 bytes of each token into a GPU; 400 Gbit/s between two nodes of H100."""
    case = cases.case({**ROW, **POOLS, "isl": 4096, "osl": 64})
    moved = points_module.transfer(case)
    assert moved.size_bytes == 4096 * 2 * 80 * 2 * 128 * 2 and moved.over == "infiniband"
    seconds = moved.fixed_s + moved.token_s * moved.tokens
    assert 1 < seconds / (moved.size_bytes / 50e9) < 2
    near = points_module.transfer(cases.case({**ROW, **POOLS, "decode_tp_size": 4, "isl": 4096, "osl": 64}))
    assert near.over == "nvlink" and near.fixed_s + near.token_s * near.tokens < seconds / 4
    found = points([case], KernelLibrary.load())
    table = found.tables[found.prefill_of[0]]
    prompt = np.interp(4096.0, TOKENS, table.total("tokens")) + table.total("sequences")[0]
    prompt += table.total("prefill")[list(PROMPT).index(4096), 0]
    sent = found.engines[0]["send_s"] + 4096 * found.engines[0]["send_token_s"]
    assert found.result[0, 0] == pytest.approx(max(prompt, found.engines[0]["prompt_host_s"]) + sent + seconds, rel=1e-3)


def test_prompts_that_wait_for_a_worker_share_its_step():
    """A step of several prompts reads a mixture's experts once: a burst is through sooner than one prompt after another."""
    pools = {**POOLS, "model_path": "deepseek-v3", "system": "h200_sxm", "prefill_tp_size": 8, "decode_batch_size": 32, "requests": 32}
    pools |= {"isl": 512, "osl": 4, "prefill_moe_ep_size": 8, "decode_moe_ep_size": 8}
    asked = [cases.case({**ROW, **pools, "max_batched_tokens": most}) for most in (8192, 512)]
    many, one = points(asked, KernelLibrary.load()).result[:, RESULT.index("throughput")]
    assert many > 1.5 * one


def test_pools_answer_requests_that_come_at_a_rate():
    """At a trickle the first token is that of a lone client, and the rate that of the whole plan."""
    asked = {**POOLS, "isl": 2048, "osl": 64, "decode_batch_size": ""}
    slow = answers(row(**asked, arrival="poisson", request_rate=0.01, requests=40)).iloc[0]
    alone = answers(row(**POOLS, isl=2048, osl=64)).iloc[0]
    assert slow["status"] == "" and slow["ttft_ms"] == pytest.approx(alone["ttft_ms"], rel=0.02)
    two = answers(row(**{**asked, "decode_num_workers": 2}, arrival="poisson", request_rate=2, requests=400)).iloc[0]
    assert two["requests_per_s"] == pytest.approx(1, rel=0.1) and "2 requests a second" in two["assumed"]
    refused = answers(row(**POOLS, isl=2048, osl=64, arrival="offline", requests=40)).iloc[0]["status"]
    assert "offline at prefill and decode workers" in refused


def test_experts_wider_than_a_choice_get_their_tokens_alone():
    """DeepSeek's tokens go to 8 of 256 experts: of 32 GPUs each reaches at most 8, where a gather sends every token to all."""
    wide = {"model_path": "deepseek-v3", "system": "gb200", "tp_size": 1, "moe_tp_size": 1}
    found = []
    for gpus in (32, 8):
        asked = {**ROW, **wide, "gemm_quant_mode": "fp8", "attention_dp_size": gpus, "moe_ep_size": gpus}
        calls = operators.calls(points_module.configuration(cases.case(asked)))
        found.append({dict(call.options)["kind"]: call for call in calls if call.part == "communication"})
    assert set(found[0]) == {"all_to_all"} and {"all_gather", "reduce_scatter"} <= set(found[1])
    reached = found[0]["all_to_all"].arrays["bytes"][0] / (2 * 7168)
    assert reached == pytest.approx(32 * (1 - (31 / 32) ** 8)) and reached < 8


def test_drafted_tokens_share_a_step():
    """One client, equal lengths: a step checks 2 tokens and makes 1 + acceptance; the block that drafts is one of 61."""
    asked = {"model_path": "deepseek-v3", "system": "h200_sxm", "batch_size": 1, "isl": 1024, "osl": 512, "length_low": 1}
    asked |= {"moe_tp_size": 8, "moe_ep_size": 1}
    rows = [{**ROW, **asked}, *({**ROW, **asked, "nextn": 1, "acceptance": chance} for chance in (0, 0.8, 1))]
    plain, *drafts = points([cases.case(one) for one in rows], KernelLibrary.load()).result[:, 2]
    never, often, always = drafts
    assert never == pytest.approx(1.8 * often, rel=1e-3) and never == pytest.approx(2 * always, rel=1e-3)
    assert 1 < never / plain < 1.4 and always < plain  # two tokens go through the experts of both
    # Where steps mix prompts and decoding, drafts count as well: twice as many tokens a step when all are right.
    mixing = {**asked, "backend": "vllm", "batch_size": 8, "isl": 8192, "osl": 16, "max_batched_tokens": 2048, "requests": 80}
    none, all_right = (points([cases.case({**ROW, **mixing, "nextn": 1, "acceptance": a})], KernelLibrary.load()).result for a in (0, 1))
    assert none[0, 6] > 0.7 and all_right[0, 2] < 0.65 * none[0, 2]
    given, guessed = (answers(row(**asked, nextn=1, **more)).iloc[0] for more in ({"acceptance": 0.75}, {}))
    assert given["tpot_ms"] == guessed["tpot_ms"] and guessed["tpot_upper_ms"] > given["tpot_upper_ms"]
    assert "a chance of 0.75 (not given" in guessed["assumed"] and "a chance of" not in given["assumed"]


@pytest.mark.parametrize(
    ("model", "billions"),
    [("llama-2-7b", 0.24), ("llama-2-13b", 0.37), ("llama-2-70b", 0.99), ("llama-3.1-8b", 0.25), ("llama-3.1-70b", 0.99)],
)
def test_an_eagle_head_has_the_published_size(model, billions):
    """Its README (github.com/SafeAILab/EAGLE) lists heads by parameters: one block and a product of 2 h with h; no output layer."""
    case = cases.case({**ROW, "model_path": model, "gemm_quant_mode": "bf16", "draft": "EAGLE", "nextn": 3, "isl": 512, "osl": 512})
    plain = replace(case, draft=None, drafted=0)
    head = points_module.weight_bytes(case, cases.Plan()) - points_module.weight_bytes(plain, cases.Plan())
    assert head / 2e9 == pytest.approx(billions, abs=0.006)


def test_drafts_by_a_head_or_a_model_cost_what_they_run():
    """A token drafted by the model itself costs a step of it: with acceptance 1, three drafts and a check of four tokens bring four."""
    asked = {"model_path": "llama-3.1-8b", "system": "h100_sxm", "tp_size": 1, "gemm_quant_mode": "bf16", "batch_size": 1, "length_low": 1}
    drafts: dict[str, dict[str, object]] = {
        "": {},
        **{name: {"draft": name, "nextn": 3, "acceptance": 1} for name in ("llama-3.1-8b", "llama-3.2-1b", "eagle", "eagle3")},
    }
    found = points([cases.case({**ROW, **asked, **more}) for more in drafts.values()], KernelLibrary.load())
    plain, itself, small, eagle, eagle3 = found.result[:, 2]
    assert itself == pytest.approx(plain, rel=0.06)  # one host's time for four steps, one step of four tokens
    assert plain / 4 < eagle3 < eagle < small < itself
    room = dict(zip(drafts, found.engines["cache_tokens"], strict=True))
    assert room["llama-3.1-8b"] < room["llama-3.2-1b"] < room["eagle"] < room[""]
    said = answers(row(**asked, draft="eagle3", nextn=3)).iloc[0]
    assert "an EAGLE-3 head, taken as one block" in said["assumed"] and "a chance of 0.75 (not given" in said["assumed"]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"draft": "eagle"}, "draft without nextn (draft_tokens): nothing is drafted"),
        ({"nextn": 2}, "draft takes eagle, eagle3 or a model"),
        ({"nextn": 2, "draft": "qwen3-8b"}, "a draft model needs the same"),
        ({"nextn": 2, "draft": "gpt-oss-20b"}, "draft models with experts are not covered"),
        ({"nextn": 9, "draft": "eagle"}, "at most 8 is answered"),
        ({"lora_rank": 8}, "lora_rank without lora_adapters"),
        ({"lora_adapters": 1, "lora_rank": 513}, "at most 512 is answered"),
        ({"lora_adapters": 1, "model_path": "deepseek-v3", "system": "h200_sxm"}, "LoRA adapters of latent attention are not covered"),
        ({"lora_adapters": 1, "system": "TPU-v6e", "gemm_quant_mode": "bf16"}, "LoRA adapters of a model on TPU-v6e are not covered"),
    ],
)
def test_drafts_and_adapters_that_cannot_be_are_refused(asked, reason):
    with pytest.raises(InputError, match=re.escape(reason)):
        cases.case({**ROW, **asked})


def test_adapters_served_together():
    """Memory by hand: an adapter of rank r of Llama 2 7B is r (3 x 4096 + 3 x 4096 + 2 x 4096 + 2 x 4096 + 2 x 11008 + 11008 + 4096)
    elements a layer. Time: Punica (arXiv 2310.18547, abstract) adds 2 ms a token on an A100; here half to twice of it at its batch of 32.
    """
    asked = {
        "model_path": "llama-2-7b",
        "system": "A100-SXM4-80GB",
        "tp_size": 1,
        "gemm_quant_mode": "bf16",
        "batch_size": 32,
        "isl": 512,
        "osl": 512,
    }
    rows = [{}, *({"lora_adapters": n, "lora_rank": 16} for n in (1, 32, 128))]
    read = [cases.case({**ROW, **asked, **more}) for more in rows]
    plain, one, many, more = points(read, KernelLibrary.load()).result[:, 2]
    assert 1e-3 < many - plain < 4e-3 and plain < one < many < more
    each = 2 * 32 * 16 * (3 * 4096 + 3 * 4096 + 2 * 4096 + 2 * 4096 + 2 * 11008 + 11008 + 4096)
    weights = [points_module.weight_bytes(case, cases.Plan()) for case in read]
    assert weights[2] - weights[0] == pytest.approx(32 * each)
    cut = points_module.adapter_bytes(read[0].model, 2, 16)
    assert each / 2 < cut < each  # of a product cut by columns each GPU has the whole A, of one cut by rows the whole B
    found = answers(pd.concat([row(**asked), row(**asked, lora_adapters=32), row(**asked, lora_adapters=5000)], ignore_index=True))
    width = found["tpot_upper_ms"] / found["tpot_ms"]
    assert width[1] > width[0] and "lora_rank 16 (not given" in found["assumed"][1]
    assert "GB of LoRA adapters a GPU" in found["status"][2] and np.isnan(found["tpot_ms"][2])


def test_a_step_takes_at_least_its_weights_and_its_cache():
    """Llama 3.1 70B in bf16 on 8 H100: its layers and head; of each cached token 2 x 80 layers x 1 KV head x 128 x 2 bytes a GPU."""
    case = waterfall.Question("llama-3.1-70b", "h100_sxm", 8, precision="bf16").case()
    cached = 32 * 4000 * 2 * 80 * 128 * 2
    weights = 2 * (sum(case.model.matrices.values()) - case.model.hidden * case.model.vocabulary) / 8
    assert points_module.floors_s(case, 32, 4000)[1] == pytest.approx((weights + cached) / 3.35e12, rel=0.01)


def test_a_tpu_keeps_two_hundredths_of_its_weights_free():
    """vLLM's tpu_worker.py: share x memory - 1.02 x weights; the 128 requests of 2,000 tokens that its recipe serves at a time fit."""
    found = waterfall.one("llama-3.1-70b", "TPU-v6e", 8, precision="bf16").answer
    assert 256_000 < found["kv_cache_tokens"] < 0.9 * 8 * 32 * 2**30 / (2 * 80 * 8 * 128 * 2)


def test_the_host_of_an_engine_at_its_defaults_launches_operators():
    """SGLang's recipes replay what its defaults launch one by one; small prompts of a mixture then wait for the host."""
    case = cases.case(
        {**ROW, "backend": "sglang", "model_path": "qwen3-235b-a22b", "gemm_quant_mode": "bf16", "tp_size": 8, "requests": 100}
    )
    count = operators.operators(points_module.configuration(case))
    assert 10 * case.model.layers < count < 40 * case.model.layers
    assert points_module.launch_s(case, points_module.HOST["sglang"]) == pytest.approx(8e-5 * count)


@pytest.mark.parametrize(
    ("device", "release", "replayed"),
    [
        ("b200_sxm", "0.5.9", False),
        ("b200_sxm", "0.5.10.post1", True),
        ("b200_sxm", "0.6", True),
        ("MI300X", "0.5.12", False),
        ("b200_sxm", "gemma4 branch", False),
        ("b200_sxm", "commit 947927bdb", False),
        ("b200_sxm", "sglang v0.5.10", True),
    ],
)
def test_prompts_are_replayed_in_pieces_from_the_release_that_does(device, release, replayed):
    """SGLang 0.5.10 enables piecewise CUDA graphs by default (its release notes): 0.15 ms a layer in place of 80 us an operator. The number
    of a branch or a commit is no release."""
    asked = {**ROW, "backend": "sglang", "system": device, "model_path": "minimax-m2.5", "gemm_quant_mode": "fp8", "tp_size": 8}
    case = cases.case({**asked, "requests": 100, "engine_version": release})
    host = points_module.HOST["sglang"]
    assert (points_module.launch_s(case, host) == pytest.approx(62 * host.layer_s)) == replayed


@pytest.mark.parametrize(
    ("model", "kernels"),
    [
        ("qwen3-next-80b-a3b", 11),  # convolution, gates, two norms, six of chunk_gated_delta_rule_fwd, the gated norm
        ("kimi-linear-48b-a3b", 13),  # a convolution each for queries, keys and values
        ("nemotron-3-nano", 7),  # convolution, five of _mamba_chunk_scan_combined_fwd, the gated norm
    ],
)
def test_a_prompts_linear_attention_is_as_many_kernels_as_a_host_launches(model, kernels):
    """Kernels beside the projections, by SGLang's fla/chunk.py, fla/kda.py and mamba/ops/ssd_combined.py; of a decode step two: one for the
    state, one for what goes in and out."""
    case = cases.case({**ROW, "backend": "sglang", "model_path": model, "gemm_quant_mode": "bf16", "tp_size": 2})
    own = points_module.configuration(case)
    more = operators.operators(own) - operators.operators(own, prompt=False)
    assert more == case.model.linear.layers * (kernels - 2)
    launched = points_module.launch_s(case, points_module.HOST["sglang"])
    assert launched == pytest.approx(8e-5 * operators.operators(own))


@pytest.mark.parametrize(
    ("change", "padded"),
    [
        ({"engine_version": "0.11.0"}, False),
        ({"engine_version": "0.11.1"}, True),
        ({"engine_version": "0.12.0"}, True),
        ({"engine_version": "0.14.0"}, False),
        ({}, False),  # today's release
        ({"engine_version": "0.11.1", "tp_size": 8}, True),
        ({"engine_version": "0.12.0", "tp_size": 8}, False),
        ({"engine_version": "0.12.0", "tp_size": 8, "moe_ep_size": 8}, True),
        ({"engine_version": "0.12.0", "system": "MI300X"}, False),
        ({"engine_version": "0.12.0", "backend": "sglang"}, False),
        ({"engine_version": "0.12.0", "model_path": "gpt-oss-120b", "gemm_quant_mode": ""}, False),
    ],
)
def test_experts_multiply_padded_tiles_in_the_releases_that_do(change, padded):
    """One token takes as long as 128, and 256 longer: compute_aligned_M pads each expert to 128 rows. vLLM pulls 26197 (E8M0 scales,
    with which TritonOrDeepGemmExperts always calls DeepGEMM; 0.11.1) and 29346 (not at tensor parallel 8; 0.12)."""
    asked = {**ROW, "backend": "vllm", "system": "h200_sxm", "model_path": "Qwen3-235B-A22B", "gemm_quant_mode": "fp8_block", "tp_size": 4}
    case = cases.case({**asked, **change})
    configuration = points_module.configuration(case)
    assert configuration.padded == padded
    moe = next(call for call in operators.calls(configuration) if call.method == "moe")
    few = operators.TOKENS <= 128
    assert (np.unique(moe.arrays["tokens"][few]).tolist() == [128.0]) == padded
    np.testing.assert_array_equal(moe.arrays["tokens"][~few], operators.TOKENS[~few])


@pytest.mark.parametrize(
    ("change", "kernels"),
    [
        ({}, 62 * (2 + 2)),  # MiniMax: queries, keys and values as one, their output, and a mixture's two
        ({"model_path": "qwen3-235b-a22b", "gemm_quant_mode": "bf16"}, 0),
        ({"system": "h200_sxm"}, 0),
        ({"model_path": "deepseek-v3"}, 61 * 3 + 3 * 2 + 58 * (2 + 2)),  # dense layers, or shared experts beside the routed
    ],
)
def test_on_amd_kernels_quantise_what_products_by_block_take(change, kernels):
    """SGLang's aiter_w8a8_block_fp8_linear calls aiter_per1x128_quant and then the product, aiter's fused experts before each of their two;
    NVIDIA's kernel tables time both together. A host's call in Python launches them with the product."""
    asked = {**ROW, "backend": "sglang", "system": "MI300X", "model_path": "minimax-m2.5", "gemm_quant_mode": "fp8_block", "tp_size": 8}
    case = cases.case({**asked, **change})
    own = points_module.configuration(case)
    plain = replace(own, quantises=False)
    assert operators.operators(own) - operators.operators(plain) == kernels
    more, less = (sum(call.count * call.arrays["bytes"][0] for call in operators.calls(c) if call.part == "memory") for c in (own, plain))
    assert (more > less) == (kernels > 0)
    host = points_module.HOST["sglang"]
    assert points_module.launch_s(case, host) == pytest.approx(8e-5 * operators.operators(plain))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ("bf16", 32768, 512, 1)),
        ({"osl": 8192}, ("bf16", 32768, 256, 1)),
        ({"system": "b200_sxm"}, ("fp8", 32768, 128, 30)),
        ({"system": "b200_sxm", "tp_size": 4, "moe_tp_size": 4}, ("fp8", 8192, 32, 10)),
        ({"system": "b200_sxm", "gemm_quant_mode": "nvfp4", "precision": "fp4"}, ("fp8", 16384, 256, 30)),
    ],
)
def test_deepseek_is_served_as_each_script_of_the_benchmark_starts_it(change, expected):
    """benchmarks/dsr1_fp8_h200.sh (no --kv-cache-dtype: 16 bits), dsr1_fp8_b200.sh (by TP), dsr1_fp4_b200.sh of InferenceX. One script for
    all made a decode step of 64 sequences on H200 twice as long as measured."""
    asked = {**ROW, "backend": "sglang", "system": "h200_sxm", "model_path": "deepseek-ai/DeepSeek-R1", "gemm_quant_mode": "fp8_block"}
    asked |= {"precision": "fp8", "isl": 1024, "osl": 1024, "tp_size": 8, "moe_tp_size": 8, "batch_size": 64}
    found = settings.of(cases.case({**asked, **change}))
    assert (found.kv, found.batched_tokens, found.max_running, found.receive_interval) == expected


@pytest.mark.parametrize(("count", "chosen", "ranks"), [(256, 8, 1), (256, 8, 8), (128, 4, 4)])
def test_a_batch_reaches_fewer_experts_than_even_choices_would(count, chosen, ranks):
    """Against draws: experts' chances are beta distributed around k / E with their squared mean over their variance as POPULARITY says."""
    model = next(m for m in map(models.load, ("deepseek-v3", "gpt-oss-120b")) if m.experts and m.experts.count == count)
    tokens, share = np.array([1.0, 16.0, 48.0, 4096.0]), chosen / count
    found = operators.reached(model.experts, ranks, tokens)
    a = operators.POPULARITY * (1 - share) - share
    rng = np.random.default_rng(0)
    chances = rng.beta(a, a / share - a, (1500, count))
    assert chances.mean() ** 2 / chances.var() == pytest.approx(operators.POPULARITY, rel=0.05)

    def slowest(p, t):
        hit = rng.random(p.shape) < 1 - (1 - p) ** t
        return hit.reshape(len(p), ranks, -1).sum(axis=2).max(axis=1).mean()

    drawn = [slowest(chances, t) / slowest(np.full_like(chances, share), t) for t in tokens]
    np.testing.assert_allclose(found, drawn, atol=0.035)
    assert found[1] < 0.95 and found[-1] == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("device", ["mi300x", "TPU-v6e"])
def test_tensorrt_llm_runs_on_nvidia_alone_by_one_rule(device):
    reason = "TensorRT-LLM runs on NVIDIA's GPUs"
    with pytest.raises(InputError, match=reason):
        waterfall.one("llama-3.1-8b", device, engine="trtllm", precision="bf16")
    assert reason in answers(row(model_path="llama-3.1-8b", backend="trtllm", system=device))["status"][0]
    with pytest.raises(InputError, match=reason):
        choice.one(model="llama-3.1-8b", devices=device, engines="trtllm", tpot_target_ms=1000, precision="bf16")


KV = [
    ({"gemm_quant_mode": "bf16"}, "bf16"),  # 70b_fp8_h100_slurm.sh is of FP8 weights
    ({}, "fp8"),  # and sets an FP8 cache
    ({"system": "H20"}, "bf16"),  # but not on a GPU that it is not for
    ({"kvcache_quant_mode": "bf16"}, "bf16"),
    ({"model_path": "llama-3.1-8b", "backend": "trtllm", "tp_size": "1"}, "fp8"),  # FP8 engines of TensorRT-LLM have an FP8 cache
    ({"model_path": "llama-3.1-8b", "backend": "trtllm", "tp_size": "1", "gemm_quant_mode": "fp16"}, "bf16"),
    ({"model_path": "qwen3-32b", "system": "b200_sxm", "gemm_quant_mode": "nvfp4"}, "fp8"),  # hf_quant_config.json of NVIDIA's
    ({"model_path": "qwen3-32b", "kvcache_quant_mode": "fp8_e4m3"}, "fp8"),
]


@pytest.mark.parametrize(("change", "kind"), KV)
def test_the_type_of_the_kv_cache(change, kind):
    asked = {**ROW, **change}
    assert settings.of(cases.case(asked)).kv == kind
    assert f"KV cache in {kind}" in answers(pd.DataFrame([asked]))["assumed"][0]


def test_a_cache_of_half_the_bytes_holds_twice_the_tokens():
    wide, narrow = (waterfall.one("qwen3-32b", "h100_sxm", 2, 64, precision="fp8", kv_precision=kind).answer for kind in ("bf16", "fp8"))
    assert narrow["kv_cache_tokens"] == pytest.approx(2 * wide["kv_cache_tokens"], abs=1) and narrow["tpot_ms"] < wide["tpot_ms"]


@pytest.mark.parametrize("name", ["int4", "int4_wo", "AWQ", "gptq", "w4a16"])
def test_four_bit_weights_of_a_dense_model_are_not_answered_as_sixteen_bits(name):
    """Newcomer S1: int4 had bf16's digits. A 70B of 4 bits, 39 GB, runs on one H100; its steps read a quarter of the weights."""
    asked = {"input_tokens": 512, "output_tokens": 512, "clients": 1}
    four = waterfall.one("llama-3.1-70b", "h100_sxm", 1, precision=name, **asked)
    assert four.case.gemm == "int4" and "weights in int4" in waterfall.report(four)
    sixteen = waterfall.one("llama-3.1-70b", "h100_sxm", 4, precision="bf16", **asked)
    assert four.answer["tpot_ms"] < 2 * sixteen.answer["tpot_ms"]  # on a quarter of the GPUs
    eight, half = (waterfall.one("llama-3.1-8b", "h100_sxm", precision=kind, **asked).answer["tpot_ms"] for kind in ("bf16", name))
    assert half < 0.7 * eight


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"gemm_quant_mode": "int3"}, "unknown type 'int3'"),
        ({"kvcache_quant_mode": "int8"}, "unknown type 'int8' of the KV cache"),
        ({"nextn": "3"}, "no blocks for multi-token prediction"),
        ({"nextn": "9", "model_path": "deepseek-v3"}, "at most 8"),
        ({"nextn": "unknown", "model_path": "deepseek-v3"}, "nextn is 'unknown', no number"),
        ({"nextn": "1", "acceptance": "1.1", "model_path": "deepseek-v3"}, "no number from 0 to 1"),
        ({"acceptance": "0.8"}, "acceptance without nextn"),
        ({"pp_size": "200", "system": "gb200", "tp_size": "1"}, "200 stages of 80 layers"),
        ({"arrival": "steady"}, "unknown arrival 'steady'"),
        ({"request_rate": "2", "arrival": "closed"}, "a rate is of poisson alone"),
        ({"arrival": "poisson"}, "a rate is of poisson alone"),
        ({"length_low": "1.5"}, "no number from 0 to 1"),
        ({"batch_size": "10001"}, "at most 10,000"),
        ({"model_path": "kimi-k2.5", "system": "h200_sxm", "gemm_quant_mode": "fp8"}, "no checkpoint in fp8; published: int4, nvfp4"),
    ],
)
def test_what_is_not_modelled_is_refused(change, reason):
    asked = {**ROW, "moe_tp_size": "8", "moe_ep_size": "1", **change}
    found = answers(pd.DataFrame([asked])).iloc[0]
    assert reason in found["status"] and np.isnan(found["ttft_ms"])


def test_fewer_requests_at_a_time_wait_longer():
    found = answers(pd.concat([row(batch_size=64, max_num_seqs=n) for n in ("", 8)], ignore_index=True))
    assert found["ttft_ms"][1] > 3 * found["ttft_ms"][0] and found["tpot_ms"][1] < found["tpot_ms"][0]
    assert "8 requests at most" in found["assumed"][1]


@pytest.mark.parametrize(
    ("model", "device", "kind"),
    [
        ("qwen3-32b", "h100_sxm", "bf16"),
        ("Qwen/Qwen3-32B-FP8", "h100_sxm", "fp8"),
        ("deepseek-ai/DeepSeek-V3", "h200_sxm", "fp8_block"),
        ("qwen3-32b", "a100_sxm", "bf16"),
        ("gpt-oss-120b", "h100_sxm", "mxfp4"),
        ("kimi-k2.5", "h200_sxm", "int4"),
    ],
)
def test_one_default_type_in_all_commands(model, device, kind):
    gpus = 8 if device == "h200_sxm" else 2
    one = waterfall.one(model, device, gpus)
    asked = row(model_path=model, system=device, tp_size=gpus, gemm_quant_mode="", moe_tp_size=gpus, moe_ep_size=1)
    found = answers(asked).iloc[0]
    assert found["tpot_ms"] == pytest.approx(one.answer["tpot_ms"])
    assert kind in waterfall.header(one.case) and f"weights in {kind.removesuffix('_block')} (" in found["assumed"]
    plan = choice.one(model=model, devices=device, engines="vllm", max_gpus=gpus, tpot_target_ms=1000)
    assert kind.removesuffix("_block") in plan["precision"] and f"up to {gpus} GPUs a replica" in plan["assumed"]


@pytest.mark.parametrize(
    ("device", "gpus", "where"),
    [("h100_sxm", 8, "8 GPUs in one node"), ("h100_sxm", 16, "16 GPUs over nodes of 8"), ("gb200", 16, "16 GPUs on one fabric")],
)
def test_a_replica_is_said_to_stand_where_its_links_are(device, gpus, where):
    """Sixteen H100 were said to be on one fabric, and in the next line over nodes of 8 (DGX H100: eight on NVSwitch; GB200: 72)."""
    found = waterfall.one("llama-3.1-70b", device, gpus, expert_parallel=1)
    assert f"{where}, tensor parallel {gpus}" in waterfall.header(found.case) and where in waterfall.report(found).split("assumed:")[1]


def test_a_checkpoint_in_fp32_is_served_in_sixteen_bits_and_says_so(tmp_path):
    """vLLM's --dtype auto loads FP32 models in 16 bits (docs.vllm.ai, engine arguments); bf16 was called the checkpoint's own."""
    sizes = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 32000}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "torch_dtype": "float32", **sizes}))
    found = answers(row(model_path=tmp_path / "config.json", tp_size=1, gemm_quant_mode="")).iloc[0]
    assert "weights in bf16 (as engines load fp32: no precision given)" in found["assumed"]


def test_other_types_than_the_published_are_named():
    found = waterfall.one("gpt-oss-120b", "h100_sxm", precision="fp8")
    assert any("bf16 and mxfp4, the published checkpoint's types, not in fp8" in text for text in found.assumed)


def test_a_gpu_that_nobody_measured_has_the_wider_interval_and_says_so():
    """Audit F5: H100 and H20 had the ratio 1.38, every first token 2.07."""
    seen, unseen = (waterfall.one("llama-3.1-70b", name, 8, precision="fp8") for name in ("h100_sxm", "h20"))
    for target in ("ttft", "tpot"):
        widths = [one.answer[f"{target}_upper_ms"] / one.answer[f"{target}_lower_ms"] for one in (seen, unseen)]
        assert widths[1] > 1.2 * widths[0]
    assert any("no calibrated run has device H20" in text for text in unseen.assumed)
    assert not any("no calibrated run" in text for text in seen.assumed)
    assert all(any("measurements of a token's time by" in text for text in one.assumed) for one in (seen, unseen))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"gemm_quant_mode": "int4"}, "number type int4"),
        ({"backend_version": "0.3.1"}, "engine release vllm 0.3"),
        ({"model_path": "llama-3.1-405b", "isl": "512"}, "model family"),
    ],
)
def test_what_no_calibrated_run_has_is_said(change, why):
    assert why in answers(row(**change))["assumed"][0]


@pytest.mark.parametrize(("model", "device", "gpus"), [("qwen3-235b-a22b", "h100_sxm", 8), ("qwen3-30b-a3b", "MI300X", 1)])
def test_the_parts_add_up_where_other_sources_tell_of_defaults(model, device, gpus):
    found = waterfall.one(model, device, gpus)
    for target in ("ttft", "tpot"):
        assert found.parts.loc[found.parts["target"] == target, "ms"].sum() == pytest.approx(found.answer[f"{target}_ms"], rel=1e-9)
    assert "defaults and device, as on other sources" in set(found.parts["part"])


def test_json_has_the_numbers_of_the_text():
    run = CliRunner().invoke(app, ["one", "--model", "llama-3.1-8b", "--device", "h100", "--kv-precision", "fp8", "--json"])
    found = json.loads(run.output)
    assert run.exit_code == 0 and found["status"] == "" and found["kv_cache_tokens"] > 0 and found["assumed"]
    one = waterfall.one("llama-3.1-8b", "h100", kv_precision="fp8").answer
    for target in ("ttft", "tpot"):
        assert all(found[f"{target}{end}_ms"] == pytest.approx(one[f"{target}{end}_ms"]) for end in ("", "_lower", "_upper"))


def test_an_answer_names_model_device_plan_and_types():
    text = waterfall.report(waterfall.one("mixtral-8x7b", "a100", 2))
    assert text.splitlines()[0].startswith("Mixtral-8x7B on A100-SXM4-80GB, 2 GPUs") and "weights in bf16, KV cache in bf16" in text


def test_a_batch_beyond_the_context_is_answered_with_the_reason_in_assumed_alone():
    """Scenario I1.2: value and refusal stood in one row."""
    asked = {"hardware": "A100-SXM4-80GB", "devices": "1", "framework": "vLLM", "model": "meta-llama/Llama-2-7b-hf", "batch_size": "1"}
    found = batch_answers(pd.DataFrame([{**asked, "input_tokens": n, "output_tokens": "256"} for n in ("1024", "4096")]))
    assert (found["status"] == "").all() and found["latency_s"].notna().all()
    assert "takes 4,096" in found["assumed"][1] and "takes" not in found["assumed"][0]


def test_stages_of_a_pipeline_serve_side_by_side():
    """Each stage holds half of the weights and of a token's cache; of two stages each works on the other's half of the requests."""
    one, two = (answers(row(tp_size=2, pp_size=n, batch_size=64 * n, gemm_quant_mode="fp8")).iloc[0] for n in (1, 2))
    assert "pipeline parallel 2" in two["assumed"] and "4 GPUs in one node" in two["assumed"]
    assert two["tpot_ms"] == pytest.approx(one["tpot_ms"], rel=0.05)
    assert two["output_tokens_per_s"] == pytest.approx(2 * one["output_tokens_per_s"], rel=0.1)
    assert two["kv_cache_tokens"] > 3 * one["kv_cache_tokens"]  # twice the GPUs, and half the weights on each


def test_a_static_batch_is_one_prompt_step_and_its_tokens():
    found = answers(row(arrival="static", length_low=1, batch_size=32, osl=128)).iloc[0]
    whole = 1e-3 * (found["ttft_ms"] + 127 * found["tpot_ms"])
    assert found["output_tokens_per_s"] == pytest.approx(32 * 128 / whole, rel=0.15) and "one batch" in found["assumed"]


def test_requests_that_all_lie_ready_are_served_at_the_rate_of_a_long_run():
    offline = answers(row(arrival="offline", requests=1000, batch_size=256, length_low=1, osl=256)).iloc[0]
    closed = answers(row(arrival="closed", requests=1000, batch_size=256, length_low=1, osl=256)).iloc[0]
    assert offline["output_tokens_per_s"] == pytest.approx(closed["output_tokens_per_s"], rel=0.15)
    few = answers(row(arrival="offline", requests=256, batch_size=256, length_low=1, osl=256)).iloc[0]
    assert few["requests_per_s"] < offline["requests_per_s"] * 1.01  # ramp and tail are a larger part


def test_who_sends_at_a_rate_is_answered_at_that_rate_until_requests_pile_up():
    rates = [answers(row(arrival="poisson", request_rate=n, requests=400, batch_size="")).iloc[0] for n in (0.5, 2, 200)]
    assert rates[0]["requests_per_s"] == pytest.approx(0.5, rel=0.1) and rates[1]["requests_per_s"] == pytest.approx(2, rel=0.25)
    assert rates[2]["requests_per_s"] < 100 and rates[2]["ttft_ms"] > 5 * rates[0]["ttft_ms"]
    assert rates[0]["tpot_ms"] < rates[1]["tpot_ms"]


def test_a_length_may_be_a_mean_with_a_fraction_and_a_count_may_not():
    assert answers(row(isl=991.8, osl=1020.2)).iloc[0]["status"] == ""
    assert "expected a whole number" in answers(row(tp_size=7.5)).iloc[0]["status"]


def test_lengths_are_drawn_from_where_the_row_says():
    fixed, drawn = (answers(row(length_low=low)).iloc[0] for low in (1, 0))
    assert drawn["output_tokens_per_s"] / drawn["requests_per_s"] == pytest.approx(512)
    assert fixed["output_tokens_per_s"] / fixed["requests_per_s"] == pytest.approx(1024) and "lengths as given" in fixed["assumed"]


BF16_CACHE = 2 * 2 * 8 * 128  # bytes of a token's keys and values in a layer of Llama 3.1
ROOFLINES = [
    # weights but the embedding (the head stays in 16 bits) and the cache of 0.9 of the prompt, read once a token
    ("llama-3.1-70b", "MI300X", 1, "bf16", 2000, 1, "vllm", 69.5e9 * 2 + 80 * BF16_CACHE * 1800, 5.3e12),
    ("llama-3.1-8b", "L4", 1, "fp8", 2000, 1, "vllm", 6.98e9 + 1.05e9 + 32 * BF16_CACHE * 1800, 300e9),
    # 13.3 ms were said of 28.7 of bytes: contexts beyond 18,432 tokens were the last slope of a table
    ("llama-3.1-8b", "L40S", 1, "fp8", 128_000, 1, "vllm", 6.98e9 + 1.05e9 + 32 * BF16_CACHE * 115_200, 864e9),
    ("llama-3.1-8b", "H100", 1, "fp8", 60_000, 4, "vllm", 6.98e9 + 1.05e9 + 3.9 * 32 * BF16_CACHE * 54_000, 3.35e12),
    # -0.6 ms was said
    ("llama-3.1-70b", "gb200", 1, "int4", 100_000, 1, "vllm", 0.53 * 68.4e9 + 2.1e9 + 80 * BF16_CACHE * 90_000, 8e12),
    # kernels timed with 70 MB of weights in 96 MB of cache
    ("qwen3-32b", "L40S", 1, "int4", 8192, 1, "trtllm", 0.53 * 31.2e9 + 2 * 5120 * 151_936 + 64 * BF16_CACHE * 7372, 864e9),
]


@pytest.mark.parametrize(("model", "device", "gpus", "precision", "prompt", "clients", "engine", "read", "bandwidth"), ROOFLINES)
def test_no_answer_is_below_the_bytes_that_a_token_reads(model, device, gpus, precision, prompt, clients, engine, read, bandwidth):
    """By the data sheets of MI300X (5.3 TB/s), L4, L40S, H100 and GB200 and the models' config.json."""
    one = waterfall.one(model, device, gpus, clients, prompt, 200, engine, precision)
    found = one.answer
    assert 0.985e3 * read / bandwidth <= found["tpot_lower_ms"] <= found["tpot_ms"] <= found["tpot_upper_ms"]
    assert found["ttft_lower_ms"] <= found["ttft_ms"] <= found["ttft_upper_ms"]
    assert found["output_tokens_per_s"] <= found["output_tokens_per_s_upper"]
    for target in ("ttft", "tpot"):
        assert one.parts.loc[one.parts["target"] == target, "ms"].sum() == pytest.approx(found[f"{target}_ms"], rel=1e-9)
    assert any("raised" in words for words in one.assumed) == (device == "L40S" and precision == "int4")


LONG = [("llama-3.1-8b", "l40s", 1, ""), ("llama-3.1-70b", "gb200", 2, "int4"), ("llama-3.1-70b", "b200", 2, "nvfp4")]


@pytest.mark.parametrize(("model", "device", "gpus", "precision"), LONG)
def test_a_token_takes_longer_after_a_longer_prompt(model, device, gpus, precision):
    asked = {"model": model, "device": device, "gpus": gpus, "precision": precision, "clients": 1, "output_tokens": 64}
    found = grid([asked | {"input_tokens": 2**power} for power in range(10, 17)])
    assert found["status"].eq("").all()
    for name in ("tpot_ms", "ttft_ms"):
        assert (found[name].pct_change().dropna() > -0.01).all()  # measured kernels are not quite monotonic
    # attention of a prompt grows with its square: twice the tokens take more than twice as long
    assert found["ttft_ms"].iloc[-1] > 2 * found["ttft_ms"].iloc[-2] and found["tpot_ms"].iloc[-1] > 1.05 * found["tpot_ms"].iloc[0]


def test_nvfp4_is_refused_on_other_makers_cards_and_mxfp4_is_not():
    """AMD's CDNA 4 multiplies the OCP's MX formats (data sheet of the MI355X: MXFP4), not NVIDIA's NVFP4."""
    pairs = (("qwen3-32b", "nvfp4"), ("gpt-oss-120b", "mxfp4"))
    asked = [row(model_path=model, system="MI355X", gemm_quant_mode=kind) for model, kind in pairs]
    assert answers(pd.concat(asked, ignore_index=True))["status"].tolist() == ["MI355X has no nvfp4 rate in its data sheet", ""]


@pytest.mark.parametrize("device", ["h100_sxm", "b200_sxm", "L40S", "MI300X", "MI355X", "TPU-v6e"])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "llama-3.1-70b", "qwen3-32b"])
def test_fp8_with_a_scale_a_tensor_is_nowhere_slower_than_bf16(model, device):
    """Half the bytes and twice the rate on each of their data sheets; what slows products by block was measured on those alone."""
    found = answers(pd.concat([row(model_path=model, system=device, gemm_quant_mode=kind) for kind in ("fp8", "bf16")], ignore_index=True))
    assert found["status"].tolist() == ["", ""]
    for target in ("tpot_ms", "ttft_ms"):
        assert found[target][0] <= 1.01 * found[target][1]


def test_a_lone_client_waits_in_no_queue():
    """The front end's own work on a request (3.7 ms) was called a queue."""
    alone, many = (waterfall.one("llama-3.1-8b", "h100", 1, clients, 2000, 200).parts for clients in (1, 256))
    assert not alone["part"].eq("queue").any() and many["part"].eq("queue").any()


@pytest.mark.parametrize(
    ("engine", "device"),
    [("vllm", "SN40L"), ("vllm", "MI100"), ("vllm", "P100-PCIE-16GB"), ("vllm", "TPU-v3"), ("sglang", "TPU-v6e"), ("sglang", "V100")]
    + [("sglang", "MI250"), ("sglang", "Max-1550"), ("trtllm", "T4"), ("trtllm", "V100")],
)
def test_an_engine_is_refused_where_its_documentation_lists_no_such_device(engine, device):
    name = cases.runs_on()[engine].name
    with pytest.raises(InputError, match=f"{name} runs on .*, not on "):
        waterfall.one("llama-3.1-8b", device, engine=engine)
    assert f"{name} runs on" in answers(row(model_path="llama-3.1-8b", backend=engine, system=device, gemm_quant_mode=""))["status"][0]
    with pytest.raises(InputError, match=f"{name} runs on"):
        choice.one(model="llama-3.1-8b", devices=device, engines=engine, tpot_target_ms=1000)


@pytest.mark.parametrize(
    ("name", "said"), [("Qwen/Qwen2.5-VL-7B-Instruct", True), ("meta-llama/Llama-4-Scout-17B-16E", True), ("qwen3-32b", False)]
)
def test_a_model_that_takes_images_is_answered_for_text_and_says_so(name, said):
    """Qwen2.5-VL and Llama 4 take images (their model cards); served, trained and batched."""
    served = cases.case({**row(model_path=name, tp_size=4).iloc[0].to_dict()})
    trained = training_case({"model": name, "device": "h100", "gpus": "8", "sequence_length": "4096", "global_batch": "64"})
    for assumed in (served.assumed, trained.assumed):
        assert any(words.startswith("text alone") for words in assumed) == said


def test_every_architecture_of_the_rule_is_one_of_a_device():
    known = {device.architecture for device in devices.all_devices().values()}
    assert all(set(engine.architectures) <= known for engine in cases.runs_on().values())


def test_sixteen_bits_are_fp16_where_there_is_no_bf16():
    """V100 and T4 have FP16 tensor cores alone (their white papers); vLLM refuses bf16 below compute capability 8.0."""
    found = waterfall.one("llama-3.1-8b", "V100", 2, clients=1)
    said = waterfall.report(found)
    assert (
        "weights in fp16 (the checkpoint's own: no precision given)" in found.assumed
        and "weights in fp16, KV cache in fp16" in said
        and "no bf16" in said
    )
    assert waterfall.one("llama-3.1-8b", "V100", 2, clients=1, precision="fp16").answer == found.answer
    for given in ({"precision": "bf16"}, {"precision": "fp16", "kv_precision": "bf16"}):
        with pytest.raises(InputError, match="has no bf16: ask for fp16"):
            waterfall.one("llama-3.1-8b", "V100", 2, clients=1, **given)
    plan = choice.one(model="llama-3.1-8b", devices="V100", engines="vllm", max_gpus=2, tpot_target_ms=1000)
    assert (plan["precision"], plan["kv_precision"]) == ("fp16", "fp16")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"isl": 100_000, "tp_size": 8}, "prompts above 15,000 tokens"),
        ({"osl": 16_000}, "answers above 8,192 tokens"),
        ({"tp_size": 2, "pp_size": 4}, "4 pipeline stages"),
    ],
)
def test_lengths_and_stages_that_nobody_served_have_the_wider_interval(change, why):
    """No row of data/measured_suite/serving_points.csv.gz has a longer prompt than 15,000 tokens, answer than 8,192, or two stages: their
    interval was the benchmark's own (1.41)."""
    usual, other = (answers(row(**one, batch_size=8)).iloc[0] for one in ({}, change))
    assert why in other["assumed"] and "no calibrated run has" in other["assumed"] and why not in usual["assumed"]
    width = [one["tpot_upper_ms"] / one["tpot_lower_ms"] for one in (usual, other)]
    assert width[1] > 1.2 * width[0]


def test_the_longest_lengths_are_those_of_the_rows():
    table = read_csv(DATA / "measured_suite" / "serving_points.csv.gz", low_memory=False)
    assert table["isl"].max() == LONGEST["prompts"] and table["osl"].max() == LONGEST["answers"]
    assert table["pp_size"].max() == 1


def test_clients_are_counted_over_all_stages():
    """Sixteen clients over four stages were said to be four at most; six were answered as eight without a word."""
    sixteen, six = (answers(row(tp_size=2, pp_size=4, batch_size=clients)).iloc[0] for clients in (16, 6))
    assert "16 requests at most" in sixteen["assumed"] and "clients as" not in sixteen["assumed"]
    assert "6 clients as 8: 2 on each of 4 ranks and stages" in six["assumed"]
