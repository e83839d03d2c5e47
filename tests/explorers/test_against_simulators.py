"""What the figures to touch answer, against the commands, the simulators and arithmetic by hand: not against their own code."""

from __future__ import annotations

import importlib
import math
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest

from analysis.accelerators.systolic.array import Quirks
from analysis.accelerators.systolic.cases import predict_cases
from analysis.networks import collective_cases
from analysis.training.answers import answers as training_answers
from analysis.workloads import models


def ask(name: str, **changed: Any) -> dict[str, Any]:
    """An explorer's answer at its defaults but for what is changed."""
    module = importlib.import_module(f"analysis.artifact.explorers.{name}")
    answer: dict[str, Any] = module.answer({control.name: control.default for control in module.CONTROLS} | changed)
    return answer


@pytest.mark.parametrize("machine", ["A100-SXM4-80GB", "H100-SXM5-80GB", "H200-SXM5-141GB"])
@pytest.mark.parametrize(("gpus", "power"), [(2, 12), (8, 20), (8, 33)])
def test_an_all_reduce_is_the_command_s(machine: str, gpus: int, power: int) -> None:
    """`predict collective`; bus bandwidth as nccl-tests defines it, 2 (n - 1) / n bytes over time (its doc/PERFORMANCE.md)."""
    row = {"device": machine, "gpus": str(gpus), "collective": "all_reduce", "size_bytes": str(2**power)}
    asked = collective_cases.answers(pd.DataFrame([row])).iloc[0]
    got = ask("all_reduce", machine=machine, gpus=gpus, power=power)
    assert not asked["status"] and 1e6 * got["time_s"] == pytest.approx(asked["time_us"], rel=1e-9)
    assert got["time_s"] == pytest.approx(got["floor_s"] + got["transfer_s"] + got["fill_s"], rel=1e-12)
    assert got["bus_bytes_per_s"] == pytest.approx(2 * (gpus - 1) / gpus * 2**power / (1e-6 * asked["time_us"]), rel=1e-9)
    assert any(rate == pytest.approx(got["bus_bytes_per_s"], rel=1e-9) for rate in got["curve"])
    assert got["link_bytes_per_s"] == (300e9 if machine.startswith("A100") else 450e9)  # NVLink 3 and 4, each way


@pytest.mark.parametrize("flow", ["os", "ws", "is"])
@pytest.mark.parametrize(("m", "n", "k", "side"), [(64, 24, 48, 16), (8, 128, 64, 4)])
def test_a_systolic_array_is_the_command_s(flow: str, m: int, n: int, k: int, side: int) -> None:
    row = {"M": m, "N": n, "K": k, "array_rows": side, "array_cols": side, "dataflow": flow}
    asked = predict_cases(pd.DataFrame([row], dtype=str), Quirks()).iloc[0]  # without the tool's slips
    got = ask("systolic_array", dataflow=flow, m=m, n=n, k=k, array=side)
    words = sum(int(float(asked[name])) for name in ("ifmap_sram_reads", "filter_sram_reads", "ofmap_sram_writes"))
    assert got["sram_words"] == words
    assert 100 * got["utilization"] == pytest.approx(float(asked["compute_util_pct"]), rel=1e-9)
    assert 100 * got["mapping"] == pytest.approx(float(asked["mapping_eff_pct"]), rel=1e-9)
    assert got["utilization"] == pytest.approx(m * n * k / side**2 / got["cycles"], rel=0.02)


def test_folds_of_a_systolic_array_by_hand() -> None:
    """Samajdar et al., arXiv:1811.02883, equation 3: outputs in place, a fold takes 2 r + c + T - 2 cycles with its results drained; our
    count, like the tool's, ends with the last product: r + c + T - 2. Weights in place are loaded first, a row a cycle."""
    outputs, weights = (ask("systolic_array", dataflow=flow, m=16, n=16, k=16, array=16) for flow in ("os", "ws"))
    assert (outputs["cycles"], outputs["fold"], outputs["folds"]) == (46, 46, 1) and weights["fold"] == 46 + 16
    four = ask("systolic_array", dataflow="os", m=32, n=32, k=16, array=16)
    assert four["folds"] == 4 and four["rows"] == four["columns"] == 16


