"""What does the KV cache hold, and what is lost to blocks, reservations, preemption and prompts computed twice?"""

from __future__ import annotations

import dataclasses

import numpy as np

from analysis.serving.metrics import summary, use
from analysis.serving.requests import Requests, make_requests
from analysis.serving.simulate import Result, simulate
from analysis.studies.serving.load import Mix, draw, profile


def block_waste(tokens: float, block_size: int) -> float:
    """Expected share of slots without a token in a request of so many tokens: w / (tokens + w), w = (block_size - 1) / 2.

    The last block is filled to any degree with equal probability.
    """
    empty = 0.5 * (block_size - 1)
    return empty / (tokens + empty)


def slot_seconds(result: Result) -> float:
    """Token slots in use, integrated over time (slot x s)."""
    size = 1 if result.scheduler == "lightllm" else result.limits.block_size
    return float(result.replicas["block_s"].sum()) * size


def with_cache(
    mix: Mix, rate_per_s: float, count: int, seed: int, tokens: int, block_size: int, scheduler: str = "vllm", **limits: object
) -> Result:
    """A run of a mix on a cache of so many tokens in blocks of so many.

    Args:
        mix, rate_per_s, count, seed, scheduler: the traffic and who schedules it.
        tokens: size of the cache.
        block_size: tokens a block.
        limits: other fields of `Limits`.
    """
    changed = dataclasses.replace(mix.limits, block_size=block_size, kv_blocks=tokens // block_size, **limits)  # type: ignore[arg-type]
    return simulate(draw(mix, rate_per_s, count, seed), scheduler, profile(), changed)


def figures(result: Result) -> dict[str, float]:
    """Latencies (s) and what the cache did, of a run."""
    latency, used = summary(result), use(result)
    return {
        "e2e_mean_s": latency["e2e_s_mean"],
        "ttft_mean_s": latency["ttft_s_mean"],
        "kv_peak_percent": 100 * used.kv_peak_share,
        "preemptions": float(used.preemptions),
        "recomputed_percent": 100 * used.recomputed_share,
        "cached_percent": 100 * used.cached_share,
    }


def with_prefix(requests: Requests, tokens: int, prefixes: int = 1) -> Requests:
    """The same requests with a prompt of so many tokens before each one's own, one of `prefixes` in turn."""
    count = len(requests)
    if tokens == 0:
        return requests
    return make_requests(
        requests.arrived_at_s,
        requests.prefill_tokens + tokens,
        requests.decode_tokens,
        requests.request_id,
        np.arange(count) % prefixes,
        np.full(count, tokens, np.int64),
    )
