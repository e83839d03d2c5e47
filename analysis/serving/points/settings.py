"""What was the engine started with? The launch script's settings, or the engine's defaults."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from analysis.configs import Strict, read_yaml
from analysis.hardware import devices
from analysis.paths import DATA
from analysis.serving.points.cases import ASKED_NOW, Case

PATH = DATA / "workloads" / "served_engines.yaml"


class Settings(Strict):
    """Settings of an engine, and the cases they hold for; see the head of `data/workloads/served_engines.yaml`."""

    engine: Literal["vllm", "sglang", "trtllm"]
    script: str
    origin: str = ""
    family: str = ""
    precisions: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    least_memory_gb: float = 0.0
    not_architecture: str = ""
    versions: tuple[str, ...] = ()
    since: str = ""
    lengths: tuple[int, int] | None = None
    narrow: bool = False
    batched_tokens: int
    max_running: int = 0
    mixed: bool = True
    chunked: bool = True
    receive_interval: int = 1
    wait_ratio: float = 0.0
    wait_steps: int = 0
    kv: Literal["", "bf16", "fp8"] = ""
    memory_share: float
    per_client: int = 10
    stream_interval: int = 1
    graph_tokens: int = 0
    tf32: bool = False

    def fits(self, case: Case) -> bool:
        """Do these settings hold for the case?"""
        device = devices.load(case.device)
        return (
            self.engine == case.engine
            and self.origin in ("", case.origin)
            and (self.origin != "benchmark" or case.benchmark_client)
            and self.family in ("", case.model.family)
            and (not self.precisions or case.precision in self.precisions)
            and (not self.devices or case.device in self.devices)
            and 1e9 * self.least_memory_gb <= device.memory_bytes
            and (not self.not_architecture or device.architecture != self.not_architecture)
            and (not self.versions or case.version in self.versions or (not case.version and case.measured >= ASKED_NOW))
            and self.since <= case.measured
            and (self.lengths is None or self.lengths == (case.input_tokens, case.output_tokens))
            and (not self.narrow or case.plan.tensor < 8)
        )


UNBOUNDED = 1024
"""Requests at a time of an engine whose script sets as many as there are clients, where nobody counts those."""


class _File(Strict):
    rules: tuple[Settings, ...]


@cache
def rules() -> tuple[Settings, ...]:
    """The rules, in order."""
    return read_yaml(PATH, _File).rules


def rule(case: Case) -> Settings:
    """The first rule that fits."""
    return next(rule for rule in rules() if rule.fits(case))


@cache
def of(case: Case) -> Settings:
    """The first rule that fits; numbers that stand for the case's own are filled in."""
    found = rule(case)
    tokens = case.batched_tokens or found.batched_tokens or case.input_tokens + case.output_tokens + 200
    if found.batched_tokens < 0 and not case.batched_tokens:
        tokens = -found.batched_tokens * case.input_tokens
    interval = 10 if found.receive_interval == 30 and case.clients < 16 else found.receive_interval
    most = case.max_running or found.max_running or (case.clients if case.arrival != "poisson" else UNBOUNDED)
    update: dict[str, Any] = {"batched_tokens": tokens, "max_running": most, "receive_interval": interval, "kv": kv_type(case, found)}
    if case.memory_share:
        update["memory_share"] = case.memory_share
    if not found.chunked:
        update["batched_tokens"] = max(tokens, case.input_tokens)
    return found.model_copy(update=update)


QUANTISED = {"trtllm": ("fp8", "nvfp4"), "vllm": ("nvfp4",), "sglang": ("nvfp4",)}
"""Types of matrix products whose checkpoints say FP8 for the KV cache too, which the engine follows: hf_quant_config.json of NVIDIA's
(kv_cache_quant_algo: FP8); FP8 checkpoints served by vLLM and SGLang are mostly others', which say nothing."""


def kv_type(case: Case, rule: Settings) -> Literal["bf16", "fp8"]:
    """Type of the KV cache: the row's, else the launch script's, else the engine's own for the checkpoint."""
    if case.kv or rule.kv:
        return "fp8" if (case.kv or rule.kv) == "fp8" else "bf16"
    return "fp8" if case.gemm in QUANTISED[case.engine] else "bf16"
