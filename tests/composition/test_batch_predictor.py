"""Offline batches from a table of cases: laws, refusals and what the benchmark measured."""

import numpy as np
import pandas as pd
import pytest

from analysis import face
from analysis.paths import DATA
from analysis.serving.batch import COLUMNS, FRAMEWORKS, PLATFORMS, SHARES, _assumed, _bounds, answers, case, latency, table
from analysis.studies import datasets
from analysis.tables import read_csv
from analysis.training.shares import ShareFile
from tests.golden import answer, kept

ROW = {
    "hardware": "Nvidia H100 GPU", "devices": "1", "framework": "vLLM", "model": "meta-llama/Meta-Llama-3-8B",
    "input_output_tokens": "1024", "batch_size": "16",
}  # fmt: skip


def one(**change: str) -> pd.Series:
    return answers(pd.DataFrame([{**ROW, **change}])).iloc[0]


@pytest.mark.parametrize(
    "hardware",
    [
        "Nvidia A100 GPU",
        "Nvidia H100 GPU",
        "AMD MI250 GPU",
        "AMD MI300X GPU",
        "Nvidia GH200 GPU",
        "GH200",
        "MI300X",
        "A100 40GB",
        "a100_80gb",
    ]
    + ["Intel Habana Gaudi3", "gaudi3", "Nvidia B200"],
)
def test_every_gpu_of_the_benchmark_is_answered(hardware: str) -> None:
    answer = one(hardware=hardware)
    assert answer["status"] == "" and answer["lower_s"] < answer["latency_s"] < answer["upper_s"]
    assert answer["throughput_tokens_per_s"] == pytest.approx(2 * 1024 * 16 / answer["latency_s"])


@pytest.mark.parametrize(
    ("framework", "hardware"), [("Deepspeed", "Habana Gaudi2"), ("sambaflow", "SambaNova SN40L"), ("llama.cpp", "Intel PVC GPU")]
)
def test_other_accelerators_are_answered(framework: str, hardware: str) -> None:
    assert one(framework=framework, hardware=hardware, devices="8")["status"] == ""


def test_longer_and_larger_batches_take_longer() -> None:
    by_batch = [one(batch_size=str(size))["latency_s"] for size in (1, 16, 32, 64, 128)]
    by_length = [one(input_output_tokens=str(size))["latency_s"] for size in (128, 256, 512, 1024, 2048)]
    assert by_batch == sorted(by_batch) and by_length == sorted(by_length)


def test_input_and_output_may_differ() -> None:
    row = {key: value for key, value in ROW.items() if key != "input_output_tokens"}
    long_output = answers(pd.DataFrame([{**row, "input_tokens": "128", "output_tokens": "1024"}])).iloc[0]
    long_input = answers(pd.DataFrame([{**row, "input_tokens": "1024", "output_tokens": "128"}])).iloc[0]
    assert long_output["latency_s"] > 3 * long_input["latency_s"]


def test_the_batch_of_llama_cpp_is_a_chunk_of_the_prompt() -> None:
    """LLM-Inference-Bench: its latency falls from batch 1 to 64 (Llama-2-7B on H100, 128 tokens: 2.17 to 1.17 s)."""
    small, large = (one(framework="llama.cpp", batch_size=size)["latency_s"] for size in ("1", "64"))
    assert large < 0.7 * small


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"framework": "MyServer"}, "framework"),
        ({"hardware": "TPU-v5e", "framework": "llama.cpp"}, "Google"),
        ({"model": "meta-llama/Llama-2-70b-hf", "hardware": "Nvidia A100 GPU"}, "does not fit"),
        ({"model": "meta-llama/Llama-2-70b-hf", "hardware": "Nvidia A100 GPU", "framework": "llama.cpp"}, "do not fit"),
        ({"batch_size": "0"}, "at least 1"),
        ({"framework": ""}, "framework is missing"),
        ({"devices": "3"}, "do not divide by 3"),
        ({"devices": "3", "hardware": "MI250"}, "3 do not divide them"),
        ({"hardware": "AMD MI300X", "framework": "TensorRT-LLM"}, "NVIDIA's GPUs"),
        ({"hardware": "Nvidia V100", "framework": "TensorRT-LLM"}, "from Ampere on"),
        ({"hardware": "SambaNova SN40L"}, "vLLM runs on"),
        ({"model": "bert-large"}, "encoder"),
        ({"devices": "16", "framework": "llama.cpp"}, "join 8 H100"),
        ({"devices": "100"}, "heads do not divide"),
        ({"model": "nobody/knows"}, "unknown model"),
        ({"input_output_tokens": "nan"}, "whole number"),
    ],
)
def test_what_cannot_be_is_refused(change, word) -> None:
    answer = one(**change)
    assert word in answer["status"] and np.isnan(answer["latency_s"])


