"""Offline batches from a table of cases: laws, refusals and what the benchmark measured."""

import pandas as pd
import pytest

from analysis import datasets
from analysis.errors import InputError
from analysis.serving.batch.answers import COLUMNS, answers
from analysis.serving.batch.cases import case

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
        ({"hardware": "TPU-v5e"}, "Google"),
        ({"model": "meta-llama/Llama-2-70b-hf", "hardware": "Nvidia A100 GPU"}, "do not fit"),
        ({"batch_size": "0"}, "at least 1"),
        ({"framework": ""}, "framework is missing"),
        ({"devices": "3"}, "3 do not divide them"),
        ({"hardware": "AMD MI300X", "framework": "TensorRT-LLM"}, "NVIDIA's GPUs"),
        ({"hardware": "Nvidia V100", "framework": "TensorRT-LLM"}, "from Ampere on"),
        ({"hardware": "SambaNova SN40L"}, "vLLM runs on"),
        ({"model": "bert-large"}, "encoder"),
        ({"devices": "16"}, "join 8 H100"),
        ({"model": "nobody/knows"}, "unknown model"),
        ({"input_output_tokens": "nan"}, "whole number"),
    ],
)
def test_what_cannot_be_is_refused(change, word) -> None:
    with pytest.raises(InputError, match=word):
        case({**ROW, **change})
    assert word in one(**change)["status"]


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
