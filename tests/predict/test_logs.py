"""Logs of other people's tools become rows of our case commands; what is measured is read as it is printed."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.errors import InputError
from analysis.predict import compare
from analysis.predict.compare import question
from analysis.predict.logs.read import read
from analysis.serving.points import cases
from tests.golden import answer, kept

LOGS = Path(__file__).parent / "logs"


def only(name: str) -> dict[str, str]:
    (row,) = read(LOGS / name).rows
    return row


def test_vllm() -> None:
    row = only("vllm.json")
    # 163,840 tokens of 160 requests; request_rate inf with max_concurrency 16 is a closed loop
    assert (row["input_tokens"], row["output_tokens"], row["clients"], row["arrival"]) == ("1024", "1024", "16", "closed")
    assert (row["measured_ttft_ms"], row["measured_tpot_ms"], row["measured_output_tokens_per_s"]) == ("78.4", "8.15", "1945.8")
    assert row["engine"] == "vllm" and row["model"] == "meta-llama/Llama-3.1-8B-Instruct"


def test_sglang_lines_with_an_infinite_and_a_finite_rate() -> None:
    closed, poisson = read(LOGS / "sglang.jsonl").rows
    assert (closed["arrival"], closed["clients"], closed["length_low"]) == ("closed", "16", "1")
    assert (poisson["arrival"], poisson["request_rate"], poisson["length_low"], poisson["input_tokens"]) == ("poisson", "2", "0.5", "1024")


@pytest.mark.parametrize("name", ["profile_export_aiperf.json", "profile_export_genai_perf.json"])
def test_aiperf_and_genai_perf(name: str) -> None:
    row = only(name)
    assert (row["input_tokens"], row["output_tokens"], row["clients"], row["requests"]) == ("1024", "1000", "16", "160")
    assert (row["measured_ttft_ms"], row["measured_tpot_ms"], row["measured_requests_per_s"]) == ("81.2", "8.05", "1.95")


def test_aiperf_in_seconds_is_a_thousand_times_as_many_milliseconds(tmp_path: Path) -> None:
    content = json.loads((LOGS / "profile_export_aiperf.json").read_text())
    content["time_to_first_token"] = {"unit": "s", "avg": 0.0812}
    (tmp_path / "a.json").write_text(json.dumps(content))
    assert float(read(tmp_path / "a.json").rows[0]["measured_ttft_ms"]) == pytest.approx(81.2)


def test_inferencex_is_in_seconds_and_a_gpu() -> None:
    plain, drafted = read(LOGS / "inferencex.json").rows
    # utils/process_result.py: *_ms / 1000, output_throughput / tp
    assert float(plain["measured_ttft_ms"]) == pytest.approx(410) and float(plain["measured_tpot_ms"]) == pytest.approx(26.2)
    assert float(plain["measured_output_tokens_per_s"]) == pytest.approx(8 * 259.8)
    assert "nextn" not in plain and drafted["nextn"] == "unknown"


def test_nccl_tests_in_place() -> None:
    log = read(LOGS / "nccl_tests.txt")
    assert log.kind == "collective" and len(log.rows) == 18
    first = log.rows[0]
    # Azure_Results/ND_A100_v4_results.md: 64 KiB in 42.477 us; nccl-tests prints two digits
    assert (first["size_bytes"], first["measured_time_us"]) == ("65536", "42.48")
    assert (first["device"], first["gpus"], first["nodes"], first["collective"]) == ("A100-SXM4-40GB", "8", "1", "all_reduce")


@pytest.mark.parametrize("prefix", ["[1,0]<stdout>:", "[default0]:", "[default0]:[rank0]:", "0: ", "[titan] ", "[2026-11-26 10:00:00] "])
@pytest.mark.parametrize("name", ["torchtitan.log", "mlperf.log", "nccl_tests.txt"])
def test_what_launchers_put_before_a_line_changes_nothing(tmp_path: Path, name: str, prefix: str) -> None:
    """torchrun, mpirun and srun label each rank's lines; a bracket does not make a file JSON."""
    if name == "nccl_tests.txt" and prefix in ("[default0]:[rank0]:", "[titan] ", "[2026-11-26 10:00:00] "):
        pytest.skip("nccl-tests runs under mpirun or srun")
    plain = (LOGS / name).read_text()
    (tmp_path / "a.log").write_text("".join(prefix + line for line in plain.splitlines(True)))
    assert read(tmp_path / "a.log").rows == read(LOGS / name).rows


