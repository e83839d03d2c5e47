"""One deployment trial: a fresh environment, the documented installation and first prediction, then cures where they are needed."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.artifact.mtap.trials.catalogue import Trial
from analysis.errors import InputError

INSTALL_LIMIT_S = 1800.0
FIRST_LIMIT_S = 300.0
NETWORK = re.compile(
    r"ConnectionError|Max retries|Network is unreachable|Name or service|resolve|HTTPError|ProxyError|URLError|LocalEntryNotFound"
    r"|couldn't connect|SSLError|no such host|Connection refused|unable to access|Failed to (clone|recurse)|not our ref",
    re.I,
)
"""What programs say when an address outside the package index cannot be reached."""


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


@dataclass(frozen=True)
class Package:
    """One installed package: what `pip install --require-hashes` needs to get the same file again."""

    name: str
    version: str
    sha256: str


def machine_class() -> str:
    """The kind of machine, without its name: processor family, system, Python."""
    return f"{platform.machine()} {platform.system()}, Python {platform.python_version()}"


def scrub(message: str) -> str:
    """A message without what belongs to one machine: paths keep their last part, addresses go, long ones are cut."""
    text = re.sub(r"\w+://\S+|\b\d+(?:\.\d+){3}(?::\d+)?\b", "<address>", message)
    text = re.sub(r"(?<!\w)(?:/[\w.+@~-]+)+/([\w.+@-]+)", r"\1", text)
    text = re.sub(r"0x[0-9a-f]{6,}", "0x...", text)
    return re.sub(r"\s+", " ", text).strip()[:240]


def packages(report: Path) -> list[Package]:
    """What pip's installation report says was installed: name, version and hash of the file; no address."""
    if not report.exists():
        return []
    found = []
    for item in json.loads(report.read_text(encoding="utf-8"))["install"]:
        archive = item.get("download_info", {}).get("archive_info", {})
        digest = archive.get("hashes", {}).get("sha256") or str(archive.get("hash", "")).removeprefix("sha256=")
        found.append(Package(item["metadata"]["name"].lower().replace("_", "-"), item["metadata"]["version"], digest))
    return sorted(found, key=lambda package: package.name)


def answer(output: str) -> dict[str, Any] | None:
    """The prediction that a first program printed as its last line of JSON, or None where there is none."""
    for line in reversed(output.splitlines()):
        if line.startswith('{"quantity"'):
            found: dict[str, Any] = json.loads(line)
            return found
    return None


def failure_class(step: Step, value: float | None) -> str:
    """Class of one step's failure by MTAP's taxonomy; empty where there is none.

    F1: the installation fails. F2: it runs and ends with an error. F3: it ends well with an answer that cannot be (not finite or
    not positive). "blocked": what stops it is an address outside the package
    index, which says something of this machine and of where the tool keeps its files, not of its code.
    """
    if step.step.startswith(("clone", "install", "build")):
        return "" if not step.status else "blocked" if NETWORK.search(step.message) else "F1"
    if step.status:
        return "blocked" if NETWORK.search(step.message) else "F2"
    if value is None or not math.isfinite(value) or value <= 0:
        return "F3"
    return ""


def _built(tool: str, programs: Path, place: Path, commands: tuple[str, ...]) -> list[Step]:
    """Shell commands in the run's folder with the environment's programs first, until one fails."""
    done: list[Step] = []
    for command in commands:
        if not done or not done[-1].status:
            shell = ["bash", "-c", f'PATH="{programs}:$PATH"; {command}']
            done.append(run(shell, tool, f"build: {command}", place, INSTALL_LIMIT_S))
    return done


