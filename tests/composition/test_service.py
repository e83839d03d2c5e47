"""Serving points and requests: the physics is checked against closed forms and laws, the answers against what was measured."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings as settings_of_tests
from hypothesis import strategies as st
from typer.testing import CliRunner

from analysis.commands.models.predict import app
from analysis.compiled.plain_python import run_plain
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.kernels import gpus
from analysis.kernels.library import KernelLibrary
from analysis.paths import DATA
from analysis.serving import coupled
from analysis.serving.limits import Limits
from analysis.serving.points import answers as answers_module
from analysis.serving.points import cases, power, settings, waterfall
from analysis.serving.points import operators as operators_module
from analysis.serving.points import points as points_module
from analysis.serving.points.answers import COLUMNS, answers
from analysis.serving.points.closed_loop import ENGINE, Tables, _shuffled, one, simulate
from analysis.serving.points.constants import (
    Constants,
    Elsewhere,
    Interval,
    Parameters,
    apply,
    bounds,
    difficulty_terms,
    elsewhere,
    outside,
)
from analysis.serving.points.operators import BATCH, BEFORE, CACHED, PROMPT, SEQUENCES, TOKENS
from analysis.serving.points.request_answers import PREPARE_S, kv_blocks, read_meta
from analysis.serving.points.request_profile import all_reduce_s, captured
from analysis.serving.points.step_table import router
from analysis.serving.requests import make_requests
from analysis.serving.state import REQUEST, Replica
from analysis.serving.step_time.gpu_profile import Profile, profiled_s
from analysis.serving.steps import StepTime
from analysis.studies.serving.energy_per_token.study import multiplied
from analysis.studies.serving.points.fit import DIFFICULTY, TERMS, fit, interval
from analysis.studies.serving.points.freeze import FROZEN
from analysis.workloads import models
from tests.golden import answer, kept

ROW = {
    "id": "a", "silicon_data_source": "", "backend": "vllm", "backend_version": "0.12.0", "model_path": "meta-llama/Llama-3.1-70B",
    "system": "h100_sxm",
    "precision": "fp8", "mode": "agg", "isl": "1024", "osl": "1024", "gemm_quant_mode": "fp8", "moe_quant_mode": "fp8", "batch_size": "16",
    "tp_size": "8",
    "pp_size": "1", "attention_dp_size": "1", "moe_tp_size": "8", "moe_ep_size": "1",
}  # fmt: skip


def flat_tables(token_s: float, decode_s: float = 0.0, prefill_s: float = 0.0) -> Tables:
    return Tables(
        (token_s * TOKENS)[None], np.zeros((1, SEQUENCES.size)), np.full((1, BATCH.size, CACHED.size), decode_s),
        np.full((1, PROMPT.size, BEFORE.size), prefill_s), TOKENS, SEQUENCES, BATCH, CACHED, PROMPT, BEFORE,
    )  # fmt: skip


def engine(**given: float) -> np.ndarray:
    e = np.zeros(1, ENGINE)
    plain = dict(  # noqa: C408
        clients=1, requests=16, input=100, output=11, budget=8192, max_running=64, mixed=1, chunked=1, receive=1, cache_tokens=1e9, low=1.0
    )
    for key, value in {**plain, **given}.items():
        e[key] = value
    return e


def test_one_client_alone_is_a_prompt_and_equal_steps():
    ttft, ttft_median, tpot, *_ = simulate(engine(), flat_tables(1e-3, decode_s=5e-3))[0]
    assert ttft == pytest.approx(0.1) and ttft_median == pytest.approx(0.1)  # 100 tokens x 1 ms
    assert tpot == pytest.approx(6e-3)  # one token and the attention of one sequence


def test_equal_requests_that_fit_one_step_all_wait_for_it():
    ttft = simulate(engine(clients=4, requests=40), flat_tables(1e-3))[0][0]
    assert ttft == pytest.approx(0.4)  # 4 x 100 tokens in one step, in every wave


def test_prompts_first_stop_the_decodes():
    tables = flat_tables(1e-3)
    mixed = simulate(engine(clients=8, requests=80, budget=100, low=0.8), tables)[0]
    first = simulate(engine(clients=8, requests=80, budget=100, low=0.8, mixed=0), tables)[0]
    assert first[0] < mixed[0] and first[2] > mixed[2]


def test_longer_interval_between_looks_at_the_queue_delays_the_first_token():
    tables = flat_tables(1e-3)
    waits = [simulate(engine(clients=8, requests=80, low=0.8, mixed=0, receive=n), tables)[0][0] for n in (1, 5, 20)]
    assert waits[0] < waits[1] < waits[2]


def test_a_small_cache_makes_requests_queue():
    tables = flat_tables(1e-4)
    free = simulate(engine(clients=8, requests=80, output=100), tables)[0][0]
    tight = simulate(engine(clients=8, requests=80, output=100, cache_tokens=250, reserve=1), tables)[0][0]
    assert tight > 1.5 * free


def test_a_request_without_room_for_its_next_token_starts_again():
    """By hand, 1 ms a token: both prompts 200 ms; 7 steps of two tokens fill 214 of 215; the second gives way, the first makes its last 3.

    Then the second's 100 + 8 tokens are processed anew, which makes its ninth, and its last 2 follow: 17 and 127 ms after the first token.
    """
    ttft, _, tpot, *_ = simulate(engine(clients=2, requests=2, cache_tokens=215), flat_tables(1e-3))[0]
    assert ttft == pytest.approx(0.2)
    assert tpot == pytest.approx((0.017 + 0.127) / 2 / 10)


def test_a_step_within_a_graph_is_not_launched_layer_by_layer():
    slow, graph = (simulate(engine(prompt_host_s=0.5, graph_tokens=n), flat_tables(1e-3))[0][0] for n in (0, 100))
    assert slow == pytest.approx(0.5) and graph == pytest.approx(0.1)


@settings_of_tests(max_examples=40, deadline=None, derandomize=True)
@given(
    st.integers(1, 9), st.integers(1, 25), st.integers(1, 300), st.integers(2, 60), st.integers(32, 400), st.integers(1, 12), st.booleans(),
    st.booleans(), st.integers(1, 5), st.sampled_from([0.0, 2.0]), st.sampled_from([0, 3]), st.sampled_from([120.0, 900.0, 1e9]),
)  # fmt: skip
def test_few_requests_in_plain_python_are_those_of_compiled_code(
    clients, requests, tokens, output, budget, running, mixed, chunked, receive, servers, wait_steps, cache
):  # fmt: skip
    tables = flat_tables(1e-3, decode_s=3e-4, prefill_s=2e-4)
    points = engine(
        clients=clients, requests=requests, input=tokens, output=output, budget=budget, max_running=running, mixed=mixed, chunked=chunked,
        receive=receive, servers=servers, wait_steps=wait_steps, wait_ratio=0.5, cache_tokens=cache, low=0.8, reserve=servers == 0,
        host_s=1e-4, send_s=1e-3,
    )  # fmt: skip
    with mock.patch.object(one, "chosen", lambda small, **_: one):
        found = simulate(points, tables)
    assert np.isfinite(found).all()
    with mock.patch.object(one, "chosen", lambda small, **_: lambda *arguments: run_plain(one.plain, arguments)):
        assert simulate(points, tables).tobytes() == found.tobytes()


def test_settings_follow_the_release_and_the_date():
    """perf-changelog.yaml of the benchmark: pull requests 947 and 1010 (MiniMax-M2.5, vLLM 0.19.0), 1047 (Kimi-K2.5 on B200)."""
    source = "db-dump/2026-04-27; measured={}T00:00:00Z"
    kimi = {**ROW, "model_path": "moonshotai/Kimi-K2.5", "system": "b200_sxm", "precision": "fp4", "gemm_quant_mode": "nvfp4"}
    kimi |= {"moe_quant_mode": "nvfp4", "backend_version": "0.17.0"}
    before, after = (settings.of(cases.case({**kimi, "silicon_data_source": source.format(day)})) for day in ("2026-03-11", "2026-04-20"))
    assert (before.batched_tokens, before.graph_tokens) == (8192, 512) and (after.batched_tokens, after.graph_tokens) == (2048, 2048)
    assert settings.of(cases.case(kimi)) == after  # a question is of today
    mini = {**kimi, "model_path": "MiniMaxAI/MiniMax-M2.5", "precision": "fp8", "gemm_quant_mode": "fp8", "moe_quant_mode": "fp8"}
    old, new = (settings.of(cases.case({**mini, "backend_version": name})) for name in ("0.17.0", "0.19.0"))
    assert (old.kv, new.kv) == ("bf16", "fp8")


def test_squared_widths_are_undone_as_the_twins_say():
    """data/recorded/aiconfigurator/README.md: tp = ep = N became N x N GPUs; 117 rows have a twin with the right width."""
    assert cases.corrected(64, 1, 8, 8) == (cases.Plan(8, 1, 1, 8), True)
    assert cases.corrected(1, 64, 8, 8) == (cases.Plan(1, 8, 1, 8), True)
    assert cases.corrected(4, 4, 1, 16) == (cases.Plan(4, 1, 1, 4), True)
    assert cases.corrected(8, 1, 1, 8) == (cases.Plan(8, 1, 1, 8), False)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model_path": "no/such-model"}, "unknown model"),
        ({"system": "no_such_gpu"}, "no_such_gpu"),
        ({"backend": "other"}, "unknown engine"),
        ({"backend": "trtllm", "system": "mi300x"}, "NVIDIA's GPUs"),
        ({"model_path": "Qwen/Qwen3-32B", "tp_size": "3"}, "do not divide by 3"),
        ({"gemm_quant_mode": "fp3"}, "unknown type"),
        ({"osl": "1"}, "at least 2"),
        ({"batch_size": ""}, "batch_size"),
        ({"isl": "inf"}, "isl is inf"),
        ({"osl": "9" * 40}, "osl is 1e+40"),
        ({"isl": "120000", "batch_size": "9999"}, "tokens at a time"),
        ({"mode": "disagg"}, "worker counts"),
        ({"tp_size": "1", "gemm_quant_mode": "bf16"}, "does not fit"),
    ],
)
def test_what_cannot_be_answered_has_its_reason(change, reason):
    table = answers(pd.DataFrame([{**ROW, **change}, ROW]))
    assert reason in table["status"][0] and np.isnan(table["ttft_ms"][0])
    assert table["status"][1] == "" and table["tpot_ms"][1] > 0


def test_a_table_of_which_no_row_can_be_answered_has_its_reasons():
    table = answers(pd.DataFrame([{**ROW, "model_path": "no/such-model"}] * 2))
    assert list(table.columns) == list(COLUMNS) and table["status"].str.contains("unknown model").all()
    assert table["ttft_ms"].isna().all()


def test_rows_keep_their_order_and_intervals_hold_the_answer():
    frame = pd.DataFrame([{**ROW, "batch_size": str(n)} for n in (64, 4, 16)])
    table = answers(frame)
    assert list(table.columns) == list(COLUMNS)
    for target in ("ttft", "tpot"):
        assert (table[f"{target}_lower_ms"] < table[f"{target}_ms"]).all() and (table[f"{target}_ms"] < table[f"{target}_upper_ms"]).all()
    assert table["tpot_ms"][1] < table["tpot_ms"][2] < table["tpot_ms"][0]


@pytest.mark.parametrize(
    ("name", "billions"),
    [("llama-3.1-8b", 8.03), ("llama-3.1-70b", 70.6), ("qwen3-235b-a22b", 235), ("deepseek-r1", 671), ("gpt-oss-120b", 117)],
)
def test_parameters_agree_with_the_published_counts(name, billions):
    """Counts as the model cards print them (https://huggingface.co/<names[0]>)."""
    assert sum(models.load(name).matrices.values()) == pytest.approx(billions * 1e9, rel=0.02)


def test_every_model_names_its_source_and_every_rule_its_script():
    assert all(model.source.startswith("https://huggingface.co/") for model in models.all_models().values() if model.family)
    assert all(rule.script for rule in settings.rules())


def test_the_parts_add_up_to_the_answer():
    found = waterfall.one("llama-3.1-70b", "h100_sxm", gpus=8, clients=32)
    for target in ("ttft", "tpot"):
        total = found.parts.loc[found.parts["target"] == target, "ms"].sum()
        assert total == pytest.approx(found.answer[f"{target}_ms"], rel=1e-9)
    assert all(text for text in found.assumed)


def test_constants_recover_what_made_the_rows():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"tpot_s": generator.uniform(5e-3, 50e-3, 400), "origin": "benchmark", "engine": ["vllm", "sglang"] * 200})
    frame["host_s"] = 1e-6 * generator.uniform(1, 512, 400)
    measured = np.where(frame["engine"] == "vllm", 0.9, 1.1) * frame["tpot_s"].to_numpy() + 20 * frame["host_s"].to_numpy()
    assert np.median(np.abs(apply(frame, fit(frame, measured, "tpot")) / measured - 1)) < 0.06


