"""Operators in NumPy, whose products are OpenBLAS's."""

from __future__ import annotations

import math

import numpy as np

from analysis.artifact.measuring.operators import MeasuredOperator, Unsupported
from analysis.artifact.measuring.runtimes.fill import values
from analysis.artifact.measuring.timing import CALLS


def evaluate(operator: MeasuredOperator, *a: np.ndarray) -> np.ndarray:
    """The operator's result on given activations and weights; products in OpenBLAS, the rest in NumPy's loops."""
    kind, variant = operator.kind, operator.variant
    if kind == "gemm":
        return a[0] @ a[1] + a[2] if variant == "bias" else a[0] @ a[1]
    if kind == "bmm":
        return a[0] @ (a[1].swapaxes(-1, -2) if variant == "transposed" else a[1])
    if kind == "softmax" and not variant:
        shifted = np.exp(a[0] - a[0].max(-1, keepdims=True))
        shifted /= shifted.sum(-1, keepdims=True)
        return shifted
    if kind == "layernorm":
        centred = a[0] - a[0].mean(-1, keepdims=True)
        return centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + np.float32(1e-5)) * a[1] + a[2]
    if kind == "rmsnorm":
        return a[0] / np.sqrt(np.square(a[0]).mean(-1, keepdims=True) + np.float32(1e-5)) * a[1]
    if kind == "elementwise" and variant == "add":
        return a[0] + a[1]
    if kind == "elementwise" and variant == "mul":
        return a[0] * a[1]
    if kind == "elementwise" and variant == "relu":
        return np.maximum(a[0], np.float32(0))
    if kind == "elementwise" and variant == "scale":
        return a[0] * np.float32(0.125)
    if kind == "elementwise" and variant == "silu":
        return a[0] / (1 + np.exp(-a[0]))
    if kind == "attention" and variant == "naive":
        scores = a[0] @ a[1].swapaxes(-1, -2) * np.float32(1 / math.sqrt(operator["head_size"]))
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        return (scores / scores.sum(-1, keepdims=True)) @ a[2]
    raise Unsupported(f"{kind} {variant} is not natural in NumPy".replace("  ", " "))


def prepare(operator: MeasuredOperator) -> CALLS:
    """Calls that evaluate the operator on fixed values."""
    arrays = [values(shape, index) for index, shape in enumerate((*operator.inputs(), *operator.parameters()))]
    evaluate(operator, *arrays)

    def run(calls: int) -> None:
        for _ in range(calls):
            evaluate(operator, *arrays)

    return run


def facts() -> dict[str, str]:
    """What it runs on."""
    return {"platform": "cpu", "accelerator": ""}
