"""Measured systems of others: their original layouts become the tables that the suite reads, without the runs kept back."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from pathlib import Path

import pandas as pd
import pytest
from publishing.dataset_server import FileServer

from analysis.artifact.publishing.fetching import download as downloading
from analysis.artifact.publishing.fetching.convert import CONVERTERS
from analysis.artifact.publishing.fetching.fetch import fetch, sources
from analysis.errors import InputError
from analysis.studies import datasets

BENCH = "bench/examples"
PERF = "profiler/perf/RTXPRO6000/Qwen/Qwen3-32B/bf16/tp2"
VTRAIN = (
    "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,"
    "tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)"
)
FOUNDRY = (
    "|  Model | SeqLen (T) | # GPUs | GPU | MFU | HFU | Model TFLOP | MicroBatchSize | GradAccum | GlobalBatchSize | Throughput (S/s) "
    "| Throughput (T/s) | Throughput (T/s/GPU) | GlobalBatchSize (T) | Precision | MP Mode | Sharding Strategy | Activation Checkpointing "
    "| Activation CPUOffload | NumParams |\n" + "| " + " --- |" * 20
)
BRIDGE = (
    "| System | #-GPUs | Precision | GBS | MBS | Sequence Length |{} TP | PP | CP | VP | EP | Tokens / sec / GPU "
    "| Model TFLOP / sec / GPU |\n|--------|--------|-----------|-----|-----|-----------------|{}"
    "----|----|----|----|----|-----------------------|-------------------------|"
)


def request(name: str, arrived: float, engine: float) -> str:
    clock = {"queued_ts": engine, "scheduled_ts": engine + 0.5, "first_token_ts": engine + 1.25, "last_token_ts": engine + 3.0000004}
    return json.dumps({"request_id": name, "input_toks": 100, "output_toks": 7, "arrival_time": arrived, **clock})


META = {
    "schema_version": 1,
    "model": "Qwen/Qwen3-32B",
    "vllm_version": "0.19.0",
    "engine_kwargs": {"max_num_seqs": 128, "max_model_len": None},
    "dataset_hash": "05e4",
    "num_requests": 2,
    "tick_seconds": 1.0,
}

# Layouts as in the repositories at the pinned commits; the values are made up, those of kept-back runs all 666.
ORIGINALS: dict[str, dict[str, str]] = {
    "vtrain": {
        "data/ground_truth_single.csv": f"\ufeff{VTRAIN}\n2,16,8,1024,16,24,1024,1,1,2,372.160408\n4,8,1,2048,16,12,1024,2,2,1,90.50\n",
        "data/ground_truth_multi.csv": f"\ufeff# parameters (B),{VTRAIN}\n3.6,64,512,8,3072,32,30,2048,1,64,1,3566.5\n"
        "18.4,256,1024,1,6144,48,40,2048,8,32,1,666\n39.1,512,1536,2,8192,64,48,2048,2,32,8,21890\n175,1024,1536,1,12288,96,96,2048,8,16,8,666\n",
    },
    "llm_inference_bench": {
        "Plots/All_results.csv": "Hardware,Num of Hardware,Framework,Model,Input Output Length,Batch Size,Latency,Throughput\r\n"
        "Nvidia A100 GPU,1,vLLM,meta-llama/Llama-2-7b-hf,128,16,2.5922341346740723,1580.10\r\n"
        "AMD MI300X GPU,1,vLLM,meta-llama/Llama-2-7b-hf,128,16,666,666\r\nNvidia GH200 GPU,1,vLLM,a/b,128,1,666,666\r\n"
        "SambaNova SN40L,8,sambaflow,meta-llama/Llama-2-7b-hf,1024,1,0.25,8192\r\n"
    },
    "llm_foundry": {
        "scripts/train/benchmarking/README.md": f"# Benchmarks\n\n```\n| no table\n```\n## H100 80GB BF16\n{FOUNDRY}\n"
        "|  70b | 2048 | 512 | h100_80gb | 41.25 | 55.0 | 408 | 8 | 1 | 4096 | 251 | 515636 | 1007 | 8388608 | amp_bf16 | DEFAULT "
        f"| FULL_SHARD | True | False | 64862437376 |\n\n## A100 80GB\n\n{FOUNDRY}\n"
        "|  1b | 512 | 8 | a100_80gb | 29.06 | 29.06 | 90 | 56 | 4 | 1792 | 1098 | 562523 | 70315 | 917504 | bf16 | PURE "
        "| FULL_SHARD | False | False | 1312804864 |\n"
    },
    "megatron_bridge": {
        "docs/performance-summary.md": "# Summary\n\n---\n\n## 26.08 NeMo Container\n\n"
        "### Pre-Training Performance\n\n#### Model: DeepSeekV3\n\n"
        + BRIDGE.format("", "")
        + "\n| DGX-GB200 | 256 | MXFP8 | 4096 | 1 | 4096 | 1 | 2 | 1 | 8 | 32 | 666 | 666 |\n",
        "docs/performance-summary-archive.md": "# Archive\n\n## 26.06.01 NeMo Container\n\n"
        "### Pre-Training Performance\n\n#### Model: GPT OSS 120B\n\n"
        + BRIDGE.format("", "")
        + "\n| DGX-GB300 | 64 | MXFP8 | 1280 | 4 | 4096 | 1 | 1 | 1 | n/a | 64 | 666 | 666 |\n"
        "| DGX-GB200 | 64 | MXFP8 | 1280 | 4 | 4096 | 1 | 1 | 1 | n/a | 64 | 18304 | 597 |\n\n- a note\n\n"
        "### SFT Performance\n\n#### Model: LLAMA3_70B\n\n"
        + BRIDGE.format(" FSDP |", "------|")
        + "\n| DGX-H100 | 32 | FP8 | 32 | 1 | 4096 | 0 | 4 | 4 | 1 | 5 | n/a | 1638 | 710 |\n\n"
        "## 25.11 NeMo Container\n\n### Pre-Training Performance\n\n#### System: DGX-H100\n\n"
        "| Model | #-GPUs | GA | Tokens / sec / GPU |\n|---|---|---|---|\n| LLAMA3_70B | 64 | 1 | 666 |\n",
    },
    "llmservingsim": {
        f"{BENCH}/RTXPRO6000/Qwen3-32B/vllm/requests.jsonl": "\n".join(
            [request("bench-0", 1777143013.5, 479923.125), request("bench-1", 1777143014.75, 479924.125), ""]
        ),
        f"{BENCH}/RTXPRO6000/Qwen3-32B/vllm/meta.json": json.dumps(META),
        f"{BENCH}/RTX4090/Llama-3.1-8B/vllm/requests.jsonl": request("bench-0", 666, 666),
        f"{BENCH}/RTXPRO6000/Qwen3-30B-A3B-Instruct-2507/vllm/requests.jsonl": request("bench-0", 666, 666),
        f"{PERF}/dense.csv": "layer,tokens,time_us\nact_fn,1,2.67733\n",
        f"{PERF}/skew_fit.csv": "not converted\n",
    },
    "pipeweave": {
        "e2e/real/e2e_L20.jsonl": '{"run_name": "Qwen2.5-14B-arxiv_8", "batch_size": 8, "input_len": 3866, "output_len": 122, '
        '"total_prefill_tokens": 27966, "total_decode_tokens": 976, "iterations": 3, "prefill_latency": 7.618526154896244, '
        '"median_decode_latency": 0.051367181120440364, "total_latency": 13.847587109077722, "overall_throughput": 2090.0}\n',
        "e2e/real/e2e_tp2_RTX_6000_Ada.jsonl": '{"run_name": "Qwen3-32B-arxiv_12", "batch_size": 12, "input_len": 3866, "output_len": 122, '
        '"total_prefill_tokens": 1, "total_decode_tokens": 2, "iteration": 0, "prefill_latency": 1.5, "median_decode_latency": 0.5, '
        '"total_latency": 13.0}\n',
    },
}
TABLES = {
    "vtrain": ["multi_node.csv", "single_node.csv"],
    "llm_inference_bench": ["results.csv"],
    "llm_foundry": ["mpt_training.csv"],
    "megatron_bridge": ["pretraining.csv"],
    "llmservingsim": [
        "profiles/rtxpro6000_qwen3-32b_tp2_dense.csv.gz",
        "rtxpro6000_qwen3-32b_meta.json",
        "rtxpro6000_qwen3-32b_requests.csv",
    ],
    "pipeweave": ["e2e_real_runs.csv"],
}


def converted(folder: Path, dataset: str, change: dict[str, str] | None = None) -> dict[str, bytes]:
    """Tables of one dataset's small files, with some of them changed."""
    originals = {}
    for number, (path, text) in enumerate((ORIGINALS[dataset] | (change or {})).items()):
        if CONVERTERS[dataset].needed(path):
            originals[path] = folder / f"{number}-{Path(path).name}"
            originals[path].write_bytes(text.encode())
    return dict(CONVERTERS[dataset].tables(originals))