def test_columns_and_order() -> None:
    frame = pd.DataFrame([ROW, {**ROW, "framework": "?"}, {**ROW, "batch_size": "1"}])
    out = answers(frame)
    assert tuple(out.columns) == COLUMNS
    assert out["status"].ne("").tolist() == [False, True, False]


def test_rows_that_contradict_themselves_are_found() -> None:
    if not datasets.available("llm_inference_bench/results"):
        pytest.skip("llm_inference_bench: set ANALYSIS_DATASETS or run make data")
    from analysis.studies.serving.batch_study import flags

    frame = pd.read_csv(datasets.find("llm_inference_bench/results"))
    found = flags(frame)
    assert set(frame["framework"][found.str.contains("contradicts_itself")]) == {"llama.cpp"}
    assert set(frame["batch_size"][found.str.contains("contradicts_itself")]) == {16, 32, 64}


def test_a_request_longer_than_the_model_takes_says_so():
    row = {"hardware": "MI300X", "devices": "1", "framework": "vLLM", "batch_size": "1"}
    asked = [("meta-llama/Llama-2-7b-hf", "2048"), ("meta-llama/Llama-2-7b-hf", "4096"), ("facebook/opt-6.7b", "2048")]
    table = answers(pd.DataFrame([row | {"model": model, "input_output_tokens": n} for model, n in asked]))
    assert "takes" not in table["assumed"][0] and "takes 4,096" in table["assumed"][1] and "takes 2,048" in table["status"][2]
    assert list(table["latency_s"].notna()) == [True, True, False]  # learned positions end, rotary ones go on


def in_seconds(**change: str) -> dict[str, float]:
    """The parts of a batch by the shares' priors."""
    found = latency(table([case({**ROW, **change})]), np.array([share.prior for share in SHARES.values()]))
    return {name: float(value[0]) for name, value in found.items()}


def smooth(device: float, host: float) -> float:
    return (device**4 + host**4) ** 0.25


def test_a_batch_by_hand() -> None:
    """Llama 2 7B (32 layers of 32 heads of 128, 6.738 thousand million weights) on one A100 of 40 GB (1,555 GB/s, 312 TFLOP/s), vLLM, two
    prompts of 1,000 tokens and 100 more: weights at 0.75 and cache at 0.5 of the bandwidth, products at half of the peak."""
    found = in_seconds(hardware="A100 40GB", devices="1", framework="vLLM", model="llama-2-7b", batch_size="2", input_output_tokens="",
                       input_tokens="1000", output_tokens="100")  # fmt: skip
    embedding, token = 32_000 * 4096, 2 * 2 * 32 * 32 * 128
    read = 2 * (6.7384e9 - embedding)
    width, body = 32 * 4096, 6.7384e9 - embedding

    def step(tokens: float, context: float) -> float:
        device = read / (0.75 * 1555e9) + 2 * context * token / (0.5 * 1555e9) + 2 * body * tokens / (0.5 * 312e12) + 32 * 40e-6
        return smooth(device, 32 * 90e-6 + 2 * 15e-6)

    attention = 2 * width * 1000**2 * 2 / (0.5 * 0.5 * 312e12)
    assert found["prefill"] == pytest.approx(step(2000, 0) + attention, rel=2e-3)
    assert found["decode"] == pytest.approx(100 * step(2, 1050), rel=2e-3)
    assert found["fixed"] == pytest.approx(0.02) and found["total"] == pytest.approx(sum(found[k] for k in ("prefill", "decode", "fixed")))


