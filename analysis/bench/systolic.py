"""How many systolic layers a CPU-second does the model answer?"""

from __future__ import annotations

import time

import numpy as np

from analysis.accelerators.systolic.array import NO_QUIRKS, SCALE_SIM_3, Quirks, count
from analysis.bench.report import Benchmark


def layers_per_cpu_second(quirks: Quirks, layers: int = 2_000_000, chunk: int = 16_384) -> float:
    """Layers answered a CPU-second: different shapes, arrays and dataflows, every count of every layer.

    Args:
        chunk: layers a call, small enough for the cache.
    """
    generator = np.random.default_rng(0)
    shapes = generator.integers(1, 5_000, size=(3, layers))
    arrays = 2 ** generator.integers(2, 9, size=(2, layers))
    dataflow = generator.integers(0, 3, size=layers, dtype=np.int8)
    start = time.process_time()
    total = 0
    for first in range(0, layers, chunk):
        part = slice(first, first + chunk)
        m, n, k = shapes[:, part]
        rows, columns = arrays[:, part]
        total += int(count(m, n, k, rows, columns, dataflow[part], quirks).demand_rows.sum())
    elapsed = time.process_time() - start
    assert total > 0
    return layers / elapsed


def benchmarks() -> list[Benchmark]:
    """The benchmarks of this subpackage, with their targets."""
    note = "SCALE-Sim 3.0.0: 0.1 to 0.2 layers a second"
    return [
        Benchmark("systolic layers, SCALE-Sim's numbers", lambda: layers_per_cpu_second(SCALE_SIM_3), "layers/CPU-s", 1e6, "min", note),
        Benchmark("systolic layers, no quirks", lambda: layers_per_cpu_second(NO_QUIRKS), "layers/CPU-s", 1e6, "min", note),
    ]
