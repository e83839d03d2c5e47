"""Simulations described in files: our YAML and VIDUR's JSON."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.configs import read_yaml
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.serving.answer import summary_table
from analysis.serving.kv_cache import cache_bytes
from analysis.serving.points.simulation import read_configuration
from analysis.serving.steps import read_recorded
from analysis.serving.traffic import Arrivals, Lengths, generate
from analysis.serving.vidur import VidurConfig, kv_blocks, limits_of, requests_of, simulate_vidur
from analysis.tables import read_csv
from tests.conftest import run_here

USABLE = 80 * 2**30 * 0.985
"""Bytes that a driver offers of 80 GB."""
RECORDED = DATA / "recorded" / "vidur"
GOOD = """\
requests:
  count: 50
  arrivals: {kind: gamma, rate_per_s: 5.0, cv: 2.0}
  prompt: {kind: zipf, low: 10, high: 400}
  output: {kind: uniform, low: 1, high: 20}
scheduler: sarathi
limits: {chunk: 256}
steps: {kind: linear, fixed_s: 0.009, prompt_token_s: 4.0e-5, decode_request_s: 1.0e-4}
replicas: 2
routing: least_work
slo: {ttft_s: 0.2}
"""


def test_command_simulates_and_writes_three_tables(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(GOOD)
    for out in ("a", "b"):
        done = run_here("serve", "simulate", str(tmp_path / "run.yaml"), "--out", str(tmp_path / out))
        assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert names == {"requests.csv", "batches.csv", "summary.csv"}
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in names)
    table, summary = read_csv(tmp_path / "a" / "requests.csv"), read_csv(tmp_path / "a" / "summary.csv").set_index("name")["value"]
    assert summary["ttft_s_mean"] == pytest.approx(table["ttft"].mean())
    assert summary["good_share"] == pytest.approx((table["ttft"] <= 0.2).mean())
    assert set(table["replica"]) == {0, 1}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("scheduler: sarathi", "scheduler: fifo", r"run\.yaml:6: scheduler: .*\(got 'fifo'\)"),
        ("chunk: 256", "chunks: 256", r"run\.yaml:7: limits\.chunks: unknown key"),
        ("rate_per_s: 5.0", "rate_per_s: 0", r"run\.yaml:3: requests\.arrivals\.rate_per_s: .*greater than 0 \(got 0\)"),
        ("count: 50", "seed: 1", r"run\.yaml:1: requests: expected one of count, trace, closed_loop"),
        ("count: 50", "trace: missing.csv", r"requests of trace do not read prompt, output"),
        ("count: 50", "count: 0", r"count is 0: expected at least one request"),
        ("kind: zipf, low: 10", "kind: fixed, low: 10", r"requests\.prompt: fixed does not read high; it reads low"),
        ("kind: gamma", "kind: poisson", r"requests\.arrivals: poisson does not read cv; it reads rate_per_s"),
        ("kind: uniform, low: 1", "kind: empirical, low: 1", r"requests\.output: empirical does not read low, high"),
        ("low: 10, high: 400", "low: 10, high: 4", r"requests\.prompt: expected low <= high, got 10 and 4"),
        ("chunk: 256", "kv_blocks: 3", r"run\.yaml: kv_blocks: request \d+ can never finish"),
        ("kind: linear, fixed_s: 0.009", "kind: linear", r"steps\.linear\.fixed_s: required key is missing"),
    ],
)
def test_a_wrong_configuration_is_one_clear_error(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "run.yaml").write_text(GOOD.replace(old, new))
    with pytest.raises(InputError, match=message):
        read_configuration(tmp_path / "run.yaml").run()


def test_a_trace_and_recorded_steps_are_the_replay(tmp_path: Path) -> None:
    requests, steps = RECORDED / "requests_vllm_200_qps8.csv", RECORDED / "batches_vllm_200_qps8.csv.gz"
    text = f"requests: {{trace: {requests}}}\nscheduler: vllm\nsteps: {{kind: recorded, path: {steps}}}\n"
    (tmp_path / "run.yaml").write_text(text)
    result = read_configuration(tmp_path / "run.yaml").run()
    np.testing.assert_allclose(result.e2e_s, read_csv(requests)["e2e"], rtol=0, atol=1e-9)


def test_disaggregation_is_one_key(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(GOOD + "disaggregation: {prefill_replicas: 1, latency_s: 0.01}\n")
    result = read_configuration(tmp_path / "run.yaml").run()
    several = result.requests.decode_tokens > 1
    assert set(result.records["replica"][several]) == {1, 2} and set(result.records["replica"][~several]) <= {0}


def test_zero_requests_have_a_summary(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(GOOD)
    configuration = read_configuration(tmp_path / "run.yaml")
    result = configuration.run(generate(Arrivals(), Lengths(), Lengths(), 0))
    summary = summary_table(result, configuration.slo()).set_index("name")["value"]
    assert np.isnan(summary["ttft_s_mean"]) and summary["batches"] == 0 and summary["makespan_s"] == 0


@pytest.mark.parametrize(
    ("config", "run"),
    [("cli_vllm_200", "vllm_200_qps2"), ("cli_sarathi_200", "sarathi_200_qps2"), ("cli_sarathi_50", "pub_sarathi_50_qps2")],
)
def test_vidurs_own_json_gives_vidurs_run(config: str, run: str) -> None:
    result = simulate_vidur(
        read_yaml(RECORDED / "configs" / f"{config}.json", VidurConfig), read_recorded(RECORDED / f"batches_{run}.csv.gz")
    )
    np.testing.assert_allclose(result.e2e_s, read_csv(RECORDED / f"requests_{run}.csv")["e2e"], rtol=0, atol=1e-9)


@pytest.mark.parametrize(("longest", "blocks"), [(512, 7648), (4096, 7424)])
def test_kv_blocks_are_vidurs(longest: int, blocks: int) -> None:
    """README.md beside the records: 7,648 blocks at 512 tokens, 7,424 at 4,096."""
    config = read_yaml(RECORDED / "configs" / "cli_vllm_200.json", VidurConfig)
    assert kv_blocks(config.cluster_config.replica_config, 16, longest) == blocks


def drawn_by_vidur(part: str, **generator: object) -> dict[str, object]:
    content = json.loads((RECORDED / "configs" / "cli_vllm_200.json").read_text())
    content["request_generator_config"][f"{part}_generator_config"] = {"seed": 42, **generator}
    return content


def test_vidurs_gamma_and_static_gaps() -> None:
    """VIDUR 7d47513, gamma_request_interval_generator.py: scipy's gamma.rvs on numpy's global stream; lengths come from Python's."""
    from scipy.stats import gamma

    config = VidurConfig.model_validate(drawn_by_vidur("interval", name="gamma", qps=2.0, cv=0.5))
    shape = 1.0 / 0.5**2
    stream, found = np.random.RandomState(42), requests_of(config)
    gaps = [gamma.rvs(shape, scale=1.0 / (2.0 * shape), random_state=stream) for _ in range(200)]
    np.testing.assert_allclose(found.arrived_at_s, np.cumsum(gaps), rtol=1e-12)
    lengths = random.Random(42)
    totals = [lengths.uniform(128, 512) for _ in range(200)]
    assert list(found.decode_tokens) == [math.ceil(total / 21) for total in totals]
    assert not requests_of(VidurConfig.model_validate(drawn_by_vidur("interval", name="static"))).arrived_at_s.any()


