"""Time of a program's matrix products by the kernel tables of the device: what `kernels predict` answers for each distinct product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import pandas as pd

from analysis.errors import InputError
from analysis.workloads.graph import Matmul

TYPES = {"bf16": "bf16", "f16": "fp16", "f8E4M3FN": "fp8", "f8E5M2": "fp8", "i8": "int8"}
"""Types of StableHLO that the tables hold."""


@lru_cache(maxsize=256)
def has_tables(device: str) -> bool:
    """Whether products on a device are told from measured ones: its own, or those of its architecture."""
    try:
        product_times([(Matmul(1, 256, 256, 256), "f16")], device)
    except InputError:
        return False
    return True


def product_times(products: Sequence[tuple[Matmul | None, str]], device: str) -> list[float]:
    """Seconds of one run of each product on a device; NaN where the tables have none of its type, or the device no such rate.

    A batched product is timed as one of all its rows, m x batch.

    Args:
        products: sizes and StableHLO type; None: no product.
    Raises:
        InputError: a device of whose architecture no kernel was measured.
    """
    from analysis.kernels.cases import answers

    asked = sorted({(p.batch * p.m, p.n, p.k, TYPES[kind]) for p, kind in products if p is not None and kind in TYPES})
    if not asked:
        return [math.nan] * len(products)
    frame = pd.DataFrame(asked, columns=["M", "N", "K", "dtype"]).assign(op="gemm", device=device).astype(str)
    got = answers(frame)
    if got["source"].eq("data sheet").all():
        raise InputError(f"no kernel was measured on {device} or its like", key="device")
    seconds = dict(zip(asked, got["latency_ms"] / 1e3, strict=True))
    return [math.nan if p is None or kind not in TYPES else seconds[(p.batch * p.m, p.n, p.k, TYPES[kind])] for p, kind in products]
