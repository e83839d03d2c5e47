"""NeuSight's kernel measurements as one table an operator group and vendor, and its device files as one table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from analysis.documents import read_json
from analysis.errors import InputError
from analysis.tables import read_csv

ROOT = "scripts/asplos/data"
ELEMENTWISE = ("add", "addu", "mul", "mulu", "div", "divu", "pow", "powu", "relu", "gelu", "tanh")
GROUPS: dict[str, tuple[str, ...]] = {
    "bmm": ("bmm",),
    "linear": ("linear",),
    "elem": ELEMENTWISE,
    "softmax": ("softmax",),
    "ln": ("ln",),
    "conv": ("conv",),
}
SHAPES = {
    "bmm": ["B", "M", "N", "K"],
    "linear": ["B", "M", "N", "K"],
    "conv": ["B", "Input_Channel", "Output_Channel", "Kernel_Szie", "Input_Size", "Stride", "Padding"],
}
KERNEL_CHARACTERS = 120
RENAMED = {
    "opname": "op",
    "latency": "latency_ms",
    "torch_version": "torch",
    "cudnn_version": "cudnn",
    "cuda_version": "cuda",
    "kernel_name": "kernel",
}
LAUNCH = ["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"]
NVIDIA = ["torch", "cudnn", "kernel", "warps_per_sm", "blocks_per_sm", *LAUNCH, "cuda"]
AMD = ["kernel", *LAUNCH]
REQUIRED = ["op", "latency_ms", "device", "kernel", *LAUNCH]


def place(path: str) -> tuple[str, str, str] | None:
    """Operator group, vendor and split that a file belongs to, or None when no table is made of it."""
    collected = re.fullmatch(rf"{ROOT}/dataset/train/collect/(\w+)/p2\.1\.0/[^/]+\.csv", path)
    if collected:
        groups = [group for group, operators in GROUPS.items() if collected[1] in operators]
        return (groups[0], "nvidia", "train") if groups else None
    listed = re.fullmatch(rf"{ROOT}/(dataset|dataset_amd)/(train|test)/(\w+)\.csv", path)
    if listed and listed[3] in GROUPS and (listed[1] == "dataset_amd" or listed[2] == "test"):
        return listed[3], "amd" if listed[1] == "dataset_amd" else "nvidia", listed[2]
    return None


def needed(path: str) -> bool:
    """Whether a file of the repository goes into a table."""
    return place(path) is not None or (path.startswith(f"{ROOT}/device_configs/") and path.endswith(".json"))


def columns_of(group: str, vendor: str) -> list[str]:
    """Columns of a table, in order."""
    head = ["op", "latency_ms", "device", *(NVIDIA if vendor == "nvidia" else AMD)]
    return [*head, *SHAPES.get(group, ["B", "H", "large"]), "split", "vendor", "group"]


def measurements(path: Path, group: str, vendor: str, split: str) -> pd.DataFrame:
    """One original file in our columns; values stay the texts that they were."""
    frame = read_csv(path, dtype=str, keep_default_na=False)
    shapes = SHAPES.get(group, ["B", "H", "large"])
    by_key = {re.sub(r"\W+", "_", shape).lower(): shape for shape in shapes}
    names = {}
    for column in frame.columns:
        key = re.sub(r"\W+", "_", str(column).strip()).lower()
        names[column] = RENAMED.get(key, by_key.get(key, key))
    frame = frame.rename(columns=names)
    frame = frame.loc[:, ~frame.columns.duplicated()]
    missing = [column for column in [*REQUIRED, *shapes] if column not in frame and column != "large"]
    if missing:
        raise InputError(f"missing column; expected {', '.join([*REQUIRED, *shapes])}", path=path, line=1, key=", ".join(missing))
    frame["kernel"] = frame["kernel"].str.slice(0, KERNEL_CHARACTERS)
    frame = frame.assign(split=split, vendor=vendor, group=group)
    return frame.reindex(columns=columns_of(group, vendor), fill_value="")


def devices(files: Mapping[str, Path]) -> pd.DataFrame:
    """The device files, one row a file; `file` tells apart two that use one name."""
    rows = []
    for name in sorted(files, key=lambda name: Path(name).name):
        found = read_json(files[name])
        if not isinstance(found, dict) or "Device" not in found:
            raise InputError("is not a device file; expected an object", path=files[name], key="Device")
        rows.append(found | {"file": Path(name).name})
    columns = [
        "Device",
        "Dev_Mem",
        "Mem_Bw",
        "Num_Sm",
        "Core_Per_SM",
        "Freq",
        "SingleFLOPsMM",
        "SingleFLOPsVEC",
        "L2Cache",
        "file",
        "SingleFLOPs",
    ]
    return pd.DataFrame(rows).reindex(columns=columns)


def tables(originals: Mapping[str, Path]) -> Iterator[tuple[str, pd.DataFrame]]:
    """A table for each group and vendor that there are files of, training rows first, and the devices."""
    order = {operator: index for index, operator in enumerate(operator for operators in GROUPS.values() for operator in operators)}
    for vendor in ("nvidia", "amd"):
        for group in GROUPS:
            found = [(path, where) for path in originals if (where := place(path)) and where[:2] == (group, vendor)]
            found.sort(key=lambda item: (item[1][2] == "test", order.get(item[0].split("/")[-3], 0), item[0]))
            frames = [measurements(originals[path], group, vendor, split) for path, (_, _, split) in found]
            if frames:
                yield f"{group}_{vendor}.csv.gz", pd.concat(frames, ignore_index=True)
    configs = {path: file for path, file in originals.items() if path.startswith(f"{ROOT}/device_configs/")}
    if configs:
        yield "devices.csv", devices(configs)