def table(content: bytes) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(content), keep_default_na=False)


@pytest.mark.parametrize("dataset", sorted(TABLES))
def test_no_table_holds_a_run_that_is_kept_back(dataset: str, tmp_path: Path) -> None:
    made = converted(tmp_path, dataset)
    assert sorted(made) == TABLES[dataset]
    for name, content in made.items():
        text = (gzip.decompress(content) if name.endswith(".gz") else content).decode()
        assert text.strip() and "666" not in text.replace("6666", "")


@pytest.mark.parametrize("dataset", sorted(TABLES))
def test_columns_are_those_of_the_tables_that_the_suite_reads(dataset: str, tmp_path: Path) -> None:
    """The same columns in the same order as the tables of ANALYSIS_DATASETS, where it holds them."""
    made = {name: content for name, content in converted(tmp_path, dataset).items() if name.endswith((".csv", ".gz"))}
    if not all(datasets.available(f"{dataset}/{name}") for name in made):
        pytest.skip("the tables are not here: run `make data`, or set ANALYSIS_DATASETS")
    for name, content in made.items():
        packed = {"compression": "gzip"} if name.endswith(".gz") else {}
        assert list(pd.read_csv(io.BytesIO(content), **packed)) == list(datasets.load(f"{dataset}/{name}")), name  # type: ignore[call-overload]


