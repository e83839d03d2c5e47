"""HELP's search spaces: architectures as features, latencies by device, and which devices are sources and which are new."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import datasets
from analysis.errors import InputError

Floats = NDArray[np.float64]

SOURCES = {
    "nasbench201": "1080ti_1 1080ti_32 1080ti_256 silver_4114 silver_4210r samsung_a50 pixel3 essential_ph_1 samsung_s7",
    "fbnet": "1080ti_1 1080ti_32 1080ti_64 silver_4114 silver_4210r samsung_a50 pixel3 essential_ph_1 samsung_s7",
    "ofa": "2080ti_1 2080ti_32 2080ti_64 titan_xp_1 titan_xp_32 titan_xp_64 v100_1 v100_32 v100_64",
}
NEW = {
    "nasbench201": "titan_rtx_256 gold_6226 fpga pixel2 raspi4 eyeriss",
    "fbnet": "fpga raspi4 eyeriss",
    "ofa": "titan_rtx_1 titan_rtx_32 titan_rtx_64",
}
DESCRIBES = ("arch_idx", "arch_str", "arch", "ks", "e", "d", "r")
CELL_EDGES = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
"""Edges of a NAS-Bench-201 cell in the order of its text: into node 1, into node 2, into node 3."""


@dataclass(frozen=True)
class Space:
    """A search space with measured latencies.

    Attributes:
        name: nasbench201, fbnet or ofa.
        features: one row an architecture: which operator stands where, and, where the space tells, whether it is on a path that is used.
        latency_ms: measured latency by device, each of one value an architecture.
        sources: devices that may be learned from.
        new: devices that are predicted from a few samples.
    """

    name: str
    features: Floats
    latency_ms: dict[str, Floats]
    sources: tuple[str, ...]
    new: tuple[str, ...]


def one_hot(tokens: list[list[str]]) -> Floats:
    """One column for each token at each position."""
    columns = []
    for position in zip(*tokens, strict=True):
        kinds = sorted(set(position))
        index = {kind: number for number, kind in enumerate(kinds)}
        columns.append(np.eye(len(kinds))[[index[kind] for kind in position]])
    return np.hstack(columns)


def used_edges(operators: list[list[str]]) -> NDArray[np.bool_]:
    """Which edges of NAS-Bench-201 cells lie on a path from input to output; a compiler drops the others.

    Args:
        operators: six operators an architecture, in the order of `CELL_EDGES`.
    Returns:
        shape (architectures, 6).
    """
    present = np.array([[operator != "none" for operator in row] for row in operators])
    from_input = np.zeros((len(operators), 4), dtype=bool)
    to_output = np.zeros((len(operators), 4), dtype=bool)
    from_input[:, 0] = to_output[:, 3] = True
    for edge, (start, end) in enumerate(CELL_EDGES):
        from_input[:, end] |= from_input[:, start] & present[:, edge]
    for edge in reversed(range(len(CELL_EDGES))):
        start, end = CELL_EDGES[edge]
        to_output[:, start] |= to_output[:, end] & present[:, edge]
    return np.stack([from_input[:, a] & to_output[:, b] & present[:, i] for i, (a, b) in enumerate(CELL_EDGES)], axis=1)


def cell_features(texts: pd.Series) -> Floats:
    """Features of NAS-Bench-201 architectures: operator by edge, and the same for edges in use only."""
    operators = [re.findall(r"([a-z_0-9]+)~", text) for text in texts]
    for line, row in enumerate(operators, start=2):
        if len(row) != len(CELL_EDGES):
            raise InputError(f"is not a cell of six edges: {texts.iloc[line - 2]}", line=line, key="arch_str")
    everywhere = one_hot(operators)
    in_use = np.repeat(used_edges(operators), [len({row[i] for row in operators}) for i in range(6)], axis=1)
    return np.hstack([everywhere, everywhere * in_use])


def layer_features(frame: pd.DataFrame) -> Floats:
    """Features of spaces that are a list of choices: which choice stands at which position.

    Args:
        frame: the columns that describe architectures; each is split at everything that is no letter or digit.
    """
    split = [
        [token for column in frame.columns for token in re.findall(r"[A-Za-z0-9.]+", str(row[column]))] for row in frame.to_dict("records")
    ]
    for line, row in enumerate(split, start=2):
        if len(row) != len(split[0]):
            raise InputError(f"has {len(row)} choices; the first has {len(split[0])}", line=line)
    return one_hot(split)


def from_table(name: str, frame: pd.DataFrame) -> Space:
    """A search space from its table.

    Args:
        name: nasbench201, fbnet or ofa; another name takes every device as a source.
        frame: columns that describe architectures (`DESCRIBES`), and a latency column a device (ms).
    """
    described = [column for column in frame.columns if column in DESCRIBES and column != "arch_idx"]
    if not described:
        raise InputError(f"no column describes architectures; expected one of {', '.join(DESCRIBES[1:])}", path=name)
    devices = [column for column in frame.columns if column not in DESCRIBES]
    sources, new = (tuple(part.get(name, "").split()) for part in (SOURCES, NEW))
    missing = sorted({*sources, *new} - set(devices))
    if missing:
        raise InputError("missing column; expected one a device of the split", path=name, line=1, key=", ".join(missing))
    features = cell_features(frame["arch_str"]) if "arch_str" in described else layer_features(frame[described])
    latencies = {device: frame[device].to_numpy(dtype=float) for device in devices}
    return Space(name, features, latencies, sources or tuple(devices), new)


def load(name: str) -> Space:
    """One of HELP's search spaces."""
    return from_table(name, datasets.load(f"help/{name}_latency_ms"))
