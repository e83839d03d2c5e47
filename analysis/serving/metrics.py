"""How good was the service?

TTFT, time to first token: prefill completed - arrived. E2E: completed - arrived. TPOT, time per output token, has two definitions:
the usual one is (E2E - TTFT) / (output tokens - 1), undefined for one token; VIDUR's is (E2E - TTFT) / output tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from analysis.errors import InputError
from analysis.serving.requests import Floats
from analysis.serving.simulate import Result

PERCENTILES = (50, 90, 99)


def tpot_s(result: Result) -> Floats:
    """Time per output token after the first, NaN for requests of one token: (E2E - TTFT) / (output tokens - 1); shape (n,)."""
    gaps = result.requests.decode_tokens - 1
    return np.divide(result.e2e_s - result.ttft_s, gaps, out=np.full(len(gaps), np.nan), where=gaps > 0)


def tpot_vidur_s(result: Result) -> Floats:
    """Time per output token as VIDUR counts it: (E2E - TTFT) / output tokens; shape (n,)."""
    return np.asarray((result.e2e_s - result.ttft_s) / result.requests.decode_tokens)


LATENCIES: dict[str, Callable[[Result], Floats]] = {
    "ttft_s": lambda result: result.ttft_s,
    "tpot_s": tpot_s,
    "tpot_vidur_s": tpot_vidur_s,
    "e2e_s": lambda result: result.e2e_s,
    "queueing_s": lambda result: result.queueing_s,
}
"""By name, what gives the latency of each request (s), in their order; NaN where a request has none."""


def latency_s(result: Result, name: str) -> Floats:
    """One of `LATENCIES` of the requests that have it, seconds."""
    values = LATENCIES[name](result)
    return values[~np.isnan(values)]


@dataclass(frozen=True)
class Use:
    """How much of the replicas was used.

    Attributes:
        busy_share: time with a batch running, over replicas x makespan.
        kv_share: KV blocks in use, over all, averaged over replicas x makespan (an idle replica counts as empty).
        kv_peak_share: most blocks that a replica ever used, over all of its own.
        requests_in_flight: time-average number of requests in the system (Little's law: rate x mean E2E).
        recomputed_share: tokens fed to the model beyond those needed once, over those needed.
        cached_share: prompt tokens found in the prefix cache, over all prompt tokens.
        output_tokens_per_s: tokens generated a second of makespan.
    """

    busy_share: float
    kv_share: float
    kv_peak_share: float
    batches: int
    mean_batch: float
    requests_in_flight: float
    preemptions: int
    recomputed_share: float
    cached_share: float
    output_tokens_per_s: float


def use(result: Result) -> Use:
    """How much of the replicas was used; zeros for a run in which no request ended."""
    replicas, ended = result.replicas, result.complete
    records, requests = result.records[ended], result.requests.at(np.flatnonzero(ended))
    if not len(requests):
        return Use(0.0, 0.0, 0.0, 0, 0.0, 0.0, 0, 0.0, 0.0, 0.0)
    time_s = result.makespan_s * len(replicas)
    blocks = result.limits.kv_blocks * (result.limits.block_size if result.scheduler == "lightllm" else 1)
    batches = int(replicas["batches"].sum())
    needed = int((requests.prefill_tokens + requests.decode_tokens - 1).sum())
    fed, cached = int(records["computed"].sum()), int(records["cached"].sum())
    return Use(
        busy_share=float(replicas["busy_s"].sum() / time_s),
        kv_share=float(replicas["block_s"].sum() / (blocks * time_s)),
        kv_peak_share=float(replicas["peak"].max() / blocks),
        batches=batches,
        mean_batch=float(replicas["members"].sum() / batches),
        requests_in_flight=float(result.e2e_s[ended].sum() / result.makespan_s),
        preemptions=int(replicas["preempted"].sum()),
        recomputed_share=(fed + cached - needed) / needed,
        cached_share=cached / int(requests.prefill_tokens.sum()),
        output_tokens_per_s=float(requests.decode_tokens.sum() / result.makespan_s),
    )


def goodput(result: Result, slo: Mapping[str, float]) -> tuple[float, float]:
    """Requests that meet every latency bound: (share of all, requests a second of makespan).

    A request of one output token has no TPOT and meets any bound on it.

    Args:
        slo: bound in seconds by latency, such as {"ttft_s": 0.2, "tpot_s": 0.05}.
    """
    unknown = [name for name in slo if name not in LATENCIES]
    if unknown:
        raise InputError(f"expected one of {', '.join(LATENCIES)}", key=unknown[0])
    good = result.complete.copy()
    for name, bound in slo.items():
        good &= ~(LATENCIES[name](result) > bound)
    if not good.size:
        return 1.0, 0.0
    return float(good.mean()), float(good.sum() / result.makespan_s) if result.complete.any() else 0.0


def summary(result: Result) -> dict[str, float]:
    """Mean and percentiles of every latency, in seconds: `ttft_s_mean`, `ttft_s_p50`, ... ; NaN where there is no value.

    Percentiles interpolate linearly between order statistics.
    """
    out: dict[str, float] = {}
    for name in LATENCIES:
        values = latency_s(result, name)
        out[f"{name}_mean"] = float(values.mean()) if values.size else float("nan")
        percentiles = np.percentile(values, PERCENTILES) if values.size else np.full(len(PERCENTILES), np.nan)
        out |= {f"{name}_p{percent}": float(value) for percent, value in zip(PERCENTILES, percentiles, strict=True)}
    return out
