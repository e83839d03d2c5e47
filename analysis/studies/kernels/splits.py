"""The two splits, written down before the first score, and the cells that are fitted: a GPU, a framework and, for some operators, a type.

Measured GPU: whole shapes are held out by a hash of their sizes alone, so that a shape is out on every GPU and framework and in
every type at once: one in ten for the test, one in ten to set the intervals, the rest to fit. Unmeasured GPU: every timing of an
architecture is left out (`gpus.ARCHITECTURES`: Ampere, Ada, Hopper, Blackwell, workstation Blackwell); the test rows are then those
of its GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.kernels import gpus
from analysis.kernels.gpus import SYSTEMS
from analysis.kernels.library import GEMM_TYPES, MOE_TYPES
from analysis.kernels.work import Floats
from analysis.studies.kernels import wheel

TYPES = {"bfloat16": "bf16", "sq": "int8", "w4a8_mxfp4_mxfp8": "mxfp4"}
SIZES = {
    "gemm": ("m", "n", "k"),
    "attention_prefill": ("batch_size", "num_heads", "num_key_value_heads", "head_dim", "isl", "window_size"),
    "attention_decode": ("batch_size", "num_heads", "num_key_value_heads", "head_dim", "step", "window_size"),
    "latent_prefill": ("batch_size", "num_heads", "isl"),
    "latent_decode": ("batch_size", "num_heads", "step"),
    "moe": ("num_tokens", "num_experts", "topk", "hidden_size", "inter_size", "moe_tp_size", "moe_ep_size"),
}
FILES = {
    "gemm": "gemm_perf.parquet",
    "attention_prefill": "context_attention_perf.parquet",
    "attention_decode": "generation_attention_perf.parquet",
    "latent_prefill": "context_mla_perf.parquet",
    "latent_decode": "generation_mla_perf.parquet",
    "moe": "moe_perf.parquet",
}
COVERED = {"gemm": GEMM_TYPES, "moe": MOE_TYPES}
NOT_THIS_OPERATOR = ("moe_torch_flow_nongated",)  # two matrices an expert instead of three


@dataclass(frozen=True)
class Cell:
    """Timings of one operator on one GPU by one framework: the fastest kernel it measured for each shape, newest version.

    Args:
        sizes: by column of `SIZES`, shape (n,); variant: number types or distribution of each row, shape (n,); seconds: shape (n,).
        kernel: family of the one kernel that was timed; empty: the fastest of all.
    """

    operator: str
    system: str
    framework: str
    version: str
    dtype: str
    sizes: dict[str, Floats]
    variant: NDArray[np.str_]
    seconds: Floats
    kernel: str = ""

    @property
    def key(self) -> str:
        """`system/framework/type`, the type empty where one model has them all; with version and family for a single kernel."""
        return f"{self.system}/{self.framework}/{self.dtype}" + (f"/{self.version}/{self.kernel}" if self.kernel else "")


def family(framework: str, source: str, architecture: str) -> str:
    """Family of an attention kernel, one of `physics.FAMILIES`, by the name that the tables give it."""
    name = source.lower()
    if "triton" in name:
        return "triton"
    if "flash_att" in name or name == "fa3":
        return "flash_attention_3" if architecture == "hopper" else "flash_attention_2"
    if "trtllm" in name:
        return "trtllm_gen"
    return "trtllm" if framework == "trtllm" and "flashinfer" not in name else "flashinfer"


def bucket(sizes: dict[str, Floats]) -> NDArray[np.int64]:
    """0 to 9 from the sizes of a shape alone (SplitMix64): 0 is the test, 1 sets the intervals, the rest is fitted."""
    state = np.full(len(next(iter(sizes.values()))), 0x9E3779B97F4A7C15, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for values in sizes.values():
            state = state + np.asarray(values).astype(np.uint64) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(0x9E3779B97F4A7C15)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
    return (state % np.uint64(10)).astype(np.int64)


def cells(path: Path, operator: str, apart: bool = False) -> Iterator[Cell]:
    """The cells of one operator, in alphabetical order; rows without a positive time are dropped.

    Args:
        apart: a cell for each release and family of kernels, in place of the fastest kernel of the newest release.
    """
    sizes, kinds = list(SIZES[operator]), {"gemm": "gemm_dtype", "moe": "moe_dtype"}
    chosen = [t for t in wheel.tables(path) if t.file == FILES[operator] and t.system in SYSTEMS]
    for system, framework in sorted({(t.system, t.framework) for t in chosen}):
        frames: list[pd.DataFrame] = []
        for table in sorted(
            (t for t in chosen if (t.system, t.framework) == (system, framework)), key=lambda t: wheel.version_order(t.version)
        ):
            frames.append(wheel.read(path, table).assign(version=table.version, order=len(frames)))
        frame = pd.concat(frames, ignore_index=True)
        frame = frame[(frame["latency"] > 0) & ~frame["kernel_source"].isin(NOT_THIS_OPERATOR)]
        if "window_size" in sizes:
            frame["window_size"] = (frame["window_size"] if "window_size" in frame else pd.Series(0, index=frame.index)).fillna(0)
        if operator in kinds:
            types = _names(frame[kinds[operator]])
            variant = _names(frame["distribution"]) if operator == "moe" else pd.Series("", index=frame.index)
        else:
            first = next(c for c in ("attn_dtype", "mla_dtype") if c in frame)
            types = pd.Series("", index=frame.index)
            variant = _names(frame[first]) + "/" + _names(frame["kv_cache_dtype"])
        frame = frame.assign(type_=types, variant=variant)
        if apart:
            architecture = gpus.load(system).architecture
            frame["kernel"] = frame["kernel_source"].map(
                {s: family(framework, str(s), architecture) for s in frame["kernel_source"].unique()}
            )
            for (version, kernel), part in frame.groupby(["version", "kernel"]):
                best = part.groupby([*sizes, "variant"], as_index=False)["latency"].min()
                if len(best) >= 300:
                    yield _cell(operator, system, framework, str(version), "", best, str(kernel))
            continue
        for dtype, part in frame.groupby("type_"):
            if operator in COVERED and dtype not in COVERED[operator]:
                continue
            part = (
                part[part["order"] == part["order"].max()]
                if operator in kinds
                else part[part["order"] == part.groupby("variant")["order"].transform("max")]
            )
            best = part.groupby([*sizes, "variant"], as_index=False)["latency"].min()
            if len(best) < 300:
                continue
            yield _cell(operator, system, framework, str(part["version"].iloc[-1]), str(dtype), best)


def _names(column: pd.Series[str]) -> pd.Series[str]:
    codes, values = pd.factorize(column, use_na_sentinel=False)
    return pd.Series(np.array([TYPES.get(str(v), str(v)) for v in values], dtype=object)[codes], index=column.index)


def _cell(operator: str, system: str, framework: str, version: str, dtype: str, best: Any, kernel: str = "") -> Cell:
    sizes = {c: best[c].to_numpy(np.float64) for c in SIZES[operator]}
    seconds = best["latency"].to_numpy(np.float64) * 1e-3
    return Cell(operator, system, framework, version, dtype, sizes, best["variant"].to_numpy(str), seconds, kernel)
