"""How soon does each command's example answer after a fresh install, when nothing has been compiled yet?"""

from __future__ import annotations

import shlex
import shutil
import tempfile
from functools import partial
from pathlib import Path

from analysis.bench.report import Benchmark, command_cpu_s
from analysis.paths import EXAMPLES

TARGET_S = 3


def cpu_seconds(example: str, number: int) -> float:
    """CPU-seconds of one line of an example in a process of its own, with an empty folder for compiled code.

    Args:
        number: which line of its `commands.txt`; those before it are run first, uncounted, since it may read what they write.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / example
        shutil.copytree(EXAMPLES / example, place)
        lines = (place / "commands.txt").read_text(encoding="utf-8").splitlines()[: number + 1]
        return [command_cpu_s(shlex.split(line)[1:], Path(folder) / f"compiled{at}", place) for at, line in enumerate(lines)][-1]


def benchmarks() -> list[Benchmark]:
    """One figure a line of the examples."""
    found = []
    for listed in sorted(EXAMPLES.glob("*/commands.txt")):
        for number, line in enumerate(listed.read_text(encoding="utf-8").splitlines()):
            name = " ".join(shlex.split(line)[1:4])
            found.append(Benchmark(name, partial(cpu_seconds, listed.parent.name, number), "CPU-s", TARGET_S, "max", line))
    return found