def attempt(trial: Trial, folder: Path) -> dict[str, pd.DataFrame]:
    """Run one trial in a fresh environment.

    Args:
        folder: environments, programs and logs go below it.

    Returns:
        Tables: `steps` (one row a step), `outcome` (one row), `pins` (one row a package).
    """
    home, place = folder.resolve() / "environments" / trial.name, folder.resolve() / "runs" / trial.name
    shutil.rmtree(place, ignore_errors=True)  # what an earlier run left must not pass for an answer
    place.mkdir(parents=True, exist_ok=True)
    (folder / "environments").mkdir(parents=True, exist_ok=True)
    python, report = home / "bin" / "python", place / "report.json"
    for name, text in {"first.py": trial.first(), **trial.files}.items():
        (place / name).write_text(text, encoding="utf-8")
    chosen = interpreter(trial.python) if trial.python else sys.executable
    steps = [run([chosen, "-m", "venv", "--clear", str(home)], trial.tool, "new environment", folder)]
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-cache-dir"]

    build = partial(_built, trial.tool, home / "bin", place)
    if trial.repository:
        steps += build((f"git clone -q -n {trial.repository} clone && git -C clone checkout -q {trial.commit}",))
    if trial.arguments() and not steps[-1].status:
        install = [*pip, "--report", str(report), *trial.arguments()]
        steps.append(run(install, trial.tool, f"install: {trial.documented_install}", place, INSTALL_LIMIT_S))
    steps += build(trial.build) if not steps[-1].status else []
    install_s = sum(s.seconds for s in steps[1:])
    pins, classes = packages(report), [c for c in (failure_class(steps[-1], None),) if c]
    got: dict[str, Any] | None = None
    cures, works = 0, False
    waiting = list(trial.cures)
    while True:
        if not classes or cures:
            output = place / "first.out"
            last = run(
                [str(python), str(place / "first.py")],
                trial.tool,
                "first prediction" + (f" with {cures} cures" if cures else ""),
                place,
                FIRST_LIMIT_S,
                output,
            )
            steps.append(last)
            got = answer(output.read_text(encoding="utf-8", errors="replace"))
            failed = failure_class(last, float(got["value"]) if got else None)
            works = not failed
            if failed:
                classes.append(failed)
        if works or not waiting:
            break
        cure = waiting.pop(0)
        cures += 1
        more = place / f"cure{cures}.json"
        more.unlink(missing_ok=True)
        for name, text in {**cure.files, **({"first.py": trial.first(cure.program)} if cure.program else {})}.items():
            (place / name).write_text(text, encoding="utf-8")
        command = [*pip, "--report", str(more), *cure.requirements] if cure.requirements else [str(python), "-c", "pass"]
        if cure.python:
            steps.append(run([interpreter(cure.python), "-m", "venv", "--clear", str(home)], trial.tool, f"cure: {cure.step}", folder))
            command = [*pip, "--report", str(more), *trial.arguments()]
        steps.append(run(command, trial.tool, f"cure: {cure.step}", place, INSTALL_LIMIT_S))
        steps += build(cure.build)
        newer = {package.name: package for package in packages(more)}
        pins = sorted([p for p in pins if p.name not in newer] + list(newer.values()), key=lambda package: package.name)
    steps = [Step(s.peer, s.step, s.seconds, s.status, scrub(s.message), s.cpu_s) for s in steps]
    version = next((p.version for p in pins if p.name == trial.package), trial.commit[:7])
    outcome = {
        "tool": trial.tool,
        "version": version,
        "packages": len(pins),
        "installed_mb": round(sum(f.stat().st_size for f in home.rglob("*") if f.is_file() and not f.is_symlink()) / 1e6)
        if home.exists()
        else 0,
        "install_s": round(install_s, 1),
        "first_prediction_s": round(steps[-1].seconds, 2) if works else None,
        "wall_minutes": round(sum(s.seconds for s in steps) / 60, 2),
        "cpu_minutes": round(sum(s.cpu_s for s in steps) / 60, 2),
        "cures": cures if works else None,
        "classes": " ".join(dict.fromkeys(classes)),
        "outcome": ("runs" if not cures else "runs with cures")
        if works
        else ("blocked" if classes and classes[-1] == "blocked" else "fails"),
        "quantity": got["quantity"] if works and got else "",
        "value": float(got["value"]) if works and got else None,
        "unit": got["unit"] if works and got else "",
        "message": "" if works else steps[-1].message,
    }
    return {
        "steps": pd.DataFrame([asdict(s) for s in steps]).rename(columns={"peer": "tool"}),
        "outcome": pd.DataFrame([outcome]),
        "pins": pd.DataFrame([{"tool": trial.tool, **asdict(p)} for p in pins]),
    }


def interpreter(version: str) -> str:
    """A Python of one minor version on this machine."""
    candidates = [shutil.which(f"python{version}"), *sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))]
    for candidate in candidates:
        if candidate is not None and run([str(candidate), "-c", "pass"], "", "", Path.cwd()).status == 0:
            return str(candidate)
    raise InputError(f"Python {version} is not on this machine", key="python")


def of_releases(trial: Trial, folder: Path, count: int = 3) -> pd.DataFrame:
    """The trial with `count` releases of the tool, from its oldest to its newest in the index, evenly by rank: does age tell?"""
    output = folder / "versions.txt"
    folder.mkdir(parents=True, exist_ok=True)
    python = interpreter(trial.python) if trial.python else sys.executable
    run([python, "-m", "pip", "index", "versions", trial.package], trial.tool, "releases", folder, 120, output)
    listed = re.search(r"Available versions: (.+)", output.read_text(encoding="utf-8"))
    every = listed.group(1).split(", ")[::-1] if listed else []
    rows = []
    for at in dict.fromkeys(round(i * (len(every) - 1) / max(count - 1, 1)) for i in range(count if every else 0)):
        release = trial.model_copy(update={"requirements": (f"{trial.package}=={every[at]}",)})
        outcome = attempt(release, folder)["outcome"].iloc[0]
        kept = ["tool", "version", "outcome", "classes", "cures", "value", "unit", "message"]
        rows.append({**outcome[kept], "version": every[at], "rank": at + 1, "releases": len(every)})
        shutil.rmtree(folder / "environments" / trial.name, ignore_errors=True)
    return pd.DataFrame(rows)
