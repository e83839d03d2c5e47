"""A file of GPU kernels answered: each row names its operator, sizes, number type and GPU; rows, order and columns are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.case_columns import Columns, nearest
from analysis.errors import InputError
from analysis.hardware import devices, own
from analysis.kernels import gpus, work
from analysis.kernels.fp32 import devices as boards
from analysis.kernels.fp32 import model as fp32
from analysis.kernels.fp32.cases import BOUNDS, CODE, DIMENSIONS, Operators
from analysis.kernels.library import KernelLibrary, Kernels, Latency
from analysis.kernels.work import Floats, Work
from analysis.networks.calibrated.form import KINDS as COLLECTIVES
from analysis.tables import numeric
from analysis.vocabulary import engine

SIZES = {
    "gemm": ("M", "N", "K"),
    "attention_prefill": ("batch", "query_heads", "kv_heads", "head_size", "query_tokens", "kv_tokens"),
    "attention_decode": ("batch", "query_heads", "kv_heads", "head_size", "kv_tokens"),
    "latent_attention_prefill": ("batch", "query_heads", "query_tokens", "kv_tokens"),
    "latent_attention_decode": ("batch", "query_heads", "kv_tokens"),
    "moe": ("tokens", "experts", "top_k", "hidden", "intermediate"),
    "memory_bound": ("bytes",),
    **dict.fromkeys(COLLECTIVES, ("bytes", "devices")),
    **DIMENSIONS,
}
"""Sizes of each operator; those of the fp32 models are `DIMENSIONS`."""
FP32 = ("", "fp32", "float32")
OPTIONAL: dict[str, str | float] = {  # what an empty cell takes: the other size's value, or this number
    "query_heads": "kv_heads", "kv_heads": "query_heads", "kv_tokens": "query_tokens",
    "window": 0.0, "tensor_parallel": 1.0, "expert_parallel": 1.0,
}  # fmt: skip
MAY_HAVE = {  # besides its sizes, what an operator reads
    **dict.fromkeys(("attention_prefill", "attention_decode"), ("window", "kv_dtype")),
    **dict.fromkeys(("latent_attention_prefill", "latent_attention_decode"), ("kv_dtype",)),
    "moe": ("tensor_parallel", "expert_parallel", "distribution"),
    **dict.fromkeys(COLLECTIVES, ("implementation",)),
}
LAUNCH = "in a CUDA graph, as engines launch it; launched by a host, as nccl-tests does, see `predict collective`"
NO_TYPE = {"memory_bound", *COLLECTIVES}  # bytes say all
ADDED = ("latency_ms", "lower_ms", "upper_ms", "source", "status")
GROUP = ("op", "device", "dtype", "kv_dtype", "framework", "version", "distribution", "implementation")
READS = Columns(
    names=(*GROUP, *dict.fromkeys(name for sizes in SIZES.values() for name in sizes), "window", "tensor_parallel", "expert_parallel",
           "latency_ms"),
    required=("op", "device"),
    also={"gpus": "devices", "engine_version": "version"},
)  # fmt: skip
"""Columns of a table of kernels; B and H are those of NeuSight's fp32 kernels, latency_ms what was measured."""


def unread(frame: pd.DataFrame) -> NDArray[np.object_]:
    """Why a row cannot be answered as it stands: a cell that is no number, or one that its operator does not read (but for 1 and 0)."""
    reasons: NDArray[np.object_] = np.full(len(frame), "", dtype=object)
    codes, ops = pd.factorize(frame["op"].astype(str))
    reads = [(*SIZES.get(op, ()), *MAY_HAVE.get(op, ())) for op in ops]
    words = ("kv_dtype", "distribution", "implementation")
    for name in READS.names:
        if name not in frame or name in ("op", "device", "dtype", "framework", "version", "latency_ms"):
            continue
        text = frame[name].fillna("").astype(str).str.strip()
        filled = (~text.isin(["", "nan"])).to_numpy(copy=True)
        if not filled.any():
            continue
        if name not in words:
            values = numeric(frame[name]).to_numpy(np.float64)
            reasons[filled & ~np.isfinite(values) & (reasons == "")] = f"{name} must be a whole number"
            filled &= ~np.isin(values, (0.0, 1.0))
        known = np.array([name in listed or op not in SIZES for op, listed in zip(ops, reads, strict=True)], bool)[codes]
        stray = filled & ~known & (reasons == "")
        for code in np.unique(codes[stray]):
            reasons[stray & (codes == code)] = f"{ops[code]} does not read {name}"
    return reasons