def test_vtrain_keeps_numbers_as_written_and_the_sizes_that_are_given(tmp_path: Path) -> None:
    made = converted(tmp_path, "vtrain")
    assert made["single_node.csv"].decode().splitlines()[1:] == [
        "2,16,8,1024,16,24,1024,1,1,2,372.160408",
        "4,8,1,2048,16,12,1024,2,2,1,90.50",
    ]
    several = table(made["multi_node.csv"])
    assert list(several["parameters_billion"]) == [3.6, 39.1] and list(several["iteration_time_ms"]) == [3566.5, 21890]


def test_batches_keep_rows_that_are_given_in_their_order(tmp_path: Path) -> None:
    rows = converted(tmp_path, "llm_inference_bench")["results.csv"].decode().splitlines()
    assert rows[1:] == [
        "Nvidia A100 GPU,1,vLLM,meta-llama/Llama-2-7b-hf,128,16,2.5922341346740723,1580.10",
        "SambaNova SN40L,8,sambaflow,meta-llama/Llama-2-7b-hf,1024,1,0.25,8192",
    ]


def test_markdown_tables_become_one(tmp_path: Path) -> None:
    foundry = converted(tmp_path, "llm_foundry")["mpt_training.csv"].decode().splitlines()
    assert foundry[1] == "70b,2048,512,h100_80gb,41.25,55.0,408,8,1,4096,251,515636,1007,amp_bf16,FULL_SHARD,True,64862437376"
    assert foundry[2].startswith("1b,512,8,a100_80gb,") and len(foundry) == 3
    assert converted(tmp_path, "megatron_bridge")["pretraining.csv"].decode().splitlines()[1:] == [
        "26.06.01,Pre-Training,GPT OSS 120B,DGX-GB200,64,MXFP8,1280,4,4096,,1,1,1,n/a,64,18304,597",
        "26.06.01,SFT,LLAMA3_70B,DGX-H100,32,FP8,32,1,4096,0,4,4,1,5,n/a,1638,710",
    ]


def test_clocks_of_served_requests_start_at_zero(tmp_path: Path) -> None:
    made = converted(tmp_path, "llmservingsim")
    found = table(made["rtxpro6000_qwen3-32b_requests.csv"])
    assert list(found["arrived_s"]) == [0, 1.25] and list(found["queued_s"]) == [0, 1] and list(found["last_token_s"]) == [3, 4]
    assert list(json.loads(made["rtxpro6000_qwen3-32b_meta.json"])) == ["model", "vllm_version", "engine_kwargs", "num_requests"]
    profile = gzip.decompress(made["profiles/rtxpro6000_qwen3-32b_tp2_dense.csv.gz"])
    assert profile.decode() == ORIGINALS["llmservingsim"][f"{PERF}/dense.csv"]


def test_served_batches_are_named_by_their_gpu(tmp_path: Path) -> None:
    found = table(converted(tmp_path, "pipeweave")["e2e_real_runs.csv"])
    assert list(found["hardware"]) == ["L20", "tp2 RTX 6000 Ada"] and list(found["iteration"].astype(str)) == ["", "0"]
    assert list(found["prefill_latency"]) == [7.618526154896244, 1.5]


