"""What does each device run after a program is split over several? The module that XLA's partitioner makes, with its collectives.

The program carries its split (Shardy or GSPMD attributes); every device gets the same module (SPMD). No accelerator and no second device is
needed: XLA is told that the CPU is `devices` devices, and nothing runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from analysis.errors import InputError
from analysis.paths import HOME
from analysis.studies.workloads.partition import worker as partition_worker


def partition(source: bytes, devices: int, timeout_s: float = 900.0) -> str:
    """StableHLO text of one device's module after SPMD partitioning, before any other optimisation.

    Args:
        devices: how many it is split over (count); the program says so too.
    """
    if devices < 2:
        raise InputError(f"expected at least 2, got {devices}", key="devices")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given, out = folder / "whole.mlir", folder / "device.mlir"
        given.write_bytes(source)
        environment = {
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": partition_worker.flags(devices, folder),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "PYTHONPATH": str(HOME),
        }
        command = [sys.executable, "-m", "analysis.studies.workloads.partition.worker", str(given), str(out), str(devices)]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise InputError(f"the partitioner took longer than {timeout_s:.0f} s") from None
        if done.returncode or not out.exists():
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise InputError(f"the partitioner failed: {lines[-1].strip() if lines else f'exit status {done.returncode}'}")
        return out.read_text()
