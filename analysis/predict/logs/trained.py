"""Training logs and nccl-tests' output, line by line: what a step took, and what the program printed of its plan.

| log | a step is told by | the plan by |
|---|---|---|
| Megatron-LM | `elapsed time per iteration (ms): 12936.1` | the dump of its arguments (`tensor_model_parallel_size ... 8`) |
| NeMo | `train_step_timing in s: 3.13`, also with `=` | `global_batch_size: 512` |
| torchtitan | `step: 10 ... memory: 38.1GiB(48%) tps: 5,762` | `device mesh with ['dp_shard'], [8]`, `global batch size 8, ...` |
| MLPerf | `:::MLLOG {"key": "tracked_stats", ...` | `global_batch_size`, `max_sequence_length`, `submission_benchmark` |
| nccl-tests | a row a size, in place | `# Rank 0 Group 0 Pid 1 on host device 0 [0x07] NVIDIA H100`, the name of the test |

A step is the median of all but the first tenth, which warms up. Sources: the programs' own code (NVIDIA/Megatron-LM megatron/training,
NVIDIA-NeMo/NeMo, pytorch/torchtitan torchtitan/components/metrics.py, mlcommons/logging, NVIDIA/nccl-tests src/common.cu), 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.predict.logs.log import MOST_POINTS, Log, number, text_of

MOST_STEPS = 1_000_000
Lines = Iterator[tuple[int, str]]
MARKS = {
    "MLPerf": re.compile(r":::MLLOG\s*\{"),
    "Megatron-LM": re.compile(r"elapsed time per iteration \(ms\):\s*([^\s|]+)"),
    "NeMo": re.compile(r"train_step_timing in s\s*[:=]\s*([^\s|,\]]+)"),
    "torchtitan": re.compile(r"\bstep:\s*\d+\s.*?memory:\s*([\d.]+)GiB.*?\btps:\s*([\w,.]+)"),
    "nccl-tests": re.compile(
        r"^(?:\s*\d+:)?\s*(\d+)\s+\d+\s+\w+\s+\w+\s+-?\d+\s+([\d.]+)\s+[\d.]+\s+[\d.]+\s+(\S+)(?:\s+([\d.]+)\s+[\d.]+\s+[\d.]+\s+(\S+))?\s*$"
    ),
}
"""Program -> what its measured lines look like."""

_ARGUMENT = re.compile(r"^(?:\[?\d+\]?:)?\s*([a-z][a-z0-9_]*) \.{3,} (.+?)\s*$")
_BATCH = re.compile(r"global[ _]batch[ _]size[:=]?\s*(\d+)")


class Words(Strict):
    """`data/workloads/training_logs.yaml`: what programs print, and what it means here."""

    arguments: dict[str, str]
    sizes: tuple[str, ...]
    beyond: tuple[str, ...]
    benchmarks: dict[str, dict[str, str]]


WORDS = read_yaml(DATA / "workloads" / "training_logs.yaml", Words)
MESH = {"tp": "tensor_parallel", "pp": "pipeline_parallel", "cp": "context_parallel", "ep": "expert_parallel"}
COLLECTIVE = re.compile(r"\b(all_reduce|all_gather|reduce_scatter|broadcast|reduce|alltoall|sendrecv)_perf\b")
KINDS = {"alltoall": "all_to_all", "sendrecv": "send_recv"}
RANK = re.compile(r"#\s+Rank\s+\d+\s.*?\bon\s+(\S+)\s+device\s+\d+\s+\[\S+\]\s+(.+?)\s*$")


def read(path: str | Path, tool: str, lines: Lines) -> Log:
    """A log of a known program of `MARKS`."""
    return nccl_tests(path, lines) if tool == "nccl-tests" else _trained(path, tool, lines)


def _trained(path: str | Path, tool: str, lines: Lines) -> Log:
    row: dict[str, Any] = {"program": {"Megatron-LM": "megatron", "torchtitan": "fsdp", "MLPerf": "nemo"}.get(tool, tool.lower())}
    steps: list[float] = []
    memory, arguments = 0.0, {}
    for at, line in lines:
        if tool == "Megatron-LM" and (found := _ARGUMENT.match(line)):
            arguments[found[1]] = found[2]
        elif tool == "MLPerf":
            steps += _mlperf(line, row, path, at)
        if tool in ("Megatron-LM", "NeMo") and (found := _BATCH.search(line)):
            row["global_batch"] = found[1]
        if tool == "torchtitan":
            _mesh(line, row)
        if tool != "MLPerf" and (found := MARKS[tool].search(line)):
            value = number(found[found.lastindex or 1], path, "step", at)
            assert value is not None
            steps.append(value / 1e3 if tool == "Megatron-LM" else value)
            memory = max(memory, number(found[1], path, "memory", at) or 0.0) if tool == "torchtitan" else 0.0
        if len(steps) > MOST_STEPS:
            raise InputError(f"more than {MOST_STEPS:,} steps", path=path, line=at)
    if not steps:
        raise InputError(f"has no step of {tool}", path=path)
    row |= {name: row.get(name) or value for name, value in _megatron(arguments).items()}
    beyond = row.pop("beyond", "")
    kept = steps[max(1, len(steps) // 10) :] or steps
    measured = "measured_tokens_per_s_per_gpu" if tool == "torchtitan" else "measured_step_s"
    notes = [f"median of {len(kept)} of {len(steps)} steps: the first tenth is left out"]
    notes = notes if len(steps) > 1 else ["the first step alone, which compiles and warms up"]
    notes += [f"{beyond}: the sizes that the log prints do not describe such a model"] if beyond else []
    return Log("training", tool, [text_of(row | {measured: median(kept), "measured_memory_gib": memory or None})], tuple(notes))


def _megatron(said: dict[str, str]) -> dict[str, Any]:
    """Columns from the dump of Megatron's arguments."""
    given = {name: value for name, value in said.items() if value not in ("None", "")}
    row: dict[str, Any] = {ours: given[theirs] for theirs, ours in WORDS.arguments.items() if theirs in given}
    if not given:
        return row
    if "experts" in row:
        row["ffn"] = given.get("moe_ffn_hidden_size", row.get("ffn"))
    if given.get("group_query_attention") == "True":
        row["kv_heads"] = given.get("num_query_groups")
    row["gated"] = "yes" if given.get("swiglu") == "True" else "no"
    row["tied"] = "no" if given.get("untie_embeddings_and_output_weights") == "True" else "yes"
    row["zero"] = "1" if given.get("use_distributed_optimizer") == "True" else "0"
    half = next((kind for kind in ("bf16", "fp16") if given.get(kind) == "True"), "fp32")
    row["precision"] = "fp8" if given.get("fp8") else half
    row["recompute"] = row.get("recompute", "none")
    if beyond := [name for name in WORDS.beyond if given.get(name, "False") != "False"]:
        return {name: value for name, value in row.items() if name not in WORDS.sizes} | {"beyond": ", ".join(beyond)}
    row["model"] = "as its arguments say"
    return row


