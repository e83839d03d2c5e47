"""The fitted parameters on disk: plain arrays in `data/models/gpu_kernels`, no pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from analysis.errors import InputError
from analysis.kernels.physics import Sustained
from analysis.kernels.trees import Forest
from analysis.kernels.work import Floats
from analysis.paths import DATA

FOLDER = DATA / "models" / "gpu_kernels"


class Fitted(NamedTuple):
    """One forest and its interval.

    Args:
        edges: bins of the first time (s), shape (b - 1,); log_sd: standard deviation of log latency in each, shape (b,).
        hull: smallest and largest logarithm of each size that was fitted, shape (2, sizes); version: of the framework.
    """

    forest: Forest
    edges: Floats
    log_sd: Floats
    hull: Floats
    version: str


def read(name: str, folder: Path | None = None) -> dict[str, Fitted]:
    """The forests of one operator by key; empty where the file is absent."""
    path = (folder or FOLDER) / f"{name}.npz"
    if not path.is_file():
        return {}
    try:
        with np.load(path, allow_pickle=False) as file:
            a = {key: file[key] for key in file.files}
        nodes, trees = np.concatenate([[0], np.cumsum(a["nodes"])]), np.concatenate([[0], np.cumsum(a["trees"])])
        found = {}
        for i, key in enumerate(a["keys"]):
            n, t = slice(nodes[i], nodes[i + 1]), slice(trees[i], trees[i + 1])
            start = np.concatenate([[0], np.cumsum(a["tree_nodes"][t].astype(np.int64))[:-1]]).astype(np.int32)
            forest = Forest(a["feature"][n], a["number"][n], a["right"][n], start, float(a["constant"][i]))
            found[str(key)] = Fitted(forest, a["edges"][i], a["log_sd"][i], a["hull"][i], str(a["versions"][i]))
        return found
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise InputError(f"is not a file of fitted kernels: {error}", path=path) from None


def read_sustained(folder: Path | None = None) -> dict[str, Sustained]:
    """The levels, by architecture left out."""
    plain = json.loads(((folder or FOLDER) / "sustained.json").read_text())
    return {
        hidden: Sustained({(k.split(" ")[0], k.endswith("registers")): v for k, v in levels.items()}) for hidden, levels in plain.items()
    }
