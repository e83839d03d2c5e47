"""How long do a million kernel predictions take, from file to file?"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.bench.report import Benchmark, cpu_s
from analysis.composition.case_files import answer_file
from analysis.operators.fp32_kernels import model as kernel_model
from analysis.operators.fp32_kernels.answers import answers
from analysis.operators.fp32_kernels.cases import DIMENSIONS, OPS

DEVICES = ["NVIDIA A100 80GB PCIe", "NVIDIA H100 80GB HBM3", "NVIDIA L4", "Tesla T4", "AMD Instinct MI210"]


def many_cases(n: int, seed: int = 0) -> pd.DataFrame:
    """Random cases of all operators on five devices, with NeuSight's columns."""
    rng = np.random.default_rng(seed)
    op = np.array(OPS)[rng.integers(0, len(OPS), n)]
    frame = pd.DataFrame({"op": op})
    for name in ("B", "M", "N", "K", "H"):
        used = np.isin(op, [key for key, names in DIMENSIONS.items() if name in names])
        frame[name] = np.where(used, np.floor(2 ** rng.uniform(3, 13, n)), np.nan)
    return frame.assign(device=np.array(DEVICES)[rng.integers(0, len(DEVICES), n)])


def million_cases_cpu_seconds(n: int = 1_000_000) -> float:
    """CPU-seconds from a CSV of a million cases to the CSV of answers, after a thousand others, so that compiled functions are loaded."""
    model = partial(answers, predictor=kernel_model.load())
    with tempfile.TemporaryDirectory() as folder:
        few, many, out = (Path(folder) / name for name in ("few.csv", "many.csv", "out.csv"))
        many_cases(1000).to_csv(few, index=False)
        many_cases(n).to_csv(many, index=False)
        answer_file(few, out, model, beside=False)
        return cpu_s(lambda: answer_file(many, out, model, beside=False))


def benchmarks() -> list[Benchmark]:
    """The promised figures of kernel predictions."""
    return [
        Benchmark(
            "kernels predict, a million cases", million_cases_cpu_seconds, "CPU-s", 5.0, "max", "file to file, all operators, five devices"
        )
    ]
