"""Files of other tools that no reader takes: one line says what the file is and what is taken in its place, whatever the command."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.configs import read_yaml
from analysis.foreign import LOOKED_AT, PATH, Kinds, kind

KINDS = [each.what for each in read_yaml(PATH, Kinds).kinds]

FILES = {
    "nsys.sqlite": (b"SQLite format 3\0" + bytes(80), "compare", "a database of Nsight Systems"),
    "sum.csv": (b'Time (%),Total Time (ns),Instances,Name\n60.0,1200000,100,"gemm"\n', "compare", "a table of Nsight Systems"),
    "ncu.csv": (b'"ID","Kernel Name","Metric Name","Metric Value"\n"0","g","t","1"\n', "compare", "a table of Nsight Compute"),
    "kineto.json": (b'{"schemaVersion": 1, "traceEvents": []}', "compare", "a trace of PyTorch's profiler"),
    "genai.csv": (b"Metric,avg,min\nTime To First Token (ms),90.0,80.0\n", "compare", "a table of genai-perf"),
    "summary.txt": (b"=====\nMLPerf Results Summary\n=====\nScenario : Server\n", "compare", "a summary of MLPerf inference"),
    "llmperf.json": (b'{"results_ttft_s_mean": 0.2, "model": "x"}', "compare", "a result of LLMPerf"),
    "trtllm.json": (b'{"performance": {"system_output_throughput_tok_s": 1000.0}}', "compare", "a report of trtllm-bench"),
    "ds.json": (b'{"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3}}', "train", "a configuration of DeepSpeed"),
    "accelerate.yaml": (b"distributed_type: FSDP\nnum_processes: 8\n", "train", "a configuration of Accelerate"),
    "axolotl.yaml": (b"base_model: meta-llama/Llama-3.1-8B\nadapter: lora\n", "train", "a configuration of Axolotl"),
    "tune.yaml": (b"model:\n  _component_: torchtune.models.llama3_1\nbatch_size: 2\n", "train", "a configuration of torchtune"),
    "nemo.yaml": (b"trainer:\n  devices: 8\nmodel:\n  micro_batch_size: 1\n", "train", "a configuration of NeMo"),
    "maxtext.yaml": (b"base_emb_dim: 4096\nper_device_batch_size: 4\n", "train", "a configuration of MaxText"),
    "run.sh": (b"torchrun pretrain_gpt.py --tensor-model-parallel-size 4 --bf16\n", "train", "a command line of Megatron-LM"),
    "ray.yaml": (b"applications:\n- name: llm\n", "serve simulate", "a configuration of Ray Serve"),
    "k8s.yaml": (b"apiVersion: apps/v1\nkind: Deployment\n", "serve simulate", "a manifest of Kubernetes"),
    "model.safetensors.index.json": (b'{"weight_map": {"a": "b"}}', "predict one --device l40s --model", "an index of weights"),
    "cases.json": (b'[\n {"model": "llama-3.1-8b",\n  "gpus": "8"}\n]', "predict training", "a list of JSON records"),
    "cases.jsonl": (b'{"op": "gemm", "M": 1}\n{"op": "gemm", "M": 2}\n', "kernels predict", "a list of JSON records"),
    "llama.gguf": (b"GGUF\x03\0\0\0", "predict one --device l40s --model", "weights in GGUF"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_foreign_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    content, command, what = FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    assert main([*command.split(), str(path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {path}: is {what}") and said.count("\n") == 1 and re.search("`|config.json", said)
    assert sum(one.startswith(what) for one in KINDS) == 1


def test_every_kind_is_tried() -> None:
    tried = [what for _, _, what in FILES.values()]
    assert all(any(one.startswith(what) for what in tried) for one in KINDS)


def test_a_file_of_ours_with_a_wrong_word_keeps_its_own_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("base_model: llama-3-8b\nsystem: HGX-H100\nplan: {global_batch: 8, sequence_length: 4096}\n")
    assert main(["train", str(path)]) == 2 and "run.yaml:1: base_model: unknown key, did you mean model?" in capsys.readouterr().err
    path.write_text("model: {layers: 2, trainer: 1}\nsystem: HGX-H100\nplan: {global_batch: 8, sequence_length: 4096}\n")
    assert (
        main(["train", str(path)]) == 2 and "run.yaml:1: model.trainer: unknown key" in capsys.readouterr().err
    )  # not the validator's name
    assert kind(tmp_path / "nowhere") == "" and kind(tmp_path) == ""


def test_the_command_that_takes_a_kind_says_what_is_wrong_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": []}')
    assert main(["kernels", "profile", str(path), "--device", "h100"]) == 2
    assert "takes it" not in capsys.readouterr().err


@pytest.mark.parametrize("word", ["avg", "Total Time (ns)", "Kernel Name,", "llm_configs"])
def test_a_long_line_of_a_mark_is_told_at_once(tmp_path: Path, word: str) -> None:
    path = tmp_path / "long.csv"
    path.write_text(word * (LOOKED_AT // len(word)))
    begun = time.process_time()
    kind(path)
    assert time.process_time() - begun < 1