def test_sizes_whose_results_were_wrong_are_left_out(tmp_path: Path) -> None:
    """#wrong of nccl-tests' table, out of place or in place: such a time is of a collective that did not do its work."""
    rows = [
        "1048576 262144 float sum -1 61.0 17.2 30.1 0 60.0 17.5 30.6 0",
        "2097152 524288 float sum -1 71.0 29.5 51.7 0 70.0 30.0 52.4 12",
        "4194304 1048576 float sum -1 81.0 51.8 90.6 3 80.0 52.4 91.8 0",
        "8388608 2097152 float sum -1 91.0 92.2 161.3 N/A 90.0 93.2 163.1 N/A",
    ]
    head = "# all_reduce_perf\n#  Rank  0 Group  0 Pid 1 on h1 device  0 [0x07] NVIDIA A100\n"
    (tmp_path / "a.txt").write_text(head + "\n".join(rows) + "\n")
    log = read(tmp_path / "a.txt")
    assert [row["measured_time_us"] for row in log.rows] == ["60", "90"] and "2 rows with wrong results" in " ".join(log.notes)
    (tmp_path / "a.txt").write_text(head + rows[1] + "\n")
    with pytest.raises(InputError, match="but 1 with wrong results"):
        read(tmp_path / "a.txt")


def test_a_first_step_alone_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("iteration 1/ 2 | elapsed time per iteration (ms): 9000.0 |\n")
    assert read(tmp_path / "a.log").notes == ("the first step alone, which compiles and warms up",)


def test_megatron_reads_the_plan_from_its_arguments_and_leaves_out_the_warm_up() -> None:
    row = only("megatron.log")
    assert {key: row[key] for key in ("gpus", "tensor_parallel", "kv_heads", "zero", "gated", "tied", "vocabulary", "sequence_length")} == {
        "gpus": "8", "tensor_parallel": "2", "kv_heads": "8", "zero": "1", "gated": "yes", "tied": "no", "vocabulary": "128256",
        "sequence_length": "8192",
    }  # fmt: skip
    assert "virtual_pipeline" not in row and row["precision"] == "bf16"
    assert 12.010 <= float(row["measured_step_s"]) <= 12.050  # without 19.1 s and 12.9 s


def megatron(tmp_path: Path, **changed: str) -> Any:
    """The log with some arguments changed or added, as Megatron prints them."""
    lines = (LOGS / "megatron.log").read_text().splitlines()
    kept = [line for line in lines if not line.strip().startswith(tuple(f"{name} ." for name in changed))]
    kept[2:2] = [f"  {name} {'.' * (48 - len(name))} {value}" for name, value in changed.items()]
    (tmp_path / "m.log").write_text("\n".join(kept))
    return read(tmp_path / "m.log")


def test_megatron_says_its_type_and_its_experts_width(tmp_path: Path) -> None:
    """A run without bf16 and fp16 is in fp32; with experts the layer's width is moe_ffn_hidden_size (Megatron's arguments.py)."""
    assert megatron(tmp_path, bf16="False", fp16="True").rows[0]["precision"] == "fp16"
    assert megatron(tmp_path, bf16="False").rows[0]["precision"] == "fp32"
    assert megatron(tmp_path, fp8="hybrid").rows[0]["precision"] == "fp8"
    mixture = megatron(tmp_path, num_experts="8", moe_ffn_hidden_size="1024", moe_router_topk="2").rows[0]
    assert (mixture["experts"], mixture["top_k"], mixture["ffn"]) == ("8", "2", "1024")


@pytest.mark.parametrize("argument", ["multi_latent_attention", "moe_shared_expert_intermediate_size"])
def test_a_model_that_sizes_do_not_describe_has_to_be_named(tmp_path: Path, argument: str) -> None:
    log = megatron(tmp_path, **{argument: "True" if "multi" in argument else "2048"})
    assert argument in " ".join(log.notes)
    with pytest.raises(InputError, match="does not say model, device: give --model, --device"):
        question(log, {})
    rows, _ = question(log, {"model": "deepseek-v3", "device": "h100_sxm"})
    assert rows.loc[0, "model"] == "deepseek-v3" and "hidden_size" not in rows and rows.loc[0, "gpus"] == "8"