@pytest.mark.parametrize(("batch", "context"), [(1, 128), (32, 2048), (128, 4096)])
def test_a_decode_step_by_hand(batch: int, context: int) -> None:
    """Llama 3 8B on an H100 at 70 %: 16.06 GB of weights but the embedding's at most, and 131,072 bytes of cache a token, over 0.7 x 3.35
    TB/s; products of 8.03 thousand million weights over 0.7 x 989 TFLOP/s."""
    got = ask("decode_knee", batch=batch, context=context, share=70)
    cache = batch * context * 2 * 32 * 8 * 128 * 2
    least = (16.06e9 - 128_256 * 4096 * 2 + cache) / (0.7 * 3.35e12)
    assert got["kv_bytes"] == cache and got["weight_bytes"] == models.load("llama-3-8b").parameters * 2 == 16_060_522_496
    assert least <= got["step_s"] <= 1.1 * least + 2 * 8.03e9 * batch / (0.7 * 989.4e12)
    assert got["tokens_per_s"] == pytest.approx(batch / got["step_s"])
    # 90 % of 80 GiB less 1.5 %, without the weights and 4 GiB, in requests of so many tokens
    assert got["most"] == pytest.approx((0.9 * 80 * 2**30 * 0.985 - 16.06e9 - 4 * 2**30) / (131_072 * context), abs=1.5, rel=0.01)
    assert got["fits"] == (batch <= got["most"])


def test_errors_of_a_sum_by_hand() -> None:
    """Kernels alike, each off by e: e / sqrt(n) where independent, e sqrt(r + (1 - r) / n) with correlation r; 3 us left out beside 50."""
    got = ask("error_composition", kernels=50, error=10, correlation=0.2, kernel_us=50, overhead_us=3)
    assert got["independent"] == pytest.approx(10 / math.sqrt(50))
    assert got["random"] == pytest.approx(10 * math.sqrt(0.2 + 0.8 / 50) * 50 / 53, rel=0.07)
    assert got["bias"] == pytest.approx(-100 * 3 / 53)
    assert got["total"] == pytest.approx(math.hypot(got["random"], got["bias"]))
    assert ask("error_composition", kernels=50, error=10, correlation=1, overhead_us=0)["total"] == pytest.approx(10)


def test_a_roof_by_hand() -> None:
    """H100 SXM (NVIDIA's data sheet): 989.4 TFLOP/s, 3.35 TB/s: the ridge at 295 FLOP a byte."""
    below, above = (ask("roofline_achieved", device="H100-SXM5-80GB", intensity=at, share=60) for at in (10, 1000))
    assert below["attainable"] == pytest.approx(33.5e12) and below["achieved"] == pytest.approx(0.6 * 33.5e12)
    assert above["attainable"] == pytest.approx(989.4e12) and above["achieved"] == pytest.approx(0.6 * 989.4e12)
    assert (below["bound"], above["bound"]) == ("memory", "arithmetic") and below["ridge"] == pytest.approx(295.3, rel=1e-3)
    assert 0.3 < below["median_share"]["fastest product published"] < 1


def test_scores_by_hand() -> None:
    """A weight on one dimension alone gives each tool its grade there; equal weights the mean of five grades."""
    base = {f"D{k}": 0 for k in range(1, 6)}
    each = [ask("mtap_weights", **base | {f"D{k}": 100})["scores"] for k in range(1, 6)]
    alike, zero = (ask("mtap_weights", **dict.fromkeys(base, value))["scores"] for value in (20, 0))
    for tool in alike:
        assert all(one[tool] in (0, 1, 2, 3) for one in each)
        assert alike[tool] == zero[tool] == pytest.approx(sum(one[tool] for one in each) / 5)
    half = ask("mtap_weights", **base | {"D1": 50, "D3": 50})
    assert all(half["scores"][tool] == pytest.approx((each[0][tool] + each[2][tool]) / 2) for tool in alike)
    order = sorted(half["scores"].values(), reverse=True)
    assert all(order.count(score) == 1 or half["ranks"][tool] % 0.5 == 0 for tool, score in half["scores"].items())


