"""PipeWeave's schedule sweeps of a fused mixture-of-experts kernel: for each problem, the configurations within 1 % of the best.

The tables hold no slow configuration: each lists, for one GPU, what ran within 1 % of the fastest. So the question that they can answer is
which of all configurations are near-best for a problem, not how bad the others are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import datasets
from analysis.errors import InputError

Floats = NDArray[np.float64]

PROBLEM = ["weight_type", "M", "E", "topk", "H", "N"]
CONFIGURATION = ["BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages"]
GPUS = {
    "A100": "A100",
    "A40": "A40",
    "H20": "H20",
    "H800": "H800",
    "L40": "L40",
    "PRO6000S": "RTX_PRO_6000_S",
}
"""Sweeps by GPU, and the GPU's description; those whose sweep is not on this machine are left out."""
SPECS = ("numSms", "memBandwidth", "sharedMemorySize", "l2CacheSize", "l2CacheBandwidth", "tcBf16", "smFreq", "computeMajor")
ELEMENT_BYTES = 2


@dataclass(frozen=True)
class Sweeps:
    """Near-best configurations of the same problems on several GPUs.

    Attributes:
        gpus: names.
        specs: one row a GPU, columns `SPECS`.
        problems: one row a problem, columns `PROBLEM`.
        configurations: every configuration that is near-best somewhere, columns `CONFIGURATION`.
        near_best: whether it is near-best, shape (gpus, problems, configurations).
        measured: whether the problem was swept on the GPU, shape (gpus, problems).
    """

    gpus: tuple[str, ...]
    specs: pd.DataFrame
    problems: pd.DataFrame
    configurations: pd.DataFrame
    near_best: NDArray[np.bool_]
    measured: NDArray[np.bool_]


def from_tables(tables: dict[str, pd.DataFrame], specs: dict[str, dict[str, float]]) -> Sweeps:
    """Sweeps as arrays.

    Args:
        tables: by GPU: columns `PROBLEM`, `CONFIGURATION` and avg_duration (us).
    """
    for name, table in tables.items():
        missing = [column for column in [*PROBLEM, *CONFIGURATION, "avg_duration"] if column not in table]
        if missing:
            raise InputError("missing column", path=f"moe_dse_{name}_99", line=1, key=", ".join(missing))
        lacking = [fact for fact in SPECS if fact not in specs[name]]
        if lacking:
            raise InputError("is not described", path=name, key=", ".join(lacking))
    every = pd.concat(tables.values(), ignore_index=True)
    problems = every[PROBLEM].drop_duplicates().sort_values(PROBLEM).reset_index(drop=True)
    configurations = every[CONFIGURATION].drop_duplicates().sort_values(CONFIGURATION).reset_index(drop=True)
    row = {tuple(values): number for number, values in enumerate(problems.itertuples(index=False, name=None))}
    column = {tuple(values): number for number, values in enumerate(configurations.itertuples(index=False, name=None))}
    near = np.zeros((len(tables), len(problems), len(configurations)), dtype=bool)
    for gpu, table in enumerate(tables.values()):
        rows = [row[key] for key in table[PROBLEM].itertuples(index=False, name=None)]
        columns = [column[key] for key in table[CONFIGURATION].itertuples(index=False, name=None)]
        near[gpu, rows, columns] = True
    facts = pd.DataFrame([{fact: float(specs[name][fact]) for fact in SPECS} for name in tables])
    return Sweeps(tuple(tables), facts, problems, configurations, near, np.asarray(near.any(axis=2)))


def load() -> Sweeps:
    """The sweeps that are on this machine."""
    names = [name for name in GPUS if datasets.available(f"pipeweave/moe_dse/moe_dse_{name}_99")] or ["A100"]
    tables = {name: datasets.load(f"pipeweave/moe_dse/moe_dse_{name}_99") for name in names}
    specs = {name: json.loads(datasets.find(f"pipeweave/hardware/{GPUS[name]}.json").read_text()) for name in names}
    return from_tables(tables, specs)


@dataclass(frozen=True)
class Cost:
    """What a configuration asks of a GPU for a problem; arrays of shape (problems, configurations).

    Attributes:
        tiles: blocks of the launch.
        waves: rounds over the streaming multiprocessors, of one block each.
        filled: useful rows over rows computed (1).
        compute_s: matrix units' time, every wave full.
        memory_s: time to move the experts' weights and the rows once a tile column or row.
        shared_bytes: shared memory of a block, all stages.
    """

    tiles: Floats
    waves: Floats
    filled: Floats
    compute_s: Floats
    memory_s: Floats
    shared_bytes: Floats


def cost(problems: pd.DataFrame, configurations: pd.DataFrame, spec: pd.Series) -> Cost:
    """The roofline of each configuration, rows spread evenly over the experts that they can reach.

    rows an expert = M topk / min(E, M topk); tiles = experts ceil(rows / BM) ceil(2N / BN), with 2N columns for the fused gate and
    up projection; compute = waves BM BN H / (multiply-adds a second of a multiprocessor).

    Args:
        spec: facts about the GPU: `SPECS`; memBandwidth in GB/s, smFreq in MHz, tcBf16 multiply-adds a clock and multiprocessor.
    """
    m, e, k, h, n = (problems[name].to_numpy(dtype=float)[:, None] for name in ("M", "E", "topk", "H", "N"))
    bm, bn, bk = (configurations[f"BLOCK_SIZE_{axis}"].to_numpy(dtype=float)[None] for axis in "MNK")
    stages = configurations["num_stages"].to_numpy(dtype=float)[None]
    experts = np.minimum(e, m * k)
    rows = m * k / experts
    row_tiles, column_tiles = np.ceil(rows / bm), np.ceil(2 * n / bn)
    tiles = experts * row_tiles * column_tiles
    waves = np.ceil(tiles / spec["numSms"])
    rate = spec["tcBf16"] * spec["smFreq"] * 1e6
    weights = experts * 2 * n * h * ELEMENT_BYTES
    moved = weights * row_tiles + m * k * h * ELEMENT_BYTES * column_tiles
    return Cost(
        tiles=tiles,
        waves=waves,
        filled=rows / (row_tiles * bm) * (2 * n) / (column_tiles * bn),
        compute_s=waves * bm * bn * np.ceil(h / bk) * bk / rate,
        memory_s=moved / (spec["memBandwidth"] * 1e9),
        shared_bytes=np.broadcast_to((bm + bn) * bk * ELEMENT_BYTES * stages, tiles.shape),
    )