def test_nemo_torchtitan_and_mlperf() -> None:
    assert (only("nemo.log")["measured_step_s"], only("nemo.log")["global_batch"]) == ("3.62", "128")
    titan = only("torchtitan.log")
    # torchtitan's table of December 2024: 5,762 tokens/s/GPU and 82.4 GiB, local batch 2, global batch 16
    assert (titan["measured_tokens_per_s_per_gpu"], titan["measured_memory_gib"]) == ("5762", "82.4")
    assert (titan["gpus"], titan["zero"], titan["micro_batch"], titan["recompute"]) == ("8", "3", "2", "selective")
    lora = only("mlperf.log")
    assert (lora["model"], lora["kind"], lora["sequence_length"]) == ("llama-2-70b", "lora", "8192")
    assert float(lora["measured_step_s"]) == pytest.approx(8 / 3.06)  # 8 sequences at 3.05 or 3.06 a second


def test_what_a_log_does_not_say_is_refused_by_name() -> None:
    log = read(LOGS / "vllm.json")
    with pytest.raises(InputError, match="does not say device, tensor_parallel: give --device, --tensor-parallel"):
        question(log, {})
    with pytest.raises(InputError, match="is no part of a question of serving"):
        question(log, {"device": "h100", "gpus": 1, "zero": 1})
    frame, notes = question(log, {"device": "h100", "gpus": 2, "clients": 8})
    assert frame["gpus"].tolist() == ["2"] and notes == ["clients 8, as the option says, not 16"]
    assert cases.read(frame)[0][0].gemm == "bf16"  # a checkpoint is loaded as it is, here as in every command


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"nothing of the kind\n", "is no log that is known here"),
        ("a.json", b'{"a": 1}', "results of no known client"),
        ("a.json", b'{"mean_ttft_ms": "soon", "completed": 3}', "mean_ttft_ms: expected a number above 0, got 'soon'"),
        ("a.json", b'{"mean_ttft_ms": 3}', "completed: says no number of completed requests"),
        ("a.log", b"iteration 1/ 2 | elapsed time per iteration (ms): nan |\n", "a.log:1: step: expected a number above 0, got 'nan'"),
        (
            "a.log",
            b"step:  9  loss: 1.2  memory: 82.40GiB(86.74%)  tps: nan  mfu: 1%\n",
            "a.log:1: step: expected a number above 0, got 'nan'",
        ),
        ("a.log", b':::MLLOG {"key": \n', "a.log:1: :::MLLOG: is not JSON"),
        (
            "a.csv",
            b"device,gpus,collective,size_bytes\nh100,8,all_reduce,1024\n",
            "has no measured column; expected one of measured_time_us",
        ),
        ("a.csv", b"device,gpus,collective,size_bytes,measured_time_ms\nh100,8,all_reduce,1,2\n", "did you mean measured_time_us"),
        ("a.json", b'{"conc": 4, "mean_ttft": 1, "disagg": true}', "prompts and answers have workers of their own"),
    ],
)
def test_damage_is_one_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        read(tmp_path / name)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_long_log_and_a_long_line_take_bounded_memory(tmp_path: Path) -> None:
    line = b" iteration 1/ 2 | elapsed time per iteration (ms): 12.5 | global batch size: 8 |\n"
    (tmp_path / "long.log").write_bytes(b"x" * (20 << 20) + b"\n" + line * 50_000)
    tracemalloc.start()
    row = read(tmp_path / "long.log").rows[0]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert row["measured_step_s"] == "0.0125" and most < 8 << 20