@pytest.mark.parametrize(
    ("dataset", "path", "text", "message"),
    [
        ("vtrain", "data/ground_truth_single.csv", "# GPUs,global batch\n2,16\n", "missing column"),
        ("vtrain", "data/ground_truth_multi.csv", f"{VTRAIN}\n" + "1," * 10 + "1\n", "expected the model's size"),
        ("vtrain", "data/ground_truth_multi.csv", f"size,{VTRAIN}\nbig," + "1," * 10 + "1\n", ":2: parameters_billion: is not a number"),
        ("vtrain", "data/ground_truth_multi.csv", f"size,{VTRAIN}\n175," + "1," * 10 + "1\n", "has no run of"),
        ("llm_inference_bench", "Plots/All_results.csv", "Hardware,Latency\nA100,1\n", "missing column"),
        ("llm_foundry", "scripts/train/benchmarking/README.md", f"{FOUNDRY}\n| 70b | 2048 |\n", ":3: row of 2 cells under a header of 20"),
        ("llm_foundry", "scripts/train/benchmarking/README.md", "# nothing\n", "has no table"),
        ("megatron_bridge", "docs/performance-summary.md", "# nothing\n", "System: has no table"),
        ("megatron_bridge", "docs/performance-summary.md", "| System | TP |\n|---|---|\n| DGX-H100 | 1 |\n", "#-GPUs: expected a release"),
        ("llmservingsim", f"{BENCH}/RTXPRO6000/Qwen3-32B/vllm/requests.jsonl", '{"request_id": "a"}\n', ":1: input_toks: is missing"),
        ("llmservingsim", f"{BENCH}/RTXPRO6000/Qwen3-32B/vllm/requests.jsonl", "{}\n{", ":2: is not JSON"),
        ("llmservingsim", f"{BENCH}/RTXPRO6000/Qwen3-32B/vllm/requests.jsonl", "", "is empty"),
        ("llmservingsim", f"{BENCH}/RTXPRO6000/Qwen3-32B/vllm/meta.json", "[]", "is not a JSON object"),
        ("llmservingsim", f"{BENCH}/RTXPRO6000/Qwen3-32B/vllm/meta.json", '{"model": "a"}', "vllm_version: is missing"),
        ("pipeweave", "e2e/real/e2e_L20.jsonl", '{"run_name": "a"}', ":1: batch_size: is missing"),
    ],
)
def test_a_layout_that_is_not_known_is_one_line(dataset: str, path: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        converted(tmp_path, dataset, {path: text})
    assert message in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("dataset", sorted(TABLES))
def test_an_altered_or_truncated_original_is_one_line_and_no_table(dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloading.time, "sleep", lambda _: None)
    server, rows = FileServer(), ["dataset,repository,commit,path,bytes,sha256"]
    for path, text in ORIGINALS[dataset].items():
        content = text.encode()
        server.files[f"owner/{dataset}/c0ffee/{path}"] = content
        rows.append(f"{dataset},owner/{dataset},c0ffee,{path},{len(content)},{hashlib.sha256(content).hexdigest()}")
    listing, target = tmp_path / "files.csv", tmp_path / "d"
    listing.write_text("\n".join(rows) + "\n")
    name = next(f"owner/{dataset}/c0ffee/{path}" for path in ORIGINALS[dataset] if CONVERTERS[dataset].needed(path))
    whole = server.files[name]
    with server.running():
        for content, message in ((whole[:-1] + b"x", "digest differs"), (whole[:-1], "bytes arrived; expected")):
            server.files[name] = content
            with pytest.raises(InputError, match=message) as refused:
                fetch(only=[dataset], target=target, base=server.address, listing=listing)
            assert "\n" not in str(refused.value) and not (target / dataset).exists()
        server.files[name] = whole
        assert fetch(only=[dataset], target=target, base=server.address, listing=listing) == len(TABLES[dataset])


def test_the_committed_list_holds_every_original_and_no_kept_back_run() -> None:
    listed: dict[str, list[str]] = {}
    for file in sources():
        listed.setdefault(file.dataset, []).append(file.path)
    counts = {name: len(listed[name]) for name in sorted(TABLES) if name != "pipeweave"}
    # LLMServingSim: requests and settings of two runs; four tables of kernels for each of seven GPUs and models, one of experts
    assert counts == {"vtrain": 2, "llm_inference_bench": 1, "llm_foundry": 1, "megatron_bridge": 2, "llmservingsim": 2 * 2 + 7 * 4 + 1}
    assert sum(path.startswith("e2e/real/") for path in listed["pipeweave"]) == 19
    assert all(CONVERTERS[name].needed(path) for name in counts for path in listed[name])
    assert not any("/vllm/" in path and ("RTX4090" in path or "30B" in path) for path in listed["llmservingsim"])
    assert not any(word in path for path in listed["pipeweave"] for word in ("moe_dse", "gemm_fp8_test"))