@pytest.mark.parametrize(
    ("model", "types"),
    [
        ("minimax-m2.5", ("fp8", "fp8_block", "fp8_block", "fp8_block")),
        ("llama-3.1-70b", ("fp8", "fp8", "fp8", "fp8")),
        ("gpt-oss-120b", ("fp4", "bf16", "bf16", "mxfp4")),
    ],
)
def test_types_are_the_published_checkpoints(model, types):
    """weight_block_size [128, 128] in MiniMaxAI/MiniMax-M2.5's config.json; one scale a tensor in nvidia/Llama-3.1-70B-Instruct-FP8."""
    assert cases.types(models.load(model), "fp8", "fp8", "fp8", "") == types


def test_a_router_in_fp32_takes_what_was_published_and_no_less_than_its_rate():
    """vllm-project/vllm pull request 47973: 64 tokens, 256 experts, 6,144 elements: 63.3 us in fp32 and 20.1 in TF32 on a GB200."""
    b200, h200 = gpus.load("gb200"), gpus.load("h200_sxm")
    few = {"m": np.array([64.0]), "n": np.array([256.0]), "k": np.array([6144.0])}
    assert router(b200, **few, dtype="fp32").s == pytest.approx(63.3e-6)
    assert router(b200, **few, dtype="tf32").s == pytest.approx(20.1e-6)
    assert router(h200, **few | {"k": few["k"] / 2}, dtype="fp32").s == pytest.approx(63.3e-6 / 2 * b200.clock_hz / h200.clock_hz)
    many = few | {"m": np.array([32768.0])}
    assert router(b200, **many, dtype="fp32").s == pytest.approx(2 * 32768 * 256 * 6144 / (256 * b200.sms * b200.clock_hz))


