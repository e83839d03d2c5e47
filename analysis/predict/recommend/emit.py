"""How is a plan started? The engine's own arguments, of those that its documentation lists.

vLLM: docs.vllm.ai, serving/engine_args (0.8.5 and later). SGLang: docs.sglang.io, advanced_features/server_arguments. TensorRT-LLM:
nvidia.github.io/TensorRT-LLM, commands/trtllm-serve (1.0), and enable_attention_dp and kv_cache_config of its extra LLM API options.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from analysis.errors import InputError
from analysis.workloads import models


def arguments(found: dict[str, Any], model: str) -> str:
    """Command lines that start one replica of a served plan, and what they leave to the reader."""
    if "clients" not in found or found["clients"] != found["clients"]:
        raise InputError("only a plan of serving has an engine's arguments", key="--emit")
    name, notes = _checkpoint(model, str(found["precision"]))
    lines = [f"# one replica of {found['replicas']:.0f}"] if found["replicas"] > 1 else []
    if found["mode"] == "disagg":
        notes.append("how prefill workers pass the KV cache on is the router's to say: dynamo, or the engine's own connector")
        prompts = {**found, "tensor_parallel": found["prefill_tensor_parallel"], "attention_data_parallel": 1, "expert_parallel": 1}
        lines += [f"# {found['prefill_workers']} prefill workers, each:", _line(prompts, name)]
        lines += [f"# {found['decode_workers']} decode workers, each:"]
    return "\n".join([*(f"# {note}" for note in notes), *lines, _line(found, name)])


def _line(found: dict[str, Any], name: str) -> str:
    keys = ("tensor_parallel", "pipeline_parallel", "attention_data_parallel", "expert_parallel", "max_num_seqs", "max_batched_tokens")
    share, cache = f"{found['memory_utilization']:g}", str(found["kv_precision"])
    write: Callable[..., str] = {"vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm}[str(found["engine"])]
    return write(name, *(int(found[key]) for key in keys), share, cache)


def _vllm(name: str, tensor: int, pipeline: int, data: int, expert: int, requests: int, tokens: int, share: str, cache: str) -> str:
    words = ["vllm serve", name, "--tensor-parallel-size", tensor, "--pipeline-parallel-size", pipeline]
    words += ["--data-parallel-size", data] * (data > 1) + ["--enable-expert-parallel"] * (expert > 1)
    words += ["--max-num-seqs", requests, "--max-num-batched-tokens", tokens, "--gpu-memory-utilization", share]
    return _joined([*words, "--kv-cache-dtype", "fp8" if cache == "fp8" else "auto"])


def _sglang(name: str, tensor: int, pipeline: int, data: int, expert: int, requests: int, tokens: int, share: str, cache: str) -> str:
    words = ["python3 -m sglang.launch_server --model-path", name, "--tp-size", tensor * data, "--pp-size", pipeline]
    words += ["--dp-size", data, "--enable-dp-attention"] * (data > 1) + ["--ep-size", expert] * (expert > 1)
    words += ["--max-running-requests", requests, "--chunked-prefill-size", tokens, "--mem-fraction-static", share]
    return _joined([*words, "--kv-cache-dtype", "fp8_e4m3" if cache == "fp8" else "auto"])


def _trtllm(name: str, tensor: int, pipeline: int, data: int, expert: int, requests: int, tokens: int, share: str, cache: str) -> str:
    options = ["enable_attention_dp: true"] * (data > 1) + ["kv_cache_config: {dtype: fp8}"] * (cache == "fp8")
    words = ["trtllm-serve", name, "--tp_size", tensor * data, "--pp_size", pipeline] + ["--ep_size", expert] * (expert > 1)
    words += ["--max_batch_size", requests, "--max_num_tokens", tokens, "--kv_cache_free_gpu_memory_fraction", share]
    words += ["--extra_llm_api_options", "options.yaml"] * bool(options)
    return "\n".join([*(f"echo '{option}' >> options.yaml" for option in options), _joined(words)])


def _joined(words: list[Any]) -> str:
    return " ".join(map(str, words))


def _checkpoint(model: str, precision: str) -> tuple[str, list[str]]:
    """The repository or folder to serve, in the plan's type where one is known, and what is to be looked at."""
    if model.endswith(".json"):
        return shlex.quote(str(Path(model).parent)), []
    known = models.load(model)
    plain = precision.removesuffix("_block")
    named = [alias for alias in (model, *known.aliases) if "/" in alias]
    if not named:
        return model, ["the registry knows no repository of this model: name it"]
    own = known.types.experts if known.experts else known.types.dense
    typed = next((alias for alias in named if plain in alias.lower()), None)
    if typed or own in (plain, precision) or plain in ("bf16", "fp16"):
        return typed or named[0], []
    return named[0], [f"name a checkpoint in {plain}: the plan was answered with its kernels"]
