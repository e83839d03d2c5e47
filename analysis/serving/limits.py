"""What may a replica hold, and which requests can never run in it?"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from analysis.configs import Count, Seconds, configuration
from analysis.errors import InputError
from analysis.serving.requests import Requests
from analysis.serving.schedulers.names import PREEMPTING, kind_of
from analysis.serving.state import LIMITS


@configuration
class Limits:
    """Limits of one replica; the defaults are those of the recorded VIDUR runs.

    Attributes:
        kv_blocks: KV blocks (LightLLM counts tokens: kv_blocks x block_size of them).
        watermark: share of the blocks kept free when vLLM or Sarathi admit a request.
        max_batch_tokens: tokens in a batch (vLLM: padded prompts; LightLLM: prompts; vLLM v1: all).
        chunk: Sarathi's tokens a batch.
        max_request_tokens: longest request, which Orca and FasterTransformer reserve for each.
        max_waiting_batches: LightLLM's decode batches between prompts.
        preemption: recompute or swap (vLLM, Sarathi, vLLM v1).
        swap_s_per_block: seconds that a block's way to or from host memory adds to the next batch.
        prefix_caching: share the blocks of common prefixes (vLLM, Sarathi, vLLM v1).
    """

    block_size: Count = 16
    kv_blocks: Count = 7648
    watermark: Annotated[float, Field(ge=0, lt=1)] = 0.01
    max_batch: Count = 128
    max_batch_tokens: Count = 4096
    chunk: Count = 512
    max_request_tokens: Count = 512
    max_waiting_batches: Annotated[int, Field(ge=0)] = 10
    preemption: Literal["recompute", "swap"] = "recompute"
    swap_s_per_block: Seconds = 0.0
    prefix_caching: bool = False

    @property
    def watermark_blocks(self) -> int:
        """Blocks kept free at admission: the share, rounded down."""
        return int(self.watermark * self.kv_blocks)


def blocks_for(tokens: Any, block_size: int) -> Any:
    """Blocks that hold so many tokens: ceil(tokens / block_size)."""
    return -(-tokens // block_size)


def record(limits: Limits, scheduler: str) -> NDArray[np.void]:
    """The limits as the compiled loop reads them: LIMITS, shape (1,)."""
    kind = kind_of(scheduler)
    if not kind.preempts and (limits.prefix_caching or limits.preemption == "swap"):
        key = "prefix_caching" if limits.prefix_caching else "preemption"
        raise InputError(f"{scheduler} has none; expected one of {', '.join(PREEMPTING)}", key=key)
    by_token = scheduler == "lightllm"
    out = np.zeros(1, LIMITS)
    out["scheduler"] = kind.code
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
        prefilled: the requests bring their prompt's blocks and first token.
    """
    if prefilled:
        if not kind_of(scheduler).preempts:
            raise InputError(f"{scheduler} cannot take over prompts; expected one of {', '.join(PREEMPTING)}", key="scheduler")
        alone = requests.decode_tokens < 2
        refuse(requests, alone, requests.decode_tokens, 2, "output tokens to be worth taking over", "num_decode_tokens")
    total = requests.prefill_tokens + requests.decode_tokens
    capacity, what = limits.kv_blocks, "KV blocks, watermark included"
    if kind_of(scheduler).reserves:
        need = np.full(len(requests), blocks_for(limits.max_request_tokens, limits.block_size))
        refuse(requests, total > limits.max_request_tokens, total, limits.max_request_tokens, "tokens", "max_request_tokens")
    elif scheduler == "lightllm":
        need, capacity, what = total, limits.kv_blocks * limits.block_size, "tokens of KV cache"
    else:
        need = blocks_for(total - 1, limits.block_size) + int(limits.prefix_caching) + int(prefilled)
        if scheduler != "vllm_v1":
            need = need + np.maximum(limits.watermark_blocks, requests.decode_tokens > 1)
    refuse(requests, need > capacity, need, capacity, what, "kv_blocks")
    if scheduler in ("vllm", "lightllm"):
        prompt = requests.prefill_tokens
        refuse(requests, prompt > limits.max_batch_tokens, prompt, limits.max_batch_tokens, "prompt tokens in a batch", "max_batch_tokens")


def refuse(requests: Requests, wrong: Any, need: Any, most: int, what: str, key: str) -> None:
    """Raise an InputError for the first request marked wrong."""
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise InputError(f"request {requests.request_id[first]} can never finish: needs {need[first]} {what}, the limit is {most}", key=key)