def _call(kernels: Kernels, group: dict[str, str], z: dict[str, Floats]) -> Latency:
    """The library's answer: of a collective, or of the call that is named as the operator and takes its sizes in that order."""
    op, dtype = group["op"], group["dtype"]
    if op in COLLECTIVES:
        return kernels.collective(op, z["bytes"], z["devices"], group["implementation"] or "nccl")
    types: tuple[Any, ...] = {"gemm": (dtype,), "moe": (dtype,), "memory_bound": ()}.get(op, (dtype, group["kv_dtype"] or None))
    named: dict[str, Any] = {name: z[name] for name in MAY_HAVE.get(op, ()) if name in z}
    if op == "moe":
        named["distribution"] = group["distribution"] or "power_law_1.01"
    answered: Latency = getattr(kernels, op)(*(z[name] for name in SIZES[op]), *types, **named)
    return answered


def _least(group: dict[str, str], z: dict[str, Floats]) -> Work | None:
    """What a kernel has to multiply and move at least; None: its time is bounded by neither (collectives)."""
    op, dtype = group["op"], gpus.kernel_type(group["dtype"])
    kv = gpus.WEIGHT_BYTES.get(gpus.kernel_type(group["kv_dtype"] or dtype), 0.0)
    if op == "gemm" and dtype in gpus.WEIGHT_BYTES:
        return work.gemm(z["M"], z["N"], z["K"], dtype)
    if op == "memory_bound":
        return Work(np.zeros_like(z["bytes"]), z["bytes"])
    if op == "attention_decode":
        return work.attention_decode(z["batch"], z["query_heads"], z["kv_heads"], z["head_size"], z["kv_tokens"], kv, z["window"])
    if op == "latent_attention_decode":
        return work.latent_decode(z["batch"], z["query_heads"], z["kv_tokens"], kv)
    if op == "attention_prefill":
        pairs = work.causal_pairs(z["query_tokens"], z["kv_tokens"], z["window"])
        return Work(4 * z["batch"] * z["query_heads"] * z["head_size"] * pairs, np.zeros_like(pairs))
    if op == "moe":
        pairs = z["tokens"] * z["top_k"] / z["expert_parallel"]
        return Work(6 * pairs * z["hidden"] * z["intermediate"] / z["tensor_parallel"], np.zeros_like(pairs))
    return None


AT_MOST = {  # size of an operator, and the one that it cannot be above
    "attention_prefill": (("query_tokens", "kv_tokens"),),
    "latent_attention_prefill": (("query_tokens", "kv_tokens"),),
    "moe": (("top_k", "experts"),),
}
DIVIDES = {  # size of an operator, and the one that it must divide
    "attention_prefill": (("kv_heads", "query_heads"),),
    "attention_decode": (("kv_heads", "query_heads"),),
    "moe": (("expert_parallel", "experts"), ("tensor_parallel", "intermediate")),
}


def _contradicting(op: str, z: dict[str, Floats]) -> NDArray[np.object_]:
    """Why sizes cannot go together; empty where they can."""
    said: NDArray[np.object_] = np.full(len(z[SIZES[op][0]]), "", dtype=object)
    for small, large in AT_MOST.get(op, ()):
        said[z[small] > z[large]] = f"{small} above {large}: cannot be"
    for part, whole in DIVIDES.get(op, ()):
        said[(z[whole] % z[part] != 0) & (said == "")] = f"{whole} of {op} must be a multiple of {part}"
    return said


def _too_large(group: dict[str, str], z: dict[str, Floats], memory_bytes: float) -> NDArray[np.object_]:
    """Why the operands do not fit into the device's memory; empty where they do."""
    op = group["op"]
    held = np.zeros(len(z[SIZES[op][0]]))
    if op == "moe":
        each = gpus.WEIGHT_BYTES.get(gpus.kernel_type(group["dtype"]), 0.0) * 3 * z["hidden"] * z["intermediate"]
        held = each * z["experts"] / z["expert_parallel"] / z["tensor_parallel"]
    elif op == "attention_prefill":
        size = gpus.WEIGHT_BYTES.get(gpus.kernel_type(group["kv_dtype"] or group["dtype"]), 0.0)
        heads = 2 * z["query_tokens"] * z["query_heads"] + z["kv_tokens"] * z["kv_heads"]
        held = 2 * size * z["batch"] * z["head_size"] * heads
    elif op in ("gemm", "attention_decode", "latent_attention_decode") and (least := _least(group, z)) is not None:
        held = least.bytes
    reasons: NDArray[np.object_] = np.full(len(held), "", dtype=object)
    for at in np.flatnonzero(held > memory_bytes):
        reasons[at] = f"the operands' {held[at] / 1e9:,.1f} GB do not fit into {memory_bytes / 1e9:,.1f} GB"
    return reasons