def test_a_mixture_on_four_devices_by_hand() -> None:
    """Mixtral 8x7B, sixteen sequences on four A100 of 80 GB: of 8 experts 8 (1 - (3 / 4)^16) are read; two exchanges a layer of 15 us
    (1 + 0.5 x 2), and their bytes twice at 0.6 of NVLink's 300 GB/s."""
    found = in_seconds(hardware="A100-SXM4-80GB", devices="4", framework="vLLM", model="mixtral-8x7b", batch_size="16",
                       input_output_tokens="", input_tokens="100", output_tokens="10")  # fmt: skip
    expert = 3 * 4096 * 14336
    attention = 2 * 4096 * (4096 + 1024) + 4096 * 8 + 2 * 4096
    touched = 8 * (1 - (1 - 2 / 8) ** 16)
    read = 2 * (32 * attention + 4096 * 32_000 + 32 * touched * expert)
    active = 32 * (attention + 2 * expert) + 4096 * 32_000
    cache = 16 * 105 * 2 * 2 * 32 * 8 * 128
    device = read / (0.75 * 4 * 2039e9) + cache / (0.5 * 4 * 2039e9) + 2 * active * 16 / (0.5 * 4 * 312e12)
    device += 2 * 32 * 2 * 16 * 2 * 4096 / 2 / (0.6 * 300e9) + 32 * (2 * 15e-6 * (1 + 0.5 * 2) + 40e-6)
    assert found["decode"] == pytest.approx(10 * smooth(device, 32 * 90e-6 + 16 * 15e-6), rel=5e-3)


def test_sequences_beyond_the_cache_follow_in_waves() -> None:
    """Llama 2 7B, 40 GB: 0.92 of them without weights and a GB hold 22.3 GB of cache; 2,048 tokens of which a fifth of the answer is not
    yet there are 0.97 GB each."""
    asked = {"hardware": "A100 40GB", "devices": "1", "framework": "vLLM", "model": "llama-2-7b", "input_output_tokens": "1024"}
    few, many = (in_seconds(**asked, batch_size=size) for size in ("16", "160"))
    held = (0.92 * 40e9 - 2 * 6.738e9 - 1e9) / (2 * 2 * 32 * 32 * 128) / (1024 + 0.8 * 1024)
    assert 22 < held < 24
    assert many["decode"] > 160 / held * few["decode"] and many["decode"] < 160 / 16 * few["decode"]


def test_frameworks_and_platforms_have_their_own_rates() -> None:
    """Priors: llama.cpp takes 1.3 times the device's time, HIP's port of it 1.26 times that, platforms other than NVIDIA 1.2."""
    shares = {name: share.prior for name, share in SHARES.items()}
    assert shares["busy.llama.cpp"] == 1.3 and shares["host.tensorrt-llm"] == 0.5 and shares["busy.AMD"] == 1.2
    assert all(shares[f"busy.{name}"] == 1.0 for name in ("vllm", "tensorrt-llm", "deepspeed-mii", "deepspeed", "sambaflow"))
    base = {"model": "llama-2-7b", "devices": "1", "batch_size": "1", "input_output_tokens": "1024"}
    slow, fast = (in_seconds(framework=framework, hardware="A100 40GB", **base) for framework in ("vLLM", "TensorRT-LLM"))
    assert slow["fixed"] == pytest.approx(0.02) and fast["fixed"] == pytest.approx(0.01) and fast["decode"] < slow["decode"]