def test_a_product_takes_its_kernel_not_its_call():
    """vLLM's table of block-scaled FP8 on a B200 takes over 100 us at any size; SGLang's times the same DeepGEMM kernel below 20 us."""
    from analysis.kernels.library import KernelLibrary
    from analysis.serving.points.step_table import _answer

    handles = [KernelLibrary.load().on("b200_sxm", framework=name) for name in ("vllm", "sglang", "trtllm")]
    shape = {"m": np.array([8.0]), "n": np.array([1024.0]), "k": np.array([3072.0])}
    own = handles[0].gemm(**shape, dtype="fp8_block")
    assert own.s[0] > 1e-4 and _answer(handles, "gemm", shape, {"dtype": "fp8_block"}).s[0] < 2e-5


def test_intervals_cover_and_grow_with_what_makes_answers_uncertain():
    generator = np.random.default_rng(0)
    count = 4000
    same = {
        "device": "a",
        "architecture": "hopper",
        "mode": "agg",
        "origin": "benchmark",
        "clients": 16,
        "load": 0.1,
        "experts": "dense",
        "ranks": 1,
        "doubt": 0.05,
        "doubt_prompt": 0.05,
        "ttft_s": 0.1,
    }
    frame = pd.DataFrame({"family": generator.integers(0, 100, count), **same})
    frame["engine"] = generator.choice(["vllm", "sglang"], count)
    wide = (frame["engine"] == "sglang").to_numpy()
    error = generator.normal(0, np.where(wide, 0.4, 0.1))
    for target in ("ttft", "tpot"):
        found = interval(frame, error, target)
        low, high = bounds(frame, np.ones(count), found)
        inside = (np.exp(error) >= low) & (np.exp(error) <= high)
        assert 0.87 < inside.mean() < 0.93 and 0.8 < inside[wide].mean() < inside[~wide].mean() < 0.98
        width = np.log(high / low)
        assert 2.5 < np.median(width[wide]) / np.median(width[~wide]) < 4  # the truth is 4; errors below 5 % count as about 5 %
        assert bounds(frame.assign(origin="unknown"), np.ones(count), found)[0] == pytest.approx(low, rel=0.02)
        ranks = bounds(frame.assign(ranks=4), np.ones(count), found)
        assert np.log(ranks[1] / ranks[0]) == pytest.approx(1.5 * width)
        newer = bounds(frame.assign(device="b"), np.ones(count), found)
        assert np.log(newer[1] / newer[0]) == pytest.approx(1.5 * width)
        guessed = bounds(frame.assign(**{"doubt" if target == "tpot" else "doubt_prompt": 0.3}), np.ones(count), found)
        ends = np.log(np.array([low, high]))
        assert np.log(guessed) == pytest.approx(np.sign(ends) * np.sqrt(ends**2 + 1.645**2 * (0.3**2 - 0.05**2)))


def test_graphs_are_replayed_at_their_captured_sizes():
    """vLLM's default capture sizes: 1, 2, 4, multiples of 8, above 256 of 16."""
    assert list(captured(np.array([1.0, 3.0, 5.0, 9.0, 130.0, 256.0, 257.0, 600.0]), 512)) == [1, 4, 8, 16, 136, 256, 272, 600]


def test_ring_all_reduce_as_measured():
    """1,114,112 bytes on two GPUs: 78.36 us (LLMServingSim, profiler/perf/RTXPRO6000/hardware.yaml, commit e08dc38)."""
    assert float(all_reduce_s(np.array(1114112.0), 2, 15.92e9, 6.6e-6)) == pytest.approx(78.36e-6, rel=0.07)


def test_kv_blocks_follow_from_the_memory(tmp_path):
    path = tmp_path / "meta.json"
    path.write_text(json.dumps({"model": "meta-llama/Llama-3.1-8B", "engine_kwargs": {"max_num_seqs": 128, "tensor_parallel_size": 1}}))
    model, found, blocks = read_meta(path)
    assert blocks is None and found.max_num_seqs == 128
    assert 35_000 < 16 * kv_blocks(model, found, devices.load("RTX-4090").usable_bytes) < 45_000
    with pytest.raises(InputError, match="leave no room"):
        kv_blocks(model, found, 12e9)