def test_vidurs_zipf_lengths() -> None:
    """VIDUR's zipf_generator.py, number by number; both parts of the total are cut to whole tokens, and the longest sets the blocks."""
    zipf = {"name": "zipf", "theta": 0.6, "scramble": False, "min_tokens": 1024, "max_tokens": 4096, "prefill_to_decode_ratio": 20.0}
    config = VidurConfig.model_validate(drawn_by_vidur("length", **zipf))
    stream, items, theta, totals = np.random.RandomState(42), 4096 - 1024 + 1, 0.6, []
    zeta = sum(1 / k**theta for k in range(1, items))
    eta = (1 - (2 / items) ** (1 - theta)) / (1 - 1 / (zeta + 1e-8))
    for _ in range(200):
        u = stream.random_sample()
        far = 1024 + int(items * (eta * u - eta + 1) ** (1 / (1 - theta)))
        totals.append(1024 if u * zeta < 1 else 1025 if u * zeta < 1 + 0.5**theta else far)
    found = requests_of(config)
    assert list(found.decode_tokens) == [int(total / 21) for total in totals]
    assert list(found.prefill_tokens) == [int(total - total / 21) for total in totals]
    assert limits_of(config).kv_blocks == 7424  # README.md beside the records: at 4,096 tokens


def test_vidurs_trace_lengths_and_duration(tmp_path: Path) -> None:
    """trace_request_length_generator.py: scaled, cut in proportion, then pandas' sample(frac=1)."""
    table = pd.DataFrame({"num_prefill_tokens": [100, 5000, 30], "num_decode_tokens": [10, 1000, 0]})
    table.to_csv(tmp_path / "trace.csv", index=False)
    content = drawn_by_vidur("length", name="trace", trace_file="trace.csv", max_tokens=4096, prefill_scale_factor=1, decode_scale_factor=2)
    found = requests_of(VidurConfig.model_validate(content), tmp_path)
    order = list(table.sample(frac=1, random_state=42).index)
    cut = [(100, 20), (5000 - math.ceil(2904 * 5000 / 7000), 2000 - math.ceil(2904 * 2000 / 7000)), (30, 1)]
    assert list(zip(found.prefill_tokens, found.decode_tokens, strict=True)) == [cut[k] for k in order]
    content = drawn_by_vidur("interval", name="poisson", qps=2.0)
    content["request_generator_config"]["duration"] = 30.0  # type: ignore[index]
    part, whole = (requests_of(VidurConfig.model_validate(c)) for c in (content, drawn_by_vidur("interval", name="poisson", qps=2.0)))
    assert list(part.arrived_at_s) == [time for time in whole.arrived_at_s if time < 30]


