"""How fast is a program lowered, read and costed? Llama-2-7B's training step with its blocks written out."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from analysis.bench.report import Benchmark, cpu_s
from analysis.paths import ROOT

WORKLOAD = "llama2_7b_train_unrolled"
_READ = """
import gc, json, sys, time
from analysis.workloads.hlo import bindings as hlo_bindings, child as hlo_child
content = open(sys.argv[1], "rb").read()
hlo_bindings.plain_operations()
gc.disable()
before = time.process_time()
record = hlo_child.read(content, None)
text = json.dumps(record, separators=(",", ":"))
after = time.process_time()
count = 0
def visit(operation):
    global count
    count += 1
    return hlo_bindings.ir.WalkResult.ADVANCE
hlo_bindings.parse(content, hlo_bindings.context()).operation.walk(visit)
assert "error" not in record and record["operator_work"], record
print(count / (after - before))
"""


def lowering_seconds() -> float:
    """CPU seconds to lower the program (tracing, StableHLO), jax already imported."""
    from analysis.workloads.zoo import catalogue as zoo

    return cpu_s(lambda: zoo.lower(WORKLOAD))


def _operations_per_cpu_second(form: str) -> float:
    from analysis.workloads.hlo import reader as hlo
    from analysis.workloads.zoo import catalogue as zoo

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program"
        path.write_bytes(zoo.serialise(zoo.lower(WORKLOAD), form))  # type: ignore[arg-type]
        runs = [
            float(
                subprocess.run(
                    [sys.executable, "-c", _READ, path],
                    cwd=ROOT,
                    env={**os.environ, **hlo.ENVIRONMENT},
                    capture_output=True,
                    check=True,
                    text=True,
                ).stdout
            )
            for _ in range(3)
        ]
    return sorted(runs)[1]


def text_operations_per_cpu_second() -> float:
    """Operations of MLIR text parsed, simplified and costed a CPU-second (median of 3 fresh processes, start-up apart)."""
    return _operations_per_cpu_second("text")


def bytecode_operations_per_cpu_second() -> float:
    """The same for MLIR bytecode."""
    return _operations_per_cpu_second("bytecode")


def operators_fused_per_s() -> float:
    """Operators of the program a CPU-second that the study's fusion rule takes in, reading apart."""
    from analysis.composition import study_fusion
    from analysis.workloads.hlo import reader
    from analysis.workloads.zoo import catalogue as zoo

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "step.mlir"
        path.write_text(zoo.text(zoo.lower(WORKLOAD)))
        module = reader.read(path)
    return len(module.operators) / cpu_s(lambda: study_fusion.kernels(module))


def benchmarks() -> list[Benchmark]:
    """The benchmarks of this subpackage, with their targets."""
    note = "Llama-2-7B training step, 32 blocks written out"
    return [
        Benchmark("StableHLO: lowering", lowering_seconds, "CPU s", 5.0, "max", note),
        Benchmark("StableHLO: text read and costed", text_operations_per_cpu_second, "operations/CPU-s", 100_000, "min", note),
        Benchmark("StableHLO: bytecode read and costed", bytecode_operations_per_cpu_second, "operations/CPU-s", 100_000, "min", note),
        Benchmark("operators fused", operators_fused_per_s, "operators/CPU-s", 20_000, "min", note),
    ]