def profile(folder, name="rtx4090_x"):
    """Round numbers: 1 us a token and layer, 2 us a sequence; attention 3 us a decode step, 5 us a prompt step, per layer."""
    prefix = folder / name
    pd.DataFrame({"layer": "qkv_proj", "tokens": [1, 2048], "time_us": [1.0, 2048.0]}).to_csv(f"{prefix}_dense.csv.gz", index=False)
    pd.DataFrame({"layer": "lm_head", "sequences": [1, 128], "time_us": [2.0, 2.0]}).to_csv(f"{prefix}_per_sequence.csv.gz", index=False)
    rows = [
        (c, b, n, k, 3.0 * (n > 0) + 5.0 * (c > 0)) for c in (0, 2048) for b in (0, 2048) for n in (0, 128) for k in (16, 8192) if c or n
    ]
    pd.DataFrame(rows, columns=["prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"]).to_csv(
        f"{prefix}_attention.csv.gz", index=False
    )
    return prefix


def test_requests_command_one_request_by_hand(tmp_path):
    prefix = profile(tmp_path)
    (tmp_path / "meta.json").write_text(json.dumps({"model": "meta-llama/Llama-3.1-8B", "engine_kwargs": {"max_num_batched_tokens": 2048}}))
    pd.DataFrame({"input_tokens": [1000], "output_tokens": [3], "arrived_s": [1.0]}).to_csv(tmp_path / "r.csv", index=False)
    run = CliRunner().invoke(
        app,
        [
            "requests",
            str(tmp_path / "r.csv"),
            "--meta",
            str(tmp_path / "meta.json"),
            "--profile",
            str(prefix),
            "--out",
            str(tmp_path / "o.csv"),
        ],
    )
    assert run.exit_code == 0, run.output
    out = pd.read_csv(tmp_path / "o.csv").iloc[0]
    prompt = 32 * 1000e-6 + 2e-6 + 32 * 5e-6 * 1000 / 2048
    assert out["first_token_s"] == pytest.approx(1 + PREPARE_S + prompt, rel=1e-3)
    assert out["last_token_s"] - out["first_token_s"] == pytest.approx(2 * (32e-6 + 2e-6 + 32 * 3e-6 / 128), rel=0.05)


@pytest.mark.parametrize("content", ["[]", "{", '{"model": "x"}', '{"model": "llama-3.1-8b", "max_num_seqs": 0}', '{"engine_kwargs": []}'])
def test_a_bad_meta_is_one_line(tmp_path, content):
    (tmp_path / "meta.json").write_text(content)
    with pytest.raises(InputError):
        read_meta(tmp_path / "meta.json")


@pytest.mark.parametrize(("run", "ranks"), [("rtxpro6000_llama-3.1-8b", 1), ("rtxpro6000_qwen3-32b", 2)])
def test_requests_agree_with_vllm(run, ranks):
    """Issue 15: means, medians and percentiles of all three times within 3 % on the two recorded runs.

    One of the 24 is not: Llama's median time to first token, 3.2 % early. Until then steps with prompts took 3 ms longer than their
    profiled kernels, most of all between 257 and 400, 769 and 896, 1,281 and 1,408 tokens, as if the run's matrix products came in steps
    of 256 tokens where the profile's come in steps of 128; later, prompts whose beginning was cached (the profile's requests hold no
    text) took less.
    """
    from analysis.serving.points.request_answers import answer

    base = Path(os.environ.get("ANALYSIS_DATASETS", "data/datasets")) / "llmservingsim"
    if not base.exists():
        pytest.skip("needs the LLMServingSim recordings: run `make data`, or set ANALYSIS_DATASETS")
    found = answer(base / f"{run}_requests.csv", base / f"{run}_meta.json", base / "profiles" / f"{run}_tp{ranks}")
    seen = pd.read_csv(base / f"{run}_requests.csv")
    for first, last in ((seen["arrived_s"], "first_token_s"), ("first_token_s", "last_token_s"), (seen["arrived_s"], "last_token_s")):
        steps = seen["output_tokens"] - 1 if isinstance(first, str) else 1
        ours, theirs = ((t[last] - (t[first] if isinstance(first, str) else first)) / steps for t in (found, seen))
        assert ours.mean() == pytest.approx(theirs.mean(), rel=0.03)
        for share in (0.5, 0.9, 0.99):
            exception = (run, last, share) == ("rtxpro6000_llama-3.1-8b", "first_token_s", 0.5)
            assert np.quantile(ours, share) == pytest.approx(np.quantile(theirs, share), rel=0.032 if exception else 0.03)


def flat_profile(tokens, attention, *axes):
    """A profile of times by tokens and attention alone."""
    axes, none, square = axes or [(0, 4096)] * 4, np.zeros(0), np.zeros((0, 0))
    return Profile(
        tokens, np.zeros(200), attention, *(np.array(x, dtype=float) for x in axes), np.zeros((0, 0, 0)), none, none, square, none, none
    )


def test_a_request_that_starts_again_keeps_the_blocks_that_nobody_took():
    """vLLM's KVCacheManager: "We free the blocks in reverse order so that the tail blocks are evicted first when caching is enabled".

    Two requests of 161 tokens share 24 blocks: both hold 12 until the first needs its 13th, at 193 tokens. The second starts over, the
    first ends at 201 and has taken one of the twelve: eleven blocks, 176 of the second's 193 tokens, are still there.
    """
    two = make_requests(np.zeros(2), np.array([161, 161]), np.array([41, 60]))
    steps = StepTime(profile=flat_profile(1e-3 * np.arange(2049.0), np.zeros((2,) * 4)))
    ends = []
    for caching in (True, False):
        limits = Limits(block_size=16, kv_blocks=24, max_batch=8, max_batch_tokens=2048, prefix_caching=caching)
        ends.append(coupled.simulate(two, steps, limits, coupled.Coupling(ahead=0)).records["completed_at"])
    assert ends[0][0] == pytest.approx(ends[1][0])
    assert ends[1][1] - ends[0][1] == pytest.approx(0.176)


