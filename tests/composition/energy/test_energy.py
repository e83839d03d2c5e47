"""Published joules: the transcription against its own identities, and the power model by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.kernels import gpus
from analysis.serving.points import constants
from analysis.serving.points.power import BoardPower, drawn_w, load, work
from analysis.serving.points.waterfall import Question, one
from analysis.studies.serving.energy_per_token import published, study
from analysis.studies.serving.power import fit
from analysis.workloads import models

REQUESTS = 1024
"""Of the chat task, or a multiple (https://github.com/ml-energy/benchmark configs/vllm/lm-arena-chat/benchmark.yaml)."""


def test_the_table_keeps_the_identities_of_its_source() -> None:
    """Energy a token is power over throughput, in each row of the source; lengths are sums of whole tokens over whole requests."""
    rows = published.rows()
    assert len(rows) == 225
    np.testing.assert_allclose(rows["output_token_j"], rows["power_w"] / rows["output_tokens_per_s"], rtol=1e-7)
    tokens = rows["output_tokens"] * REQUESTS * 30
    np.testing.assert_allclose(tokens, tokens.round(), atol=0.05)
    assert (rows["batch"] <= rows["max_sequences"]).all()
    assert (rows["mean_gap_ms"] > rows["median_gap_ms"]).all()


def test_rows_of_the_source() -> None:
    """https://github.com/ml-energy/leaderboard public/data/tasks/lm-arena-chat.json at commit 0ea52b6: Llama 3.1 8B on H100, 128."""
    rows = published.rows()
    row = rows[(rows["model"] == "meta-llama/Llama-3.1-8B-Instruct") & (rows["gpu"] == "H100") & (rows["max_sequences"] == 128)].iloc[0]
    assert row["power_w"] == pytest.approx(669.2439022030471)
    assert row["output_token_j"] == pytest.approx(0.09510991243206074)
    assert row["median_gap_ms"] == pytest.approx(16.482017002999783)


def test_work_of_a_dense_model_by_hand() -> None:
    """Llama 3.1 8B, H100 (3,350 GB/s, 989 TFLOP/s, 700 W): 32 layers, 8 KV heads of 128, bf16."""
    rows = published.rows()
    row = rows[(rows["model"] == "meta-llama/Llama-3.1-8B-Instruct") & (rows["gpu"] == "H100")].iloc[0].to_dict()
    case = published.case(row, 100.0)  # a mean prompt of 100 tokens: labels are 1 / 0.9 of the mean
    written = float(row["output_tokens"])  # type: ignore[arg-type]
    assert (case.input_tokens, case.output_tokens, case.clients) == (111, round(written / 0.9), round(float(row["batch"])))  # type: ignore[arg-type]
    found = work(published.case(row), 100.0, 200.0, 400.0)
    matrices = 32 * (4096 * 128 * (2 * 32 + 2 * 8) + 3 * 4096 * 14336)
    cache = 100 * 400 * 32 * 2 * 8 * 128 * 2
    assert found.memory_s == pytest.approx((2 * (matrices + 4096 * 128256) + cache) / 3.35e12, rel=1e-3)
    attention = 4 * 128 * 32 * 32 * 100 * 400
    assert found.compute_s == pytest.approx((2 * 150 * matrices + 2 * 100 * 4096 * 128256 + attention) / 989e12, rel=2e-3)
    assert gpus.load("h100_sxm").tdp_w == 700


def test_the_fit_finds_the_constants_that_made_its_rows() -> None:
    generator = np.random.default_rng(0)
    memory, compute = generator.uniform(0, 0.4, (2, 50))
    found = fit(0.5 + 0.3 * memory + 0.2 * compute, memory, compute)
    assert (found.base, found.memory, found.compute) == pytest.approx((0.5, 0.3, 0.2))
    assert load().share(1.0, 1.0) == 1.0


def test_a_family_is_judged_without_its_own_rows() -> None:
    """Constants of a left-out family do not change with its own power."""
    rows = published.rows().assign(limit_w=700.0, memory_ms=5.0, compute_ms=2.0, active_parameters=1e9, tpot_ms=20.0)
    changed = rows.assign(power_w=rows["power_w"].where(rows["family"] != "Qwen3-8B", 100.0))
    before, after = (study.held_out(frame, "family").query("family == 'Qwen3-8B'") for frame in (rows, changed))
    np.testing.assert_array_equal(before["power_j"], after["power_j"])


def test_no_fit_knows_this_source() -> None:
    """The predictor's constants and intervals are of another source's rows, and no group of theirs has this origin (`spread` apart)."""
    shipped = constants.load()
    assert "silicon_sample.csv" in shipped.fitted_on and "served_energy" not in shipped.fitted_on
    groups = [*shipped.tpot.coefficients, *shipped.ttft.coefficients, *shipped.tpot_interval.groups, *shipped.ttft_interval.groups]
    assert not [name for name in groups if published.ORIGIN in name]
    assert {published.case(row).origin for row in published.rows().head(20).to_dict("records")} == {published.ORIGIN}


def test_scores_by_hand() -> None:
    """Answers 1.1, 0.9 and 1.3 of 1: errors of 10, 10 and 30 %; of 2, 4 and 8 for 1, 2 and 4 all double."""
    rows = pd.DataFrame(
        {"family": ["a", "a", "b"], "ours": [1.1, 0.9, 1.3], "measured": 1.0, "twice": [2.0, 4.0, 8.0], "base": [1.0, 2.0, 4.0]}
    )
    found = study.score(rows, "ours", "measured")
    assert (found["rows"], found["median_percent"], found["mean_percent"]) == pytest.approx((3, 10, 50 / 3))
    assert found["bias_percent"] == pytest.approx(10)
    assert found["median_low"] <= 10.001 and found["median_high"] >= 9.999
    double = study.score(rows, "twice", "base")
    assert (double["median_percent"], double["mean_percent"], double["bias_percent"]) == pytest.approx((100, 100, 100))
    assert "median_low" not in study.score(rows[:2], "ours", "measured"), "one family tells nothing about others"


def test_coverage_by_hand() -> None:
    rows = pd.DataFrame({"mean_gap_ms": [1.0, 2.0, 3.0, 4.0], "tpot_lower_ms": [0.5, 2.1, 3.0, 1.0], "tpot_upper_ms": [1.5, 3.0, 3.5, 3.9]})
    assert study.coverage(rows, "mean_gap_ms") == 50


def test_joules_by_hand() -> None:
    """Two GPUs of 700 W at 0.5 + 0.3 x 5/10 + 0.2 x 2/10 of their limit, 10 ms a step, four requests in flight."""
    power = BoardPower(fitted_on="", rows=0, base=0.5, memory=0.3, compute=0.2)
    rows = pd.DataFrame({"gpus": [2], "limit_w": 700.0, "memory_ms": 5.0, "compute_ms": 2.0, "mean_gap_ms": 10.0, "batch": 4.0})
    assert study.joules(rows, power, "mean_gap_ms")[0] == pytest.approx(2 * 700 * 0.69 * 0.010 / 4)


def test_a_tokens_time_is_the_batch_over_its_throughput() -> None:
    """127.804124 requests in flight at 5930.30475 tokens/s: 21.551 ms."""
    rows = published.rows()
    row = rows[(rows["model"] == "Qwen/Qwen3-8B") & (rows["gpu"] == "H100") & (rows["max_sequences"] == 128)].iloc[0]
    assert row["mean_gap_ms"] == pytest.approx(1e3 * 127.804124 / 5930.30475, rel=1e-6)


def test_a_step_reads_the_experts_that_its_tokens_choose() -> None:
    """Qwen3-235B-A22B: 94 layers of 128 experts of which a token takes 8 (its config.json), each 3 x 4096 x 1536 weights, on four GPUs."""
    rows = published.rows()
    row = rows[rows["model"].str.contains("235B-A22B-Instruct-2507-FP8") & (rows["gpu"] == "H100")].iloc[0].to_dict()
    case, experts = published.case(row), 94 * 128 * 3 * 4096 * 1536
    least, most = work(case, 1e-9, 1e-9, 1.0), work(case, 1e9, 1e-9, 1.0)
    cache_s = 1e9 * 0.5 * case.model.kv_bytes_per_token(2.0, 4) / 3.35e12
    assert most.memory_s - cache_s - least.memory_s == pytest.approx(experts / 4 / 3.35e12, rel=1e-2)
    one = work(case, 1.0, 1e-9, 1.0).memory_s - 0.5 * case.model.kv_bytes_per_token(2.0, 4) / 3.35e12
    assert one - least.memory_s == pytest.approx(experts * 8 / 128 / 4 / 3.35e12, rel=1e-2)


def test_work_of_latent_attention_by_hand() -> None:
    """DeepSeek's: a query meets 512 + 64 values of a cached token and weighs 512 of them, each of 128 heads, over 61 layers (config.json);
    the cache is one row of 576 values a layer on each GPU, whatever the tensor parallelism."""
    case = Question("deepseek-v3", "h200_sxm", 8, precision="fp8", kv_precision="bf16").case()
    short, long = (work(case, 10.0, cached, 1e-6) for cached in (0.0, 1000.0))
    prompts = work(case, 10.0, 1000.0, 1e9)  # prompts shared out over so many tokens that none is left, half of which are cached
    assert prompts.compute_s > short.compute_s
    one, two = (work(case, 10.0, 1e-9, 2.0 * cached) for cached in (1000.0, 3000.0))
    assert two.compute_s - one.compute_s == pytest.approx(2 * (576 + 512) * 128 / 8 * 61 * 10 * 2000 / 989.4e12, rel=1e-3)
    assert two.memory_s - one.memory_s == pytest.approx(576 * 2 * 61 * 10 * 2000 / 4.8e12, rel=1e-3)
    assert long.memory_s > short.memory_s


def test_baselines_of_joules_by_hand() -> None:
    """Two families: at the limit, at the other family's share of it, and at the other's joules a parameter."""
    rows = pd.DataFrame(
        {
            "family": ["a", "b"], "gpus": [1, 2], "limit_w": [700.0, 500.0], "mean_gap_ms": [10.0, 20.0], "batch": [2.0, 5.0],
            "power_w": [350.0, 800.0], "memory_ms": [5.0, 5.0], "compute_ms": [1.0, 1.0], "tpot_ms": [11.0, 19.0],
            "active_parameters": [1e9, 4e9], "output_token_j": [1.75, 3.2],
        }
    )  # fmt: skip
    found = study.held_out(rows, "family")
    assert found["limit_j"].tolist() == pytest.approx([700 * 0.010 / 2, 2 * 500 * 0.020 / 5])
    assert found["share_j"].tolist() == pytest.approx([3.5 * 0.8, 4.0 * 0.5])
    assert found["parameters_j"].tolist() == pytest.approx([1e9 * 3.2 / 4e9, 4e9 * 1.75 / 1e9])


def test_a_token_multiplies_the_experts_that_it_chooses() -> None:
    """Mixtral 8x7B (config.json): 32 layers of attention 2 x 4096 x (4096 + 1024), a router and 2 of 8 experts of 3 x 4096 x 14336, and the
    output layer of 32,000: 12.75 thousand million (without the embedding)."""
    each = 2 * 4096 * (4096 + 1024) + 4096 * 8 + 2 * 3 * 4096 * 14336
    assert study.multiplied(models.load("mixtral-8x7b")) == pytest.approx(32 * each + 4096 * 32000, rel=1e-6)


def test_power_of_a_served_point_by_hand() -> None:
    """One H100 (700 W) at the committed constants, a step of 10 ms; none where prompts have GPUs of their own or no limit is known."""
    power, case = load(), Question("llama-3.1-8b", "h100_sxm", 1, clients=16, precision="fp8").case()
    done = work(case, 16, 0.9 * 1024, 0.9 * 1024)
    central, lower, upper = drawn_w(case, 0.010) or (0.0, 0.0, 0.0)
    assert central == pytest.approx(700 * min(1, power.base + power.memory * done.memory_s / 0.01 + power.compute * done.compute_s / 0.01))
    assert (lower, upper) == pytest.approx((power.lower * central, min(700, power.upper * central)))
    assert lower <= central <= upper <= 700 and 700 * power.base < central
    assert (drawn_w(case, 0.020) or (0.0,))[0] < central  # the same work in twice the time
    assert drawn_w(replace(case, prefill=case.plan), 0.010) is None
    assert drawn_w(Question("llama-3.1-8b", "TPU-v6e", 1, clients=1).case(), 0.010) is None


def test_clients_that_wait_draw_no_power() -> None:
    """Of 2,000 and of 10,000 clients the same 1,024 run at a time (vLLM's limit on an H100); a step of theirs takes as long."""
    many, more = (Question("llama-3.1-8b", "h100_sxm", 1, clients=n, input_tokens=64, output_tokens=64).case() for n in (2000, 10_000))
    assert drawn_w(many, 1.0) == drawn_w(more, 1.0)
    few = Question("llama-3.1-8b", "h100_sxm", 1, clients=500, input_tokens=64, output_tokens=64).case()
    assert (drawn_w(few, 1.0) or (1e9,))[0] < (drawn_w(many, 1.0) or (0.0,))[0] < 700


def test_power_is_of_the_requests_that_the_cache_holds() -> None:
    """Llama 3.1 8B in FP8 on an L4: of 64 clients with prompts of 4,096 tokens as many run as `predict one` says that the cache holds."""
    power, case = load(), Question("llama-3.1-8b", "L4", 1, clients=64, input_tokens=4096, output_tokens=1024, precision="fp8").case()
    room = one("llama-3.1-8b", "L4", 1, 64, 4096, 1024, precision="fp8").answer["kv_cache_tokens"] / (0.9 * (4096 + 1024))
    assert 1 < room < 64
    done = work(case, room, 0.9 * 4096, 0.9 * 1024)
    share = power.base + power.memory * done.memory_s / 0.5 + power.compute * done.compute_s / 0.5
    assert share < 1 and (drawn_w(case, 0.5) or (0.0,))[0] == pytest.approx(72 * share, rel=1e-3)


def test_experts_see_the_tokens_of_every_rank() -> None:
    """DeepSeek-V3, eight ranks of data parallelism in attention: 8 of 256 experts for each of eight ranks' tokens, an eighth of the weights
    on each GPU; a step's products of experts are those of one rank's tokens."""
    case = Question("deepseek-v3", "h200_sxm", 8, precision="fp8", expert_parallel=8).case()
    wide = replace(case, plan=replace(case.plan, tensor=1, attention_data=8))
    experts = case.model.matrices["experts"]
    few, many = (work(wide, batch, 1e-9, 1.0) for batch in (1.0, 3.0))
    cache = 2 * 0.5 * case.model.growing_bytes_per_token(2.0, 1)
    grown = ((1 - 8 / 256) ** 8 - (1 - 8 / 256) ** 24) * experts / 8
    assert (many.memory_s - few.memory_s) * 4.8e12 == pytest.approx(grown + cache, rel=2e-2)
