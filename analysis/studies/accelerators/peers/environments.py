"""Runs other tools for real, in environments of their own (`mtap.trials.running` makes them): every step kept as evidence.

Only `python -m analysis trials` comes here and to `analysis/artifact/mtap/trials`: what installs other people's tools from the network.
"""

from __future__ import annotations

import os
import resource
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Step:
    """One step of an installation or a run.

    Args:
        seconds: wall clock (s).
        message: its last line that names an error, or its last line; empty if it succeeded.
        cpu_s: processor time of it and its children (s); on a shared machine the steadier of the two.
    """

    peer: str
    step: str
    seconds: float
    status: int
    message: str
    cpu_s: float = 0.0


def run(command: list[str], peer: str, step: str, folder: Path, timeout_s: float = 900, output: Path | None = None) -> Step:
    """Run one command in a folder and keep what matters of it.

    Args:
        timeout_s: limit (s).
        output: file for all that it writes to its standard output.
    """
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False)
        status, said, printed = done.returncode, (done.stderr.strip() or done.stdout.strip()).splitlines(), done.stdout
    except subprocess.TimeoutExpired:
        status, said, printed = 124, [f"no end within {timeout_s:.0f} s"], ""
    if output is not None:
        output.write_text(printed, encoding="utf-8")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    errors = [line for line in said if "error: " in line.lower()] or said
    return Step(peer, step, time.perf_counter() - start, status, "" if status == 0 or not errors else errors[-1].strip(), cpu_s)
