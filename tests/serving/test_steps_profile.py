"""Step times from a profile and from data sheets."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from analysis.errors import InputError
from analysis.hardware import devices
from analysis.paths import DATA
from analysis.serving.limits import Limits
from analysis.serving.points.simulation import RooflineSteps
from analysis.serving.requests import make_requests
from analysis.serving.simulate import simulate
from analysis.serving.step_time.profile import from_batches, prompt_shape, read_profile
from analysis.serving.step_time.roofline import Roofline, experts_reached, kv_blocks, operators, roofline, tokens_s
from analysis.serving.steps import StepTime
from analysis.serving.tables import batches_table
from analysis.studies.serving.agreement import vidur_requests
from analysis.studies.serving.load import predict
from analysis.tables import read_csv
from analysis.workloads import models

RECORDED = DATA / "recorded" / "vidur"
FITTED = [RECORDED / f"batches_{run}.csv.gz" for run in ("vllm_200_qps2", "vllm_200_qps8", "vllm_long_200_qps2", "sarathi_long_200_qps2")]


@pytest.fixture(scope="module")
def profile() -> StepTime:
    return read_profile(FITTED)


@pytest.mark.parametrize("run", ["orca_200_qps2", "sarathi_200_qps8", "lightllm_200_qps2", "faster_transformer_200_qps2"])
def test_profile_gives_step_times_of_other_runs(profile: StepTime, run: str) -> None:
    # Recorded by VIDUR (data/recorded/vidur); none of these runs is in the profile.
    batches = read_csv(RECORDED / f"batches_{run}.csv.gz")
    truth = batches["total_time_s"].to_numpy()
    errors = np.abs(predict(profile, batches) / truth - 1)
    assert errors.mean() < 0.002
    assert errors.max() < 0.1
    trivial = np.abs(truth.mean() / truth - 1).mean()
    assert errors.mean() < trivial / 50


@pytest.mark.parametrize(("scheduler", "rate"), [("vllm", 16.0), ("sarathi", 4.0), ("orca", 8.0), ("lightllm", 8.0)])
def test_profile_gives_mean_latency_of_other_rates(profile: StepTime, scheduler: str, rate: float) -> None:
    # Mean E2E of VIDUR at rates whose batches were not recorded (vidur_summary_all.csv).
    summary = read_csv(RECORDED / "vidur_summary_all.csv")
    row = summary[(summary["scheduler"] == scheduler) & (summary["qps"] == rate) & (summary["num_requests"] == 200)].iloc[0]
    result = simulate(vidur_requests(200, rate, 42), scheduler, profile)
    assert result.e2e_s.mean() == pytest.approx(row["e2e_avg"], rel=0.005)


def test_prediction_is_what_the_event_loop_charges(profile: StepTime) -> None:
    result = simulate(vidur_requests(60, 8.0, 7), "sarathi", profile, record_batches=True)
    table = batches_table(result)
    assert result.batches is not None
    done = dict.fromkeys(range(60), 0)
    prompts = result.requests.prefill_tokens
    rows = []
    for members, tokens in zip(table["request_ids"], table["num_tokens"], strict=True):
        pieces, cached = [], []
        for request, count in zip(map(int, members.split()), map(int, tokens.split()), strict=True):
            if done[request] < prompts[request]:
                pieces.append(f"{done[request]}:{count}")
                done[request] += count
                done[request] += int(done[request] == prompts[request])
            else:
                cached.append(done[request])
                done[request] += 1
        total = sum(map(int, tokens.split()))
        rows.append((total, len(cached), ";".join(pieces) or None, float(np.mean(cached)) if cached else 0.0))
    batches = pd.DataFrame(rows, columns=["total_tokens", "n_decode", "prefill_kv_chunk", "decode_kv_mean"])
    np.testing.assert_allclose(predict(profile, batches), result.batches.rows["duration"], rtol=1e-9)


def test_prompt_shape() -> None:
    context, root = prompt_shape(pd.DataFrame({"prefill_kv_chunk": ["0:3;10:4", None]}))
    assert context.tolist() == [10.0, 0.0]
    assert root.tolist() == [5.0, 0.0]


def test_profile_of_one_size_is_refused() -> None:
    batches = read_csv(FITTED[0])
    with pytest.raises(InputError, match="at least two sizes"):
        from_batches(batches[batches["rounded_tokens"] == 8])


LLAMA = models.load("llama-2-7b")
MIXTRAL = models.load("mixtral-8x7b")
A100 = devices.load("A100-SXM4-80GB")


def test_decode_of_one_request_reads_the_weights() -> None:
    # Llama-2-7B has 6.738e9 parameters, of which the input embedding (32,000 x 4,096) and the norms are not read as matrices:
    # 2 bytes x 6.607e9 over 2.039e12 bytes/s (NVIDIA's data sheet) = 6.48 ms a token.
    steps = roofline(Roofline(LLAMA, A100))
    result = simulate(make_requests(np.zeros(1), np.array([1]), np.array([101])), "sarathi", steps)
    matrices = LLAMA.parameters - LLAMA.hidden * LLAMA.vocabulary - (2 * LLAMA.layers + 1) * LLAMA.norm_parameters
    alone = 2.0 * matrices / A100.memory_bandwidth_bytes_per_s
    assert alone == pytest.approx(6.48e-3, rel=0.005)
    assert (result.e2e_s[0] - result.ttft_s[0]) / 100 == pytest.approx(alone, rel=0.01)


def test_long_prompt_is_bound_by_arithmetic() -> None:
    # 2 FLOP a weight and token: 2 x 6.476e9 (blocks alone) x 4,096 / 312e12 FLOP/s (data sheet, dense fp16).
    weights = sum(o.count * o.inputs * o.outputs for o in operators(LLAMA))
    assert tokens_s(Roofline(LLAMA, A100), np.array([4096.0]))[0] == pytest.approx(2 * weights * 4096 / 312e12, rel=1e-9)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 4000), st.integers(1, 500), st.sampled_from([1, 2, 4, 8]))
def test_roofline_laws(tokens: int, more: int, devices_: int) -> None:
    few, many = (tokens_s(Roofline(MIXTRAL, A100, devices_), np.array([float(n)]))[0] for n in (tokens, tokens + more))
    assert 0 < few <= many
    apart = tokens_s(Roofline(MIXTRAL, A100, devices_), np.array([float(more)]))[0]
    assert many <= (few + apart) * (1 + 1e-12)  # one batch is never slower than two


@given(st.integers(1, 64), st.data())
def test_experts_reached(experts: int, data: st.DataObject) -> None:
    chosen = data.draw(st.integers(1, experts))
    reached = experts_reached(np.array([0.0, 1.0, 2.0, 1e6]), experts, chosen)
    assert reached[0] == 0
    assert reached[1] == pytest.approx(chosen)
    assert (np.diff(reached) >= -1e-9).all()
    assert reached[3] <= experts * (1 + 1e-12)


def test_experts_reached_as_drawn() -> None:
    generator = np.random.default_rng(0)
    drawn = [len({*generator.permuted(np.tile(np.arange(8), (5, 1)), axis=1)[:, :2].ravel()}) for _ in range(4000)]
    assert np.mean(drawn) == pytest.approx(float(experts_reached(np.array(5.0), 8, 2)), rel=0.01)


def test_model_that_does_not_fit() -> None:
    with pytest.raises(InputError, match="does not fit 1 x A100"):
        kv_blocks(Roofline(models.load("llama-2-70b"), A100))
    # 68,976,648,192 parameters of 2 bytes; 80 layers x 8 heads x 128 x 2 bytes, keys and values, 16 tokens a block; 0.9 of four GPUs,
    # of whose 80 GiB the driver offers 98.5 %, less 4 GiB each
    room = 0.9 * 4 * 80 * 2**30 * 0.985 - 2 * 68_976_648_192 - 4 * 4 * 2**30
    assert kv_blocks(Roofline(models.load("llama-2-70b"), A100, 4)) == room // (16 * 2 * 80 * 8 * 128 * 2)


def test_bad_settings() -> None:
    with pytest.raises(InputError, match="no fp8 rate"):
        roofline(Roofline(LLAMA, A100, dtype="fp8"))
    asked = {"kind": "roofline", "model": "llama-2-7b", "device": "A100-SXM4-80GB"}
    for name in ("memory_share", "compute_share", "link_share", "tensor_parallel"):
        with pytest.raises(ValidationError, match=name):
            RooflineSteps(**asked, **{name: 0})


def test_profile_beyond_its_edge_goes_on_upwards(profile: StepTime) -> None:
    short = simulate(make_requests(np.zeros(1), np.array([8000]), np.array([2])), "vllm", profile, Limits(max_batch_tokens=20000))
    longer = simulate(make_requests(np.zeros(1), np.array([16000]), np.array([2])), "vllm", profile, Limits(max_batch_tokens=20000))
    assert longer.ttft_s[0] > 1.8 * short.ttft_s[0]
