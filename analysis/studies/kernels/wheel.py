"""Kernel timings out of the wheel of `aiconfigurator-core` 0.12.0 (NVIDIA, Apache-2.0): verified, read as a zip file, never run."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.errors import InputError
from analysis.kernels import gpus
from analysis.paths import DATA
from analysis.studies import datasets
from analysis.tables import read_csv

_ROW = read_csv(DATA / "sources" / "packages.csv").set_index("dataset").loc["aiconfigurator"]
FILE, BYTES, SHA256 = str(_ROW["file"]), int(str(_ROW["bytes"])), str(_ROW["sha256"])
ROOT = "aiconfigurator_core/systems/data/"
COLLECTIVE_NAMES = {"alltoall": "all_to_all"}
ELEMENT_BYTES = {"half": 2, "int8": 1, "bfloat16": 2}
CURE = "run `make data` (needs the network), or set ANALYSIS_DATASETS to a folder that has it"


@dataclass(frozen=True)
class Table:
    """One table of the wheel: `<system>/<operator>/<framework>/<version>/<file>`."""

    system: str
    operator: str
    framework: str
    version: str
    file: str

    @property
    def path(self) -> str:
        """Place within the wheel."""
        return f"{ROOT}{self.system}/{self.operator}/{self.framework}/{self.version}/{self.file}"


def verify(path: Path) -> Path:
    """The wheel, if it is the pinned one."""
    if not path.is_file():
        raise InputError(f"the kernel tables are not here: {CURE}", path=path)
    size = path.stat().st_size
    if size != BYTES:
        raise InputError(f"has {size:,} bytes instead of {BYTES:,}: truncated or another version; {CURE}", path=path)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != SHA256:
        raise InputError(
            f"is not the pinned wheel (SHA-256 {digest.hexdigest()[:12]}..., expected {SHA256[:12]}...): altered; {CURE}", path=path
        )
    return path


def find() -> Path:
    """The verified wheel among the datasets of this machine."""
    return verify(datasets.find(f"aiconfigurator/{FILE}"))


def tables(path: Path) -> list[Table]:
    """Every Parquet table of the wheel, in its order."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.startswith(ROOT) and name.endswith(".parquet")]
    except (zipfile.BadZipFile, OSError) as error:
        raise InputError(f"is not a wheel: {error}", path=path) from None
    found = []
    for name in names:
        system, operator, framework, *version, file = name.removeprefix(ROOT).split("/")
        found.append(Table(system, operator, framework, "/".join(version), file))
    return found


def read(path: Path, table: Table) -> pd.DataFrame:
    """One table as the wheel has it."""
    import pyarrow
    import pyarrow.parquet

    try:
        with zipfile.ZipFile(path) as archive:
            content = archive.read(table.path)
        return pyarrow.parquet.read_table(io.BytesIO(content)).to_pandas(strings_to_categorical=True)
    except (zipfile.BadZipFile, KeyError, OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{table.path} cannot be read: {str(error).splitlines()[0]}", path=path) from None


def version_order(version: str) -> tuple[int, ...]:
    """A key that sorts versions: 1.3.0rc9 before 1.3.0rc20."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def collective_times(path: Path) -> pd.DataFrame:
    """Median latency by GPU, collective, implementation, number of GPUs and size, of the newest NCCL and all framework versions.

    The tables count elements; 16-bit and 8-bit ones of equal bytes are pooled. `custom` is the frameworks' own all-reduce in a CUDA graph,
    of each framework and (framework empty) of all together.
    """
    found = []
    for table in tables(path):
        if table.system not in gpus.SYSTEMS or table.file not in ("nccl_perf.parquet", "custom_allreduce_perf.parquet"):
            continue
        frame = read(path, table)
        custom = table.file.startswith("custom")
        if custom and "backend" in frame:
            frame = frame[~frame["backend"].astype(str).str.endswith("eager")]
        if custom and "eager" in str(frame["kernel_source"].iloc[0] if len(frame) else ""):
            continue
        kind = frame["op_name"].astype(str).replace(COLLECTIVE_NAMES)
        size = frame["message_size"] * frame["allreduce_dtype" if custom else "nccl_dtype"].astype(str).map(ELEMENT_BYTES)
        found.append(
            pd.DataFrame({
                "system": table.system, "implementation": "custom" if custom else "nccl", "kind": kind, "devices": frame["num_gpus"],
                "bytes": size, "latency_us": frame["latency"] * 1e3, "version": [version_order(table.version)] * len(frame),
                "framework": table.framework,
            })
        )  # fmt: skip
    every = pd.concat(found, ignore_index=True)
    every = every[every["latency_us"] > 0]
    newest = every[every["implementation"].eq("nccl")].groupby("system")["version"].transform("max")
    every = every.loc[(every["version"] == newest.reindex(every.index)) | every["implementation"].eq("custom")]
    every = pd.concat([every.assign(framework=""), every[every["implementation"].eq("custom")]])
    keys = ["system", "implementation", "framework", "kind", "devices", "bytes"]
    medians: pd.DataFrame = every.groupby(keys, as_index=False).agg(latency_us=("latency_us", "median"))
    return medians.assign(latency_us=medians["latency_us"].round(3))
