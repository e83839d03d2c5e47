"""The formula of a kernel's time, and its parameters on a GPU that was never timed.

``t = launch + (arithmetic^4 + memory^4 + chain^4)^(1/4) + passes``: parts are seconds at the data sheet's rates (`physics`), each scaled
by one parameter. On a timed GPU the parameters are fitted; for another they come from the timed GPUs' by ridge regression on what
frameworks and number types have in common and on what the data sheet says: how the matrix unit is fed, the memory, bandwidth an SM.
Which family of attention kernels a framework calls there is what its documentation says, never timings.
"""

from __future__ import annotations

import json
from collections.abc import Container
from datetime import date
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from analysis.configs import Strict, read_yaml
from analysis.kernels import physics, trees
from analysis.kernels.gpus import Gpu
from analysis.kernels.physics import Features, Sustained
from analysis.kernels.trees import FOLDER
from analysis.kernels.work import Floats

START = {  # from which the fit starts and to which it is held loosely
    "gemm": (4.0, 1.4, 1.0, 0.5, 0.5, 0.5),
    "moe": (15.0, 1.4, 1.2, 1.0, 1.0, 0.5),
}
TOGETHER = {"moe": 0.6}  # operators with one pooled forest for all types: share of its correction that is believed elsewhere
ARITHMETIC = 1  # place of the part


def time_s(parts: Floats, log_theta: Floats) -> Floats:
    """Time of parts, shape (q, n), scaled by ``exp(log_theta)``, shape (q,) (s)."""
    scaled = parts * np.exp(log_theta)[:, None]
    together = scaled[1:4] ** 2
    return scaled[0] + np.sqrt(np.sqrt((together * together).sum(axis=0))) + scaled[4:].sum(axis=0)


def rate_type(gpu: Gpu, dtype: str, variant: str) -> str:
    """Type whose rate bounds the arithmetic: attention's is named in its variant, and falls back to 16 bits."""
    kind = dtype or variant.split("/")[0]
    return kind if kind in gpu.peak_flop_per_s else "bf16"


def describe(gpu: Gpu, framework: str, dtype: str, variant: str, part: int) -> dict[str, float]:
    """Columns of the regression of one part that are not zero; by rule (`physics`) some products are another framework's or type's."""
    if not variant:  # a product
        framework = physics.SAME_PRODUCTS.get((gpu.architecture, framework, dtype), framework)
    if part == ARITHMETIC and dtype == "fp8_block" and gpu.architecture in physics.SCALED_BY_MATRIX_UNIT:
        dtype = "fp8"
    registers = float(gpu.architecture in physics.SYNCHRONOUS) - 0.5
    narrow = float((dtype or variant.split("/")[0]) not in ("bf16", "fp16"))
    return {
        "1": 1.0, f"type={dtype}": 1.0, f"framework={framework}": 1.0, f"variant={variant}": 1.0,
        f"cell {framework}/{dtype}/{variant}": 1.0, "gpu registers": registers, "gpu registers, below 16 bits": registers * narrow,
        "gpu gddr": float(gpu.bandwidth_bytes_per_s < 1.9e12) - 0.5,
        "gpu bandwidth an SM": float(np.log(gpu.bandwidth_bytes_per_s / gpu.sms / 2e10)),
    }  # fmt: skip


class Transfer(NamedTuple):
    """Coefficients, shape (columns, parts), of the columns of `describe`."""

    columns: tuple[str, ...]
    coefficients: Floats

    def log_theta(self, gpu: Gpu, framework: str, dtype: str, variant: str, sustained: Sustained) -> Floats:
        """Parameters on a GPU from its data sheet; a column that was never fitted counts nothing."""
        have = [describe(gpu, framework, dtype, variant, part) for part in range(self.coefficients.shape[1])]
        out: Floats = (np.array([[h.get(c, 0.0) for h in have] for c in self.columns]) * self.coefficients).sum(axis=0)
        out[ARITHMETIC] -= np.log(sustained.transferred(gpu, rate_type(gpu, dtype, variant)))
        return out


def used(operator: str, key: str, forests: Container[str]) -> bool:
    """Whether the pooled answer for `architecture left out/type` corrects a law; types that one other architecture has may go without."""
    return operator in START and not (operator in TOGETHER and key in forests)


def widen(got: Features, log_theta: Floats) -> Features:
    """The law's time as first time, and each part's share of it and the time in launches as further features."""
    base = time_s(got.parts, log_theta)
    shares = np.log(np.maximum(got.parts * np.exp(log_theta)[:, None] / base, 1e-6))
    columns = np.vstack([shares, np.log(base / got.parts[0])]).T
    more: NDArray[np.int16] = np.rint(columns * physics.SCALE).clip(-32000, 32000).astype(np.int16)
    return Features(base, np.concatenate([got.values, more], axis=1), got.parts)


def answer(operator: str, got: Features, forest: trees.Forest, gpu: Gpu, family: str) -> Floats:
    """Logarithm of the answer of a pooled forest over the first time, for one family of kernels or (empty) for none."""
    return trees.predict(forest, physics.mark(got, operator, family, gpu).values if family else got.values)


def read(folder: Path | None = None) -> dict[str, dict[str, Transfer]]:
    """The committed coefficients by operator and architecture left out; empty where there are none."""
    path = (folder or FOLDER) / "laws.json"
    if not path.is_file():
        return {}
    plain = json.loads(path.read_text())
    return {
        operator: {hidden: Transfer(tuple(rows), np.array(list(rows.values()))) for hidden, rows in by.items()}
        for operator, by in plain.items()
    }


# --- attention: which family of kernels a framework calls ---

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