@pytest.mark.parametrize(
    ("meta", "ranks", "reason"),
    [
        ({"quantization": "fp8"}, 1, "other kernels"),
        ({"pipeline_parallel_size": 2}, 1, "other kernels"),
        ({"enforce_eager": True}, 1, "other kernels"),
        ({"max_model_len": 512}, 1, "max_model_len"),
        ({"tensor_parallel_size": 2}, 1, "tensor_parallel_size 2"),
        ({"model": "Qwen/Qwen3-32B"}, 1, "is of llama-3.1-8b"),
    ],
)
def test_a_run_that_the_profile_is_not_of_is_refused(tmp_path, meta, ranks, reason):
    from analysis.serving.points.request_answers import answer

    prefix = profile(tmp_path, f"rtx4090_llama-3.1-8b_tp{ranks}")
    (tmp_path / "meta.json").write_text(json.dumps({"model": "meta-llama/Llama-3.1-8B", "num_gpu_blocks": 999} | meta))
    pd.DataFrame({"input_tokens": [1000], "output_tokens": [3], "arrived_s": [1.0]}).to_csv(tmp_path / "r.csv", index=False)
    with pytest.raises(InputError, match=reason):
        answer(tmp_path / "r.csv", tmp_path / "meta.json", prefix)


def test_decodes_beside_several_prompts_are_slowed_once():
    """Mixed attention of the round profile: 3 us of decodes, 5 us of a prompt whatever its length; two prompts share both."""
    attention = np.zeros((3, 2, 2, 2))
    attention[:, :, 1, :] += 3e-6
    attention[1:] += 5e-6
    attention[1:, :, 1, :] += 7e-6  # what decodes lose beside a prompt
    p, decodes = flat_profile(np.zeros(4000), attention, (0, 16, 2048), (0, 2048), (0, 128), (0, 8192)), 128

    def step(prompts):
        tokens = np.array([1] * decodes + prompts)
        requests = np.zeros(tokens.size, REQUEST)
        requests["processed"], requests["prefill"] = tokens == 1, np.where(tokens == 1, 0, tokens)
        return profiled_s(p, Replica(None, requests, None, None, np.arange(tokens.size), tokens, None), tokens.size)

    assert step([500]) == pytest.approx(15e-6) and step([500, 500]) == pytest.approx(15e-6)


def test_the_parts_of_the_gap_add_up():
    from analysis.kernels.library import KernelLibrary
    from analysis.serving.points.points import points
    from analysis.studies.composition.serving_gap import GAP_PARTS, gaps

    asked, reasons = cases.read(pd.DataFrame([{**ROW, "batch_size": str(n)} for n in (4, 16, 64)]))
    assert reasons == ["", "", ""]
    frame = gaps(asked, points(asked, KernelLibrary.load()), np.array([12e-3, 14e-3, 21e-3]))
    assert np.allclose(frame[list(GAP_PARTS)].sum(axis=1), frame["gamma"]) and len(frame) == 3


def test_both_halves_of_the_selection_are_reported_as_the_frozen_answers_have_them():
    """serving_split.yaml: terms are chosen on the families of odd rank by name, and both halves are reported."""
    recorded = DATA / "recorded" / "aiconfigurator"
    peer = pd.read_csv(recorded / "predictions.csv.gz")
    answered = peer.loc[(peer["status"] == "ok") & (peer["database_mode"] == "SILICON"), "id"]
    flags = pd.read_csv(recorded / "row_flags.csv.gz")
    judged = flags[(flags["clean_no_deepseek"] == 1) & flags["id"].isin(answered)]
    chosen_on = sorted(flags.loc[flags["clean_no_deepseek"] == 1, "model_family"].unique())[::2]
    assert chosen_on == ["GLM-5", "Llama-3.1-70B", "MiniMax-M2.5", "Qwen3-32B", "gpt-oss-120b"]
    scores = pd.read_csv(FROZEN / "scores.csv").set_index(["split", "rows_of", "target"])
    points = pd.read_csv(FROZEN / "points.csv").merge(judged[["id", "model_family"]], on="id")
    for split, of_split in points.groupby("split"):
        for rows_of, half in ("selection families", True), ("other families", False):
            part = of_split[of_split["model_family"].isin(chosen_on) == half]
            for target in ("ttft", "tpot"):
                error = 100 * (part[f"{target}_ms"] / (1e3 * part[f"{target}_s"]) - 1).abs()
                found = scores.loc[split, rows_of, target]
                assert len(part) == found["rows"]
                assert found["median_percent"] == pytest.approx(error.median(), abs=0.02)
                assert found["mean_percent"] == pytest.approx(error.mean(), abs=0.02)


@pytest.mark.parametrize(
    ("kind", "column", "value", "reason"),
    [
        ("dense", "time_us", "x", "expected a time or size"),
        ("dense", "time_us", "", "expected a time or size"),
        ("dense", "time_us", -5, "expected a time or size"),
        ("attention", "time_us", "inf", "expected a time or size"),
        ("attention", "prefill_chunk", 16, "one value"),
        ("per_sequence", None, None, "no rows"),
    ],
)
def test_a_profile_that_is_none_is_one_line(tmp_path, kind, column, value, reason):
    from analysis.serving.points.request_answers import answer

    prefix = profile(tmp_path)
    table = pd.read_csv(f"{prefix}_{kind}.csv.gz", dtype=str)
    table = table[:0] if column is None else table.assign(**{column: value})
    table.to_csv(f"{prefix}_{kind}.csv.gz", index=False)
    (tmp_path / "meta.json").write_text(json.dumps({"model": "meta-llama/Llama-3.1-8B"}))
    pd.DataFrame({"input_tokens": [1000], "output_tokens": [3], "arrived_s": [1.0]}).to_csv(tmp_path / "r.csv", index=False)
    with pytest.raises(InputError, match=reason):
        answer(tmp_path / "r.csv", tmp_path / "meta.json", prefix)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"isl": 131000}, "takes 131,072"),
        ({"mode": "weird"}, "unknown mode"),
        ({"isl": "x"}, "'x', no number"),
        (
            {"model_path": "mistralai/Mixtral-8x7B-v0.1", "moe_tp_size": 1, "moe_ep_size": 16, "tp_size": 16},
            "8 experts do not divide by 16",
        ),
    ],
)
def test_a_row_that_cannot_be_is_refused_with_its_reason(change, reason):
    asked = {"backend": "vllm", "model_path": "meta-llama/Llama-3.1-70B", "system": "h100_sxm", "isl": 1024, "osl": 1024, "tp_size": 8}
    _, reasons = cases.read(pd.DataFrame([asked | {"mode": "agg", "batch_size": 8} | change]))
    assert reason in reasons[0]