def _floor_s(kernels: Kernels, group: dict[str, str], z: dict[str, Floats]) -> Floats | float:
    """The least time by the data sheet (s): FLOP over peak, bytes that the last-level cache cannot hold over bandwidth."""
    gpu, least = kernels.gpu, _least(group, z)
    if least is None:
        return 0.0
    peak = gpu.peak_flop_per_s.get("bf16" if group["op"].endswith("decode") else gpus.kernel_type(group["dtype"]), np.inf)
    return np.maximum(least.flop / peak, np.maximum(0.0, least.bytes - gpu.l2_bytes) / gpu.bandwidth_bytes_per_s)


def _kernels(library: KernelLibrary, group: dict[str, str]) -> Kernels:
    kernels = library.on(group["device"], group["framework"] or None)
    if "fp16" in (gpus.number_type(group["dtype"]), gpus.number_type(group["kv_dtype"])):
        return replace(kernels, gpu=gpus.sixteen_bits(kernels.gpu))
    return kernels


def _runs_in_fp32(group: dict[str, str]) -> bool:
    """Whether a product runs in fp32: one asked for in it, or in bf16 on a GPU without, where frameworks do so and engines refuse."""
    if group["op"] != "gemm" or group["framework"]:
        return False
    peaks = devices.load(group["device"]).peak
    return group["dtype"].lower() in FP32 or (gpus.number_type(group["dtype"]) == "bf16" and "bf16" not in peaks and "fp32" in peaks)


