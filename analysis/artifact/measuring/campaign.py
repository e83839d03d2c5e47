"""Measure a suite on several devices in turn, and keep what was measured with how noisy it was."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.artifact.measuring.devices import MeasuredDevice
from analysis.artifact.measuring.graphs import Graph
from analysis.artifact.measuring.machine import machine, moment
from analysis.artifact.measuring.operators import ALL_DIMENSIONS, DIMENSIONS, MeasuredOperator
from analysis.artifact.measuring.peaks import amount
from analysis.artifact.measuring.session import Session
from analysis.artifact.measuring.suites import Suite
from analysis.errors import InputError
from analysis.tables import write_atomic, write_csv

KIT_VERSION = 1
"""Raised when the meaning of a measurement changes: results of different versions are not compared."""

TIMING = ["median_s", "mad_s", "p10_s", "p90_s", "minimum_s", "samples", "calls", "spread"]
CONTROL = ["control_arithmetic_s", "control_copy_s", "at_s"]
RETRY_SPREAD = 0.3
"""A row whose spread exceeds this is measured once more, and the quieter of the two is kept."""


@dataclass(frozen=True)
class Campaign:
    """What was measured.

    Args:
        operators: one row an operator: kind, variant, dimensions, FLOP, compulsory traffic.
        measurements: one row a device and operator: `TIMING`, `CONTROL`, `attempts`.
        models: one row a device and model: end to end. nodes: one row a device, model and distinct operator in it: alone, and how often.
    """

    operators: pd.DataFrame
    measurements: pd.DataFrame
    models: pd.DataFrame
    nodes: pd.DataFrame
    peaks: pd.DataFrame
    unsupported: pd.DataFrame
    facts: dict[str, Any]


def operator_table(operators: Sequence[MeasuredOperator]) -> pd.DataFrame:
    """One row an operator; dimensions that its kind lacks are empty."""
    rows = [
        {
            "operator": operator.name,
            "kind": operator.kind,
            "variant": operator.variant,
            **dict(zip(DIMENSIONS[operator.kind], operator.size, strict=True)),
            "flop": operator.flop(),
            "traffic_elements": operator.elements(),
        }
        for operator in operators
    ]
    frame = pd.DataFrame(rows, columns=["operator", "kind", "variant", *ALL_DIMENSIONS, "flop", "traffic_elements"])
    return frame.astype(dict.fromkeys(ALL_DIMENSIONS, "Int64"))


def _quieter(session: Session, request: dict[str, Any], what: str) -> dict[str, Any]:
    answer = session.ask(request, what)
    if "unsupported" in answer:
        return answer
    answer["attempts"] = 1
    if answer["spread"] > RETRY_SPREAD:
        again = session.ask(request, what)
        answer = {**min(answer, again, key=lambda each: each["spread"]), "attempts": 2}
    return answer


def distinct(graph: Graph) -> dict[MeasuredOperator, int]:
    """How often each operator stands in a graph."""
    counts: dict[MeasuredOperator, int] = {}
    for node in graph.nodes:
        counts[node.operator] = counts.get(node.operator, 0) + 1
    return counts


def noise(measurements: pd.DataFrame) -> dict[str, Any]:
    """How noisy the measurements were.

    Args:
        measurements: with `spread`, `control_arithmetic_s`, `control_copy_s`; at least one row.
    Returns:
        Median and 95th percentile of the rows' relative spread, and for each control kernel its median time and its drift: (95th - 5th
        percentile) / median over the whole campaign.
    """
    found: dict[str, Any] = {
        "rows": len(measurements),
        "spread_median": float(measurements["spread"].median()),
        "spread_p95": float(measurements["spread"].quantile(0.95)),
    }
    for kernel in ("arithmetic", "copy"):
        times = measurements[f"control_{kernel}_s"].to_numpy(float)
        low, middle, high = np.percentile(times, [5, 50, 95])
        found[f"control_{kernel}_s"] = float(middle)
        found[f"control_{kernel}_drift"] = float((high - low) / middle)
    return found


def measure_suite(
    suite: Suite,
    devices: Sequence[MeasuredDevice],
    cores: tuple[int, ...],
    suite_name: str,
    say: Callable[[str], None] = lambda line: None,
    start: Callable[[MeasuredDevice, tuple[int, ...]], Session] = Session,
) -> Campaign:
    """Measure every operator and model on every device; the devices take turns operator by operator, so that drift hits all alike."""
    began, started_s = moment(), time.monotonic()
    measured: list[dict[str, Any]] = []
    unsupported: list[dict[str, Any]] = []
    models: list[dict[str, Any]] = []
    nodes: list[dict[str, Any]] = []
    peaks: list[dict[str, Any]] = []

    def late(device: str, what: str) -> bool:
        if time.monotonic() - started_s < suite.limit_s:
            return False
        unsupported.append({"device": device, "operator": what, "unsupported": f"not reached within {suite.limit_s:g} s"})
        return True

    def ask(session: Session, request: dict[str, Any], what: str) -> dict[str, Any]:
        return {**_quieter(session, {**request, "clock": suite.clock}, what), "at_s": round(time.monotonic() - started_s, 1)}

    with ExitStack() as stack:
        sessions = []
        for device in devices:
            session = start(device, cores)
            stack.callback(session.close)
            sessions.append(session)
        for session in sessions:
            if session.device.runtime == "numpy" and suite.operators:
                for what in ("product", "triad", "copy"):
                    answer = ask(session, {"peak": what, "budget_s": 20 * suite.budget_s}, what)
                    peaks.append({"device": session.device.name, "kernel": what, "amount": amount(what), **answer})
        for index, operator in enumerate(suite.operators):
            if index % 50 == 0:
                say(f"operator {index} of {len(suite.operators)}")
            request = {"operator": [operator.kind, list(operator.size), operator.variant], "budget_s": suite.budget_s}
            for session in sessions:
                if late(session.device.name, operator.name):
                    continue
                answer = ask(session, request, operator.name)
                row = {"device": session.device.name, "operator": operator.name, **answer}
                (unsupported if "unsupported" in answer else measured).append(row)
        for run in suite.models:
            graph = run.graph()
            say(f"model {graph.name}")
            for session in sessions:
                where = {"device": session.device.name, "model": graph.name}
                if session.device.runtime == "numpy" or late(session.device.name, graph.name):
                    continue
                answer = ask(session, {"model": run.name, "arguments": run.arguments, "budget_s": 20 * suite.budget_s}, graph.name)
                models.append({**where, "nodes": len(graph.nodes), "flop": graph.flop(), "parameters": graph.parameters(), **answer})
                for operator, count in distinct(graph).items():
                    request = {"operator": [operator.kind, list(operator.size), operator.variant], "budget_s": suite.budget_s}
                    nodes.append({**where, "operator": operator.name, "count": count, **ask(session, request, operator.name)})
        described = {session.device.name: {"cores": list(session.cores), **session.facts} for session in sessions}
    timed = [*TIMING, *CONTROL]
    columns = ["device", "operator", *timed, "attempts"]
    every = pd.DataFrame([*measured, *nodes], columns=columns)
    if every.empty:
        raise InputError("nothing was measured: every operator was unsupported or out of time", key=suite_name)
    facts = {
        "kit_version": KIT_VERSION,
        "suite": suite_name,
        "budget_s": suite.budget_s,
        "clock": suite.clock,
        "machine": machine(),
        "devices": described,
        "began": began,
        "ended": moment(),
        "noise": {name: noise(part) for name, part in every.groupby("device", sort=False)},
    }
    return Campaign(
        operator_table(list(dict.fromkeys([*suite.operators, *(operator for run in suite.models for operator in distinct(run.graph()))]))),
        pd.DataFrame(measured, columns=columns),
        pd.DataFrame(models, columns=["device", "model", "nodes", "flop", "parameters", *timed, "attempts"]),
        pd.DataFrame(nodes, columns=["device", "model", "operator", "count", *timed, "attempts"]),
        pd.DataFrame(peaks, columns=["device", "kernel", "amount", *timed]),
        pd.DataFrame(unsupported, columns=["device", "operator", "unsupported"]),
        facts,
    )


TABLES = ("operators", "measurements", "models", "nodes", "peaks", "unsupported")


def check_folder(out: Path) -> None:
    """Make the output folder before hours are spent."""
    if out.exists() and not out.is_dir():
        raise InputError("is a file; expected a folder to write to", path=out, key="--out")
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".write"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=out, key="--out") from None


def _rounded(frame: pd.DataFrame) -> pd.DataFrame:
    """Times to five significant digits: more than the clock and the noise can tell."""
    timed = [name for name in frame.columns if (name.endswith("_s") and name != "at_s") or name == "spread"]
    return frame.assign(**{name: [float(f"{value:.5g}") for value in frame[name]] for name in timed})


def write(campaign: Campaign, out: Path) -> None:
    """Write the tables as CSV, those with no row left out, and the facts as machine.json."""
    for name in TABLES:
        frame, path = getattr(campaign, name), out / f"{name}.csv"
        path.unlink(missing_ok=True) if frame.empty else write_csv(_rounded(frame), path)
    write_atomic(out / "machine.json", (json.dumps(campaign.facts, indent=1) + "\n").encode())


def noise_lines(facts: dict[str, Any]) -> list[str]:
    """The noise of each device in a line each."""
    return [
        f"{name}: spread of a row {100 * each['spread_median']:.1f} % (median), {100 * each['spread_p95']:.1f} % (95th percentile); "
        f"control drifted {100 * each['control_arithmetic_drift']:.1f} % (arithmetic), {100 * each['control_copy_drift']:.1f} % (copy)"
        for name, each in facts["noise"].items()
    ]
