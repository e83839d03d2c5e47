"""What does a simulation answer, in words, as a table and as JSON?"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.serving.limits import Limits, blocks_for
from analysis.serving.metrics import goodput, summary, use
from analysis.serving.requests import Requests
from analysis.serving.schedulers.names import kind_of
from analysis.serving.simulate import Result

Ends = Mapping[str, float]
"""Ends of the 90 % intervals of the mean times: ttft_s_lower, ttft_s_upper, tpot_s_lower, tpot_s_upper; empty where there are none."""


@dataclasses.dataclass(frozen=True)
class Setup:
    """What an answer names: model, device (resolved), plan, types, scheduler, kind of step time, limits of a replica, assumptions."""

    model: str
    device: str
    plan: str
    precision: str
    kv_precision: str
    scheduler: str
    step_time: str
    limits: Limits
    assumed: tuple[str, ...]

    @property
    def kv_cache_tokens(self) -> int:
        """Tokens that the KV cache of a replica holds (count)."""
        return self.limits.kv_blocks * self.limits.block_size

    def most_requests(self, requests: Requests) -> int:
        """Requests as long as the longest that a replica holds at once: by its KV cache, at most `max_batch` (count)."""
        if not len(requests):
            return self.limits.max_batch
        longest = int((requests.prefill_tokens + requests.decode_tokens).max())
        held = self.limits.max_request_tokens if kind_of(self.scheduler).reserves else longest
        return min(self.limits.max_batch, self.limits.kv_blocks // blocks_for(held, self.limits.block_size))

    @property
    def title(self) -> str:
        """In one line, for pictures and the head of an answer."""
        types = f"; weights in {self.precision}, KV cache in {self.kv_precision}"
        served = f"{self.model} on {self.device}, {self.plan}{types}" if self.model else self.plan
        return f"{served}; {self.scheduler}, step times: {self.step_time}"

    def lines(self, requests: Requests) -> list[str]:
        """The head of a printed answer."""
        held = f"KV cache {self.kv_cache_tokens:,} tokens a replica: {self.most_requests(requests):,} of the longest requests at a time"
        return [self.title, held, *(f"assumed: {text}" for text in self.assumed)]

    def record(self, requests: Requests) -> dict[str, Any]:
        """The same by name, for JSON."""
        named = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name not in ("limits", "assumed")}
        held = {"kv_cache_tokens": self.kv_cache_tokens, "most_requests": self.most_requests(requests)}
        return {"question": self.title, **named, **held, "assumed": list(self.assumed)}


def record_of(result: Result, setup: Setup, ends: Ends) -> dict[str, Any]:
    """A run's answer by name, for JSON: mean times in ms (None where there is none) with their ends, the setup, an empty status."""
    times = summary(result)
    found: dict[str, Any] = {"requests": len(result.requests)}
    for name in ("ttft", "tpot", "e2e"):
        mean = times[f"{name}_s_mean"]
        found[f"{name}_ms"] = None if math.isnan(mean) else 1e3 * mean
        for end in ("lower", "upper") if name != "e2e" else ():
            value = ends.get(f"{name}_s_{end}")
            found[f"{name}_{end}_ms"] = None if value is None else 1e3 * value
    return {**found, "output_tokens_per_s": use(result).output_tokens_per_s, **setup.record(result.requests), "status": ""}


def summary_table(result: Result, slo: Mapping[str, float], ends: Ends | None = None) -> pd.DataFrame:
    """Latencies with the ends of their means, use and, if there are bounds, goodput of a run: columns name, value, unit."""
    rows = [(name, value, "s") for name, value in {**summary(result), **(ends or {})}.items()]
    units = {"output_tokens_per_s": "1/s"}
    rows += [(name, float(value), units.get(name, "1")) for name, value in dataclasses.asdict(use(result)).items()]
    if slo:
        share, per_second = goodput(result, slo)
        rows += [("good_share", share, "1"), ("goodput", per_second, "1/s")]
    rows.append(("makespan_s", result.makespan_s, "s"))
    return pd.DataFrame(rows, columns=["name", "value", "unit"])