@pytest.mark.parametrize(
    "plan",
    [
        {"tensor": 8, "pipeline": 4, "microbatch": 1, "recompute": "none", "zero": "1"},
    ],
)
def test_a_training_plan_is_the_command_s(plan: dict[str, Any]) -> None:
    """`predict training` on 64 GPUs of DGX H100: memory to the four digits that the page carries, time where the plan fits."""
    from analysis.artifact.explorers import training_planner

    model = "llama-3-70b"
    sequence = {name: tokens for name, _, tokens in training_planner.models()}[model]
    row = {
        "model": model, "device": "h100", "gpus": 64, "sequence_length": sequence, "global_batch": training_planner.TOKENS // sequence,
        "micro_batch": plan["microbatch"], "tensor_parallel": plan["tensor"], "pipeline_parallel": plan["pipeline"],
        "recompute": plan["recompute"], "zero": plan["zero"], "precision": "bf16", "program": "megatron",
    }  # fmt: skip
    asked = training_answers(pd.DataFrame([row]).astype(str)).iloc[0]
    got = ask("training_planner", model=model, system="HGX-H100", gpus=64, **plan)
    assert got["memory"] == pytest.approx(asked["memory_gib"], rel=2e-3) and got["fits"] == asked["fits"]
    if "step" in got:
        assert got["step"] == pytest.approx([asked["step_time_s"], asked["lower_s"], asked["upper_s"]], rel=2e-3)
        assert sum(got["time"]) == pytest.approx(got["step"][0], rel=2e-3)


def test_what_a_player_of_requests_tells_follows_from_its_tokens() -> None:
    """Every token in its batch: the first ends the batch that reads the rest of the prompt, and no batch overlaps another."""
    got = ask("serving_player", moment=100)
    batches = got["batches"]
    assert all(one["end_s"] <= two["start_s"] + 1e-12 for one, two in pairwise(batches))
    ends = {round(batch["end_s"], 12) for batch in batches}
    for arrived, first, done, tokens in zip(got["arrived_s"], got["first_s"], got["completed_s"], got["tokens_s"], strict=True):
        assert arrived < first <= done and tokens[0] == first and tokens[-1] == done and {round(one, 12) for one in tokens} <= ends
    assert got["tokens_so_far"] == sum(map(len, got["tokens_s"])) == sum(got["answers"])
    assert got["mean_ttft_s"] == pytest.approx(sum(f - a for f, a in zip(got["first_s"], got["arrived_s"], strict=True)) / 8)
    # a lone prompt's step of an 8B model on an H100: at least its products at the peak
    assert min(got["ttft_s"]) >= 2 * 7e9 * min(got["prompts"]) / 989.4e12


def test_claims_are_the_ledger_s_ten_at_a_time() -> None:
    """Verdicts are those of data/claims/ledger.csv's last check; each claim is on one page, in order."""
    from analysis.artifact.explorers.records.claim_verdicts import claims

    wrong = [claim[0] for claim in claims() if claim[5] == "differs"]
    pages = [ask("claim_browser", document="all", verdict="differs", page=page) for page in range(1, -(-len(wrong) // 10) + 1)]
    assert [name for page in pages for name in page["shown"]] == wrong and all(page["chosen"] == len(wrong) for page in pages)
    assert [len(page["shown"]) for page in pages[:-1]] == [10] * (len(pages) - 1) and pages[0]["pages"] == len(pages) > 2
    every = ask("claim_browser", document="all", verdict="all", page=1)
    assert every["chosen"] == len(claims()) == sum(map(sum, every["counts"].values()))


@pytest.mark.parametrize(("mix", "low", "high"), [("chat", 150, 600), ("documents", 1500, 4000)])
def test_requests_of_the_player_are_as_its_list_says(mix: str, low: int, high: int) -> None:
    """Prompts between the bounds that the control names, spread over them; a higher rate brings the same requests sooner."""
    slow, fast = (ask("serving_player", mix=mix, rate=rate) for rate in (2, 20))
    assert all(low <= tokens <= high for tokens in slow["prompts"]) and slow["prompts"] == fast["prompts"]
    assert len(set(slow["prompts"])) == 8 and max(slow["prompts"]) - min(slow["prompts"]) > 0.6 * (high - low)
    assert [10 * at for at in fast["arrived_s"]] == pytest.approx(slow["arrived_s"])
    # eight exponential gaps of mean 1 / rate
    assert 0.3 < slow["arrived_s"][-1] / (7 / 2) < 2
