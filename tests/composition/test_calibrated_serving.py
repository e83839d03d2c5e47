"""`serve` on calibrated steps: the same engine and the same answers as `predict one`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from analysis.errors import InputError
from analysis.kernels.library import KernelLibrary
from analysis.serving import coupled
from analysis.serving.limits import Limits
from analysis.serving.metrics import summary, use
from analysis.serving.points import waterfall
from analysis.serving.points.calibrated import served, step_time
from analysis.serving.points.closed_loop import drawn
from analysis.serving.points.points import points
from analysis.serving.points.simulation import read_configuration
from analysis.serving.requests import make_requests
from analysis.serving.simulate import simulate
from analysis.tables import read_csv
from tests.conftest import run_here

LIBRARY = KernelLibrary.load()
LOOP = """\
requests: {closed_loop: {clients: CLIENTS, input_tokens: 1024, output_tokens: 512}}
steps: {model: llama-3.1-8b, device: h100, precision: bf16}
"""
OPEN = """\
requests: {count: 60, arrivals: {kind: poisson, rate_per_s: 4.0}, prompt: {low: 900}, output: {low: 200}}
steps: {model: llama-3.1-8b, device: h100, precision: bf16}
"""


def closed_loop_both_ways(**asked: object) -> tuple[np.ndarray, np.ndarray, int]:
    """Mean times to first token and per output token by the compiled closed loop and by the engine of requests, and its preemptions."""
    case = waterfall.Question(**asked).case()  # type: ignore[arg-type]
    raw = points([case], LIBRARY)
    e = raw.engines[0]
    lengths = drawn(int(e["requests"]), int(e["input"]), int(e["output"]), float(e["low"]))
    limits = Limits(
        block_size=1, kv_blocks=int(e["cache_tokens"]), watermark=0.0, max_batch=int(e["max_running"]), max_batch_tokens=int(e["budget"])
    )
    loop = coupled.Coupling(ahead=0, clients=int(e["clients"]), send_s=float(e["send_s"]), send_token_s=float(e["send_token_s"]))
    requests = make_requests(np.zeros(int(e["requests"])), *lengths)
    result = coupled.simulate(requests, step_time(raw.tables[0], e), limits, loop)
    means = summary(result)
    return raw.result[0, [0, 2]], np.array([means["ttft_s_mean"], means["tpot_s_mean"]]), int(result.replicas["preempted"].sum())


@pytest.mark.parametrize(
    ("asked", "tolerance"),
    [
        ({"model": "llama-3.1-8b", "device": "h100", "clients": 1}, 2e-4),
        ({"model": "llama-3.1-8b", "device": "h100", "precision": "bf16", "clients": 16}, 2e-4),
        ({"model": "llama-3.1-70b", "device": "h100", "gpus": 8, "clients": 64}, 2e-4),
        ({"model": "qwen3-30b-a3b", "device": "b200", "clients": 128}, 2e-4),
    ],
)
def test_the_fast_path_is_the_engine(asked: dict[str, object], tolerance: float) -> None:
    """The compiled closed loop adds equal decode steps up and counts a request's newest token as not cached; else both do the same."""
    fast, slow, preempted = closed_loop_both_ways(**asked)
    assert preempted == 0 and fast == pytest.approx(slow, rel=tolerance)


def test_the_fast_path_is_near_the_engine_where_the_cache_is_full() -> None:
    """The loop takes the last admitted back and lets nobody in before them; the engine does so by its blocks, a step later."""
    asked = {"model": "llama-3.1-8b", "device": "l4", "precision": "fp8", "clients": 64, "input_tokens": 2048, "output_tokens": 256}
    fast, slow, preempted = closed_loop_both_ways(**asked)
    assert preempted > 100 and fast == pytest.approx(slow, rel=0.03)


