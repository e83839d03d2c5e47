"""Whose file is it that no reader here takes? Its kind by what stands at its beginning, and what is taken in its place."""

from __future__ import annotations

import re
from pathlib import Path

LOOKED_AT = 65_536
"""Bytes at a file's beginning that say whose it is."""
PLAN = "`train` takes model, system and plan as YAML (`train --example`): say there what this one says of"
SERVED = "`predict one` takes its model, GPUs and engine settings as options, `serve simulate` as `steps` (`serve --example`)"
PROFILE = "it has no sizes of its kernels' operands: record a PyTorch trace with record_shapes=True, and give that to `kernels profile`"
CONFIG = "give the config.json of its checkpoint"
RATES = "`compare` takes a CSV with the columns of `predict serving` and measured_ttft_ms or measured_tpot_ms"

KINDS: tuple[tuple[str, bytes, str], ...] = (
    ("a database of Nsight Systems, or another of SQLite", rb"\ASQLite format 3", PROFILE),
    ("a table of Nsight Systems", rb"\A[^\n]*Total Time \(ns\)[^\n]*Instances", PROFILE),
    ("a table of Nsight Compute", rb'"?Kernel Name"?,[^\n]*"?Metric Name"?', PROFILE),
    ("a trace of PyTorch's profiler", rb'"traceEvents"', "`kernels profile` takes it"),
    ("weights in GGUF", rb"\AGGUF", CONFIG),
    ("an index of weights", rb'"weight_map"\s*:', CONFIG),
    ("a table of genai-perf or AIPerf", rb"\A[^\n]*avg[^\n]*\n(?s:.)*Time To First Token \(ms\)", "`compare` takes the JSON beside it"),
    ("a summary of MLPerf inference", rb"MLPerf Results Summary", RATES),
    ("a result of LLMPerf", rb'"results_ttft_s', RATES),
    ("a report of trtllm-bench", rb'"system_output_throughput_tok_s"', RATES),
    ("a configuration of DeepSpeed", rb'"(train_micro_batch_size_per_gpu|train_batch_size|zero_optimization)"\s*:',
     f"{PLAN} zero, microbatch and global_batch"),
    ("a configuration of Accelerate", rb"(?m)^(compute_environment|distributed_type):", f"{PLAN} zero, precision and GPUs"),
    ("a configuration of Axolotl", rb"(?m)^base_model:", f"{PLAN} sequence_length, microbatch and global_batch"),
    ("a configuration of torchtune", rb"(?m)^\s*_component_:", f"{PLAN} sequence_length, microbatch and global_batch"),
    ("a configuration of NeMo", rb"(?m)^(trainer|exp_manager):", f"{PLAN} degrees of parallelism and batch"),
    ("a configuration of MaxText", rb"(?m)^(base_emb_dim|per_device_batch_size|ici_\w+_parallelism):",
     f"{PLAN} degrees of parallelism and batch"),
    ("a command line of Megatron-LM", rb"--(tensor-model-parallel-size|num-attention-heads)\b",
     f"{PLAN} degrees of parallelism and batch; `compare` takes its log"),
    ("a configuration of Ray Serve", rb"(?m)^applications:|llm_configs:", SERVED),
    ("a manifest of Kubernetes", rb"(?m)^apiVersion:", SERVED),
)  # fmt: skip
"""Kind of file, how its beginning looks, and what is taken in its place; the first that matches."""


def kind(path: str | Path) -> str:
    """What a refused file is and what is taken in its place; empty where neither is known."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(LOOKED_AT)
    except (OSError, ValueError):
        return ""
    if re.search(rb"(?m)^(plan|steps):", head):  # a file of ours, with a word that is not
        return ""
    return next((f"is {what}: {instead}" for what, looks, instead in KINDS if re.search(looks, head)), "")
