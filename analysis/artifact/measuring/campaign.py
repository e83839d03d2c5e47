"""The shapes on several devices in turn, each in a process of its own, kept with how noisy it was."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd

from analysis.artifact.measuring import timing
from analysis.artifact.measuring.operators import parsed, prepared
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.tables import read_csv, write_atomic, write_csv

CAMPAIGN = DATA / "measured" / "cpu_operators"
"""The committed campaign, whose shapes are measured again."""
DEVICES = {"one_thread": ("jax-1t-fp32", "jax-1t-bf16", "numpy-1t-fp32"), "two_threads": ("jax-2t-fp32", "numpy-2t-fp32")}
"""Folder -> its devices: runtime, threads and data type."""
KIT_VERSION = 2
"""1 was the kit of commit f600e02f, which timed ONNX Runtime and whole models, too; its rows of JAX and NumPy mean the same."""
BUDGET_S, RETRY_SPREAD = 0.03, 0.3
"""Time of a row (s), twenty times that for a peak; and the spread beyond which a row is timed again and the quieter kept."""
TIMED = ("median_s", "mad_s", "p10_s", "p90_s", "minimum_s", "spread")


def shapes(suite: str, folder: str) -> pd.DataFrame:
    """Rows of a folder's committed operators: all, or for the suite quick the first four shapes of each kind on two threads."""
    operators, two = (read_csv(CAMPAIGN / each / "operators.csv") for each in (folder, "two_threads"))

    def shape(frame: pd.DataFrame) -> pd.Series:
        return frame["kind"] + " " + frame["operator"].str.partition(" ")[2]

    chosen = two.assign(shape=shape(two)).drop_duplicates("shape").groupby("kind").head(4)["shape"]
    return operators if suite == "full" else operators[shape(operators).isin(chosen)]


def _timed(device: str, what: str) -> dict[str, Any]:
    """In a device's process: time an operator or a peak kernel."""
    runtime, _, dtype = device.split("-")
    call = timing.peak(what) if what in timing.AMOUNT else prepared(what, runtime, dtype)
    if call is None:
        return {"unsupported": f"{parsed(what)[0].replace('[', ' ').rstrip(']')} is not natural in NumPy"}
    return {**timing.measure(call, BUDGET_S * (20 if what in timing.AMOUNT else 1)), **timing.control()}


def usable_cores() -> tuple[int, ...]:
    """Cores that this process may use."""
    return tuple(sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))


class Process:
    """A device in a process of its own, on some cores, with every pool of threads held to its number of threads."""

    def __init__(self, device: str) -> None:
        self.device, threads = device, int(device.split("-")[1].rstrip("t"))
        self.cores = usable_cores()[-threads:]  # the first serves most interrupts
        pin = getattr(os, "sched_setaffinity", None)  # before a library sizes its pool of threads
        self.pool = ProcessPoolExecutor(1, get_context("spawn"), pin, (0, self.cores))  # type: ignore[arg-type]
        own = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "NPROC"), str(threads))
        own |= {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false" if threads == 1 else ""}
        with patch.dict(os.environ, own):  # the process starts with its first task, and inherits them
            self.pool.submit(os.getpid).result()

    def ask(self, what: str) -> dict[str, Any]:
        """Time something there; a second time where that was noisy."""
        try:
            answers = [self.pool.submit(_timed, self.device, what).result()]
            if answers[0].get("spread", 0.0) > RETRY_SPREAD:
                answers.append(self.pool.submit(_timed, self.device, what).result())
        except BrokenProcessPool:
            raise InputError(f"the measuring process ended at {what}: too little memory?", key=self.device) from None
        return min(answers, key=lambda each: each.get("spread", 0.0)) | {"attempts": len(answers)}


def noise(rows: pd.DataFrame) -> dict[str, Any]:
    """Median and 95th percentile of rows' spread, and each control's median and drift: (95th - 5th percentile) / median of all rows."""
    found: dict[str, Any] = {"rows": len(rows), "spread_median": rows["spread"].median(), "spread_p95": rows["spread"].quantile(0.95)}
    for name in ("control_arithmetic", "control_copy"):
        low, middle, high = rows[f"{name}_s"].quantile([0.05, 0.5, 0.95])
        found |= {f"{name}_s": middle, f"{name}_drift": (high - low) / middle}
    return found


def measure_folder(folder: str, operators: pd.DataFrame, out: Path) -> dict[str, Any]:
    """Measure operators on a folder's devices, in turn so that drift hits all alike; write its tables and machine.json, and give that."""
    began, started_s = timing.moment(), time.monotonic()
    rows: dict[str, list[dict[str, Any]]] = {"measurements": [], "unsupported": [], "peaks": []}

    def ask(process: Process, what: str, **known: Any) -> None:
        row = {"device": process.device, "operator": what, **known, **process.ask(what)}
        table = "unsupported" if "unsupported" in row else "peaks" if known else "measurements"
        rows[table].append({**row, "at_s": round(time.monotonic() - started_s, 1)})

    with ExitStack() as stack:
        processes = [Process(device) for device in DEVICES[folder]]
        for process in processes:
            stack.enter_context(process.pool)
            for kernel, amount in timing.AMOUNT.items() if process.device.startswith("numpy") else ():
                ask(process, kernel, kernel=kernel, amount=amount)
        for index, name in enumerate(operators["operator"]):
            if index % 50 == 0:
                print(f"{folder}: operator {index} of {len(operators)}")
            for process in processes:
                ask(process, name)
    frames = {"operators": operators}
    for table, each in rows.items():
        frame = pd.DataFrame(each, columns=read_csv(CAMPAIGN / folder / f"{table}.csv", nrows=0).columns)
        for column in frame.columns.intersection([*TIMED, "control_arithmetic_s", "control_copy_s"]):
            frame[column] = [float(f"{value:.5g}") for value in frame[column]]
        frames[table] = frame
    facts = {"kit_version": KIT_VERSION, "budget_s": BUDGET_S, "machine": timing.machine(), "began": began, "ended": timing.moment()}
    facts["devices"] = {process.device: {"cores": list(process.cores)} for process in processes}
    facts["noise"] = {device: noise(part) for device, part in frames["measurements"].groupby("device", sort=False)}
    for table, frame in frames.items():
        write_csv(frame, out / folder / f"{table}.csv")
    write_atomic(out / folder / "machine.json", (json.dumps(facts, indent=1) + "\n").encode())
    return facts


def report(folder: str, out: Path) -> list[str]:
    """A line a device: its noise, and its median times over the committed ones of the same operators."""
    rows, before = (read_csv(place / folder / "measurements.csv") for place in (out, CAMPAIGN))
    both = rows.merge(before, on=["device", "operator"], suffixes=("", "_before"))
    ratios = (both["median_s"] / both["median_s_before"]).groupby(both["device"])
    lines = []
    for device, part in rows.groupby("device", sort=False):
        each, (low, middle, high) = noise(part), ratios.get_group(device).quantile([0.25, 0.5, 0.75])
        spread = f"spread of a row {each['spread_median']:.1%} (median), {each['spread_p95']:.1%} (95th percentile)"
        drift = f"control drifted {each['control_arithmetic_drift']:.1%} (arithmetic), {each['control_copy_drift']:.1%} (copy)"
        ours = f"time over the committed one {middle:.2f} (median; middle half {low:.2f} to {high:.2f})"
        lines.append(f"{device}: {len(part)} operators, {spread}; {drift}; {ours}")
    return lines