BATCHES: dict[str, dict[str, str]] = {
    "plain": {},
    "two": {"devices": "2", "batch_size": "17"},
    "eight": {"devices": "8", "batch_size": "64", "model": "llama-3-70b", "input_output_tokens": "331"},
    "bridged": {"hardware": "A100-PCIE-80GB", "devices": "4", "batch_size": "3"},
    "a bridge": {"hardware": "A100-PCIE-80GB", "devices": "2", "batch_size": "3"},
    "PCIe": {"hardware": "L40S", "devices": "4", "batch_size": "3"},
    "mixture": {"model": "mixtral-8x7b", "devices": "2", "batch_size": "7"},
    "trt": {"framework": "TRT-LLM", "batch_size": "5"},
    "mii": {"framework": "deepspeed-mii", "batch_size": "5"},
    "deepspeed on Gaudi": {"framework": "deepspeed", "hardware": "Habana Gaudi2", "devices": "4", "batch_size": "11"},
    "llama.cpp": {"framework": "llama.cpp", "batch_size": "13", "devices": "2"},
    "llama.cpp on AMD": {"framework": "llama.cpp", "hardware": "AMD MI250", "batch_size": "2048"},
    "llama.cpp on Intel": {"framework": "llama.cpp", "hardware": "Intel PVC GPU", "batch_size": "1"},
    "two dies": {"hardware": "MI250", "devices": "3", "framework": "llama.cpp"},
    "MI300X": {"hardware": "AMD MI300X GPU", "devices": "8", "batch_size": "32", "model": "mixtral-8x7b"},
    "sockets": {"framework": "sambaflow", "hardware": "SambaNova SN40L", "devices": "8", "batch_size": "4", "model": "llama-3-70b"},
    "waves": {"hardware": "A100 40GB", "batch_size": "160", "input_output_tokens": "2039"},
    "no cache left": {"hardware": "A100 40GB", "model": "qwen2.5-14b", "devices": "1", "batch_size": "9", "input_output_tokens": "8009"},
    "lengths apart": {"input_output_tokens": "", "input_tokens": "1013", "output_tokens": "107"},
    "beyond the context": {"model": "meta-llama/Llama-2-7b-hf", "input_output_tokens": "2049"},
    "at the context": {"model": "meta-llama/Llama-2-7b-hf", "input_output_tokens": "2048"},
    "GH200": {"hardware": "GH200"},
    "16": {"precision": "16"},
    "FP16": {"precision": " FP16 ", "kind": "Static"},
    "batch": {"batch_size": "", "batch": "6"},
    "fp8": {"precision": "fp8"},
    "kind": {"kind": "poisson"},
    "no hardware": {"hardware": " "},
    "no such": {"hardware": "H1000"},
    "both": {"input_tokens": "5"},
    "both ways": {"output_tokens": "5"},
    "neither": {"input_output_tokens": ""},
    "MLA": {"model": "deepseek-v3"},
    "linear": {"model": "mamba2-2.7b"},
    "mt": {"model": "mamba-2.8b"},
    "half": {"batch_size": "1.5"},
    "nine": {"devices": "9"},
    "no 16 bits": {"hardware": "P4"},
    "4 of 32": {"devices": "4"},
    "deepspeed 3": {"framework": "deepspeed", "devices": "3"},
    "learned": {"model": "facebook/opt-6.7b", "input_output_tokens": "1024"},
    "learned more": {"model": "facebook/opt-6.7b", "input_output_tokens": "1025"},
    "weights": {"model": "llama-3-70b"},
    "weights of two": {"model": "llama-3-70b", "devices": "2"},
    "trt on Gaudi": {"framework": "trtllm", "hardware": "Gaudi2"},
}


def test_every_kind_of_batch() -> None:
    """What each row is read as or refused with, and its parts by shares of our own (primes), as the formulas of `latency` and the tests
    by hand above have them; the fitted shares do not enter."""
    shares = np.array([0.7 + 0.013 * k if not name.endswith("_s") else 1e-5 * (3 + k) for k, name in enumerate(SHARES)])
    found: dict[str, object] = {"shares": [[name, share.prior, share.spread] for name, share in SHARES.items()]}
    for name, change in BATCHES.items():
        row = {**ROW, **change}
        said = answer(lambda row=row: case(row))
        if isinstance(said, str):
            found[name] = said
            continue
        read = case(row)
        batches = table([read])
        parts = {part: float(value[0]) for part, value in latency(batches, shares).items()}
        found[name] = [
            read.device.name,
            read.platform,
            read.device.dies,
            read.devices,
            read.framework,
            read.sequences,
            parts,
        ]
        numbers = {"framework": FRAMEWORKS.index(read.framework), "vendor": PLATFORMS.index(read.platform)}
        numbers |= {"chunked": read.framework == "llama.cpp", "streamed": read.framework == "sambaflow"}
        numbers |= batches.drop(columns=["framework", "platform"]).iloc[0].to_dict()
        found[name] += [{field: float(value) for field, value in numbers.items()}, _assumed(read)]
    rows = answers(pd.DataFrame([{**ROW, **change} for change in BATCHES.values()]).fillna(""))
    found["status"] = dict(zip(BATCHES, rows["status"], strict=True))
    found["throughput"] = [x * t for x, t in zip(rows["throughput_tokens_per_s"], rows["latency_s"], strict=True) if x == x]
    found["widths"] = [
        _bounds(ShareFile.model_construct(stretch={"NVIDIA": (-0.3, 0.5), "other": (-0.7, 1.1)}), name)
        for name in ("NVIDIA", "AMD", "Intel")
    ]
    kept("batch", found)