SCRAMBLED = {"name": "zipf", "theta": 0.6, "scramble": True, "min_tokens": 9, "max_tokens": 99, "prefill_to_decode_ratio": 2}


@pytest.mark.parametrize(
    ("part", "generator", "message"),
    [
        ("length", SCRAMBLED, "scramble"),
        ("length", {"name": "lognormal"}, "uniform.*fixed.*zipf.*trace"),
        ("interval", {"name": "trace", "trace_file": "x.csv"}, "interval_generator_config"),
    ],
)
def test_vidurs_json_with_what_we_cannot_draw_is_refused(tmp_path: Path, part: str, generator: dict[str, object], message: str) -> None:
    (tmp_path / "other.json").write_text(json.dumps(drawn_by_vidur(part, **generator), indent=1))
    with pytest.raises(InputError, match=rf"other\.json:\d+: request_generator_config\.{part}_generator_config.*") as refused:
        read_yaml(tmp_path / "other.json", VidurConfig)
    assert re.search(message, str(refused.value))


def test_vidurs_json_needs_steps(tmp_path: Path) -> None:
    config = RECORDED / "configs" / "cli_vllm_200.json"
    done = run_here("serve", "simulate", str(config), "--out", str(tmp_path / "out"))
    assert done.returncode == 2 and "--steps: expected with VIDUR's .json" in done.stderr and not (tmp_path / "out").exists()
    steps = RECORDED / "batches_vllm_200_qps2.csv.gz"
    done = run_here("serve", "simulate", str(config), "--steps", str(steps), "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    ours = read_csv(tmp_path / "out" / "summary.csv").set_index("name")["value"]
    assert ours["e2e_s_mean"] == pytest.approx(0.1765, rel=0.01)  # README.md of the published runs: .1765 s


def test_weights_and_cache_must_fit_the_device(tmp_path: Path) -> None:
    """Llama-2-70B in fp16 is 137.95 GB of weights (68,976,648,192 parameters): not one GPU of 80 GB; on four, some 150 GB are left."""
    text = GOOD.split("steps:")[0] + "steps: {kind: roofline, model: llama-2-70b, device: A100-SXM4-80GB, tensor_parallel: T}\n"
    path = tmp_path / "run.yaml"
    path.write_text(text.replace("parallel: T", "parallel: 1"))
    with pytest.raises(InputError, match=r"run\.yaml: tensor_parallel: .*does not fit 1 x A100-SXM4-80GB: 138.0 GB of weights"):
        read_configuration(path).run()
    path.write_text(text.replace("parallel: T", "parallel: 4"))
    room = read_configuration(path).limits().kv_blocks
    cache_bytes = 2 * 80 * 1024 * 2  # keys and values of 80 layers, 8 heads of 128 channels, two bytes each
    assert room == int((0.9 * 4 * USABLE - 2 * 68_976_648_192 - 4 * 4 * 2**30) // (16 * cache_bytes))
    path.write_text(text.replace("parallel: T", "parallel: 4").replace("chunk: 256", f"kv_blocks: {room + 1}"))
    with pytest.raises(InputError, match=rf"limits\.kv_blocks: expected at most {room}: "):
        read_configuration(path).limits()
    path.write_text(GOOD)
    assert read_configuration(path).limits().kv_blocks == 7648


ROOFLINE = """\
requests: {count: 4, arrivals: {kind: burst}, prompt: {low: PROMPT}, output: {low: 100}}
scheduler: vllm_v1
limits: {max_request_tokens: 200000, max_batch_tokens: 8192}
steps: {kind: roofline, model: llama-3-405b, device: h100, tensor_parallel: TP, dtype: fp8}
"""


def test_fp8_weights_leave_the_cache_at_16_bits(tmp_path: Path) -> None:
    """Llama 3 405B: 126 layers, 8 KV heads of 128 (config.json); vLLM's kv_cache_dtype is auto: the model's 16 bits."""
    path = tmp_path / "run.yaml"
    path.write_text(ROOFLINE.replace("TP", "8").replace("PROMPT", "1000"))
    setup = read_configuration(path).setup()
    left = 0.9 * 8 * USABLE - 405_853_388_800 - 8 * 4 * 2**30
    assert setup.kv_cache_tokens == 16 * int(left // (16 * 126 * 2 * 8 * 128 * 2))
    path.write_text(path.read_text().replace("dtype: fp8", "dtype: fp8, kv_bytes_per_value: 1"))
    assert read_configuration(path).setup().kv_cache_tokens == 16 * int(left // (16 * 126 * 2 * 8 * 128))


def test_more_devices_than_key_heads_keep_copies(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    tokens = []
    for devices in (8, 16):
        path.write_text(ROOFLINE.replace("TP", str(devices)).replace("PROMPT", "1000").replace("405b", "70b"))
        tokens.append(read_configuration(path).setup().kv_cache_tokens)
    weights, each = 70_553_706_496, 0.9 * USABLE - 4 * 2**30  # model card: 70.6 B
    assert tokens[1] / tokens[0] == pytest.approx((16 * each - weights) / (8 * each - weights) / 2, rel=1e-4)


@pytest.mark.parametrize("command", [("simulate",), ("capacity", "--slo", "ttft_p99=1"), ("sweep", "--rate", "1", "--out", "OUT")])
def test_a_replica_without_room_for_one_request_is_refused(tmp_path: Path, command: tuple[str, ...]) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(
        ROOFLINE.replace("TP", "8").replace("PROMPT", "100000").replace("fp8", "fp8, memory_utilization: 0.7").replace("burst", "uniform")
    )
    name, *options = (text.replace("OUT", str(tmp_path / "out.csv")) for text in command)
    done = run_here("serve", name, str(path), *options)
    assert done.returncode == 2 and "can never finish: needs 6257 KV blocks, watermark included, the limit is " in done.stderr
    assert not (tmp_path / "out.csv").exists()


def test_json_names_the_question_and_what_a_replica_holds(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(ROOFLINE.replace("TP", "8").replace("PROMPT", "1000"))
    done = run_here("serve", "simulate", str(path), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    named = {"model": "llama-3-405b", "device": "H100-SXM5-80GB", "plan": "tensor parallel 8", "step_time": "roofline", "status": ""}
    assert {name: told[name] for name in named} == named and "fp8" in told["precision"] and told["kv_precision"] == "16 bits"
    assert told["ttft_ms"] > 0 and told["tpot_ms"] > 0 and told["kv_cache_tokens"] > 250_000 and told["most_requests"] == 128
    assert told["ttft_lower_ms"] is told["ttft_upper_ms"] is told["tpot_lower_ms"] is told["tpot_upper_ms"] is None
    assert any("a bound" in text for text in told["assumed"])
    (tmp_path / "even.yaml").write_text(path.read_text().replace("burst", "uniform"))
    told = json.loads(run_here("serve", "capacity", str(tmp_path / "even.yaml"), "--slo", "e2e_p99=100", "--json").stdout)
    assert told["rate_per_s"] > 0 and told["kv_cache_tokens"] > 250_000 and told["assumed"]


def test_the_cache_is_counted_as_vllm_logs_it() -> None:
    """vllm/v1/core/kv_cache_utils.py: a share of all memory less weights and the rest; TensorRT-LLM: a share of what is free."""
    assert (cache_bytes(100.0, 40.0, 0.9, 10.0), cache_bytes(100.0, 40.0, 0.9, 10.0, of_free=True)) == (40, 45)
    assert cache_bytes(10.0, 40.0, reserved_bytes=0.0) < 0


def limited(seconds: float, tmp_path: Path, **changes: object) -> Path:
    content = json.loads((RECORDED / "configs" / "cli_vllm_200.json").read_text()) | {"time_limit": seconds} | changes
    (tmp_path / "limited.json").write_text(json.dumps(content, indent=1))
    return tmp_path / "limited.json"


def test_vidurs_time_limit_ends_the_run(tmp_path: Path) -> None:
    """VIDUR 7d47513, simulator.py: no event beyond the limit but the one that meets it; metrics are of requests that ended."""
    steps = read_recorded(RECORDED / "batches_vllm_200_qps2.csv.gz")
    whole = simulate_vidur(read_yaml(limited(0, tmp_path), VidurConfig), steps)
    part = simulate_vidur(read_yaml(limited(10, tmp_path), VidurConfig), steps)
    arrived = whole.requests.arrived_at_s <= 10
    assert len(part.requests) == arrived.sum() < 30
    ended = whole.records["completed_at"][arrived] <= 10
    assert (part.complete == ended).all()
    np.testing.assert_array_equal(part.e2e_s[ended], whole.e2e_s[arrived][ended])
    assert part.batches is not None and (part.batches.rows["start"] + part.batches.rows["duration"] <= 10).all()
    table = summary_table(part, {"e2e_s": 100.0}).set_index("name")["value"]
    assert table["e2e_s_mean"] == pytest.approx(whole.e2e_s[arrived][ended].mean()) and table["makespan_s"] <= 10
    assert table["good_share"] == pytest.approx(ended.mean()) and table["batches"] == len(part.batches.rows)
    for limit_s in (1e-9, 1e9):
        other = simulate_vidur(read_yaml(limited(limit_s, tmp_path), VidurConfig), steps)
        assert other.complete.sum() == (0 if limit_s < 1 else 200)
        assert np.isfinite(summary_table(other, {}).set_index("name")["value"]["busy_share"])


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ((), "time_limt", 10),
        (("cluster_config",), "autoscaling", True),
        (("cluster_config", "replica_config", "model_config"), "no_tensor_parallel", True),
        (("cluster_config", "replica_scheduler_config"), "preemption_mode", "swap"),
        (("request_generator_config",), "duration", -60.0),
    ],
)
def test_what_vidurs_json_asks_for_is_modelled_or_refused(tmp_path: Path, part: tuple[str, ...], key: str, value: object) -> None:
    content = json.loads((RECORDED / "configs" / "cli_vllm_200.json").read_text())
    holder = content
    for name in part:
        holder = holder[name]
    holder[key] = value
    (tmp_path / "other.json").write_text(json.dumps(content, indent=1))
    with pytest.raises(InputError, match=key):
        read_yaml(tmp_path / "other.json", VidurConfig)
