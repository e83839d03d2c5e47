"""Simulations described in files: our YAML and VIDUR's JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from analysis.configs import read_yaml
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.serving.configuration import read_configuration, summary_table
from analysis.serving.steps import read_recorded
from analysis.serving.vidur.config import VidurConfig, kv_blocks, simulate_vidur
from analysis.tables import read_csv
from tests.conftest import run_analysis

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
        done = run_analysis("serve", "simulate", str(tmp_path / "run.yaml"), "--out", str(tmp_path / out))
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
        ("count: 50", "seed: 1", r"run\.yaml:1: requests: expected one of count, trace, vidur"),
        ("count: 50", "trace: missing.csv", r"missing\.csv: no such file"),
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
    (tmp_path / "run.yaml").write_text(GOOD.replace("count: 50", "count: 0"))
    configuration = read_configuration(tmp_path / "run.yaml")
    summary = summary_table(configuration.run(), configuration.slo()).set_index("name")["value"]
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


def test_vidurs_json_with_what_we_cannot_draw_is_refused(tmp_path: Path) -> None:
    content = json.loads((RECORDED / "configs" / "cli_vllm_200.json").read_text())
    content["request_generator_config"]["length_generator_config"]["name"] = "zipf"
    (tmp_path / "zipf.json").write_text(json.dumps(content, indent=1))
    with pytest.raises(InputError, match=r"zipf\.json:\d+: request_generator_config\.length_generator_config"):
        read_yaml(tmp_path / "zipf.json", VidurConfig)


def test_vidurs_json_needs_steps(tmp_path: Path) -> None:
    config = RECORDED / "configs" / "cli_vllm_200.json"
    done = run_analysis("serve", "simulate", str(config), "--out", str(tmp_path / "out"))
    assert done.returncode == 2 and "--steps: expected with VIDUR's .json" in done.stderr and not (tmp_path / "out").exists()
    steps = RECORDED / "batches_vllm_200_qps2.csv.gz"
    done = run_analysis("serve", "simulate", str(config), "--steps", str(steps), "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    ours = read_csv(tmp_path / "out" / "summary.csv").set_index("name")["value"]
    assert ours["e2e_s_mean"] == pytest.approx(0.1765, rel=0.01)  # README.md of the published runs: .1765 s


def test_weights_and_cache_must_fit_the_device(tmp_path: Path) -> None:
    """Llama-2-70B in fp16 is 137.95 GB of weights (68,976,648,192 parameters): not one GPU of 80 GB; on four, 150 GB are left of 288."""
    text = GOOD.split("steps:")[0] + "steps: {kind: roofline, model: llama-2-70b, device: A100-SXM4-80GB, tensor_parallel: T}\n"
    path = tmp_path / "run.yaml"
    path.write_text(text.replace("parallel: T", "parallel: 1"))
    with pytest.raises(InputError, match=r"run\.yaml: tensor_parallel: .*does not fit 1 x A100-SXM4-80GB: 138.0 GB of weights"):
        read_configuration(path).run()
    path.write_text(text.replace("parallel: T", "parallel: 4"))
    room = read_configuration(path).limits().kv_blocks
    cache_bytes = 2 * 80 * 1024 * 2  # keys and values of 80 layers, 8 heads of 128 channels, two bytes each
    assert room == int((0.9 * 4 * 80e9 - 2 * 68_976_648_192) // (16 * cache_bytes))
    path.write_text(text.replace("parallel: T", "parallel: 4").replace("chunk: 256", f"kv_blocks: {room + 1}"))
    with pytest.raises(InputError, match=rf"limits\.kv_blocks: expected at most {room}: "):
        read_configuration(path).limits()
    path.write_text(GOOD)
    assert read_configuration(path).limits().kv_blocks == 7648