def _mesh(line: str, row: dict[str, Any]) -> None:
    """What torchtitan prints of its mesh and batch, put into the row."""
    if found := re.search(r"device mesh with \[([^\]]*)\], \[([\d, ]+)\]", line):
        names, sizes = re.findall(r"'(\w+)'", found[1]), [int(size) for size in re.findall(r"\d{1,9}", found[2])]
        for name, size in zip(names, sizes, strict=False):
            row[MESH.get(name, "")] = size
        gpus = 1
        for size in sizes:
            gpus = min(gpus * size, 10**9)
        row["gpus"] = gpus
        if any(name.startswith("dp_shard") for name in names):
            row["zero"] = "3"
        row.pop("", None)
    if found := re.search(r"local batch size (\d+).*?global batch size (\d+).*?sequence length (\d+)", line):
        row |= {"micro_batch": found[1], "global_batch": found[2], "sequence_length": found[3]}
    if "with torch.compile" in line:
        row["program"] = "fsdp_compiled"
    if found := re.search(r"Applied (full|selective) activation checkpointing", line):
        row["recompute"] = found[1]


def _mlperf(line: str, row: dict[str, Any], path: str | Path, at: int) -> list[float]:
    """Steps that a line of MLPerf's log holds (s); its facts of the run are put into the row."""
    from analysis.documents import parse_json

    if ":::MLLOG" not in line:
        return []
    try:
        told = parse_json(line.partition(":::MLLOG")[2].strip(), path, python=True)
    except InputError as error:
        raise InputError(error.message, path=path, line=at, key=":::MLLOG") from None
    key, value = (told.get("key"), told.get("value")) if isinstance(told, dict) else (None, None)
    if key == "global_batch_size":
        row["global_batch"] = value
    elif key in ("max_sequence_length", "sequence_length"):
        row["sequence_length"] = value
    elif key == "submission_benchmark":
        row |= WORDS.benchmarks.get(str(value), {})
    elif key == "tracked_stats" and isinstance(value, dict):
        if value.get("train_step_time"):
            return [number(value["train_step_time"], path, "train_step_time", at) or 0.0]
        if value.get("throughput") and row.get("global_batch"):
            rate, batch = (number(each, path, "throughput", at) or 1.0 for each in (value["throughput"], row["global_batch"]))
            return [batch / rate]
    return []


def nccl_tests(path: str | Path, lines: Lines) -> Log:
    """Times of nccl-tests or rccl-tests, in place where they are there."""
    kind, hosts, names, sizes = "", set(), set(), []
    ranks, wrong = 0, 0
    for at, line in lines:
        if found := RANK.search(line):
            ranks += 1
            hosts.add(found[1])
            names.add(found[2].removeprefix("NVIDIA ").removeprefix("AMD "))
        elif found := MARKS["nccl-tests"].match(line):
            if {found[3], found[5]} - {"0", "N/A", None}:
                wrong += 1
            elif float(found[1]) > 0:
                sizes.append({"size_bytes": found[1], "measured_time_us": number(found[4] or found[2], path, "time", at)})
        elif found := COLLECTIVE.search(line):
            kind = KINDS.get(found[1], found[1])
        if len(sizes) > MOST_POINTS:
            raise InputError(f"more than {MOST_POINTS:,} rows", path=path, line=at)
    if not sizes:
        raise InputError("has no row of a size and a time" + f" but {wrong} with wrong results (#wrong)" * bool(wrong), path=path)
    left = [f"{wrong} rows with wrong results (#wrong) are left out"] if wrong else []
    run = {"device": names.pop() if len(names) == 1 else None, "gpus": ranks or None, "nodes": len(hosts) or None, "collective": kind}
    return Log("collective", "nccl-tests", [text_of(run | size) for size in sizes], ("times in place", *left))
