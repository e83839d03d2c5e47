"""The StableHLO modules that ship with the project: what they are, how they are made again, and how they are read.

`data/workloads/stablehlo/` holds small programs of the zoo and, under `partitioned/`, one device's module of programs split over several,
compressed. `write` makes them again; a newer jaxlib may write other text for the same program, which is why the study reads these.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.errors import InputError
from analysis.paths import DATA
from analysis.workloads.graph import Module
from analysis.workloads.hlo import reader as hlo

FOLDER = DATA / "workloads" / "stablehlo"


@dataclass(frozen=True)
class Case:
    """One module.

    Args:
        workload: of the zoo; options: in place of its defaults.
        devices: over which it is split and partitioned; 1: the program as it is.
    """

    name: str
    workload: str
    options: Mapping[str, Any] = field(default_factory=dict)
    devices: int = 1

    @property
    def path(self) -> Path:
        """Where it ships."""
        return FOLDER / ("partitioned" if self.devices > 1 else "") / f"{self.name}.mlir.gz"


_WHOLE = (
    "gemm",
    "resnet50_forward",
    "llama2_7b_layer",
    "llama2_7b_prefill",
    "llama2_7b_decode",
    "bert_base_forward",
    "moe_block",
    "unet_block",
)
_LLAMA = {"model": "llama-2-7b", "step": "train", "sequence": 4096, "weight_dtype": "f32", "blocks": "unrolled", "devices": 8}
CASES: tuple[Case, ...] = (
    *(Case(name, name) for name in _WHOLE),
    Case("resnet50_train_b256", "resnet50_train", {"batch": 256}),
    Case("llama2_7b_train_scan", "llama2_7b_train_scan"),
    *(Case(f"gemm_{split}", f"gemm_{split}", {}, 8) for split in ("column", "row", "scatter", "grid")),
    Case("resnet50_train_b256_data", "resnet50_train", {"batch": 256, "devices": 8}, 8),
    Case("llama2_7b_layer_tensor", "llama2_7b_layer", {"split": "tensor", "devices": 8}, 8),
    Case("llama2_7b_train_data", "transformer", {**_LLAMA, "split": "data", "batch": 8}, 8),
    Case("llama2_7b_train_fsdp", "transformer", {**_LLAMA, "split": "fsdp", "batch": 8}, 8),
    Case("llama2_7b_train_tensor", "transformer", {**_LLAMA, "split": "tensor", "batch": 8}, 8),
)


def case(name: str) -> Case:
    """A shipped module by name."""
    for each in CASES:
        if each.name == name:
            return each
    raise InputError(f"no shipped module {name!r}; expected one of {', '.join(each.name for each in CASES)}", key="name")


def make(workload: str, options: Mapping[str, Any], devices: int) -> str:
    """StableHLO text of a program, or of one device's module where it is split over several."""
    from analysis.studies.workloads.partition import partitioner as partition
    from analysis.studies.workloads.zoo import catalogue as zoo

    text = zoo.text(zoo.lower(workload, **options))
    return partition.partition(text.encode(), devices) if devices > 1 else text


def compress(text: str) -> bytes:
    """The same bytes for the same text, on any day."""
    return gzip.compress(text.encode(), 9, mtime=0)


def write(folder: Path) -> None:
    """Make every shipped module again."""
    for each in CASES:
        path = folder / each.path.relative_to(FOLDER)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(compress(make(each.workload, each.options, each.devices)))


def read(path: Path) -> Module:
    """The operator graph of a module, compressed or not."""
    if not path.is_file():
        raise InputError("no such file", path=path)
    if path.suffix != ".gz":
        return hlo.read(path)
    with tempfile.TemporaryDirectory() as name:
        plain = Path(name) / path.stem
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        return hlo.read(plain)