@pytest.mark.parametrize("clients", [1, 16])
def test_serve_and_predict_one_agree_to_the_digit(tmp_path: Path, clients: int) -> None:
    (tmp_path / "loop.yaml").write_text(LOOP.replace("CLIENTS", str(clients)))
    done = run_here("serve", "simulate", str(tmp_path / "loop.yaml"), "--json", "--out", str(tmp_path / "out"))
    question = ("--model", "llama-3.1-8b", "--device", "h100", "--precision", "bf16", "--clients", str(clients), "--output-tokens", "512")
    one = run_here("predict", "one", *question, "--json")
    assert done.returncode == 0 and json.loads(done.stdout) == json.loads(one.stdout)
    written = read_csv(tmp_path / "out" / "summary.csv").set_index("name")["value"]
    assert written["ttft_ms"] == json.loads(one.stdout)["ttft_ms"]


def test_a_closed_loop_that_predict_one_does_not_answer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop.yaml").write_text(LOOP.replace("CLIENTS", "4") + "replicas: 2\n")
    with pytest.raises(InputError, match=r"loop\.yaml: requests\.closed_loop: .*leave out scheduler, limits, replicas"):
        read_configuration(tmp_path / "loop.yaml").one()


def test_calibrated_steps_are_the_default_and_carry_the_interval(tmp_path: Path) -> None:
    """One request a long time after another is `predict one` with one client: same kernels, host and constants."""
    (tmp_path / "run.yaml").write_text(OPEN.replace("4.0", "0.1").replace("poisson", "uniform"))
    done = run_here("serve", "simulate", str(tmp_path / "run.yaml"), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    one = waterfall.one("llama-3.1-8b", "h100", clients=1, input_tokens=1000, output_tokens=222, precision="bf16").answer
    assert (told["step_time"], told["status"], told["device"]) == ("calibrated", "", "H100-SXM5-80GB")
    for name in ("ttft", "tpot"):
        assert told[f"{name}_ms"] == pytest.approx(one[f"{name}_ms"], rel=0.01)
        for end in ("lower", "upper"):
            assert told[f"{name}_{end}_ms"] / told[f"{name}_ms"] == pytest.approx(one[f"{name}_{end}_ms"] / one[f"{name}_ms"], rel=1e-6)
    assert told["kv_cache_tokens"] == pytest.approx(one["kv_cache_tokens"], abs=16)


def test_a_roofline_is_asked_for_by_name_and_is_a_bound(tmp_path: Path) -> None:
    texts = {
        "calibrated": OPEN,
        "roofline": OPEN.replace(", precision: bf16", ", kind: roofline, dtype: bf16").replace("llama-3.1", "llama-3"),
        "step_time": "step_time: roofline\n" + OPEN.replace(", precision: bf16", ", dtype: bf16").replace("llama-3.1", "llama-3"),
    }
    means = {}
    for name, text in texts.items():
        (tmp_path / "run.yaml").write_text(text)
        configuration = read_configuration(tmp_path / "run.yaml")
        result = configuration.run()
        means[name] = summary(result)["tpot_s_mean"]
        bound = any("a bound" in sentence for sentence in configuration.setup().assumed)
        assert bound == (name != "calibrated") and bool(configuration.ends(result)) != bound
    assert means["roofline"] == means["step_time"] < means["calibrated"]


def test_limits_follow_from_the_engine_unless_they_are_given(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(OPEN)
    limits = read_configuration(tmp_path / "run.yaml").limits()
    assert (limits.max_batch_tokens, limits.max_batch, limits.max_request_tokens) == (8192, 1024, 1100)  # vLLM's defaults on an H100
    (tmp_path / "run.yaml").write_text(OPEN + "limits: {max_batch: 4, kv_blocks: 500}\n")
    limits = read_configuration(tmp_path / "run.yaml").limits()
    assert (limits.max_batch, limits.kv_blocks, limits.max_batch_tokens) == (4, 500, 8192)
    (tmp_path / "run.yaml").write_text(OPEN + "limits: {kv_blocks: 90000}\n")
    with pytest.raises(InputError, match=r"limits\.kv_blocks: expected at most 2\d{4}: "):
        read_configuration(tmp_path / "run.yaml").limits()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("llama-3.1-8b", "llama-9", "unknown model 'llama-9'"),
        ("device: h100", "device: L4, gpus: 3", "gpus|heads"),
        ("low: 900", "low: 140000", "131,072"),
        ("llama-3.1-8b, device: h100, precision: bf16", "llama-3.1-70b, device: h100, precision: fp8", "does not fit"),
        ("precision: bf16", "speed: bf16", r"steps\.calibrated\.speed: unknown key"),
    ],
)
def test_what_predict_one_refuses_serve_refuses(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "run.yaml").write_text(OPEN.replace(old, new))
    with pytest.raises(InputError, match=message):
        read_configuration(tmp_path / "run.yaml").run()


