"""Measured NCCL all-reduce times of nine machine types as one tidy table."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.paths import DATA
from analysis.studies import datasets
from analysis.studies.freezing import digests
from analysis.tables import read_csv

PIPEWEAVE = {
    "A100_all_reduce": "A100",
    "H100_all_reduce": "H100",
    "H20_all_reduce": "H20",
    "H800_all_reduce": "H800",
    "RTX_6000_Ada_all_reduce": "RTX-6000-Ada",
    "RTX_PRO_6000_S_all_reduce": "RTX-PRO-6000",
}
DEVICES = {
    "A100": "A100-SXM4-80GB",
    "H100": "H100-SXM5-80GB",
    "H20": "H20-SXM5-96GB",
    "H200": "H200-SXM5-141GB",
    "H800": "H800-SXM5-80GB",
    "B200": "B200-SXM-180GB",
    "B200-EFA": "B200-SXM-180GB",
    "RTX-6000-Ada": "RTX-6000-Ada",
    "RTX-PRO-6000": "RTX-PRO-6000-Server",
}
"""Machine type: its device in `data/hardware`."""
PUBLISHED = {"8xA100 node": "A100", "8xH200 node (NVLink4)": "H200", "8xB200 node (NVLink5)": "B200", "4x8 B200 nodes EFAv4": "B200-EFA"}


def published_table() -> pd.DataFrame:
    """The quoted bandwidth tables (ml-engineering), busbw turned into time: 2 (n - 1) / n s / busbw.

    Returns:
        machine, origin, gpus (count), size_bytes (bytes), time_s (s).
    """
    path = DATA / "published" / "distributed_training.csv"
    rows = read_csv(path, required=["source", "system", "gpus", "model", "metric", "value"])
    rows = rows[rows["system"].isin(list(PUBLISHED)) & rows["model"].str.fullmatch(r"all-reduce \d+ B") & (rows["metric"] == "busbw")]
    gpus = rows["gpus"].astype(int)
    size = rows["model"].str.extract(r"(\d+) B")[0].astype(float)
    return pd.DataFrame(
        {
            "machine": rows["system"].map(PUBLISHED),
            "origin": "published",
            "gpus": gpus,
            "size_bytes": size,
            "time_s": size * 2 * (gpus - 1) / gpus / (rows["value"].astype(float) * 1e9),
        }
    ).reset_index(drop=True)


def pipeweave_table() -> pd.DataFrame:
    """PipeWeave's tables: median of three repetitions."""
    parts = []
    for name, machine in PIPEWEAVE.items():
        rows = datasets.load(f"pipeweave/collective/{name}")
        parts.append(
            pd.DataFrame(
                {
                    "machine": machine,
                    "origin": "pipeweave",
                    "gpus": rows["num_workers"].astype(int),
                    "size_bytes": rows["size"].astype(float),
                    "time_s": rows["time_stats.all_reduce.median"] * 1e-3,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def measured() -> pd.DataFrame:
    """Both tables together; rows whose first call is a warm-up (32 GPUs below 256 KiB, milliseconds) are left out."""
    rows = pd.concat([pipeweave_table(), published_table()], ignore_index=True)
    warm_up = (rows["machine"] == "B200-EFA") & (rows["size_bytes"] < 2**18)
    return rows[~warm_up].reset_index(drop=True)


def half_octaves(rows: pd.DataFrame) -> pd.DataFrame:
    """Medians by half octave of size, so that every size counts alike: columns of `rows` and `rows_in_bin` (count)."""
    keyed = rows.assign(half_octave=np.floor(2 * np.log2(rows["size_bytes"])).astype(int))
    grouped = keyed.groupby(["machine", "origin", "gpus", "half_octave"], sort=True)
    merged = grouped.agg(size_bytes=("size_bytes", "median"), time_s=("time_s", "median"), rows_in_bin=("time_s", "size")).reset_index()
    return merged.drop(columns="half_octave")


def input_hashes() -> dict[str, str]:
    """SHA-256 of every file that `measured` reads."""
    paths = {f"pipeweave/collective/{name}": datasets.find(f"pipeweave/collective/{name}") for name in PIPEWEAVE}
    paths["published/distributed_training.csv"] = DATA / "published" / "distributed_training.csv"
    return digests(paths)
