"""What was measured: times of collectives of many machines as one table.

Columns: source (machine and who timed it), device, kind, gpus, nodes, network_bytes_per_s (a GPU's adapter; empty in a node), graph
(launched in a CUDA graph), size_bytes, time_s.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.paths import DATA
from analysis.studies import datasets
from analysis.studies.freezing import digests
from analysis.studies.networks import tables
from analysis.tables import read_csv

NCCL_TESTS = "panel/collectives"
TABLES = DATA / "models" / "gpu_kernels" / "collectives.csv"
LEAST_BYTES = 1024
GBIT = 1e9 / 8


def all_reduces(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `tables` as rows of this table."""
    nodes = np.where(rows["machine"] == "B200-EFA", 4, 1)
    return pd.DataFrame({
        "source": rows["machine"] + " " + rows["origin"], "device": rows["machine"].map(tables.DEVICES), "kind": "all_reduce",
        "gpus": rows["gpus"], "nodes": nodes, "network_bytes_per_s": np.where(nodes > 1, 400 * GBIT, np.nan), "graph": False,
        "size_bytes": rows["size_bytes"], "time_s": rows["time_s"],
    })  # fmt: skip


def nine_types() -> pd.DataFrame:
    """PipeWeave's and the quoted all-reduces, medians by half octave."""
    return all_reduces(tables.half_octaves(tables.measured()))


def graphs(devices: dict[str, str]) -> pd.DataFrame:
    """NCCL's collectives of the kernel tables.

    Args:
        devices: name in the tables -> device, of the GPUs whose tables are believed; the others are left out.
    """
    rows = read_csv(TABLES, required=["system", "implementation", "kind", "devices", "bytes", "latency_us"])
    rows = rows[(rows["implementation"] == "nccl") & (rows["bytes"] >= LEAST_BYTES) & rows["system"].isin(devices)]
    return pd.DataFrame({
        "source": rows["system"] + " tables", "device": rows["system"].map(devices), "kind": rows["kind"],
        "gpus": rows["devices"], "nodes": 1,
        "network_bytes_per_s": np.nan, "graph": True, "size_bytes": rows["bytes"].astype(float), "time_s": 1e-6 * rows["latency_us"],
    })  # fmt: skip


def nccl_tests() -> pd.DataFrame:
    """What nccl-tests printed on machines of others."""
    rows = datasets.load(NCCL_TESTS)
    return pd.DataFrame({
        "source": rows["machine"], "device": rows["device"], "kind": rows["collective"], "gpus": rows["gpus"], "nodes": rows["nodes"],
        "network_bytes_per_s": rows["network_gbit_per_s_per_gpu"] * GBIT, "graph": False,
        "size_bytes": rows["size_bytes"].astype(float), "time_s": 1e-6 * rows["time_us"],
    })  # fmt: skip


def hashes() -> dict[str, str]:
    """SHA-256 of every file that was fitted on."""
    return tables.input_hashes() | digests({"models/gpu_kernels/collectives.csv": TABLES, NCCL_TESTS: datasets.find(NCCL_TESTS)})
