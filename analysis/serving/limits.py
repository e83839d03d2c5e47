"""What may a replica hold, and which requests can never run in it?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from analysis.errors import InputError
from analysis.serving.requests import Requests
from analysis.serving.schedulers.dispatch import SCHEDULERS
from analysis.serving.state import LIMITS

Scheduler = Literal["faster_transformer", "orca", "vllm", "sarathi", "lightllm", "vllm_v1"]
RESERVING = ("faster_transformer", "orca")
PREEMPTING = ("vllm", "sarathi", "vllm_v1")


@dataclass(frozen=True)
class Limits:
    """Limits of one replica; the defaults are those of the recorded VIDUR runs.

    Attributes:
        block_size: tokens a KV block.
        kv_blocks: KV blocks (LightLLM counts tokens: kv_blocks x block_size of them).
        watermark: share of the blocks kept free when vLLM or Sarathi admit a request.
        max_batch: requests in a batch, and holding cache.
        max_batch_tokens: tokens in a batch (vLLM: padded prompts; LightLLM: prompts; vLLM v1: all).
        chunk: Sarathi's tokens a batch.
        max_request_tokens: longest request, which Orca and FasterTransformer reserve for each.
        max_waiting_batches: LightLLM's decode batches between prompts.
        preemption: recompute or swap (vLLM, Sarathi, vLLM v1).
        swap_s_per_block: seconds that a block's way to or from host memory adds to the next batch.
        prefix_caching: share the blocks of common prefixes (vLLM, Sarathi, vLLM v1).
    """

    block_size: int = 16
    kv_blocks: int = 7648
    watermark: float = 0.01
    max_batch: int = 128
    max_batch_tokens: int = 4096
    chunk: int = 512
    max_request_tokens: int = 512
    max_waiting_batches: int = 10
    preemption: Literal["recompute", "swap"] = "recompute"
    swap_s_per_block: float = 0.0
    prefix_caching: bool = False

    def __post_init__(self) -> None:
        for name in ("block_size", "kv_blocks", "max_batch", "max_batch_tokens", "chunk", "max_request_tokens"):
            if getattr(self, name) < 1:
                raise InputError(f"expected at least 1, got {getattr(self, name)}", key=name)
        if not 0 <= self.watermark < 1:
            raise InputError(f"expected a share from 0 to below 1, got {self.watermark}", key="watermark")
        if self.max_waiting_batches < 0 or self.swap_s_per_block < 0:
            raise InputError(
                "expected a number, not negative", key="max_waiting_batches" if self.max_waiting_batches < 0 else "swap_s_per_block"
            )
        if self.preemption not in ("recompute", "swap"):
            raise InputError(f"expected recompute or swap, got {self.preemption}", key="preemption")

    @property
    def watermark_blocks(self) -> int:
        """Blocks kept free at admission: the share, rounded down."""
        return int(self.watermark * self.kv_blocks)


def blocks_for(tokens: Any, block_size: int) -> Any:
    """Blocks that hold so many tokens: ceil(tokens / block_size)."""
    return -(-tokens // block_size)


def record(limits: Limits, scheduler: str) -> NDArray[np.void]:
    """The limits as the compiled loop reads them: LIMITS, shape (1,)."""
    if scheduler not in SCHEDULERS:
        raise InputError(f"expected one of {', '.join(SCHEDULERS)}, got {scheduler}", key="scheduler")
    if scheduler not in PREEMPTING and (limits.prefix_caching or limits.preemption == "swap"):
        key = "prefix_caching" if limits.prefix_caching else "preemption"
        raise InputError(f"{scheduler} has none; expected one of {', '.join(PREEMPTING)}", key=key)
    by_token = scheduler == "lightllm"
    out = np.zeros(1, LIMITS)
    out["scheduler"] = SCHEDULERS.index(scheduler)
    out["block_size"] = 1 if by_token else limits.block_size
    out["blocks"] = limits.kv_blocks * (limits.block_size if by_token else 1)
    out["watermark"] = limits.watermark_blocks if scheduler in ("vllm", "sarathi") else 0
    out["max_batch"], out["max_tokens"], out["chunk"] = limits.max_batch, limits.max_batch_tokens, limits.chunk
    out["reserve"] = blocks_for(limits.max_request_tokens, limits.block_size)
    out["max_waiting"] = limits.max_waiting_batches
    out["swap"], out["prefix_caching"] = limits.preemption == "swap", limits.prefix_caching
    out["swap_s_per_block"] = limits.swap_s_per_block
    return out


def check_feasible(requests: Requests, limits: Limits, scheduler: str, prefilled: bool = False) -> None:
    """Refuse requests that could never finish, even alone.

    A request of T tokens in all holds at most T - 1 in the cache (the last token generated is never stored).

    Args:
        requests, limits, scheduler: of the run.
        prefilled: the requests bring their prompt's blocks and first token.
    Raises:
        InputError: names the first such request, what it needs and what there is.
    """
    if prefilled:
        if scheduler not in PREEMPTING:
            raise InputError(f"{scheduler} cannot take over prompts; expected one of {', '.join(PREEMPTING)}", key="scheduler")
        alone = requests.decode_tokens < 2
        refuse(requests, alone, requests.decode_tokens, 2, "output tokens to be worth taking over", "num_decode_tokens")
    total = requests.prefill_tokens + requests.decode_tokens
    capacity = limits.kv_blocks
    if scheduler in RESERVING:
        need = np.full(len(requests), blocks_for(limits.max_request_tokens, limits.block_size))
        refuse(requests, total > limits.max_request_tokens, total, limits.max_request_tokens, "tokens", "max_request_tokens")
    elif scheduler == "lightllm":
        need, capacity = total, limits.kv_blocks * limits.block_size
    else:
        need = blocks_for(total - 1, limits.block_size) + int(limits.prefix_caching) + int(prefilled)
        if scheduler != "vllm_v1":
            need = need + np.maximum(limits.watermark_blocks, requests.decode_tokens > 1)
    refuse(
        requests,
        need > capacity,
        need,
        capacity,
        "tokens of KV cache" if scheduler == "lightllm" else "KV blocks, watermark included",
        "kv_blocks",
    )
    if scheduler in ("vllm", "lightllm"):
        prompt = requests.prefill_tokens
        refuse(requests, prompt > limits.max_batch_tokens, prompt, limits.max_batch_tokens, "prompt tokens in a batch", "max_batch_tokens")


def refuse(requests: Requests, wrong: Any, need: Any, most: int, what: str, key: str) -> None:
    """Raise an InputError for the first request marked wrong."""
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise InputError(f"request {requests.request_id[first]} can never finish: needs {need[first]} {what}, the limit is {most}", key=key)
