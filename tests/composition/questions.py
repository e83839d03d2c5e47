"""Is anything that a question says ignored in silence? Every case command is asked with each of its columns changed, one at a time.

Each change is one of: a misspelt column, another command's, the user's own; a word or a number that a column cannot hold; another value
that it can; a plan that cannot fit; a device that nobody measured. It must be *refused*, *modelled* (the numbers change) or *named* (a
sentence says so); a change after which the answer is word for word the same was *ignored*.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

import pandas as pd

from analysis.case_columns import COMMANDS, carried, read_as, reads
from analysis.errors import InputError

Row = dict[str, str]
Kind = Literal["refused", "modelled", "named", "ignored"]
KINDS: tuple[Kind, ...] = ("refused", "modelled", "named", "ignored")
NO_WORDS = ("nonsense", "-3", "0.37")
"""What no column holds, but for names and prices."""
LISTS = ("prices", "sure")
LABELS = ("silicon_data_source",)
"""Columns that say where a measured row comes from, in any words."""
ALIKE = ("scheduling_policy", "silicon_data_source")
"""Columns without another value: a policy orders several collectives, and a row has one."""

ANSWERS = {
    "predict training": "analysis.training.answers:answers",
    "predict batch": "analysis.serving.batch:answers",
    "predict serving": "analysis.serving.points.answers:answers",
    "predict recommend": "analysis.predict.recommend.choice:answers",
    "predict collective": "analysis.networks.collective_cases:answers",
    "collectives": "analysis.networks.case_table:answer_cases",
    "systolic": "analysis.accelerators.systolic.cases:predict_cases",
    "kernels predict": "analysis.kernels.cases:answers",
}

DEVICE_WORDS = {
    "predict training": ("device", "assumed", "in no measured run|is in measured runs of .* alone"),
    "predict batch": ("hardware", "assumed", "is in no measured batch|no calibrated run has device"),
    "predict serving": ("system", "assumed", "no calibrated run has device"),
    "predict collective": ("device", "assumed", "was measured"),
    "kernels predict": ("device", "source", "unmeasured gpu|data sheet"),
}
"""Of a command: the column of the device, the one with words, and what it says of a device that nobody measured."""
SMALL = {
    "predict training": "model=llama3-8b gpus=8 sequence_length=4096 global_batch=64 micro_batch=1 program=fsdp zero=3 recompute=full",
    "predict batch": "devices=1 framework=vllm model=llama-2-7b input_tokens=512 output_tokens=128 batch_size=4",
    "predict serving": "backend=vllm model_path=llama-3.1-8b mode=agg tp_size=1 isl=512 osl=128 batch_size=4",
    "predict collective": "gpus=2 collective=all_reduce size_bytes=1048576",
    "kernels predict": "op=gemm dtype=fp16 M=512 N=4096 K=4096",
}
"""A small question of each, to ask of every device."""
CANNOT_FIT = {
    "predict training": (
        "model=llama3-70b device=h100 gpus=1 sequence_length=4096 global_batch=8",
        "model=llama3-8b device=L4 gpus=1 sequence_length=2048 global_batch=8 micro_batch=1",
        "model=deepseek-v3 device=h200 gpus=64 sequence_length=4096 global_batch=512 micro_batch=1",
        "model=llama3.1-405b device=b200 gpus=64 sequence_length=8192 global_batch=128 tensor_parallel=8 pipeline_parallel=1",
        "model=llama3-8b device=h100 gpus=8 sequence_length=131072 global_batch=8 micro_batch=1 program=fsdp zero=3 recompute=none",
        "model=llama3-70b device=a100 gpus=1 sequence_length=8192 global_batch=8 kind=lora",
    ),
    "predict batch": (
        "hardware=h100 devices=1 framework=vllm model=llama-2-70b input_tokens=128 output_tokens=128 batch_size=1",
        "hardware=A100-SXM4-40GB devices=2 framework=vllm model=mixtral-8x7b input_tokens=128 output_tokens=128 batch_size=1",
        "hardware=L4 devices=1 framework=vllm model=llama-2-13b input_tokens=128 output_tokens=128 batch_size=1",
    ),
    "predict serving": (
        "backend=vllm model_path=llama-3.1-405b system=h200_sxm mode=agg tp_size=2 isl=512 osl=128 batch_size=4 gemm_quant_mode=fp8",
        "backend=vllm model_path=llama-3.1-8b system=L4 mode=agg tp_size=1 isl=120000 osl=128 batch_size=1 gemm_quant_mode=bf16",
        "backend=sglang model_path=deepseek-v3 system=h100_sxm mode=agg tp_size=8 moe_tp_size=8 isl=512 osl=128 batch_size=1",
        "backend=vllm model_path=gemma-3-27b-it system=rtx4090 mode=agg tp_size=1 isl=512 osl=128 batch_size=1 gemm_quant_mode=bf16",
        "backend=trtllm model_path=llama-3.1-70b system=L40S mode=agg tp_size=1 isl=512 osl=128 batch_size=1 gemm_quant_mode=fp8",
    ),
    "kernels predict": (
        "op=gemm device=h100 dtype=bf16 M=400000 N=400000 K=400000",
        "op=attention_decode device=L4 dtype=bf16 batch=64 query_heads=64 kv_heads=64 head_size=128 kv_tokens=131072",
        "op=moe device=L4 dtype=bf16 tokens=16 experts=512 top_k=8 hidden=7168 intermediate=2048",
    ),
}
"""Plans and operands that no card of theirs holds."""


@dataclass(frozen=True)
class Question:
    """A row that its command answers, and what may be asked instead.

    Args:
        row: the base; others: another value that a column may hold, by column; too_large: cells of a plan that cannot fit; unmeasured:
            cells that name a device without measurements.
    """

    command: str
    row: Row
    others: Row
    too_large: Row
    unmeasured: Row


@dataclass(frozen=True)
class Asked:
    """What became of one change."""

    command: str
    change: str
    kind: Kind


def _words(text: str) -> Row:
    return dict(pair.split("=", 1) for pair in text.split())


QUESTIONS = (
    Question(
        "predict training",
        _words("model=llama3-70b device=h100 gpus=64 sequence_length=8192 global_batch=128 micro_batch=1 tensor_parallel=4 "
               "pipeline_parallel=4 precision=bf16"),
        _words("model=llama3-8b hidden_size=4096 attention_heads=32 layers=40 ffn=11008 gated=no kv_heads=4 head_size=64 experts=8 top_k=2 "
               "tied=yes vocabulary=32000 device=h200 system=DGX-A100 gpus=128 gpus_per_node=4 network_gbit_per_s_per_gpu=100 program=nemo "
               "framework_version=24.09 "
               "kind=lora sequence_length=4096 global_batch=256 micro_batch=2 accumulation=16 tensor_parallel=8 virtual_pipeline=5 "
               "pipeline_parallel=8 data_parallel=8 context_parallel=2 expert_parallel=2 zero=3 zero_group=2 precision=fp8 recompute=full "
               "fp8_recipe=rowwise async_tensor_parallel=no bucket_mb=100 output_layer=dealt optimizer=sgd gradient_precision=bf16 "
               "weight_precision=bf16 power_limit_w=400 memory_gb=96"),
        _words("model=llama3.1-405b gpus=8 tensor_parallel=8 pipeline_parallel=1 global_batch=8"),
        _words("device=A30"),
    ),
    Question(
        "predict training",
        _words("hidden_size=4096 attention_heads=32 layers=32 vocabulary=32000 device=h100 gpus=8 sequence_length=4096 global_batch=64"),
        _words("hidden_size=2048 attention_heads=16 layers=16 ffn=11008 gated=yes kv_heads=8 head_size=64 tied=yes vocabulary=128256 "
               "micro_batch=2 zero=3 recompute=full"),
        _words("hidden_size=32768 attention_heads=256 layers=100"),
        _words("device=L4"),
    ),
    Question(
        "predict batch",
        _words("hardware=h100 devices=4 framework=vllm model=llama-2-70b input_tokens=1024 output_tokens=512 batch_size=16"),
        _words("hardware=a100 devices=8 framework=tensorrt-llm model=llama-2-7b input_tokens=512 output_tokens=256 input_output_tokens=128 "
               "batch_size=32 precision=fp8 kind=online engine_version=0.6.1"),
        _words("devices=1"),
        _words("hardware=L4 model=llama-2-7b devices=1"),
    ),
    Question(
        "predict serving",
        _words("backend=vllm model_path=meta-llama/Llama-3.1-70B-Instruct system=h100_sxm mode=agg tp_size=4 isl=1024 osl=1024 "
               "batch_size=16 gemm_quant_mode=fp8"),
        _words("backend=sglang model_path=Qwen/Qwen3-32B system=h200_sxm mode=disagg tp_size=8 gpus=8 isl=4096 osl=256 batch_size=64 "
               "gemm_quant_mode=bf16 moe_quant_mode=nvfp4 precision=bf16 kvcache_quant_mode=fp8 backend_version=0.6.1 pp_size=2 "
               "attention_dp_size=2 moe_tp_size=2 moe_ep_size=2 max_num_seqs=4 max_batched_tokens=512 memory_utilization=0.7 "
               "request_rate=1 arrival=offline requests=500 length_low=0.2 "
               "engine_version=0.6.1 draft=eagle nextn=2 acceptance=0.8 prefix=512 lora_adapters=4 lora_rank=8"),
        _words("model_path=meta-llama/Llama-3.1-405B-Instruct tp_size=1 gemm_quant_mode=bf16"),
        _words("system=A30 model_path=meta-llama/Llama-3.1-8B-Instruct tp_size=1"),
    ),
    Question(
        "predict recommend",
        _words("model=llama-3.1-70b devices=h100_sxm max_gpus=4 engines=vllm tpot_target_ms=40"),
        _words("model=llama-3.1-8b devices=h200_sxm max_gpus=8 engines=trtllm precision=bf16 input_tokens=4096 output_tokens=256 "
               "modes=disagg grid_g_per_kwh=300 "
               "requests_per_s=20 ttft_target_ms=500 tpot_target_ms=20 prices=h100_sxm=2.5 tokens=1e12 vocabulary=32000 hidden_size=4096 "
               "attention_heads=32 layers=40"),
        _words("model=llama-3.1-405b max_gpus=1 precision=bf16"),
        _words("model=llama-3.1-8b devices=A30 max_gpus=1"),
    ),
    Question(
        "predict collective",
        _words("device=h100 gpus=16 nodes=2 network_gbit_per_s_per_gpu=400 collective=all_reduce size_bytes=1048576"),
        _words("device=a100 gpus=32 nodes=4 network_gbit_per_s_per_gpu=100 collective=all_gather size_bytes=33554432"),
        {},
        _words("device=L4"),
    ),
    Question(
        "collectives",
        _words("backend=Congestion_Unaware collective=all_reduce size_bytes=1048576 topology=Ring+Switch npus_per_dim=4x8 "
               "bandwidth_gib_per_s=400x50 latency_ns=500x1000 algorithm_per_dim=ring+ring"),
        _words("backend=Congestion_Aware collective=all_gather size_bytes=2097152 topology=Switch+Ring npus_per_dim=8x4 "
               "bandwidth_gib_per_s=200x50 latency_ns=500x2000 algorithm_per_dim=ring+direct preferred_dataset_splits=8 "
               "active_chunks_per_dim=2 queues_per_dim=4 endpoint_delay=500 local_mem_bw_GBps=100 "
               "collective_optimization=baseline npus=31"),
        {},
        {},
    ),
    Question(
        "systolic",
        _words("M=3136 N=64 K=128 array_rows=32 array_cols=32 dataflow=ws"),
        _words("M=100 N=128 K=256 array_rows=16 array_cols=16 dataflow=os sparsity=2:4"),
        {},
        {},
    ),
    Question(
        "kernels predict",
        _words("op=gemm device=h100_sxm dtype=bf16 M=4096 N=8192 K=8192"),
        _words("op=attention_prefill device=h200_sxm dtype=fp8 M=64 N=64 K=64 kv_dtype=fp8 "
               "framework=sglang version=0.1.0 distribution=balanced "
               "implementation=nccl batch=8 query_heads=32 kv_heads=8 head_size=128 query_tokens=512 kv_tokens=512 tokens=64 experts=8 "
               "top_k=2 hidden=4096 intermediate=1024 bytes=1024 devices=8 window=128 tensor_parallel=2 expert_parallel=2 B=4 H=64 "
               "latency_ms=1.5"),
        {},
        _words("device=A30"),
    ),
)  # fmt: skip


def _answer(command: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    module, _, name = ANSWERS[command].partition(":")
    found: Callable[[pd.DataFrame], pd.DataFrame] = getattr(import_module(module), name)
    return found


def _asked(command: str, answer: Callable[[pd.DataFrame], pd.DataFrame], rows: list[Row]) -> list[tuple[bool, Row, Row]]:
    """Of each row, whether it is refused, and the numbers and the words of its answer, without the row's own cells.

    Rows of the same columns are asked as one table, and alone where it is refused.
    """
    out: list[tuple[bool, Row, Row]] = [(True, {}, {})] * len(rows)
    tables: dict[tuple[str, ...], list[tuple[int, Row, str]]] = {}
    for place, row in enumerate(rows):
        try:
            own_columns, named = " ".join(carried(row, command)), read_as(row, command)
        except InputError:
            continue
        read = {named.get(key, key): value for key, value in row.items()}
        tables.setdefault(tuple(sorted(read)), []).append((place, read, own_columns))
    while tables:
        columns, asked_of = tables.popitem()
        try:
            answers = answer(pd.DataFrame([row for _, row, _ in asked_of], dtype=str)).to_dict("records")
        except InputError:
            if len(asked_of) > 1:
                tables |= {(*columns, str(each[0])): [each] for each in asked_of}
            continue
        for (place, row, own_columns), found in zip(asked_of, answers, strict=True):
            own = {key: value for key, value in found.items() if key not in row or str(value) != row[key]}
            reason = str(own.get("reason", own.get("status", "")) or "")
            numbers = {str(key): repr(float(value)) for key, value in own.items() if isinstance(value, (int, float)) and value == value}
            words = {str(key): str(value) for key, value in own.items() if isinstance(value, str)} | {"carried through": own_columns}
            out[place] = not numbers or words.get("fits") == "no" or (bool(reason) and len(numbers) < 2), numbers, words
    return out


def _changes(question: Question) -> Iterator[tuple[str, Row]]:
    """Every change of a question, each with its name."""
    columns, base = reads(question.command), question.row
    for name in columns.names:
        if len(name) > 3 and not columns.read_as(name[:2] + name[3:]):  # "tpsize" is a spelling
            without = {key: value for key, value in base.items() if key != name}
            yield f"column {name} misspelt", {**without, name[:2] + name[3:]: base.get(name, "1")}
        for word in NO_WORDS if name not in LISTS else ("nonsense",):
            if name not in LABELS and not (name == "model" and "hidden_size" in base):  # there a model is any name
                yield f"{name}={word}", {**base, name: word}
    for other in COMMANDS:
        for name in reads(other).names if other != question.command else ():
            if not columns.read_as(name):
                yield f"column {name}, of {other}", {**base, name: "2"}
    for name, value in question.others.items():
        if base.get(name) != value:
            yield f"{name}={value}", {**base, name: value}
    for title, cells in (("too large", question.too_large), ("unmeasured", question.unmeasured)):
        if cells:
            yield f"{title}: {' '.join(f'{key}={value}' for key, value in cells.items())}", {**base, **cells}


def asked(questions: tuple[Question, ...] = QUESTIONS) -> list[Asked]:
    """Every change of every question, and what became of it.

    Raises:
        InputError: a base row that its command does not answer.
    """
    found: list[Asked] = []
    for question in questions:
        changes = [*_changes(question)]
        base, *each = _asked(question.command, _answer(question.command), [question.row, *(row for _, row in changes)])
        refused, numbers, words = base
        if refused:
            raise InputError(f"{question.command} does not answer its own base row: {words}")
        for (change, _), (said, new_numbers, new_words) in zip(changes, each, strict=True):
            if change.startswith("too large"):
                kind: Kind = "refused" if said else "ignored"
            elif said:
                kind = "refused"
            else:
                kind = "modelled" if new_numbers != numbers else "named" if new_words != words else "ignored"
            if change.startswith("unmeasured") and kind == "modelled" and new_words == words:
                kind = "ignored"
            found.append(Asked(question.command, change, kind))
    return found


def counts(found: list[Asked]) -> Mapping[Kind, int]:
    """How many changes were refused, modelled, named and ignored."""
    of_kind = Counter(each.kind for each in found)
    return {kind: of_kind[kind] for kind in KINDS}


if __name__ == "__main__":
    every = asked()
    print("questions changed one column at a time:", ", ".join(f"{count:,} {kind}" for kind, count in counts(every).items()))
    sys.exit(any(each.kind == "ignored" for each in every))
