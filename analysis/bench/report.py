"""Benchmarks: target speeds of each subpackage, compared with CPU-seconds measured on this machine."""

from __future__ import annotations

import importlib
import os
import pkgutil
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import analysis.bench
from analysis.errors import InputError
from analysis.paths import ROOT


@dataclass(frozen=True)
class Benchmark:
    """One promised figure.

    Attributes:
        name: what is measured.
        run: measures it and returns the figure, in `unit`.
        unit: unit of the figure.
        target: the promised value.
        direction: "min" when the figure must be at least the target, "max" when at most.
        note: what is left out of the measurement, and what it is compared with.
    """

    name: str
    run: Callable[[], float]
    unit: str
    target: float
    direction: Literal["min", "max"]
    note: str = ""


def cpu_s(work: Callable[[], object], repeats: int = 1, warm: bool = False) -> float:
    """Least CPU-seconds of some runs; `warm`: after one more, which compiles."""
    least = float("inf")
    if warm:
        work()
    for _ in range(repeats):
        start = time.process_time()
        work()
        least = min(least, time.process_time() - start)
    return least


def command_cpu_s(arguments: Sequence[str], compiled: Path, folder: Path = ROOT) -> float:
    """CPU-seconds of one of this project's commands in a process of its own, with its compiled code in a folder."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(compiled), "PYTHONPATH": str(ROOT)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "analysis", *arguments]
    subprocess.run(command, check=True, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def subpackages() -> list[str]:
    """Names of the subpackages that have benchmarks."""
    return sorted(module.name for module in pkgutil.iter_modules(analysis.bench.__path__) if module.name != "report")


def report(only: str | None = None) -> int:
    """Run the benchmarks of all subpackages, or of one, print each figure and its target, return how many missed it."""
    if only is not None and only not in subpackages():
        raise InputError(f"no benchmarks of {only!r}; there are: {', '.join(subpackages())}", key="room")
    missed = 0
    for room in subpackages():
        if only and room != only:
            continue
        for benchmark in importlib.import_module(f"analysis.bench.{room}").benchmarks():
            figure = benchmark.run()
            good = figure >= benchmark.target if benchmark.direction == "min" else figure <= benchmark.target
            missed += not good
            sign = ">=" if benchmark.direction == "min" else "<="
            verdict = "ok    " if good else "MISSED"
            line = f"{verdict} {room}: {benchmark.name}: {figure:,.4g} {benchmark.unit} (target {sign} {benchmark.target:,.4g})"
            print(line + (f" - {benchmark.note}" if benchmark.note else ""), flush=True)
    return missed