def _answer(frame: pd.DataFrame) -> tuple[Floats, NDArray[np.object_], NDArray[np.object_]]:
    """Latency (s) and 90 % interval of each case, shape (3, n), their sources, and why a row has none."""
    n, strays, library = len(frame), unread(frame), KernelLibrary.load()
    seconds, source, status = np.full((3, n), np.nan), np.full(n, "", dtype=object), np.full(n, "", dtype=object)
    given = [c for c in GROUP if c in frame]
    # a collective's source depends on how many GPUs it joins
    given += ["devices"] if "devices" in frame and frame["op"].isin(COLLECTIVES).any() else []
    words = frame[given].fillna("").astype("category")
    names = OPTIONAL.keys() | {c for sizes in SIZES.values() for c in sizes}
    numbers = {c: numeric(frame[c]).to_numpy(np.float64) if c in frame else np.full(n, np.nan) for c in names}
    for key, places in words.groupby(given, sort=False, observed=True).indices.items():
        at, group = np.asarray(places), dict.fromkeys(GROUP, "") | {c: str(k).strip() for c, k in zip(given, key, strict=True)}  # type: ignore[call-overload]
        op = group["op"]
        if op not in SIZES:
            near = nearest(op, tuple(SIZES))
            hint = f"did you mean {near}? " if near else ""
            status[at] = f"operator {op!r} is not covered; {hint}expected one of {', '.join(SIZES)}"
            continue
        if op in DIMENSIONS and group["dtype"].lower() not in FP32:
            status[at] = f"operator {op!r} is covered in fp32 only, not in {group['dtype'].lower()}"
            continue
        if not group["dtype"] and op not in (*NO_TYPE, *DIMENSIONS):
            status[at] = f"{op} needs a precision: an empty one is not answered as if it were another"
            continue
        try:
            in_fp32 = op in DIMENSIONS or _runs_in_fp32(group)
            kernels = boards.load(group["device"]) if in_fp32 else _kernels(library, group)
        except InputError as error:
            status[at] = f"device {group['device']!r} is not known" if error.key == "device" else str(error)
            continue
        z = {c: numbers[c][at] for c in (*SIZES[op], *MAY_HAVE.get(op, ())) if c in names}
        for name in z.keys() & OPTIONAL.keys():
            instead = OPTIONAL[name]
            z[name] = np.where(np.isnan(z[name]), numbers[instead][at] if isinstance(instead, str) else instead, z[name])
        bad = strays[at] != ""
        status[at] = strays[at]
        for name in SIZES[op]:
            whole = np.isfinite(z[name]) & (z[name] == np.floor(z[name])) & (z[name] >= (0 if name == "bytes" else 1))
            whole &= z[name] < (1e12 if op in DIMENSIONS else 1e15)
            status[at[~whole & ~bad]] = f"{name} of {op} must be a whole number, at least {0 if name == 'bytes' else 1}"
            bad |= ~whole
            z[name] = np.where(whole, z[name], 1.0)
        if isinstance(kernels, boards.Board):
            # n is the reduced dimension of the fp32 models' products, k that of a gemm
            sizes = [z[name] if name in SIZES[op] else np.ones(len(at)) for name in ("BMKNH" if op == "gemm" else "BMNKH")]
            found = fp32.load().predict(Operators(np.full(len(at), CODE["linear" if op == "gemm" else op]), *sizes), kernels)
            seconds[:, at[~bad]] = np.stack([found.latency_s, found.lower_s, found.upper_s])[:, ~bad]
            why = "" if group["dtype"].lower() in FP32 else f"; {kernels.device.name} has no bf16 arithmetic: frameworks run it in fp32"
            source[at[~bad]] = np.array([f"fp32 kernels, bound by {name}{why}" for name in BOUNDS], dtype=object)[found.bound[~bad]]
            continue
        for reasons in (_contradicting(op, z), _too_large(group, z, devices.load(kernels.gpu.name).memory_bytes)):
            status[at[(reasons != "") & ~bad]] = reasons[(reasons != "") & ~bad]
            bad |= reasons != ""
        got = _call(kernels, group, z)
        good = ~bad & np.isfinite(got.s)
        half = np.exp(1.6449 * got.log_sd)
        # Measured kernels may beat a data sheet by a little: the floor does not lift the lower end above the answer.
        lower = np.maximum(got.s / half, np.minimum(_floor_s(kernels, group, z), got.s)) if good.any() else got.s
        seconds[:, at[good]] = np.stack([got.s, lower, got.s * half])[:, good]
        source[at[good]] = "; ".join(filter(None, (got.source, got.note, LAUNCH if op in COLLECTIVES else "")))
        if (group["version"] or group["framework"]) and op not in NO_TYPE:
            timed = kernels.timed_version(
                op.replace("latent_attention", "latent"), gpus.kernel_type(group["dtype"]) if op in ("gemm", "moe") else ""
            )
            framework, _, version = timed.rpartition(" ")
            # versions are not told apart: the newest timed one answers, and is named
            if version != (group["version"] or version) or framework != (engine(group["framework"]) or framework):
                source[at[good]] = f"{got.source}, as timed with {timed or 'all frameworks'}"
        refused = ~bad & ~good
        status[at[refused]] = got.status[refused]
    return seconds, source, status


def check_columns(frame: pd.DataFrame, path: Path | None = None) -> None:
    """Refuse cases without op or device, or with a column of the answer."""
    for needed in ("op", "device"):
        if needed not in frame:
            raise InputError("missing column; expected op, device, dtype and the sizes of the operators", path=path, line=1, key=needed)
    clash = [c for c in ADDED[1:] if c in frame]
    if clash:
        raise InputError("the cases have a column of the answer already", path=path, line=1, key=", ".join(clash))


def answers(frame: pd.DataFrame, path: Path | None = None, machines: Path | None = None) -> pd.DataFrame:
    """The cases with latency_ms, lower_ms, upper_ms, source and status added; a latency_ms of theirs becomes measured_latency_ms.

    Rows of the older fp32 operators that name no other number type go to the fp32 models; one that names another is refused.
    """
    check_columns(frame, path)
    if machines:
        own.read(machines)
    seconds, *words = _answer(frame)
    added = dict(zip(ADDED, (*_nine_digits(1e3 * seconds), *words), strict=True))
    return frame.rename(columns={"latency_ms": "measured_latency_ms"}).assign(**added)


def _nine_digits(values: Floats) -> Floats:
    """Rounded to nine significant digits, so that the shortest decimal form has no more."""
    with np.errstate(all="ignore"):
        places = 8 - np.floor(np.log10(np.abs(values)))
        scale = 10.0 ** np.abs(places)
        rounded = np.where(places >= 0, np.round(values * scale) / scale, np.round(values / scale) * scale)
    return np.where(np.isfinite(rounded), rounded, values)