def test_a_gpu_has_one_name_however_it_is_written():
    """Settings and fitted constants go by the tables' name: another spelling must not lose them."""
    asked = {"backend": "vLLM", "model_path": "Qwen/Qwen3-32B", "isl": 1024, "osl": 1024, "tp_size": 8, "batch_size": 8, "mode": "Agg"}
    found, _ = cases.read(pd.DataFrame([asked | {"system": name, "gemm_quant_mode": "FP8"} for name in ("b200_sxm", "B200_SXM", "B200")]))
    assert found[0] is not None and found[0] == found[1] == found[2]
    assert waterfall.Question("qwen3-32b", "b200").case().device == "b200_sxm"


@pytest.mark.parametrize(("count", "seed"), [(1, 1), (2, 2), (160, 1), (5121, 2)])
def test_requests_come_in_the_order_of_one_draw_after_another(count: int, seed: int) -> None:
    """Oracle: Fisher and Yates' shuffle, each place drawn by itself."""
    draws, order = np.random.RandomState(seed), list(range(count))
    for i in range(count - 1, 0, -1):
        j = draws.randint(0, i + 1)
        order[i], order[j] = order[j], order[i]
    assert _shuffled(count, seed).tolist() == order


def _step_calls(model: str, tensor: int, engine: str = "trtllm"):
    from analysis.serving.points import operators
    from analysis.serving.points.cases import Plan

    plan = Plan(tensor=tensor, attention_data=1, expert_tensor=tensor, expert=1)
    return list(operators.calls(operators.Configuration(engine, models.load(model), plan, "bf16", "bf16", "bf16", "bf16")))


@pytest.mark.parametrize(("tensor", "reduces"), [(1, 0), (4, 1)])
def test_a_norm_over_all_heads_needs_an_all_reduce_of_two_sums(tensor, reduces):
    """MiniMax M2 (vLLM, design/fusions: "Q/K variance all-reduce, Q/K RMSNorm"): two fp32 sums of squares a token, once a layer."""
    found = [c for c in _step_calls("minimax-m2.5", tensor) if c.method == "collective" and c.arrays["bytes"][0] == 8.0]
    assert [c.count for c in found] == [62] * reduces


@pytest.mark.parametrize(("model", "passes"), [("llama-3.1-70b", 0), ("qwen3-32b", 1), ("minimax-m2.5", 1)])
def test_models_that_normalise_queries_and_keys_pass_over_them_once_a_layer(model, passes):
    """Bytes read and written of a token's 16-bit queries and keys on one GPU: config.json of the checkpoints, heads and head size."""
    heads, layers = {"llama-3.1-70b": (72, 80), "qwen3-32b": (72, 64), "minimax-m2.5": (56, 62)}[model]
    found = [
        c for c in _step_calls(model, 1) if c.method == "memory_bound" and c.grid == "tokens" and c.arrays["bytes"][0] == 4 * heads * 128
    ]
    assert [c.count for c in found] == [layers] * passes


def test_a_sparse_indexer_is_more_than_two_products():
    """DeepSeek-V3.2's reference (inference/model.py, Indexer) on GLM-5's sizes: seven passes over keys or queries and the scores' own."""
    calls = _step_calls("glm-5", 8)
    token = {c.arrays["bytes"][0]: c.count for c in calls if c.method == "memory_bound" and c.grid == "tokens"}
    assert token[4 * 128.0] == 4 * 78 and token[4 * 32 * 128.0] == 3 * 78
    assert [c.count for c in calls if c.method == "memory_bound" and c.grid == "decode"] == [78, 78]


@pytest.mark.parametrize(("engine", "passes"), [("vllm", 1), ("sglang", 1), ("trtllm", 0)])
def test_keys_and_values_are_written_by_a_pass_of_their_own_but_in_tensorrt_llm(engine, passes):
    """vLLM fuses rotary embedding and cache on AMD alone (docs, design/fusions, fuse_rope_kvcache); 8 heads of 128, read and written."""
    calls = _step_calls("llama-3.1-70b", 1, engine)
    found = [c for c in calls if c.method == "memory_bound" and c.grid == "tokens" and c.arrays["bytes"][0] == 2 * 2 * 2 * 8 * 128]
    assert [c.count for c in found] == [80] * passes


