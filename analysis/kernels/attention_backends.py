"""Which family of attention kernels does a framework call on a GPU that was not timed? What its documentation says, never timings."""

from __future__ import annotations

from datetime import date
from functools import cache
from typing import Literal

from pydantic import Field

from analysis.configs import Strict, read_yaml
from analysis.kernels import physics
from analysis.kernels.store import FOLDER

APART = ("attention_prefill", "attention_decode")  # pooled over families of kernels, which no framework has on every architecture


class Rule(Strict):
    """One line of a framework's documentation: on these architectures and for these types of the cache (empty: all) it calls a family."""

    architectures: list[str] = Field(default_factory=list)
    cache: list[Literal["bf16", "fp8"]] = Field(default_factory=list)
    family: physics.Family


class Backends(Strict):
    """What one framework documents of its attention kernels, where and when it was read."""

    source: str
    looked_at: date
    said: str
    rules: list[Rule]


class BackendsFile(Strict):
    """`attention_backends.yaml`."""

    vllm: Backends
    sglang: Backends
    trtllm: Backends


@cache
def _backends() -> BackendsFile:
    return read_yaml(FOLDER / "attention_backends.yaml", BackendsFile)


def called(operator: str, framework: str, architecture: str, variant: str) -> str:
    """Family of kernels that a framework calls on an architecture that was not timed: as its documentation has it, never from timings.

    Empty for operators that are not pooled over families (`APART`).
    """
    if operator not in APART:
        return ""
    kind = "fp8" if variant.endswith("fp8") else "bf16"
    rules = getattr(_backends(), framework).rules
    return next(r.family for r in rules if architecture in (r.architectures or [architecture]) and kind in (r.cache or [kind]))
