"""A trace of PyTorch's profiler (Kineto's JSON): its kernels by operator and shape, each with its measured and its predicted time.

A kernel carries the number of the operator that launched it ("External id"), and the operator its shapes and types where the profiler ran
with ``record_shapes=True``. Matrix products, attention and NCCL's collectives are asked of the kernel tables; any other operator that
names its inputs takes at least the time of reading them, which is a lower bound. Format: github.com/pytorch/kineto, output_json.cpp.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

from analysis.documents import LARGEST_JSON_BYTES, parse_json, read_bytes
from analysis.errors import InputError
from analysis.packed import unpacked

TYPES = {
    "c10::bfloat16": ("bf16", 2), "c10::half": ("fp16", 2), "float": ("fp32", 4), "c10::float8_e4m3fn": ("fp8", 1), "double": ("fp64", 8),
    "c10::float8_e5m2": ("fp8", 1), "signed char": ("int8", 1), "unsigned char": ("int8", 1), "int": ("int32", 4), "long": ("int64", 8),
    "long int": ("int64", 8), "bool": ("bool", 1), "bfloat16": ("bf16", 2), "half": ("fp16", 2),
}  # fmt: skip
"""The profiler's names of types in small letters, ours, and bytes of a value."""
PRODUCTS = {"aten::mm": 0, "aten::bmm": 0, "aten::_scaled_mm": 0, "aten::addmm": 1, "aten::baddbmm": 1, "aten::addmv": 1, "aten::mv": 0}
"""Operators that are matrix products, and which input is the left one."""
ATTENTION = {
    "aten::_scaled_dot_product_flash_attention": 4, "aten::_scaled_dot_product_cudnn_attention": 6, "aten::_flash_attention_forward": 8,
    "aten::_cudnn_attention_forward": 8,
}  # fmt: skip
"""Operators that are attention, and which input says whether it is causal."""
COLLECTIVES = {
    "allreduce": "all_reduce", "all_reduce": "all_reduce", "allgather": "all_gather", "_allgather_base": "all_gather",
    "reduce_scatter": "reduce_scatter", "_reduce_scatter_base": "reduce_scatter", "all_to_all": "all_to_all", "all_to_allv": "all_to_all",
}  # fmt: skip
MOST_VALUES = 1 << 48  # of a tensor: beyond any memory
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
COLUMNS = (
    "kernel", "operator", "shapes", "dtype", "count", "measured_us", "share_percent", "predicted_us", "lower_us", "upper_us", "ratio",
    "flop", "bytes", "basis", "status",
)  # fmt: skip


def read(path: str | Path) -> dict[str, Any]:
    """The trace, packed with gzip or not."""
    content = read_bytes(path, LARGEST_JSON_BYTES)
    if (packed := unpacked(path)) is not None:
        content = packed.read()
    trace = parse_json(content, path, python=True)
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        raise InputError("is no trace of PyTorch's profiler: expected an object with a list", path=path, key="traceEvents")
    return trace


def device_of(trace: dict[str, Any], path: str | Path) -> str:
    """The GPU that the trace names."""
    from analysis.hardware import devices

    known = trace.get("deviceProperties")
    name = known[0].get("name") if isinstance(known, list) and known and isinstance(known[0], dict) else None
    if not isinstance(name, str):
        raise InputError("the trace names no GPU: give --device", path=path, key="deviceProperties")
    try:
        return devices.load(name).name
    except InputError as error:
        raise InputError(f"the trace's GPU is unknown: {error.message}; give --device", path=path, key="deviceProperties") from None


def _arguments(event: dict[str, Any]) -> dict[str, Any]:
    found = event.get("args")
    return found if isinstance(found, dict) else {}


