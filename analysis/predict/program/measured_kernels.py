"""Time of a program's matrix products and attentions by the kernel models of the device: what `kernels predict` answers for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import pandas as pd

from analysis.errors import InputError
from analysis.hardware import devices
from analysis.workloads.graph import Attention, Matmul

TYPES = {"bf16": "bf16", "f16": "fp16", "f8E4M3FN": "fp8", "f8E5M2": "fp8", "i8": "int8", "ui8": "int8"}
"""Types of StableHLO and ONNX that the kernel models know."""
WEIGHTS_ALONE = {4: "int4_wo", 8: "int8_wo"}
"""Bits of weights that are widened on their way to 16-bit products: their kernels' type."""


class ProductTime(NamedTuple):
    """One run of a product (s; NaN where it has no answer) with its 90 % interval, what it rests on, and why there is none."""

    seconds: float = math.nan
    lower_s: float = math.nan
    upper_s: float = math.nan
    source: str = ""
    status: str = ""


@lru_cache(maxsize=256)
def has_tables(device: str) -> bool:
    """Whether products on a device are predicted from measured ones: its own, or those of its architecture."""
    if devices.load(device).kind != "gpu":
        return False
    return product_times([(Matmul(1, 256, 256, 256), "f16")], [device])[device][0].source not in ("", "data sheet")


def product_times(products: Sequence[tuple[Matmul | Attention | None, str]], names: Sequence[str]) -> dict[str, list[ProductTime]]:
    """Time of one run of each product on each of some GPUs, by GPU.

    A batched product is timed as one of all its rows, m x batch; a fused attention as that of prompts.

    Args:
        products: sizes and type of the elements; None: no product.
    """
    from analysis.kernels.cases import answers

    keyed = [_key(p, kind) for p, kind in products]
    asked = sorted({key for key in keyed if key is not None})
    times: dict[tuple[object, ...], ProductTime] = {
        (name, *each): _attention_time(*each, name) for name in names for each in {*products} if isinstance(each[0], Attention)
    }
    if asked:
        if strange := [name for name in names if devices.load(name).kind != "gpu"]:
            raise InputError(f"{strange[0]} is no GPU: ask by fused, efficiency or systolic", key="device")
        keys = [(name, *each) for name in names for each in asked]
        got = answers(pd.DataFrame(keys, columns=["device", "M", "N", "K", "dtype"]).assign(op="gemm").astype(str))
        ends = (got[name] / 1e3 for name in ("latency_ms", "lower_ms", "upper_ms"))
        times |= zip(keys, map(ProductTime, *ends, got["source"], got["status"]), strict=True)
    return {
        name: [
            times.get((name, *key) if key is not None else (name, *each), ProductTime()) for key, each in zip(keyed, products, strict=True)
        ]
        for name in names
    }


def _key(product: Matmul | Attention | None, kind: str) -> tuple[int, int, int, str] | None:
    """Sizes and type of a product as the kernel models take them; None where they have none such."""
    if not isinstance(product, Matmul) or kind not in TYPES:
        return None
    alone = WEIGHTS_ALONE.get(product.weight_bits) if kind in ("bf16", "f16") else None
    return product.batch * product.m, product.n, product.k, alone or TYPES[kind]


def _attention_time(attention: Attention | Matmul | None, kind: str, device: str) -> ProductTime:
    assert isinstance(attention, Attention)
    if kind not in TYPES or devices.load(device).kind != "gpu":
        return ProductTime()
    from analysis.kernels.library import KernelLibrary

    a, kernels = attention, KernelLibrary.load().on(device)
    got = kernels.attention_prefill(
        a.batch, a.query_heads, a.kv_heads, a.head_size, a.query_tokens, a.kv_tokens, TYPES[kind], causal=a.causal
    )
    seconds, half = float(got.s), math.exp(1.6449 * float(got.log_sd))
    if math.isnan(seconds):
        return ProductTime(status=str(got.status))
    return ProductTime(seconds, seconds / half, seconds * half, got.source)
