"""A first time and what bounds it: sustained rates, tiles and waves, split-K, cache; as features that mean the same on every GPU.

The learned correction sees logarithms of ratios of times (tile waves, memory, launch) to the first time, not names of GPUs.
Tile shapes are those that cuBLAS, CUTLASS and FlashAttention document; a wave is one tile on each SM.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.kernels import work
from analysis.kernels.gpus import ACTIVATION_BYTES, WEIGHT_BYTES, Gpu
from analysis.kernels.trees import FOLDER
from analysis.kernels.work import Floats

SCALE = 1024.0  # features are kept as whole multiples of 1/1024, thresholds of the trees too
TILES = ((256, 128), (128, 256), (128, 128), (64, 256), (128, 64), (64, 128), (64, 64), (16, 128))
TILE_SHARE = (1.0, 1.0, 1.0, 0.95, 0.85, 0.85, 0.7, 0.5)  # of the matrix rate that operands from shared memory can feed
PIPELINE_K = 128.0  # depth of K that fills and drains a tile's pipeline
FLOOR_S = {
    "bf16": 2.2e-6, "fp16": 2.2e-6, "fp8": 4.5e-6, "fp8_block": 6e-6, "nvfp4": 5e-6, "mxfp4": 5e-6,
    "int8": 6e-6, "int8_wo": 6e-6, "int4_wo": 6e-6,
}  # fmt: skip
REFERENCE_HZ = 1.9e9  # clock at which a launch takes the seconds written here; where answers are carried to another GPU, cycles count
MEMORY_SHARE = 0.87  # of the data sheet's bandwidth that a long copy reaches (0.85 to 0.91 on every measured GPU)
SYNCHRONOUS = ("ampere", "ada", "blackwell workstation", "turing", "volta")  # the matrix unit is fed from registers, an instruction a warp
FRAMEWORKS = ("sglang", "trtllm", "vllm")
PLAIN = {"fp8_block": "fp8", "mxfp4": "nvfp4", "int8_wo": "bf16", "int4_wo": "bf16", "fp16": "bf16"}  # type at whose rate it multiplies
Family = Literal["flash_attention_2", "flash_attention_3", "flashinfer", "triton", "trtllm", "trtllm_gen"]  # of attention kernels
FAMILIES: tuple[str, ...] = get_args(Family)
WIDER = {"nvfp4": "fp8", "fp8": "bf16", "int8": "fp8"}
SCALED_BY_MATRIX_UNIT = ("blackwell",)
"""Architectures whose matrix unit multiplies FP8 with scales of blocks at FP8's rate (tcgen05.mma, kind mxf8f6f4.block_scale: CUTLASS,
https://github.com/NVIDIA/cutlass, media/docs/cpp/blackwell_functionality.md), where DeepGEMM's scales are powers of two for it
(https://github.com/vllm-project/vllm/pull/20087); on Hopper its partial sums go through the CUDA cores (README of
https://github.com/deepseek-ai/DeepGEMM)."""
SAME_PRODUCTS = {("blackwell", "trtllm", "fp8_block"): "sglang"}
"""Architecture, framework, type: the framework whose products those are. TensorRT-LLM calls DeepGEMM on Blackwell, as SGLang does there
and on Hopper, and CUTLASS before (https://github.com/NVIDIA/TensorRT-LLM/pull/5987, https://github.com/ai-dynamo/aiconfigurator/pull/467)."""


class Features(NamedTuple):
    """First time (s), shape (n,), features, shape (n, p), in multiples of 1/1024, and the parts of the time, shape (q, n).

    Parts are seconds at the data sheet's rates: launch (1 us), arithmetic in whole waves, memory, the longest chain, then what is
    added (`laws`); operators without a law have none.
    """

    base_s: Floats
    values: NDArray[np.int16]
    parts: Floats


class Sustained(NamedTuple):
    """Share of the data sheet's matrix rate that a long GEMM sustains: ``exp(level) (TDP / rate / 1 pJ) ** exponent``, at most 0.97.

    Where the unit is fed from registers the energy of a FLOP is fixed and the exponent is 1; where it is fed from shared memory by
    itself the clock gives way, and the exponent is 0.4. The levels come from the measured GPUs that may be used.

    Args:
        cycles: whether what no arithmetic and no memory bounds takes cycles of the data sheet's clock, as where answers are carried from
            GPU to GPU (`carried`), or seconds, as in the forests of one GPU.
    """

    level: dict[tuple[str, bool], float]
    exponent: tuple[float, float] = (0.4, 1.0)
    cycles: bool = False

    def tick(self, gpu: Gpu) -> float:
        """Time of a cycle over that at `REFERENCE_HZ`: launches and passes through the multiprocessors take cycles, whatever the GPU."""
        return REFERENCE_HZ / gpu.clock_hz if self.cycles else 1.0

    def share(self, gpu: Gpu, dtype: str) -> float:
        """For one GPU and number type; a type without a level takes bf16's of the same kind of unit, or the other kind's."""
        synchronous = gpu.architecture in SYNCHRONOUS
        energy_pj = 1e12 * gpu.tdp_w / gpu.peak_flop_per_s[dtype]
        for key in ((dtype, synchronous), (dtype, not synchronous), ("bf16", synchronous)):
            if key in self.level:
                return float(np.clip(np.exp(self.level[key] + self.exponent[int(synchronous)] * np.log(energy_pj)), 0.2, 0.97))
        return 0.7

    def transferred(self, gpu: Gpu, dtype: str) -> float:
        """The share for a formula transferred to a GPU: a type without a level takes the next wider type's on the same kind of unit."""
        synchronous = gpu.architecture in SYNCHRONOUS
        level, energy_pj = self._level(PLAIN.get(dtype, dtype), synchronous), 1e12 * gpu.tdp_w / gpu.peak_flop_per_s[dtype]
        return 0.7 if level is None else float(np.clip(np.exp(level + self.exponent[int(synchronous)] * np.log(energy_pj)), 0.2, 0.97))

    def _level(self, dtype: str, synchronous: bool) -> float | None:
        """A type's level; else that of the next wider type on the same kind of unit, for FP4 with the step from bf16 to FP8 once more."""
        if (dtype, synchronous) in self.level:
            return self.level[(dtype, synchronous)]
        if dtype not in WIDER:
            return self.level.get((dtype, not synchronous))
        wider = self._level(WIDER[dtype], synchronous)
        if wider is None or dtype != "nvfp4":
            return wider
        first = self._level("bf16", synchronous)
        return wider if first is None else 2 * wider - first


def read_sustained(folder: Path | None = None) -> dict[str, Sustained]:
    """The levels, by architecture left out."""
    plain = json.loads(((folder or FOLDER) / "sustained.json").read_text())
    return {
        hidden: Sustained({(k.split(" ")[0], k.endswith("registers")): v for k, v in levels.items()}) for hidden, levels in plain.items()
    }


CROWDED = ("bf16", "fp8_block", "int4_wo")
"""Types whose experts SGLang runs by Triton or Marlin outside Blackwell, timed with other ranks' choices on one expert (`work.loads`)."""
EVERY_CHOICE = {
    "bf16": ("volta", "turing", "ampere", "ada", "hopper"),
    "fp8": ("ada",),
    "fp8_block": ("ada",),
    "int4_wo": ("volta", "turing", "ampere", "ada", "hopper", "blackwell", "blackwell workstation"),
}
"""Type: architectures on which vLLM runs experts by Triton or (4 bits) Marlin and not by FlashInfer's or CUTLASS's kernels, in the order of
vllm/model_executor/layers/fused_moe/oracle (unquantized.py, fp8.py; https://github.com/vllm-project/vllm). Those two write and pass over a
row for every choice of every token of the batch, zeros for the experts of other ranks (`write_zeros_to_output` of fused_moe.py there)."""


def carried(operator: str, sustained: Sustained) -> Sustained:
    """The levels for answers that come from other architectures' timings; prompts with latent attention were no better in cycles."""
    return sustained._replace(cycles=operator != "latent_prefill")


def _log(x: Floats) -> Floats:
    return np.log(np.maximum(x, 1e-30))


def _pack(base: Floats, columns: list[Floats | float], parts: list[Floats | float] | None = None) -> Features:
    n = len(base)
    out = np.empty((n, len(columns)), dtype=np.int16, order="F")
    for i, column in enumerate(columns):
        out[:, i] = np.clip(np.rint(np.asarray(column) * SCALE), -32000, 32000)
    return Features(base, out, np.stack([np.broadcast_to(part, (n,)) for part in parts]) if parts else np.empty((0, n)))


def mark(got: Features, operator: str, family: str, gpu: Gpu) -> Features:
    """The features, which family of kernels runs and, for prompts, the bandwidth of a multiprocessor: for pooled forests."""
    sheet = [np.log(gpu.bandwidth_bytes_per_s / gpu.sms / 2e10)] if operator == "attention_prefill" else []
    mine = np.rint(SCALE * np.array([float(family == f) for f in FAMILIES] + sheet)).astype(np.int16)
    return got._replace(values=np.concatenate([got.values, np.broadcast_to(mine, (len(got.values), len(mine)))], axis=1))


def cache_bandwidth(gpu: Gpu) -> float:
    """Bandwidth of the last-level cache (bytes/s): assumed, 24 GB/s an SM and at least 1.5 times the memory's; the forest corrects it."""
    return max(gpu.sms * 24e9, 1.5 * gpu.bandwidth_bytes_per_s)


def memory_time(moved: Floats, gpu: Gpu, resident: float = 0.3) -> Floats:
    """Time of the memory traffic (s): from the cache where the operands fit it some three times over (measured loops rotate buffers)."""
    kept = 1 / (1 + (moved / (resident * gpu.l2_bytes)) ** 3)
    return moved * ((1 - kept) / (MEMORY_SHARE * gpu.bandwidth_bytes_per_s) + kept / cache_bandwidth(gpu))


def gemm(m: ArrayLike, n: ArrayLike, k: ArrayLike, dtype: str, framework: str, gpu: Gpu, sustained: Sustained) -> Features:
    """GEMM: the fastest of eight tile shapes, whole waves or split along K, while the memory traffic runs."""
    framework = SAME_PRODUCTS.get((gpu.architecture, framework, dtype), framework)
    m, n, k = (np.asarray(v, dtype=np.float64).ravel() for v in (m, n, k))
    done = work.gemm(m, n, k, dtype)
    rate = gpu.peak_flop_per_s[dtype] * sustained.share(gpu, dtype)
    moved, busy = memory_time(done.bytes, gpu), done.flop / rate
    per_sm = rate / gpu.sms
    fastest = np.full(len(m), np.inf)
    tile_columns: list[Floats] = []
    times = []
    for (rows, columns), share in zip(TILES, TILE_SHARE, strict=True):
        waves = np.ceil(m / rows) * np.ceil(n / columns) / gpu.sms
        split = np.clip(np.floor(1 / waves), 1, np.maximum(1, k / 256))
        tile = rows * columns * 2 / (per_sm * share)
        seconds = np.ceil(waves) * tile * (k / split + PIPELINE_K) + np.where(split > 1, 1e-6, 0.0)
        fastest = np.minimum(fastest, seconds)
        times.append(seconds)
        tile_columns.append(_log(waves))
        tile_columns.append(_log(np.ceil(waves) / waves).clip(0, 5))
    base = FLOOR_S[dtype] + np.maximum(fastest, moved)
    columns_: list[Floats | float] = [
        _log(fastest / base), _log(moved / base), _log(busy / base), _log(done.bytes / gpu.bandwidth_bytes_per_s / base),
        _log(base * 1e6 / sustained.tick(gpu)), _log(done.bytes / gpu.l2_bytes), _log(m), _log(n), _log(k), *tile_columns,
        *[_log(t / base) for t in times],
    ]  # fmt: skip
    columns_ += [float(framework == f) for f in FRAMEWORKS] + [
        float(dtype == d) for d in ("fp8", "fp8_block", "nvfp4", "int8", "int8_wo", "int4_wo")
    ]
    quantised = m * k * 3.0 * (ACTIVATION_BYTES[dtype] < 2)  # read in 16 bits, written in 8 or fewer
    cast = (quantised / gpu.bandwidth_bytes_per_s, quantised / (gpu.sms * 10e9) * sustained.tick(gpu))
    chain = k * 1e-9 * sustained.tick(gpu)
    parts: list[Floats | float] = [1e-6 * sustained.tick(gpu), fastest * sustained.share(gpu, dtype), moved, chain, *cast]
    return _pack(base, columns_, parts)


def attention_prefill(
    batch: ArrayLike, query_heads: ArrayLike, kv_heads: ArrayLike, head_size: ArrayLike, value_size: ArrayLike, query_tokens: ArrayLike,
    kv_tokens: ArrayLike, window: ArrayLike, dtype: str, kv_dtype: str, framework: str, gpu: Gpu, sustained: Sustained,
    latent: bool = False, causal: bool = True,
) -> Features:  # fmt: skip
    """Prompt attention: tiles of 64 or 128 queries of one head, in waves over the SMs, while the memory traffic runs."""
    b, h, g, d, v, q, kv, w = (np.asarray(x, dtype=np.float64).ravel() for x in np.broadcast_arrays(
        batch, query_heads, kv_heads, head_size, value_size, query_tokens, kv_tokens, window))  # fmt: skip
    kv_bytes = WEIGHT_BYTES[kv_dtype]
    done = work.latent_prefill(b, h, q, kv, kv_bytes) if latent else work.attention_prefill(b, h, g, d, v, q, kv, kv_bytes, w, causal)
    rate = gpu.peak_flop_per_s[dtype] * sustained.share(gpu, dtype)
    moved, busy = memory_time(done.bytes, gpu), done.flop / (0.75 * rate)
    columns: list[Floats | float] = []
    fastest = np.full(len(b), np.inf)
    for rows in (64, 128):
        blocks = b * h * np.ceil(q / rows)
        waves = blocks / gpu.sms
        tile = done.flop / blocks * (np.ceil(q / rows) * rows / q) / (0.75 * rate / gpu.sms)
        seconds = np.ceil(waves) * tile
        fastest = np.minimum(fastest, seconds)
        columns += [_log(waves), _log(np.ceil(waves) / waves).clip(0, 5), tile * 0 + _log(tile * 1e6 / sustained.tick(gpu))]
    base = 6e-6 * sustained.tick(gpu) + np.maximum(fastest, moved)
    columns += [
        _log(fastest / base), _log(moved / base), _log(busy / base), _log(base * 1e6 / sustained.tick(gpu)),
        _log(done.bytes / gpu.l2_bytes), _log(b), _log(h), _log(h / g),
        _log(d), _log(q), _log(kv), _log(b * h), _log(b * q), _log(np.where(w > 0, w, 1e6)),
        _log(b * q * (h + 2 * g) * d / gpu.bandwidth_bytes_per_s / base),
        float(dtype == "fp8"), float(kv_dtype == "fp8"), *[float(framework == f) for f in FRAMEWORKS],
    ]  # fmt: skip
    return _pack(base, columns)


def attention_decode(
    batch: ArrayLike, query_heads: ArrayLike, kv_heads: ArrayLike, head_size: ArrayLike, kv_tokens: ArrayLike, window: ArrayLike,
    dtype: str, kv_dtype: str, framework: str, gpu: Gpu, sustained: Sustained, latent: bool = False,
) -> Features:  # fmt: skip
    """Attention of one token a sequence: the cache once, split along the tokens where sequences and heads do not fill the SMs."""
    b, h, g, d, kv, w = (
        np.asarray(x, dtype=np.float64).ravel() for x in np.broadcast_arrays(batch, query_heads, kv_heads, head_size, kv_tokens, window)
    )
    kv_bytes = WEIGHT_BYTES[kv_dtype]
    done = work.latent_decode(b, h, kv, kv_bytes) if latent else work.attention_decode(b, h, g, d, kv, kv_bytes, w)
    rate = gpu.peak_flop_per_s[dtype] * sustained.share(gpu, dtype)
    seen = np.where(w > 0, np.minimum(kv, w), kv)
    moved = memory_time(done.bytes, gpu)
    padded = np.ceil(h / g / 16) * 16 * g / h if not latent else np.ceil(h / 64) * 64 / h
    busy = done.flop * padded / (0.6 * rate)
    blocks = b * (g if not latent else np.ceil(h / 64))
    waves = blocks / gpu.sms
    chunk = done.bytes / blocks / (gpu.bandwidth_bytes_per_s / gpu.sms * 2.5)  # one SM reads at most some 2.5 times its share
    split = np.clip(np.floor(1 / waves), 1, np.maximum(1, seen / 128))
    spread = np.ceil(waves) * chunk / split
    base = 4e-6 * sustained.tick(gpu) + np.maximum(np.maximum(moved, busy), np.minimum(spread, 50 * moved))
    columns: list[Floats | float] = [
        _log(moved / base), _log(busy / base), _log(spread / base), _log(base * 1e6 / sustained.tick(gpu)), _log(waves),
        _log(np.ceil(waves) / waves).clip(0, 5),
        _log(split), _log(done.bytes / gpu.l2_bytes), _log(b), _log(h), _log(h / g), _log(d), _log(kv), _log(seen), _log(b * h),
        _log(b * h * d),
        _log(np.where(w > 0, w, 1e6)), float(kv_dtype == "fp8"), *[float(framework == f) for f in FRAMEWORKS],
    ]  # fmt: skip
    return _pack(base, columns)


def moe(
    tokens: ArrayLike, experts: ArrayLike, top_k: ArrayLike, hidden: ArrayLike, intermediate: ArrayLike, tensor_parallel: ArrayLike,
    expert_parallel: ArrayLike, dtype: str, distribution: str, framework: str, gpu: Gpu, sustained: Sustained,
) -> Features:  # fmt: skip
    """Two grouped GEMMs (gate and up; down) over the active experts, rows in tiles of 64 or 128, while the weights are read once."""
    t, e, k, h, i, tp, ep = (np.asarray(x, dtype=np.float64).ravel() for x in np.broadcast_arrays(
        tokens, experts, top_k, hidden, intermediate, tensor_parallel, expert_parallel))  # fmt: skip
    done = work.moe(t, e, k, h, i, dtype, tp, ep)
    local_i = i / tp
    rate = gpu.peak_flop_per_s[dtype] * sustained.share(gpu, dtype)
    moved, busy = memory_time(done.work.bytes, gpu), done.work.flop / rate
    columns: list[Floats | float] = []
    fastest = np.full(len(t), np.inf)
    for rows in (16, 64, 128):
        row_tiles = done.active * np.ceil(done.rows / rows)
        up, down = row_tiles * np.ceil(2 * local_i / 128) / gpu.sms, row_tiles * np.ceil(h / 128) / gpu.sms
        tile = rows * 128 * 2 / (rate / gpu.sms * (0.5 if rows == 16 else 0.85))
        seconds = np.ceil(up) * tile * (h + PIPELINE_K) + np.ceil(down) * tile * (local_i + PIPELINE_K)
        fastest = np.minimum(fastest, seconds)
        columns += [_log(up), _log(seconds * 1e6), _log(np.ceil(done.rows / rows) * rows / done.rows).clip(0, 6)]
    base = 12e-6 * sustained.tick(gpu) + np.maximum(fastest, moved)
    weights = WEIGHT_BYTES[dtype] * done.local * h * local_i * 3
    columns += [
        _log(fastest / base), _log(moved / base), _log(busy / base), _log(base * 1e6), _log(done.work.bytes / gpu.l2_bytes),
        _log(weights / gpu.bandwidth_bytes_per_s / base), _log(ACTIVATION_BYTES[dtype] * t * h / gpu.bandwidth_bytes_per_s / base),
        _log(t), _log(e), _log(k), _log(h), _log(local_i), _log(done.local), _log(done.pairs), _log(done.active), _log(done.rows), _log(ep),
        _log(tp),
        float(distribution == "balanced"), float(distribution == "power_law_1.2"), *[float(framework == f) for f in FRAMEWORKS],
        *[float(dtype == d) for d in ("fp8", "fp8_block", "nvfp4", "mxfp4", "int4_wo")],
    ]  # fmt: skip
    return _pack(base, columns, _moe_parts(t, e, k, h, local_i, ep, dtype, distribution, framework, gpu, sustained))


def _moe_parts(
    t: Floats, e: Floats, k: Floats, h: Floats, local_i: Floats, ep: Floats, dtype: str, distribution: str, framework: str, gpu: Gpu,
    sustained: Sustained,
) -> list[Floats | float] | None:  # fmt: skip
    """Launch, arithmetic in whole waves of the experts' tiles, memory, the chain, passes, sorting; for carried answers alone."""
    if not sustained.cycles:
        return None
    tick = sustained.tick(gpu)
    crowded = framework == "sglang" and gpu.architecture != "blackwell" and dtype in CROWDED
    loads = work.loads(t, e, k, ep, distribution, crowded)
    per_sm = gpu.peak_flop_per_s[dtype] / gpu.sms
    fastest = np.full(len(t), np.inf)
    for rows, tiles, share in zip(work.HEIGHTS, loads.tiles, (0.5, 0.7, 0.85, 0.85), strict=True):
        up, down = (tiles * np.ceil(width / 128) / gpu.sms for width in (2 * local_i, h))
        steps = np.ceil(up) * (h + PIPELINE_K) + np.ceil(down) * (local_i + PIPELINE_K)
        fastest = np.minimum(fastest, rows * 128 * 2 / (per_sm * share) * steps)
    everywhere = framework == "vllm" and gpu.architecture in EVERY_CHOICE.get(dtype, ())
    written = np.maximum(t * k, loads.pairs) if everywhere else loads.pairs
    given = loads.tokens if framework == "sglang" else t  # the others were given the whole batch (collector/*/collect_moe.py there)
    weights = WEIGHT_BYTES[dtype] * loads.active * h * local_i * 3
    moved = weights + ACTIVATION_BYTES[dtype] * loads.pairs * (h + local_i) + 2 * written * (h + 2 * local_i)
    passes = (written * (4 * h + 6 * local_i) + 2 * given * h) / gpu.bandwidth_bytes_per_s
    sorting = (written + given) * h / (gpu.sms * 10e9) * tick
    return [1e-6 * tick, fastest, memory_time(moved, gpu), (h + local_i) * 1e-9 * tick, passes, sorting]
