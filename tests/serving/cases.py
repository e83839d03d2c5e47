"""Small random serving cases, made so that the cache is often full."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from analysis.serving.limits import Limits
from analysis.serving.requests import Requests, make_requests
from analysis.serving.schedulers.names import SCHEDULERS
from analysis.serving.steps import StepTime, linear

EVERY = tuple(SCHEDULERS)
PREEMPTING = ("vllm", "sarathi", "vllm_v1")
STEP = linear(0.01, 0.0007, 0.0003, 0.00001, 0.000002)


@dataclass(frozen=True)
class Case:
    """One simulation."""

    requests: Requests
    scheduler: str
    limits: Limits
    steps: StepTime = STEP


@st.composite
def cases(draw: st.DrawFn, schedulers: tuple[str, ...] = EVERY, swap: bool = True, prefixes: bool = True, most: int = 25) -> Case:
    """A case whose cache holds the longest request and little more."""
    count, generator = draw(st.integers(0, most)), np.random.default_rng(draw(st.integers(0, 10_000)))
    prompt, output = generator.integers(1, draw(st.sampled_from([2, 20, 60])) + 1, (2, count))
    gaps = generator.choice([0.0, 0.001, 0.05, draw(st.sampled_from([0.0, 1.0]))], count)
    scheduler = draw(st.sampled_from(schedulers))
    prefix = generator.integers(-1, 3, count)
    caching = prefixes and scheduler in PREEMPTING and draw(st.booleans())
    block_size, watermark = draw(st.integers(1, 8)), draw(st.sampled_from([0.0, 0.01, 0.2]))
    longest = int((prompt + output).max()) if count else 1
    need = -(-longest // block_size) + 3
    limits = Limits(
        block_size=block_size,
        kv_blocks=int(need / (1 - watermark)) + 1 + draw(st.sampled_from([0, 0, need // 2, 2 * need])),
        watermark=watermark,
        max_batch=draw(st.sampled_from([1, 4, 8, 32])),
        max_batch_tokens=draw(st.integers(60, 200)) if scheduler in ("vllm", "lightllm") else draw(st.integers(1, 200)),
        chunk=draw(st.sampled_from([1, 2, 7, 64])),
        max_request_tokens=longest,
        max_waiting_batches=draw(st.integers(0, 12)),
        preemption="swap" if swap and scheduler in PREEMPTING and draw(st.booleans()) else "recompute",
        swap_s_per_block=0.001,
        prefix_caching=caching,
    )
    shared = np.minimum(prompt, 5 + 9 * np.maximum(prefix, 0))
    arrived = np.cumsum(gaps) if count else np.zeros(0)
    return Case(make_requests(arrived, prompt, output, prefix=prefix, prefix_tokens=shared), scheduler, limits)
