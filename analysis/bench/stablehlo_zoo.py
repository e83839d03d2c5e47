"""How long does it take to lower a training step from shapes, and to fuse it?"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from analysis.bench.report import Benchmark


def lower_llama_s() -> float:
    """CPU-seconds to lower the unrolled training step of Llama-2-7B from shapes to StableHLO, imports apart."""
    from analysis.workloads.zoo import catalogue as zoo

    zoo.lower("gemm", m=8, n=8, k=8)
    start = time.process_time()
    zoo.lower("llama2_7b_train_unrolled")
    return time.process_time() - start


def operators_fused_per_s() -> float:
    """Operators of that program a CPU-second that the study's fusion rule takes in, reading apart."""
    from analysis.composition import study_fusion
    from analysis.workloads.hlo import reader as hlo
    from analysis.workloads.zoo import catalogue as zoo

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "step.mlir"
        path.write_text(zoo.text(zoo.lower("llama2_7b_train_unrolled")))
        module = hlo.read(path)
    start = time.process_time()
    study_fusion.kernels(module)
    return len(module.operators) / (time.process_time() - start)


def benchmarks() -> list[Benchmark]:
    """Benchmarks of the zoo."""
    return [
        Benchmark("Llama-2-7B training step, unrolled, lowered", lower_llama_s, "CPU-s", 5.0, "max", "from shapes; importing jax left out"),
        Benchmark("operators fused", operators_fused_per_s, "operators/CPU-s", 20000.0, "min", "same program; own target"),
    ]