def test_a_checkpoint_s_own_types_are_served_where_none_is_said(tmp_path):
    """DeepSeek-R1 is FP8 and Kimi K2.5 INT4 (quantization_config), which run on 8 H200; 16-bit copies would not. So for any config.json."""
    blank = {**ROW, "system": "h200_sxm", **dict.fromkeys(("gemm_quant_mode", "moe_quant_mode", "precision"), "")}
    found = [cases.case({**blank, "model_path": name, "tp_size": "8"}) for name in ("deepseek-ai/DeepSeek-R1", "moonshotai/Kimi-K2.5")]
    assert [(one.gemm, one.attention, one.experts) for one in found] == [("fp8_block",) * 3, ("bf16", "bf16", "int4")]
    llama = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}
    llama |= {"intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**llama, "quantization_config": {"quant_method": "awq", "bits": 4}}))
    own = cases.case({**blank, "model_path": str(path)})
    assert (own.gemm, own.attention) == ("int4", "int4") and own.model.parameters == models.load("llama-3.1-8b").parameters
    path.write_text(json.dumps({**llama, "model_type": "mamba2", "num_heads": 64, "head_dim": 128}))
    with pytest.raises(InputError, match="is not covered: no softmax attention"):
        cases.case({**blank, "model_path": str(path)})


MOE = {"moe_tp_size": "1", "moe_ep_size": "8", "attention_dp_size": "1"}
SERVED: dict[str, dict[str, str]] = {
    "plain": {},
    "alone": {"batch_size": "1", "tp_size": "1", "model_path": "llama-3.1-8b", "gemm_quant_mode": "bf16"},
    "sglang": {"backend": "sglang"},
    "trtllm": {"backend": "trtllm"},
    "mixture": {**MOE, "model_path": "qwen3-235b-a22b", "batch_size": "32"},
    "ranks": {
        **MOE,
        "model_path": "deepseek-v3",
        "system": "h200_sxm",
        "tp_size": "1",
        "attention_dp_size": "8",
        "backend": "sglang",
        "gemm_quant_mode": "fp8_block",
        "moe_quant_mode": "fp8_block",
    },
    "stages": {"pp_size": "2", "tp_size": "4"},
    "mxfp4": {**MOE, "model_path": "gpt-oss-120b", "precision": "", "gemm_quant_mode": "", "moe_quant_mode": ""},
    "int4": {"gemm_quant_mode": "int4_wo", "precision": "int4", "tp_size": "2"},
    "nvfp4": {"system": "b200_sxm", "gemm_quant_mode": "nvfp4", "precision": "nvfp4"},
    "scans": {**MOE, "model_path": "nemotron-3-super", "gemm_quant_mode": "bf16", "moe_quant_mode": "bf16", "precision": "bf16"},
    "delta": {**MOE, "model_path": "qwen3-next-80b-a3b", "gemm_quant_mode": "bf16", "moe_quant_mode": "bf16", "precision": "bf16"},
    "windows": {"model_path": "gemma-3-27b", "gemm_quant_mode": "bf16", "precision": "bf16", "tp_size": "2"},
    "AMD": {"system": "MI300X"},
    "TPU": {"system": "TPU-v6e", "gemm_quant_mode": "bf16", "precision": "bf16"},
    "no bf16": {"system": "V100-SXM2-32GB", "model_path": "llama-3.1-8b", "gemm_quant_mode": "fp16", "precision": "fp16", "tp_size": "2"},
    "poisson": {"arrival": "poisson", "request_rate": "3"},
    "offline": {"arrival": "offline"},
    "static": {"arrival": "static"},
    "requests": {"num_requests": "77"},
    "prefix": {"prefix": "600"},
    "long": {"isl": "20000", "osl": "9000"},
    "cache in fp8": {"kvcache_quant_mode": "fp8"},
    "little memory": {"memory_utilization": "0.8", "max_batched_tokens": "4096", "max_num_seqs": "8"},
    "drafts": {
        **MOE,
        "model_path": "deepseek-v3",
        "system": "h200_sxm",
        "nextn": "1",
        "gemm_quant_mode": "fp8_block",
        "moe_quant_mode": "fp8_block",
    },
    "crowded": {"batch_size": "256", "tp_size": "2"},
    "apart": {
        "mode": "disagg",
        **{
            f"{side}_{key}": value
            for side in ("prefill", "decode")
            for key, value in {"tp_size": "4", "batch_size": "8", "num_workers": "2"}.items()
        },
    },
    "no room": {"tp_size": "1"},
}
REFUSED_POINTS: dict[str, dict[str, str]] = {
    "no room": {"tp_size": "1"},
    "no engine": {"backend": "mine"},
    "trtllm on AMD": {"backend": "trtllm", "system": "MI300X"},
    "heads": {"tp_size": "3"},
    "half": {"batch_size": "1.5"},
    "none": {"batch_size": "0"},
    "many": {"batch_size": "10001"},
    "one token": {"osl": "1"},
    "two": {"osl": "2"},
    "no prompt": {"isl": "0"},
    "beyond": {"isl": "131072"},
    "encoder": {"model_path": "bert-large"},
    "nobody": {"model_path": "nobody/knows"},
    "no card": {"system": "H1000"},
    "type": {"gemm_quant_mode": "fp7"},
    "no fp8": {"system": "a100_sxm"},
    "no nvfp4": {"gemm_quant_mode": "nvfp4", "precision": "nvfp4"},
    "widths": {"moe_tp_size": "2"},
    "ranks of a dense model": {"attention_dp_size": "2"},
    "sixteen": {"tp_size": "16"},
    "prefix": {"prefix": "1024"},
    "longest prefix": {"prefix": "1023"},
    "share": {"memory_utilization": "1.1"},
    "no share": {"memory_utilization": "0"},
    "rate": {"arrival": "poisson"},
    "no rate": {"arrival": "poisson", "request_rate": "0"},
    "a rate of a loop": {"request_rate": "3"},
    "arrival": {"arrival": "sometimes"},
    "drafts": {"nextn": "1"},
    "cache": {"kvcache_quant_mode": "int4"},
    "mode": {"mode": "both"},
    "stages": {"pp_size": "81"},
    "seqs": {"max_num_seqs": "0"},
    "L4": {"system": "L4", "tp_size": "2"},
    "rows": {"length_low": "3"},
    "precision": {"precision": "bf16"},
}


def _own_parameters() -> Parameters:
    """Constants of our own, so that a fit moves nothing here."""
    some = lambda names, scale: tuple(round(scale * (1 + zlib.crc32(name.encode()) % 97 / 100), 6) for name in names)  # noqa: E731
    made: dict[str, Any] = {}
    for target in ("tpot", "ttft"):
        groups = {"": some(TERMS[target], 0.7), "vllm": some(TERMS[target][::-1], 0.8), "sglang": some(TERMS[target], 0.9)}
        made[target] = Constants(terms=TERMS[target], coefficients=groups)
        terms = DIFFICULTY[target]
        made[f"{target}_interval"] = Interval(
            terms=terms,
            centre=some(terms, 0.3),
            scale=some(terms, 0.5),
            slope=some(terms, 0.02),
            level=-1.9,
            doubt_of=f"doubt{'_prompt' * (target == 'ttft')}",
            doubt_seen=0.04,
            seen=("vllm|one", "sglang|many"),
            devices=("h100_sxm", "b200_sxm"),
            pooled=(-1.7, 1.9),
            groups={"agg|vendor": (-1.1, 1.3), "agg|benchmark": (-1.2, 1.4)},
        )
    ends = {"": (-0.5, 0.7), "trtllm": (-0.6, 0.8), "other maker": (-0.9, 1.1)}
    other = {
        target: Elsewhere(
            slower={"amd": 0.23},
            each_s={"engine": 1e-6, "serial": 3e-6},
            families=("Llama-3.1-70B",),
            devices=("l40s",),
            wider=0.1,
            ends=ends,
        )
        for target in ("tpot", "ttft")
    }
    known = {"device": ("h100_sxm",), "types": ("fp8", "bf16"), "release": ("vllm 0.12",), "family": ("llama-3.1-70b",)}
    return Parameters(fitted_on="ours", rows=1, known=known, elsewhere=other, **made)


def test_every_kind_of_served_point() -> None:
    """What a row is read as, the calls of its step, room, engine and simulated times with a host of our own, and the answer, its ends and
    its parts by constants of our own: neither fit nor calibration enters."""
    host = {name: points_module.Host(3e-4, 2e-4, 1.1e-3, 7e-7) for name in ("vllm", "sglang", "trtllm")}
    library, mine, found = KernelLibrary.load(), _own_parameters(), dict[str, Any]()
    said = {name: answer(lambda row=row: cases.case({**ROW, **row}).clients) for name, row in SERVED.items()}  # type: ignore[misc]
    read = [cases.case({**ROW, **SERVED[name]}) for name, one in said.items() if isinstance(one, int)]
    found |= {name: one for name, one in said.items() if not isinstance(one, int)}
    raw = points_module.points(read, library, host=host)  # type: ignore[arg-type]
    table, frame, missing = answers_module.times(read, mine, raw)  # type: ignore[arg-type]
    why = iter(missing)
    for k, (name, case) in enumerate(zip([name for name in SERVED if name not in found], read, strict=True)):
        configuration = points_module.configuration(case)
        calls = [
            [
                call.part,
                call.grid,
                call.method,
                call.count,
                *(f"{key} {np.sum(size):.9g}" for key, size in call.arrays.items()),
                str(call.options),
                None if call.scale is None else float(np.sum(call.scale)),
            ]
            for call in operators_module.calls(configuration)
        ]
        found[name] = {
            "case": {key: value for key, value in vars(case).items() if key != "model"},
            "model": case.model.name,
            "derived": [
                case.plan.gpus,
                case.plan.ranks,
                case.plan.stage_gpus,
                case.step_tokens,
                case.types,
                case.shortest,
                case.mean_length,
            ],
            "settings": settings.of(case),
            "calls": calls,
            "operators": operators_module.operators(configuration),
            "status": raw.status[k],
            "weights": points_module.weight_bytes(case, case.plan),
            "engine": {key: raw.engines[k][key] for key in raw.engines.dtype.names or ()},
            "result": raw.result[k],
            "floors": points_module.floors_s(case, 7.0, 1234.5),
            "launch": points_module.launch_s(case, host[case.engine]),
            "words": [*answers_module.settings_in_words(case), answers_module.plan_in_words(case)],
            "power": answer(lambda case=case: power.drawn_w(case, 0.02)),
            "busy": answer(lambda case=case: power.work(case, 7.0, 900.0, 500.0)),
            "multiplied": multiplied(case.model),  # type: ignore[misc]
        }
        if np.isfinite(raw.result[k][0]):
            reason = next(why)
            times = dict(table.iloc[k])
            found[name] |= {
                "times": dict(times),
                "features": frame.iloc[k].to_dict(),
                "why": reason,
                "rates": answers_module._rates(case, times, frame.iloc[k].to_dict()),
                "described": answers_module._described(k, case, raw, reason),
                "parts": waterfall.breakdown(k, case, raw, frame, mine, times).to_dict("records"),
            }
    kept("served_points", found)


def test_every_refusal_of_a_served_point() -> None:
    """In its words, at the first value that is refused; the last that is taken is read."""
    kept("refused_points", {name: answer(lambda row=row: cases.case({**ROW, **row}).plan) for name, row in REFUSED_POINTS.items()})  # type: ignore[misc]


def test_fits_and_intervals_of_rows_of_our_own() -> None:
    """Coefficients by group, difficulty, ends and doubt of a made table: least absolute relative error; every cluster weighs the same."""
    draw, n = np.random.default_rng(5), 60
    frame = pd.DataFrame({term: draw.uniform(0.5, 2, n) for terms in TERMS.values() for term in terms})
    frame = frame.assign(
        engine=draw.choice(["vllm", "sglang", "trtllm"], n),
        origin=draw.choice(["benchmark", "vendor"], n),
        mode=draw.choice(["agg", "disagg"], n, p=[0.8, 0.2]),
        family=draw.choice(list("abcd"), n),
        device=draw.choice(["h100_sxm", "b200_sxm", "L4"], n),
        experts=draw.choice(["dense", "moe"], n),
        clients=draw.integers(1, 300, n),
        load=draw.uniform(0.01, 3, n),
        ranks=draw.choice([1, 8], n),
        vendor=draw.choice(["NVIDIA", "AMD", "Google"], n),
        types=draw.choice(["bf16", "fp8"], n),
        script=draw.choice(["default", "recipe"], n),
        asked=draw.choice([True, False], n),
        release="vllm 0.12",
        beyond=[()] * n,
        operators=(operators := draw.uniform(50, 900, n)),
        launched=operators,
        old=np.arange(n) % 3 == 0,
        doubt=draw.uniform(0, 0.2, n),
        doubt_prompt=draw.uniform(0, 0.2, n),
        ttft_s=draw.uniform(0.01, 3, n),
        more=0.1,
        fewer=0.2,
    )
    found: dict[str, Any] = {}
    mine = _own_parameters()
    for target in ("tpot", "ttft"):
        measured = frame[list(TERMS[target])].sum(axis=1).to_numpy() * draw.uniform(0.8, 1.3, n)
        constants = fit(frame, measured, target)
        error = np.log(measured / apply(frame, constants))
        ends = interval(frame, error, target)
        found[target] = [
            constants,
            ends,
            apply(frame, constants)[:9],
            [side[:9] for side in bounds(frame, measured, ends)],
            [side[:9] for side in elsewhere(frame, measured, ends, mine.elsewhere[target])],
        ]
    found["outside"] = outside(frame, mine)[:12]
    found["terms"] = difficulty_terms(frame).head(9).to_dict("list")
    kept("fits_served", found)