def test_the_release_of_an_engine_is_read_or_named() -> None:
    """vLLM of 2024 does not mix prompts into steps (its scheduler V0); llama.cpp's releases change nothing here, which the answer says."""
    today, old = one(), one(engine_version="0.6")
    assert today["latency_s"] != old["latency_s"] and "vllm 0.6" in old["assumed"]
    assert "engine_version b3000 not used" in one(framework="llama.cpp", engine_version="b3000")["assumed"]


def test_one_command_alone_answers_static_batches_on_devices_of_several_dies() -> None:
    """LLM-Inference-Bench counts the dies of an MI250 and the stacks of a Max 1550, which a served point does not know."""
    for device in ("MI250", "Max-1550"):
        asked = {"model": "llama-3-8b", "device": device, "engine": "vllm", "clients": 16, "input_tokens": 512, "output_tokens": 512}
        assert "predict batch" in face.predict_serving({**asked, "arrival": "static"})["status"][0]
        served = face.predict_serving(asked).iloc[0]
        assert served["status"] == "" and "sees its 2 dies as GPUs" in served["assumed"]
        assert "LLM-Inference-Bench timed them in 2024" in one(hardware=device)["assumed"]


def test_a_single_token_takes_the_time_to_the_first() -> None:
    asked = {"model": "llama-3-8b", "device": "h100", "engine": "vllm", "clients": 1, "input_tokens": 512, "output_tokens": 2}
    served = face.predict_serving({**asked, "arrival": "static"}).iloc[0]
    batch = one(input_output_tokens="", input_tokens="512", output_tokens="1", batch_size="1", model="llama-3-8b")
    for mine, theirs in zip(COLUMNS[:3], ("ttft_ms", "ttft_lower_ms", "ttft_upper_ms"), strict=True):
        assert batch[mine] == pytest.approx(1e-3 * served[theirs])
    assert batch["throughput_tokens_per_s"] == pytest.approx(513 / batch["latency_s"]) and "one token" in batch["assumed"]


def test_a_batch_ends_with_its_last_sequence() -> None:
    """Of 160 sequences of 2,048 tokens an A100 of 40 GB holds a part (TensorRT-LLM admits what fits to its end): the others follow."""
    asked = {"model": "llama-2-7b", "engine": "trtllm", "device": "A100-SXM4-40GB", "input_tokens": 1024, "output_tokens": 1024}
    served = face.predict_serving({**asked, "arrival": "static", "clients": 160}).iloc[0]
    held = served["most_requests"]
    few, many = (
        one(framework="TensorRT-LLM", hardware="A100-SXM4-40GB", model="llama-2-7b", batch_size=str(n))["latency_s"] for n in (held, 160)
    )
    assert 10 < held < 60 and 0.8 * 160 / held * few < many < 1.2 * np.ceil(160 / held) * few
    assert many > 1e-3 * (served["ttft_ms"] + 1023 * served["tpot_ms"])  # their mean


def test_measured_static_batches() -> None:
    """TensorRT-LLM 0.9's own table of April 2024 (data/published/served_panel.csv, trtllm_0_9_static): four fifths within 1.3 times."""
    rows = read_csv(DATA / "published" / "served_panel.csv", dtype=str, keep_default_na=False).query("arrival == 'static'")
    names = {"system": "hardware", "tp_size": "devices", "backend": "framework", "model_path": "model", "gemm_quant_mode": "precision"}
    kept_columns = ["input_tokens", "output_tokens", "batch_size", "engine_version", *names.values()]
    found = face.predict_batch(rows.rename(columns=names)[kept_columns])
    measured = rows["measured_latency_s"].astype(float).to_numpy()
    off = found["latency_s"].to_numpy() / measured
    assert len(rows) == 64 and (found["status"] == "").all() and np.median(np.abs(off - 1)) < 0.13
    assert ((off < 1.3) & (off > 1 / 1.3)).mean() > 0.8
    assert ((found["lower_s"].to_numpy() <= measured) & (measured <= found["upper_s"].to_numpy())).mean() > 0.85
