"""How many tokens does the KV cache of a replica hold, and how many requests at once?

    cache = share x memory - weights - reserved        (vLLM, SGLang: the share is of all memory)
    cache = share x (memory - weights - reserved)      (TensorRT-LLM: of what is free beside the weights)
    tokens = floor(cache / bytes of a token in all layers), as engines log it
    bytes of a request of n tokens = n x bytes in full layers + min(n, window) x bytes in layers with a sliding window

all of one GPU, or of all GPUs of a replica together. Source: vLLM's `get_num_blocks` and `get_max_concurrency_for_kv_cache_config`
(vllm/v1/core/kv_cache_utils.py), SGLang's `mem_fraction_static`, TensorRT-LLM's `free_gpu_memory_fraction`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis.errors import InputError

RESERVED_BYTES = 4 * 2**30
"""Memory of a GPU for activations, CUDA graphs and communication beside weights and KV cache: of 2, 3, 4 and 5 GiB the one with which
prompts of the selection families (data/evaluation/serving_split.yaml) begin to wait at the measured numbers of clients."""


@dataclass(frozen=True)
class KvCache:
    """Memory for keys and values, and what a token takes of it.

    Attributes:
        size_bytes: of the cache; negative where weights and reserve take more than there is.
        token_bytes: of one token in all layers.
        window_bytes: the part of `token_bytes` in layers with a sliding window, which hold at most `window` tokens of a request.
    """

    size_bytes: float
    token_bytes: float
    window_bytes: float = 0.0
    window: int = 0

    @property
    def tokens(self) -> int:
        """Tokens that fit, every layer counted (count), as engines log it; negative where there is no room at all."""
        return math.floor(self.size_bytes / self.token_bytes)

    def request_bytes(self, tokens: float) -> float:
        """Cache of one request of so many tokens (bytes)."""
        return tokens * (self.token_bytes - self.window_bytes) + min(tokens, self.window) * self.window_bytes

    def requests(self, tokens: float) -> float:
        """Requests of so many tokens that fit at once (count, a fraction if less than one fits)."""
        return max(0.0, self.size_bytes) / self.request_bytes(tokens)

    def check(self, tokens: int, what: str, key: str) -> None:
        """Refuse a replica that cannot hold one request."""
        if self.requests(tokens) < 1:
            raise InputError(f"{what} holds {max(0, self.tokens):,} tokens of KV cache; a request has {tokens:,}", key=key)


def kv_cache(
    memory_bytes: float,
    weight_bytes: float,
    token_bytes: float,
    share: float = 0.9,
    reserved_bytes: float = RESERVED_BYTES,
    of_free: bool = False,
    window_bytes: float = 0.0,
    window: int = 0,
) -> KvCache:
    """The KV cache beside the weights; the module says the formula.

    Args:
        memory_bytes, weight_bytes, reserved_bytes: of one GPU, or of all of a replica: device memory, weights, what else is held.
        share: of memory that the engine takes; of_free: of what weights and reserve leave, not of all.
        token_bytes, window_bytes, window: see `KvCache`, of the same GPUs.
    """
    held = weight_bytes + reserved_bytes
    size = share * (memory_bytes - held) if of_free else share * memory_bytes - held
    return KvCache(size, token_bytes, window_bytes, window)