def _shapes(arguments: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
    """Sizes of the inputs; an input that is no tensor, or whose sizes are no numbers, has none."""
    dims = arguments.get("Input Dims")
    found = []
    for each in dims if isinstance(dims, list) else []:
        fine = isinstance(each, list) and all(isinstance(size, int) and 0 <= size < MOST_VALUES for size in each)
        found.append(tuple(each) if fine and math.prod(each) < MOST_VALUES else ())
    return tuple(found)


def _type(arguments: dict[str, Any], which: int) -> tuple[str, int]:
    names = arguments.get("Input type")
    name = names[which] if isinstance(names, list) and which < len(names) else ""
    return TYPES.get(str(name).lower(), ("", 0))


def _case(operator: str, arguments: dict[str, Any]) -> dict[str, Any] | str:
    """The row of `kernels predict` that an operator's kernels are, or why they are none."""
    if "Collective name" in arguments:
        kind = COLLECTIVES.get(str(arguments["Collective name"]).lower())
        size = TYPES.get(str(arguments.get("dtype")).lower(), ("", 0))[1]
        members, sent, received = (arguments.get(name) for name in ("Group size", "In msg nelems", "Out msg nelems"))
        if kind is None or not size or not isinstance(members, int) or not isinstance(sent, int) or not 2 <= members < 1 << 20:
            return f"collective {arguments['Collective name']!r} without a kind, type, size or group that is known"
        most = max(sent, received if isinstance(received, int) else 0) if kind in ("all_gather", "reduce_scatter") else sent
        if not 0 <= most < MOST_VALUES:
            return f"a collective of {most} values"
        return {"op": kind, "bytes": most * size, "devices": members}
    shapes = _shapes(arguments)
    if operator in PRODUCTS:
        left, right = PRODUCTS[operator], PRODUCTS[operator] + 1
        if len(shapes) > right and len(shapes[left]) in (2, 3) and shapes[right] and 0 not in shapes[left] + shapes[right]:
            *batch, m, k = shapes[left]
            n = shapes[right][-1] if len(shapes[right]) == len(shapes[left]) else 1
            return {"op": "gemm", "dtype": _type(arguments, left)[0] or "unknown", "M": math.prod(batch) * m, "N": n, "K": k}
        return "the product's shapes were not recorded (record_shapes=True)"
    if operator in ATTENTION and len(shapes) > 1 and len(shapes[0]) == len(shapes[1]) == 4 and 0 not in shapes[0] + shapes[1]:
        heads, tokens = (2, 1) if operator == "aten::_flash_attention_forward" else (1, 2)  # that library puts tokens before heads
        (query, keys), kind = shapes[:2], _type(arguments, 0)[0]
        sizes = {"batch": query[0], "query_heads": query[heads], "kv_heads": keys[heads], "head_size": query[3], "kv_tokens": keys[tokens]}
        concrete = arguments.get("Concrete Inputs")
        causal = concrete[ATTENTION[operator]] if isinstance(concrete, list) and len(concrete) > ATTENTION[operator] else "True"
        if causal != "True" and query[tokens] > 1:
            return "the kernel tables hold causal attention alone"
        if query[tokens] == 1:
            return {"op": "attention_decode", "dtype": kind, **sizes}
        return {"op": "attention_prefill", "dtype": kind, "query_tokens": query[tokens], **sizes}
    moved = sum(math.prod(shape) * _type(arguments, place)[1] for place, shape in enumerate(shapes) if shape)
    return {"op": "memory_bound", "bytes": moved} if moved else "no shapes were recorded (record_shapes=True)"


def kernels(trace: dict[str, Any], device: str, path: str | Path = "") -> pd.DataFrame:
    """Kernels by name, operator and shapes, most time first, with `COLUMNS`; times are of one launch, in microseconds."""
    from analysis.kernels.cases import answers

    operators: dict[int, tuple[str, dict[str, Any]]] = {}
    calls: dict[Any, list[tuple[str, float, dict[str, Any]]]] = defaultdict(list)
    events = [event for event in trace["traceEvents"] if isinstance(event, dict) and isinstance(event.get("name"), str)]
    for event in events:
        number = _arguments(event).get("External id")
        if event.get("cat") == "cpu_op" and isinstance(number, int):
            operators[number] = (event["name"], _arguments(event))
    for place, event in enumerate(events):
        time, own = event.get("dur"), _arguments(event)
        if event.get("cat") not in WORK or not isinstance(time, int | float) or isinstance(time, bool) or not 0 <= time < 1e12:
            continue
        number = own.get("External id")
        together = isinstance(number, int) and number in operators and "Collective name" not in own
        calls[number if together else (place,)].append((event["name"][:200], float(time), own))
    launched: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    about: dict[tuple[str, str, str], dict[str, Any]] = {}
    for number, parts in calls.items():  # an operator may launch several kernels
        operator, arguments = operators[number] if isinstance(number, int) else ("", parts[0][2])
        shapes = " ".join("x".join(map(str, shape)) for shape in _shapes(arguments) if shape) or str(arguments.get("In msg nelems", ""))
        key = (" + ".join(dict.fromkeys(name for name, _, _ in parts)), operator, shapes)
        launched[key].append(math.fsum(time for _, time, _ in parts))
        about[key] = arguments
    if not launched:
        raise InputError("holds no kernel of a GPU: record with ProfilerActivity.CUDA", path=path or None, key="traceEvents")
    table = pd.DataFrame(list(launched), columns=["kernel", "operator", "shapes"])
    table["count"], table["measured_us"] = [len(times) for times in launched.values()], [fmean(times) for times in launched.values()]
    table["share_percent"] = 100 * table["count"] * table["measured_us"] / max(math.fsum(chain(*launched.values())), 1e-300)
    found = [_case(operator, about[key]) for key in launched for _, operator, _ in (key,)]
    table["dtype"] = [case.get("dtype", "") if isinstance(case, dict) else "" for case in found]
    table["status"] = [case if isinstance(case, str) else "" for case in found]
    asked = [place for place, case in enumerate(found) if isinstance(case, dict)]
    table = table.assign(predicted_us=math.nan, lower_us=math.nan, upper_us=math.nan, basis="")
    if asked:
        got = answers(pd.DataFrame([found[place] for place in asked]).assign(device=device).map(_cell), path=Path(path) if path else None)
        for ours, theirs in (("predicted_us", "latency_ms"), ("lower_us", "lower_ms"), ("upper_us", "upper_ms")):
            table.loc[asked, ours] = 1e3 * got[theirs].to_numpy()
        table.loc[asked, "basis"], table.loc[asked, "status"] = got["source"].to_numpy(), got["status"].to_numpy()
        bound = [place for place in asked if found[place]["op"] == "memory_bound"]  # type: ignore[index]
        table.loc[bound, "basis"], table.loc[bound, "upper_us"] = "inputs read once: a lower bound", math.nan
    amounts = [_amounts(case) if isinstance(case, dict) else (0.0, 0.0) for case in found]
    table["flop"], table["bytes"] = [flop for flop, _ in amounts], [moved for _, moved in amounts]
    table["ratio"] = table["measured_us"] / table["predicted_us"]
    order = (table["count"] * table["measured_us"]).sort_values(ascending=False, kind="stable").index
    return table.loc[order, list(COLUMNS)].reset_index(drop=True)


def _amounts(case: dict[str, Any]) -> tuple[float, float]:
    """FLOP of a product and bytes of its three matrices, the result in 16 bits or wider; of anything else the bytes of its inputs."""
    if case["op"] != "gemm":
        return 0.0, float(case.get("bytes", 0))
    m, n, k = (case[size] for size in "MNK")
    width = next((size for name, size in TYPES.values() if name == case["dtype"]), 0)
    return 2.0 * m * n * k, float(width * (m * k + n * k) + max(width, 2) * m * n)


def _cell(value: Any) -> str:
    return "" if value is None or value != value else f"{value:.0f}" if isinstance(value, float) else str(value)


def summary(table: pd.DataFrame, device: str, rows: int = 12) -> str:
    """Measured and predicted times of the kernels, as lines of text."""
    total = float((table["count"] * table["measured_us"]).sum())
    known = table[table["predicted_us"].notna() & table["upper_us"].notna()]
    covered = known["share_percent"].sum()
    lines = [f"{int(table['count'].sum())} calls on {device}, {total / 1e3:.3f} ms; the prediction covers {covered:.0f} % of it"]
    lines.append(f"{'share':>6} {'count':>6} {'measured us':>12} {'predicted us':>26}  operator, shapes")
    for row in table.head(rows).to_dict("records"):
        predicted, lower, upper = (float(row[f"{name}_us"]) for name in ("predicted", "lower", "upper"))
        ends = "-" if math.isnan(predicted) else f"at least {predicted:.1f}"
        if not math.isnan(upper):
            ends = f"{predicted:.1f} ({lower:.1f} to {upper:.1f})"
        what = f"{(row['operator'] or row['kernel'])[:48]} {row['shapes'][:48]}"
        lines.append(f"{row['share_percent']:5.1f}% {row['count']:6d} {row['measured_us']:12.1f} {ends:>26}  {what}")
    if len(table) > rows:
        lines.append(f"... and {len(table) - rows} more; --out writes all")
    return "\n".join(lines)
