"""What is a quantity called? The one table of names for options, columns of cases, keys of YAML and arguments in Python.

The first name of a line is ours; the others, of other tools and of earlier editions, are read for good. A name means what the reader of the
table, command or file makes of ours: where that reader has no such quantity, nobody's name of it is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache

NAMES = (
    ("model", "model_path", "model_name"),
    ("device", "hardware", "system", "gpu", "gpu_type", "accelerator"),
    ("gpus", "num_gpus", "n_gpus", "world_size"),
    ("nodes", "num_nodes", "nnodes"),
    ("engine", "backend", "framework"),
    ("engine_version", "backend_version"),
    ("clients", "batch_size", "concurrency", "max_concurrency"),
    ("input_tokens", "isl", "prompt_tokens", "input_length", "input_len"),
    ("output_tokens", "osl", "output_length", "output_len"),
    ("precision", "dtype", "quantization"),
    ("kv_precision", "kvcache_quant_mode", "kv_dtype", "kv_cache_dtype"),
    ("memory_utilization", "gpu_memory_utilization", "mem_fraction_static"),
    ("max_batched_tokens", "max_num_batched_tokens", "chunked_prefill_size"),
    ("sequence_length", "seq_len", "seqlen", "context_length"),
    ("micro_batch", "micro_batch_size", "mbs"),
    ("global_batch", "global_batch_size", "gbs"),
    ("tensor_parallel", "tp", "tp_size", "tensor_parallel_size"),
    ("pipeline_parallel", "pp", "pp_size", "pipeline_parallel_size"),
    ("virtual_pipeline", "interleave", "virtual_pipeline_parallel"),
    ("data_parallel", "dp", "dp_size", "data_parallel_size"),
    ("attention_data_parallel", "attention_dp_size", "dp", "dp_size", "data_parallel_size"),
    ("context_parallel", "cp", "cp_size", "context_parallel_size"),
    ("expert_parallel", "ep", "ep_size", "moe_ep_size", "expert_parallel_size"),
    ("expert_tensor_parallel", "moe_tp_size"),
    ("workers", "num_workers"),
    ("zero", "sharding", "zero_stage", "fsdp"),
    ("recompute", "checkpointing", "activation_checkpointing"),
    ("ffn", "ffn_hidden", "ffn_hidden_size", "intermediate_size"),
    ("kv_heads", "num_key_value_heads", "num_query_groups"),
    ("vocabulary", "vocab", "vocab_size"),
    ("layers", "num_layers", "num_hidden_layers"),
    ("attention_heads", "heads", "num_attention_heads"),
    ("draft", "speculative_model"),
    ("draft_tokens", "nextn", "num_speculative_tokens"),
    ("lora_adapters", "max_loras", "max_loras_per_batch"),
    ("lora_rank", "max_lora_rank"),
)  # fmt: skip
ALSO = {"device": "devices", "engine": "engines", "tensor_parallel": "gpus"}
"""Of options and arguments: what a name means where a command has the other alone: several devices; GPUs that are all tensor parallel."""
ENGINES = {"vllm": (), "sglang": (), "trtllm": ("tensorrt-llm", "trt")}
"""Serving engine -> its other names."""
PARTS = ("prefill_", "decode_")
"""Before a quantity of one kind of workers."""


def plain(name: str) -> str:
    """A name as far as spelling matters: letters and digits, in lower case."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def engine(name: str) -> str:
    """Our name of a serving engine; any other name as it is written."""
    return next((ours for ours, others in ENGINES.items() if plain(name) in map(plain, (ours, *others))), name)


@cache
def _groups(name: str) -> tuple[tuple[str, ...], ...]:
    """All names of the quantities that a name may stand for."""
    part = next((part for part in PARTS if name.startswith(part)), "")
    bare = plain(name.removeprefix(part))
    return tuple(tuple(part + other for other in same) for same in NAMES if bare in map(plain, same))


def read_as(name: str, names: Collection[str], aliases: Mapping[str, str] | None = None, kept: Collection[str] = ()) -> str:
    """What a reader calls the quantity that was written as `name`; empty where it has none.

    Args:
        names: the reader's own; aliases: more names of its own, and which they stand for; kept: of `names`, those that mean something else
            than the table says, and are read by themselves alone.
    """
    more = aliases or {}
    for other in (name, *(other for same in _groups(name) for other in same)):
        for found in (other, more.get(other, "")):
            if found in names and (found not in kept or other == name):
                return found
    return ""


def ours(name: str, names: Iterable[str], aliases: Mapping[str, str] | None = None, kept: Collection[str] = ()) -> str:
    """Our name of a reader's quantity: the first of its line, unless the reader has that for another."""
    taken, more = set(names), aliases or {}
    if name in kept:
        return name
    for same in _groups(name):
        if more.get(same[0], same[0] if same[0] in taken else name) == name:
            return same[0]
    return next((other for other, meant in more.items() if meant == name and any(same[0] == other for same in _groups(other))), name)