def test_the_front_end_takes_requests_one_after_another_and_keeps_gaps_between_tokens() -> None:
    """vLLM's front end takes 1.5 ms and 1 us a prompt token: ten prompts of 500 tokens at once are seen at 2, 4, ... 20 ms."""
    burst = make_requests(np.zeros(10), np.full(10, 500), np.full(10, 5))
    model = served(burst, LIBRARY, model="llama-3.1-8b", device="h100", precision="bf16")
    mean = model.case.input_tokens, model.case.output_tokens  # labels; the benchmark's mean request has 0.9 of them
    assert mean == (round(500 / 0.9), round(5 / 0.9)) and model.case.clients == 1
    least = served(make_requests(np.zeros(2), np.full(2, 1), np.full(2, 1)), LIBRARY, model="llama-3.1-8b", device="h100").case
    none = served(make_requests(np.zeros(0), np.zeros(0, int), np.zeros(0, int)), LIBRARY, model="llama-3.1-8b", device="h100").case
    assert [(case.input_tokens, case.output_tokens) for case in (least, none)] == [(1, 2), (2, 2)]
    seen = []

    def run(sent: object) -> object:
        seen.append(sent.arrived_at_s)  # type: ignore[attr-defined]
        return simulate(sent, "vllm_v1", model.steps, Limits())  # type: ignore[arg-type]

    result = model.run(burst, run, 1)  # type: ignore[arg-type]
    assert seen[0] == pytest.approx(0.002 * np.arange(1, 11))
    plain = run(burst.at(np.arange(10)))
    assert (result.requests.arrived_at_s == 0).all() and (result.ttft_s > 0).all() and use(result).batches > 0
    assert (result.e2e_s - result.ttft_s > 0).all() and result.ttft_s.mean() > plain.ttft_s.mean()  # type: ignore[attr-defined]


def test_a_script_that_allows_as_many_requests_as_clients_sets_no_limit(tmp_path: Path) -> None:
    """benchmarks/70b_fp8_h100_slurm.sh: max-num-seqs is the number of clients, which an open loop has not; vLLM's default is 1,024."""
    text = OPEN.replace("llama-3.1-8b, device: h100, precision: bf16", "llama-3.1-70b, device: h100, gpus: 4, precision: fp8")
    (tmp_path / "run.yaml").write_text(text)
    configuration = read_configuration(tmp_path / "run.yaml")
    assert configuration.limits().max_batch == 1024
    assert any("70b_fp8_h100" in sentence for sentence in configuration.setup().assumed)
    (tmp_path / "run.yaml").write_text("scheduler: sarathi\n" + text)
    assert "batches are made by sarathi, not by vllm's own scheduler" in read_configuration(tmp_path / "run.yaml").setup().assumed


def test_answers_of_one_token_and_prompts_apart_have_no_interval_of_a_token(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(OPEN.replace("output: {low: 200}", "output: {low: 1}"))
    told = json.loads(run_here("serve", "simulate", str(tmp_path / "run.yaml"), "--json").stdout)
    assert told["tpot_ms"] is told["tpot_lower_ms"] is None and told["ttft_lower_ms"] < told["ttft_ms"] < told["ttft_upper_ms"]
    (tmp_path / "run.yaml").write_text(OPEN + "disaggregation: {prefill_replicas: 1, latency_s: 0.01}\n")
    told = json.loads(run_here("serve", "simulate", str(tmp_path / "run.yaml"), "--json").stdout)
    assert told["ttft_ms"] > 0 and told["ttft_lower_ms"] is None and any("no interval" in text for text in told["assumed"])