VLLM = {
    "backend": "vllm",
    "model_id": "m/x",
    "completed": 100,
    "mean_ttft_ms": 71.0,
    "mean_tpot_ms": 7.3,
    "output_throughput": 811.0,
    "request_throughput": 2.3,
    "total_input_tokens": 51_300,
    "total_output_tokens": 20_700,
    "request_rate": "inf",
    "max_concurrency": 16,
}
RESULTS: dict[str, dict[str, Any]] = {
    "closed": {},
    "as many as there are": {"max_concurrency": 100},
    "one fewer": {"max_concurrency": 99},
    "no limit": {"max_concurrency": None},
    "rate": {"request_rate": 3.5},
    "rate and limit": {"request_rate": 3.5, "max_concurrency": 16},
    "bursty": {"request_rate": 3.5, "burstiness": 0.5},
    "no burst": {"request_rate": 3.5, "burstiness": 1.0},
    "rate 0": {"request_rate": 0},
    "random": {"dataset_name": "random", "random_input_len": 1024, "random_output_len": 128, "random_range_ratio": 0.25},
    "random 0": {"dataset_name": "random", "random_input_len": 1024, "random_output_len": 128, "random_range_ratio": 0},
    "lengths": {"input_lens": [300, 500, 600]},
    "lengths 0": {"input_lens": [0, 500]},
    "chat": {"backend": "openai-chat"},
    "engine": {"backend": "sglang-oai"},
    "drafted": {"accept_length": 2.1},
    "ways": {"tensor_parallel_size": "4"},
    "other ways": {"tp": 8},
    "none": {"completed": None},
    "words": {"mean_ttft_ms": "fast"},
    "below": {"mean_tpot_ms": -1},
    "retokenized": {"total_output_tokens_retokenized": 5},
}
OTHERS: dict[str, Any] = {
    "inferencex": {
        "conc": 64,
        "mean_ttft": 0.5,
        "mean_tpot": 0.011,
        "tp": 8,
        "dp_attention": "true",
        "hw": "h200-x",
        "framework": "trt",
        "precision": "fp8",
        "ep": 4,
        "isl": 1024,
        "osl": 512,
        "output_tput_per_gpu": 700.5,
        "model": "m",
    },
    "inferencex drafted": {"conc": 64, "mean_ttft": 0.5, "spec_decoding": "mtp"},
    "inferencex plain": {"conc": 64, "tput_per_gpu": 1, "spec_decoding": "off", "tp": 2},
    "apart": {"conc": 64, "mean_ttft": 0.5, "disagg": True},
    "nodes": {"conc": 64, "mean_ttft": 0.5, "is_multinode": "true"},
    "aiperf": {
        "time_to_first_token": {"unit": "s", "avg": 0.07},
        "inter_token_latency": {"unit": "us", "avg": 7300},
        "input_sequence_length": {"avg": 500, "unit": "tokens"},
        "output_sequence_length": {"avg": 200},
        "output_token_throughput": {"avg": 800},
        "request_count": {"avg": 100},
        "input_config": {"endpoint": {"model_names": ["m"]}, "loadgen": {"concurrency": 16}},
    },
    "aiperf rate": {
        "time_to_first_token": {"unit": "ms", "avg": 70},
        "input_config": {"a": {"b": {"request_rate": 2}}, "model": "m", "request_count": 50},
    },
    "nobody": {"x": 1},
    "no object": [1],
    "two": [VLLM, {**VLLM, "total_output_tokens_retokenized": 5}],
    "infinite": '{"mean_ttft_ms": Infinity, "completed": 3}',
    "broken": "{",
    "empty": "",
}
LINES: dict[str, str] = {
    "megatron": "world_size ...................... 8\ntensor_model_parallel_size ...... 4\n"
    "hidden_size ..................... 4096\nnum_attention_heads ............. 32\nnum_layers ...................... 32\n"
    "seq_length ...................... 4096\nmicro_batch_size ................ 1\n"
    "swiglu .......................... True\ngroup_query_attention ........... True\nnum_query_groups ................ 8\n"
    "untie_embeddings_and_output_weights  True\nuse_distributed_optimizer ....... True\n"
    "bf16 ............................ True\nfp8 ............................. None\nffn_hidden_size ................. 14336\n"
    "num_experts ..................... 8\nmoe_ffn_hidden_size ............. 2048\nmoe_router_topk ................. 2\n"
    + "".join(
        f" iteration {k}/ 9 | elapsed time per iteration (ms): {t} | global batch size: 128 |\n"
        for k, t in enumerate((9000.0, 3100.0, 3000.0, 3300.0, 3200.0))
    ),
    "megatron beyond": "multi_latent_attention .......... True\nhidden_size ..................... 4096\n"
    "fp8 ............................. e4m3\n elapsed time per iteration (ms): 10.0 |\n",
    "nemo": "global_batch_size: 512\n" + "".join(f"train_step_timing in s: {3 + k / 7}\n" for k in range(25)),
    "torchtitan": "Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]\n"
    "local batch size 2, global batch size 8 sequence length 4096\nCompiling with torch.compile\n"
    "Applied selective activation checkpointing\n\x1b[31mstep:  1  loss: 9 memory: 30.10GiB(40%)  tps: 5,000\x1b[0m\n"
    "step: 10  loss: 8 memory: 38.10GiB(48%)  tps: 5,762\n",
    "mlperf": ':::MLLOG {"key": "global_batch_size", "value": 1152}\n'
    ':::MLLOG {"key": "submission_benchmark", "value": "llama31_405b"}\n'
    ':::MLLOG {"key": "max_sequence_length", "value": 8192}\n:::MLLOG {"key": "tracked_stats", "value": {"throughput": 400}}\n'
    ':::MLLOG {"key": "tracked_stats", "value": {"train_step_time": 3.5}}\n',
    "mlperf broken": ":::MLLOG {x\n",
    "step x": "elapsed time per iteration (ms): x\n",
    "step 0": "elapsed time per iteration (ms): 0.0\n",
    "nccl": "# all_reduce_perf\n#  Rank  0 Group  0 Pid 1 on h1 device  0 [0x07] NVIDIA A100\n"
    "#  Rank  1 Group  0 Pid 2 on h2 device  0 [0x08] NVIDIA A100\n  0 0 float sum -1 1.0 0 0 0 1.0 0 0 0\n"
    "  1024  256 float sum -1 10.5 0.1 0.2 0 9.5 0.1 0.2 0\n  2048  512 float sum -1 11.5 0.1 0.2 0\n",
    "nccl two cards": "# alltoall_perf\n#  Rank  0 Group  0 Pid 1 on h1 device  0 [0x07] NVIDIA A100\n"
    "#  Rank  1 Group  0 Pid 2 on h1 device  1 [0x08] NVIDIA H100\n  1024  256 float none -1 10.5 0.1 0.2 N/A\n",
    "unknown": "hello\n",
}


