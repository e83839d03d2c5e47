"""Measurements that explorers lay over their models; in the page, this file is replaced by what it returns here (see `bundle`)."""

from __future__ import annotations

from functools import cache

from analysis.paths import DATA
from analysis.tables import read_csv

CPU_RUNTIME = "jax-1t-fp32"


@cache
def all_reduces() -> dict[str, list[tuple[int, float, float]]]:
    """Measured all-reduces by machine: GPUs, bytes, seconds (data/frozen/nccl_calibrated/curves.csv; sources in the networks chapter)."""
    found: dict[str, list[tuple[int, float, float]]] = {}
    frame = read_csv(DATA / "frozen" / "nccl_calibrated" / "curves.csv")
    for row in frame.to_dict("records"):
        found.setdefault(row["machine"], []).append((int(row["gpus"]), float(row["size_bytes"]), float(row["measured_s"])))
    return found


@cache
def cpu_operators() -> dict[str, list[tuple[float, float]]]:
    """Operators that we timed on one CPU core, by kind: FLOP per byte, FLOP/s reached; every fourth of 1,600, as timed."""
    folder = DATA / "measured" / "cpu_operators" / "one_thread"
    operators = {row["operator"]: row for row in read_csv(folder / "operators.csv").to_dict("records")}
    timed = read_csv(folder / "measurements.csv")
    found: dict[str, list[tuple[float, float]]] = {}
    for row in timed[timed["device"] == CPU_RUNTIME].iloc[::4].to_dict("records"):
        operator = operators[row["operator"]]
        flop, moved = float(operator["flop"]), 4.0 * float(operator["traffic_elements"])
        if flop > 0 and moved > 0:
            found.setdefault(str(operator["kind"]), []).append((flop / moved, flop / float(row["median_s"])))
    return {kind: found[kind] for kind in sorted(found)}


@cache
def gpu_products() -> list[tuple[str, str, float, float]]:
    """Fastest matrix products that others reached: device, type, FLOP per byte, FLOP/s (data/published/operator_rates.csv)."""
    found = []
    for row in read_csv(DATA / "published" / "operator_rates.csv").to_dict("records"):
        shape = str(row["note"]).split(";")[0].split(",")[0]
        sizes = shape.split("x")
        if len(sizes) == 3 and all(size.isdigit() for size in sizes):
            m, n, k = map(int, sizes)
            intensity = 2.0 * m * n * k / (2.0 * (m * n + m * k + n * k))
            dtype = {"f16": "fp16"}.get(row["dtype"], row["dtype"])
            found.append((row["device"], dtype, intensity, 1e12 * float(row["value"])))
    return found
