"""Runs other tools for real: an environment of their own, every step of the installation kept as evidence.

Only `python -m analysis trials` comes here and to `analysis/mtap/trials`: what installs other people's tools from the network.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from analysis.errors import InputError


@dataclass(frozen=True)
class Peer:
    """A tool on PyPI.

    Args:
        name: of its environment.
        requirements: what its own instructions install.
        cures: what else it needs, each with the reason.
        check: Python that fails where the tool cannot run.
    """

    name: str
    requirements: tuple[str, ...]
    cures: tuple[tuple[str, str], ...]
    check: str


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


SCALE_SIM = Peer(
    name="scalesim",
    requirements=("scalesim==3.0.0",),
    cures=(("numpy==1.26.4", "int(max(...)) of an array fails with NumPy 2.4 and later (issue 160)"),),
    check="import numpy; int(max([numpy.zeros(1), numpy.zeros(1)])); import scalesim.scale_sim",
)
ZIGZAG = Peer(
    name="zigzag",
    requirements=("zigzag-dse==3.9.1",),
    cures=(("six", "imported but not declared"),),
    check="import zigzag.api",
)


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


def install(peer: Peer, folder: Path) -> tuple[Path, list[Step]]:
    """An environment with the tool: first as its instructions say, then with the cures that it turns out to need.

    Args:
        folder: where environments live; `folder/name` is used, and kept if it works already.
    """
    home = folder.resolve() / peer.name
    python = home / "bin" / "python"
    steps: list[Step] = []
    if python.exists():
        steps.append(run([str(python), "-c", peer.check], peer.name, "environment is there and works", folder))
        if steps[-1].status == 0:
            return python, steps
    home.parent.mkdir(parents=True, exist_ok=True)
    steps.append(run([sys.executable, "-m", "venv", "--clear", str(home)], peer.name, "new environment", folder))
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    steps.append(run([*pip, *peer.requirements], peer.name, f"pip install {' '.join(peer.requirements)}", folder))
    if steps[-1].status != 0:
        raise InputError(f"cannot be installed: {steps[-1].message}", key=peer.name)
    steps.append(run([str(python), "-c", peer.check], peer.name, "runs as installed", folder))
    for requirement, _reason in peer.cures:
        if steps[-1].status == 0:
            break
        steps.append(run([*pip, requirement], peer.name, f"cure: pip install {requirement}", folder))
        steps.append(run([str(python), "-c", peer.check], peer.name, f"runs with {requirement}", folder))
    if steps[-1].status != 0:
        raise InputError(f"does not run, cures included: {steps[-1].message}", key=peer.name)
    return python, steps
