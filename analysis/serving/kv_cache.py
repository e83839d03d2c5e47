"""How much memory has the KV cache of a replica?

    cache = share x memory - weights - reserved        (vLLM, SGLang: the share is of all memory)
    cache = share x (memory - weights - reserved)      (TensorRT-LLM: of what is free beside the weights)

all of one GPU, or of all GPUs of a replica together; it holds floor(cache / bytes of a token in all layers) tokens, as engines log it.
Source: vLLM's `get_num_blocks` (vllm/v1/core/kv_cache_utils.py), SGLang's `mem_fraction_static`, TensorRT-LLM's `free_gpu_memory_fraction`.
"""

from __future__ import annotations

RESERVED_BYTES = 4 * 2**30
"""Memory of a GPU for activations, CUDA graphs and communication (bytes): chosen among 2, 3, 4 and 5 GiB by the number of clients at which
prompts of the selection families (data/evaluation/serving_split.yaml) begin to queue."""


def cache_bytes(
    memory_bytes: float, weight_bytes: float, share: float = 0.9, reserved_bytes: float = RESERVED_BYTES, of_free: bool = False
) -> float:
    """Size of the KV cache (bytes), negative where the weights leave none; the module has the formula.

    Args:
        memory_bytes, weight_bytes, reserved_bytes: of one GPU, or of all of a replica: device memory, weights, what else is held.
        share: of memory that the engine takes; of_free: of what weights and reserve leave, not of all.
    """
    held = weight_bytes + reserved_bytes
    return share * (memory_bytes - held) if of_free else share * memory_bytes - held