def test_every_kind_of_log(tmp_path: Path) -> None:
    """Rows and notes of each client's and program's output, at the values that change what is read; each refusal in its words."""
    found: dict[str, Any] = {}
    texts = {f"{name}.json": json.dumps({**VLLM, **change}) for name, change in RESULTS.items()}
    texts |= {f"{name}.json": text if isinstance(text, str) else json.dumps(text) for name, text in OTHERS.items()}
    texts |= {f"{name}.log": text for name, text in LINES.items()}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        found[name] = answer(lambda name=name: read(tmp_path / name), tmp_path)  # type: ignore[misc]
    kept("logs", found)


def test_points_beside_answers_by_hand() -> None:
    """Measured over predicted; inside from end to end; rates have ends and explanations turned round, a sender's rate has none."""
    frame = pd.DataFrame(
        {
            "measured_ttft_ms": ["130", "", "70"],
            "measured_tpot_ms": ["8", "0", "9"],
            "measured_output_tokens_per_s": ["500", "700", ""],
            "arrival": ["closed", "poisson", ""],
        }
    )
    table = pd.DataFrame(
        {
            "ttft_ms": 100.0,
            "ttft_lower_ms": 70.0,
            "ttft_upper_ms": 130.0,
            "tpot_ms": 10.0,
            "tpot_lower_ms": 8.5,
            "tpot_upper_ms": 12.0,
            "output_tokens_per_s": 600.0,
            "output_tokens_per_s_lower": 500.0,
            "output_tokens_per_s_upper": 650.0,
            "assumed": "a; b",
            "status": ["", "", "no"],
        }
    )
    parts = [{"ttft_ms": {"queue": (0.5, 0.1), "prompt": (0.5, 0.3)}, "tpot_ms": {"kernels": (0.8, 0.1), "host": (0.2, 0.3)}}] * 3
    found = compare.points("serving", frame, compare.Answered(table, parts, [{}] * 3))
    rows = found[["point", "metric", "ratio", "inside"]].values.tolist()
    assert rows == [
        [1, "ttft_ms", 1.3, "yes"],
        [1, "tpot_ms", 0.8, "no"],
        [1, "output_tokens_per_s", 500 / 600, "yes"],
        [2, "output_tokens_per_s", 700 / 600, "no"],
        [3, "ttft_ms", 0.7, "yes"],
        [3, "tpot_ms", 0.9, "yes"],
    ]
    assert (
        found["explained_by"].tolist()[3] == ""
        and found["explained_by"][0].startswith("prompt x 1.60")
        and found["explained_by"][2].split()[0] in ("host", "kernels")
    )
    told = compare.summary(found)
    assert [(one["metric"], one["points"], one["answered"], one["inside"]) for one in told] == [
        ("ttft_ms", 2, 1, 1),
        ("tpot_ms", 2, 1, 0),
        ("output_tokens_per_s", 2, 2, 1),
    ]
    assert told[0]["median_ratio"] == 1.3 and told[0]["median_error_percent"] == pytest.approx(100 * (1 - 1 / 1.3))
