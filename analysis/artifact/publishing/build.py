"""Runs the notebooks that are out of date, one more at once than there are cores, and keeps what was good when one fails."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from analysis.artifact.publishing import plan
from analysis.artifact.publishing.warm import Workers
from analysis.errors import InputError
from analysis.paths import BUILD, NOTEBOOKS, ROOT

COSTS = NOTEBOOKS / "costs.csv"


class BuildFailed(RuntimeError):
    """A notebook failed; the message names it, its cell, the error and the half-run notebook."""


@dataclass
class Job:
    """A notebook that is being run."""

    notebook: plan.Notebook
    work: Path
    files: Path
    began: float


def lock() -> TextIO:
    """Make sure that only one build runs in this checkout; waits for another to end."""
    try:
        BUILD.mkdir(exist_ok=True)
        handle = (BUILD / "lock").open("w")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}; a build needs a checkout that it may write into", path=BUILD) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("another build is running in this checkout; waiting for it to end", flush=True)
        fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def slowdown(ran: dict[str, dict[str, Any]], costs: dict[str, float], doubt_s: float = 20.0) -> float:
    """How much longer this run's notebooks take than was expected; `doubt_s` of the expectation count until there is more to go by.

    Args:
        ran: cost of each notebook that has ended; costs: seconds expected of each.
    """
    known = [name for name in ran if name in costs]
    return (sum(ran[name]["wall_s"] for name in known) + doubt_s) / (sum(costs[name] for name in known) + doubt_s)


def known_costs(tier: str) -> dict[str, float]:
    """Seconds that each notebook took when it last ran here, or else on the machine of `notebooks/costs.csv`."""
    costs: dict[str, float] = {}
    if COSTS.exists():
        with COSTS.open(encoding="utf-8") as stream:
            costs = {row["notebook"]: float(row["wall_s"]) for row in csv.DictReader(stream) if row["tier"] == tier}
    for path in plan.stamps(tier).glob("*.json"):
        try:
            costs[path.stem] = json.loads(path.read_text(encoding="utf-8"))["cost"]["wall_s"]
        except (KeyError, json.JSONDecodeError):
            continue
    return costs


def environment() -> dict[str, str]:
    """Environment of a notebook: one thread in linear algebra (bytes do not depend on timing), no colour, UTC, nothing of the user's home.

    A home that is not there or cannot be written into makes Matplotlib and IPython warn, with a path of the day, into the page.
    """
    settings = BUILD / "settings"
    fixed = {
        "MPLCONFIGDIR": str(settings / "matplotlib"),
        "IPYTHONDIR": str(settings / "ipython"),
        "JUPYTER_CONFIG_DIR": str(settings / "jupyter"),
        "JUPYTER_RUNTIME_DIR": str(settings / "jupyter" / "runtime"),
        "PYTHONHASHSEED": "0",
        "ANALYSIS_COMPILE": "always",
        "MPLBACKEND": "agg",
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "PYTHONPATH": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    return {**os.environ, **fixed}


def start(notebook: plan.Notebook, tier: str, workers: Workers) -> Job:
    """Start one notebook in a process of its own, writing into a hidden folder beside its results."""
    results = plan.folder(tier)
    work = results / f".{notebook.name}"
    files = BUILD / tier / "running" / notebook.name
    for old in (work, files):
        shutil.rmtree(old, ignore_errors=True)
        old.mkdir(parents=True)
    job = {
        "notebook": str(notebook.path),
        "parameters": {**notebook.parameters, "tier": tier, "out": str(work)},
        "page": str(files / f"{notebook.name}.ipynb"),
        "trace": str(files / "trace.json"),
        "report": str(files / "report.json"),
        "cwd": str(ROOT),
    }
    (files / "job.json").write_text(json.dumps(job), encoding="utf-8")
    workers.submit(files / "job.json")
    return Job(notebook, work, files, time.monotonic())


def finish(job: Job, tier: str) -> dict[str, Any]:
    """Move a finished notebook's results into place and record the run."""
    from analysis.tables import write_atomic  # pandas: not for a book that is up to date

    name = job.notebook.name
    page = job.files / f"{name}.ipynb"
    try:
        report = json.loads((job.files / "report.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        log = job.files / "log.txt"
        tail = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:] if log.exists() else []
        report = {"failure": {"cell": None, "error": " | ".join(tail) or "its process ended early", "source": ""}}
    if report["failure"]:
        shutil.rmtree(job.work, ignore_errors=True)
        keep = BUILD / "failed" / f"{name}.ipynb"
        keep.parent.mkdir(parents=True, exist_ok=True)
        if page.exists():
            shutil.copy(page, keep)
        failure = report["failure"]
        cell = f"cell {failure['cell'] - 1}" if failure["cell"] else "outside a cell"
        raise BuildFailed(f"{name} failed in {cell}: {failure['error']}\n  half-run notebook: {keep.relative_to(ROOT)}")
    shutil.copy(page, job.work / f"{name}.ipynb")
    trace = json.loads((job.files / "trace.json").read_text(encoding="utf-8"))
    stamp = plan.record(job.notebook, tier, trace, job.work)
    stamp["cost"] = {key: report[key] for key in ("wall_s", "cpu_s", "peak_mib")}
    place = plan.folder(tier) / name
    stamp_path = plan.stamps(tier) / f"{name}.json"
    stamp_path.unlink(missing_ok=True)
    old = job.work.with_name(f".{name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.rename(old)
    job.work.rename(place)
    shutil.rmtree(old, ignore_errors=True)
    write_atomic(stamp_path, json.dumps(stamp, indent=1, sort_keys=True).encode())
    shutil.rmtree(job.files, ignore_errors=True)
    return stamp["cost"]  # type: ignore[no-any-return]


def run(
    tier: str,
    only: list[str] | None = None,
    jobs: int | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> list[str]:
    """Bring the results of a tier up to date; returns the names of the notebooks that ran.

    Args:
        tier: quick, book or full.
        only: these notebooks and what they need, instead of all.
        jobs: how many at once; default: one more than cores, since a notebook waits for what another compiles.
        settings: parameters that replace the tier's, by notebook; the next build without them restores the tier's results.
        meanwhile: called while the notebooks' process imports what they need, where one has to run.
    """
    books = plan.notebooks(tier, settings or {})
    wanted = _closure(books, only) if only else set(books)
    _forget_removed(books, tier)
    costs = known_costs(tier)
    jobs = jobs or cores() + 1
    waiting = [name for name in books if name in wanted]
    weight = _weights(books, costs)
    settled: set[str] = set(books) - wanted
    running: dict[str, Job] = {}
    ran: dict[str, dict[str, Any]] = {}
    failures: list[str] = []
    began = time.monotonic()
    first = [name for name in waiting if plan.reason_to_run(books[name], tier)]
    if first:
        estimate = sum(costs.get(name, 10.0) for name in first) / min(jobs, len(first))
        print(f"{len(first)} of {len(waiting)} notebooks to run, {jobs} at once, about {estimate:.0f} s", flush=True)
    workers = Workers(environment(), len(first)) if first else None
    if workers and meanwhile:
        meanwhile()
    while (waiting and not failures) or running:
        for name in sorted(waiting, key=lambda name: -weight[name]) if not failures else []:
            if len(running) >= jobs:
                break
            if not all(need in settled for need in books[name].needs):
                continue
            waiting.remove(name)
            if plan.reason_to_run(books[name], tier) is None:
                settled.add(name)
            else:
                workers = workers or Workers(environment(), 1)
                running[name] = start(books[name], tier, workers)
        if not running:
            continue
        ended = [name for name, job in running.items() if workers and workers.status(job.files / "job.json") is not None]
        if not ended and workers:
            workers.wait()
        for name in ended:
            job = running.pop(name)
            try:
                cost = finish(job, tier)
            except BuildFailed as failure:
                failures.append(str(failure))
                continue
            settled.add(name)
            ran[name] = cost
            left = [other for other in first if other not in ran]
            remaining = slowdown(ran, costs) * max(
                sum(costs.get(other, 10.0) for other in left) / jobs, max((costs.get(other, 10.0) for other in left), default=0.0)
            )
            elapsed = time.monotonic() - began
            note = f"{cost['wall_s']:6.1f} s {cost['peak_mib']:5d} MiB"
            print(f"  [{elapsed:5.0f} s, about {remaining:3.0f} s left] {name:<28} {note}", flush=True)
    if workers:
        workers.close()
    if ran:
        total = sum(cost["cpu_s"] for cost in ran.values())
        peak = max(cost["peak_mib"] for cost in ran.values())
        slowest = max(ran, key=lambda name: ran[name]["cpu_s"])
        print(
            f"{len(ran)} notebooks in {time.monotonic() - began:.0f} s ({total:.0f} CPU-s; "
            f"most CPU: {slowest} {ran[slowest]['cpu_s']:.0f} s; peak memory of one: {peak} MiB)",
            flush=True,
        )
    if failures:
        raise BuildFailed("\n".join(failures))
    return list(ran)


def record_costs(tier: str) -> None:
    """Write what the notebooks cost here to `notebooks/costs.csv`, the estimate for machines that have not built yet."""
    from analysis.tables import write_atomic  # pandas: not for a book that is up to date

    rows: dict[tuple[str, str], dict[str, Any]] = {}
    if COSTS.exists():
        with COSTS.open(encoding="utf-8") as stream:
            rows = {(row["notebook"], row["tier"]): dict(row) for row in csv.DictReader(stream)}
    names = set(plan.notebooks(tier))
    rows = {key: row for key, row in rows.items() if key[1] != tier or key[0] in names}
    for path in sorted(plan.stamps(tier).glob("*.json")):
        cost = json.loads(path.read_text(encoding="utf-8"))["cost"]
        rows[path.stem, tier] = {"notebook": path.stem, "tier": tier, **cost}
    lines = ["notebook,tier,wall_s,cpu_s,peak_mib"]
    lines += [f"{row['notebook']},{row['tier']},{row['wall_s']},{row['cpu_s']},{row['peak_mib']}" for _, row in sorted(rows.items())]
    write_atomic(COSTS, ("\n".join(lines) + "\n").encode())


def _weights(books: dict[str, plan.Notebook], costs: dict[str, float]) -> dict[str, float]:
    """Seconds from the start of each notebook to the end of all that wait for it: the longest path goes first."""
    weight: dict[str, float] = {}
    for name in reversed(books):
        after = [weight[other] for other, notebook in books.items() if name in notebook.needs and other in weight]
        weight[name] = costs.get(name, 10.0) + max(after, default=0.0)
    return weight


def _closure(books: dict[str, plan.Notebook], only: list[str]) -> set[str]:

    wanted: set[str] = set()
    stack = list(only)
    while stack:
        name = stack.pop()
        if name not in books:
            raise InputError(f"no such notebook; there are: {', '.join(sorted(books))}", key=name)
        if name not in wanted:
            wanted.add(name)
            stack.extend(books[name].needs)
    return wanted


def _forget_removed(books: dict[str, plan.Notebook], tier: str) -> None:
    """Drop results and records of notebooks that no longer exist, and what interrupted runs left behind."""
    results = plan.folder(tier)
    if results.exists():
        for path in results.iterdir():
            if path.is_dir() and path.name not in books:
                shutil.rmtree(path, ignore_errors=True)
    if plan.stamps(tier).exists():
        for path in plan.stamps(tier).glob("*.json"):
            if path.stem not in books:
                path.unlink()
