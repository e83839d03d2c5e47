"""Which shapes are measured: `quick` in minutes, `full` with enough shapes for a transfer study."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from analysis.artifact.measuring.graphs import BUILDERS, Graph
from analysis.artifact.measuring.operators import MeasuredOperator


@dataclass(frozen=True)
class ModelRun:
    """A whole model to measure, end to end and node by node: a name in `graphs.BUILDERS` and its arguments."""

    name: str
    arguments: dict[str, int]

    def graph(self) -> Graph:
        """Its operators."""
        return BUILDERS[self.name](**self.arguments)


@dataclass(frozen=True)
class Suite:
    """Operators and models.

    Args:
        budget_s: wall time for each operator after its warm-up (s); a whole model gets twenty times that.
        limit_s: what is not reached within this wall time is not measured, and the tables say so.
        clock: wall, or cpu: CPU time of the measuring process, for devices of one thread on a machine that others use.
    """

    operators: tuple[MeasuredOperator, ...]
    models: tuple[ModelRun, ...]
    budget_s: float
    limit_s: float = math.inf
    clock: str = "wall"


MOST_FLOP = 1.2e9
MOST_ELEMENTS = 6e6
"""Limits of a shape of the full suite: about 15 ms on one core, and 24 MB in fp32."""


def _log_uniform(rng: np.random.Generator, low: int, high: int, multiple: int = 1) -> int:
    value = math.exp(rng.uniform(math.log(low), math.log(high)))
    return max(multiple, round(value / multiple) * multiple)


def _gemm(rng: np.random.Generator) -> MeasuredOperator:
    m, n, k = _log_uniform(rng, 1, 2048), _log_uniform(rng, 16, 4096, 8), _log_uniform(rng, 16, 4096, 8)
    return MeasuredOperator("gemm", (m, n, k), str(rng.choice(["", "bias"])))


def _bmm(rng: np.random.Generator) -> MeasuredOperator:
    size = _log_uniform(rng, 1, 64), _log_uniform(rng, 8, 512), _log_uniform(rng, 8, 512, 8), _log_uniform(rng, 16, 256, 8)
    return MeasuredOperator("bmm", size, str(rng.choice(["", "transposed"])))


def _conv2d(rng: np.random.Generator) -> MeasuredOperator:
    side, channels = int(rng.choice([7, 14, 28, 32, 56, 64, 112])), _log_uniform(rng, 4, 512, 4)
    window, stride = int(rng.choice([1, 3, 3, 5, 7])), int(rng.choice([1, 1, 2]))
    depthwise = rng.uniform() < 0.15
    filters = channels if depthwise else _log_uniform(rng, 4, 512, 4)
    batch = int(rng.choice([1, 1, 1, 2, 4]))
    return MeasuredOperator("conv2d", (batch, side, side, channels, filters, window, stride, channels if depthwise else 1), "bias")


def _softmax(rng: np.random.Generator) -> MeasuredOperator:
    return MeasuredOperator("softmax", (_log_uniform(rng, 1, 32), _log_uniform(rng, 1, 1024), _log_uniform(rng, 8, 4096)))


def _norm(kind: str) -> Callable[[np.random.Generator], MeasuredOperator]:
    return lambda rng: MeasuredOperator(kind, (_log_uniform(rng, 1, 2048), _log_uniform(rng, 64, 8192, 8)))


def _elementwise(rng: np.random.Generator) -> MeasuredOperator:
    return MeasuredOperator("elementwise", (_log_uniform(rng, 64, 2_000_000),), str(rng.choice(["add", "mul", "relu", "gelu", "silu"])))


def _attention(rng: np.random.Generator) -> MeasuredOperator:
    queries = _log_uniform(rng, 1, 1024) if rng.uniform() < 0.3 else 0
    keys = _log_uniform(rng, 64, 2048, 32)
    size = int(rng.choice([1, 1, 2])), int(rng.choice([1, 4, 8, 12, 16])), queries or keys, keys, int(rng.choice([32, 64, 128]))
    return MeasuredOperator("attention", size, "naive")


FULL_COUNTS: dict[str, tuple[Callable[[np.random.Generator], MeasuredOperator], int]] = {
    "gemm": (_gemm, 430),
    "bmm": (_bmm, 190),
    "conv2d": (_conv2d, 300),
    "softmax": (_softmax, 130),
    "layernorm": (_norm("layernorm"), 110),
    "rmsnorm": (_norm("rmsnorm"), 90),
    "elementwise": (_elementwise, 190),
    "attention": (_attention, 80),
}
"""Shapes drawn for each kind (count); each attention shape is measured naive and fused."""


def full_operators(seed: int = 0) -> tuple[MeasuredOperator, ...]:
    """Distinct shapes drawn log-uniformly within the limits, shuffled so that no kind is measured at one time of day."""
    rng = np.random.default_rng(seed)
    chosen: dict[str, MeasuredOperator] = {}
    for draw, count in FULL_COUNTS.values():
        mine: dict[str, MeasuredOperator] = {}
        while len(mine) < count:
            operator = draw(rng)
            if operator.flop() <= MOST_FLOP and operator.elements() <= MOST_ELEMENTS:
                mine[operator.name] = operator
        chosen |= mine
    every = [
        *chosen.values(),
        *(MeasuredOperator("attention", operator.size, "fused") for operator in chosen.values() if operator.kind == "attention"),
    ]
    return tuple(every[index] for index in rng.permutation(len(every)))


def quick_operators() -> tuple[MeasuredOperator, ...]:
    """A small grid: every kind and variant that runtimes share, at a small, a middle and a large size."""
    found = [MeasuredOperator("elementwise", (1,), "add")]
    found += [MeasuredOperator("gemm", (m, n, n), "bias") for m in (1, 128) for n in (256, 1024)] + [
        MeasuredOperator("gemm", (512, 512, 512))
    ]
    found += [MeasuredOperator("bmm", (12, tokens, tokens, 64), "transposed") for tokens in (64, 256)]
    found += [
        MeasuredOperator("conv2d", (1, side, side, width, width, window, 1, 1), "bias")
        for side, width in ((56, 64), (14, 256))
        for window in (1, 3)
    ]
    found += [MeasuredOperator("conv2d", (1, 28, 28, 128, 128, 3, 1, 128), "bias")]
    found += [MeasuredOperator("softmax", (1, rows, 512)) for rows in (16, 1024)]
    found += [MeasuredOperator(kind, (rows, 1024)) for kind in ("layernorm", "rmsnorm") for rows in (8, 512)]
    found += [
        MeasuredOperator("elementwise", (elements,), name) for elements in (10_000, 1_000_000) for name in ("add", "relu", "gelu", "silu")
    ]
    found += [MeasuredOperator("attention", (1, 8, tokens, tokens, 64), variant) for tokens in (128, 512) for variant in ("naive", "fused")]
    return tuple(found)


QUICK_MODELS = (ModelRun("resnet50", {}), ModelRun("bert_base", {"tokens": 128}), ModelRun("llama_layer", {"tokens": 32}))
FULL_MODELS = (
    *(ModelRun("resnet50", {"side": side}) for side in (128, 224)),
    *(ModelRun("bert_base", {"tokens": tokens}) for tokens in (32, 128, 384)),
    *(ModelRun("llama_layer", {"tokens": tokens}) for tokens in (1, 32, 128)),
)
COMPOSITION_MODELS = (
    *(ModelRun("resnet50", {"side": 128, "batch": batch}) for batch in (1, 2, 4)),
    *(ModelRun("bert_base", {"tokens": tokens}) for tokens in (32, 128)),
    *(ModelRun("llama_layer", {"tokens": tokens}) for tokens in (1, 8, 32)),
)


def suite(name: str) -> Suite:
    """The suite of a name.

    Args:
        name: quick, full, or composition: whole models, their operators alone, and an operator that does next to nothing.
    """
    return {
        "quick": lambda: Suite(quick_operators(), QUICK_MODELS, 0.03, limit_s=270),
        "full": lambda: Suite(full_operators(), FULL_MODELS, 0.03),
        "composition": lambda: Suite((MeasuredOperator("elementwise", (1,), "add"),), COMPOSITION_MODELS, 0.03, clock="cpu"),
    }[name]()
