"""HELP's latency files as one table a search space: a row an architecture, a column a device, milliseconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.artifact.publishing.fetching.torch_file import read_torch
from analysis.errors import InputError

ARCHITECTURES = {"nasbench201": "data/nasbench201/str_arch2idx.pt", "fbnet": "data/fbnet/arch.pt"}


def needed(path: str) -> bool:
    """Whether a file of the repository goes into a table."""
    return path in ARCHITECTURES.values() or any(path.startswith(f"data/{space}/latency/") for space in ARCHITECTURES)


def latencies(path: Path, count: int) -> list[float]:
    """One device's latencies."""
    found = read_torch(path)
    if isinstance(found, np.ndarray):
        found = found.reshape(-1).tolist()
    if not isinstance(found, list) or not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in found):
        raise InputError("holds something else than a list of latencies", path=path)
    if len(found) != count:
        raise InputError(f"has {len(found)} latencies; expected {count}", path=path)
    return found


def nasbench201_architectures(found: Any, path: Path) -> pd.DataFrame:
    """Architectures of NAS-Bench-201 in the order of their numbers, from the map of text to number."""
    if not isinstance(found, dict) or sorted(found.values()) != list(range(len(found))):
        raise InputError("is not a map of architecture texts to numbers from 0 on", path=path)
    names = sorted(found, key=found.__getitem__)
    return pd.DataFrame({"arch_idx": range(len(names)), "arch_str": names})


def fbnet_architectures(found: Any, path: Path) -> pd.DataFrame:
    """Architectures of FBNet: one operator number a layer."""
    rows = found.get("arch", found) if isinstance(found, dict) else found
    rows = [row.get("op_idx_list", row) if isinstance(row, dict) else row for row in rows] if isinstance(rows, (list, np.ndarray)) else None
    if not rows or not all(isinstance(row, (list, tuple, np.ndarray)) and len(row) == len(rows[0]) for row in rows):
        raise InputError("is not a list of operator numbers by layer", path=path)
    return pd.DataFrame({"arch": ["-".join(str(int(op)) for op in row) for row in rows]})


def tables(originals: Mapping[str, Path]) -> Iterator[tuple[str, pd.DataFrame]]:
    """The tables of the search spaces that there are files of."""
    for space, listed in ARCHITECTURES.items():
        devices = {Path(path).stem: file for path, file in originals.items() if path.startswith(f"data/{space}/latency/")}
        if not devices:
            continue
        if listed not in originals:
            raise InputError("is not in the list of files", key=listed)
        read = nasbench201_architectures if space == "nasbench201" else fbnet_architectures
        frame = read(read_torch(originals[listed]), originals[listed])
        columns = {name: latencies(devices[name], len(frame)) for name in sorted(devices)}
        yield f"{space}_latency_ms.csv.gz", pd.concat([frame, pd.DataFrame(columns)], axis=1)
