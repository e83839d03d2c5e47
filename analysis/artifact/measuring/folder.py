"""Reading what the kit wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.artifact.measuring.campaign import TIMING
from analysis.documents import read_json
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.tables import read_csv

CAMPAIGN = DATA / "measured" / "cpu_operators"
"""The committed campaign: folders one_thread, two_threads and models."""


@dataclass(frozen=True)
class Measured:
    """One folder: its facts (machine.json) and its timings, those of operators, or of whole models where it has no operators."""

    folder: Path
    facts: dict[str, Any]
    measurements: pd.DataFrame


def read_facts(folder: Path) -> dict[str, Any]:
    """machine.json of a folder."""
    path = folder / "machine.json"
    if not folder.is_dir():
        raise InputError("no such folder; expected one that measure wrote", path=folder)
    if not path.exists():
        raise InputError("no such file; expected a folder that measure wrote", path=path)
    facts = read_json(path)
    for key in ("kit_version", "machine", "devices", "budget_s", "noise"):
        if not isinstance(facts, dict) or key not in facts:
            raise InputError("missing; expected machine.json as measure writes it", path=path, key=key)
    for key in ("devices", "noise"):
        if not isinstance(facts[key], dict) or not all(isinstance(each, dict) for each in facts[key].values()):
            raise InputError("expected an object for each device", path=path, key=key)
    for name in facts["devices"]:
        control = facts["noise"].get(name, {}).get("control_arithmetic_s")
        if isinstance(control, bool) or not isinstance(control, int | float) or not 0 < control < float("inf"):
            raise InputError("expected the time of the control kernel", path=path, key=f"noise.{name}.control_arithmetic_s")
    return facts


def read(folder: Path) -> Measured:
    """A folder that the kit wrote."""
    facts = read_facts(folder)
    if not (folder / "measurements.csv").exists() and (folder / "models.csv").exists():
        frame = read_csv(folder / "models.csv", required=["device", "model", *TIMING])
        return Measured(folder, facts, frame.rename(columns={"model": "operator"}))
    return Measured(folder, facts, read_csv(folder / "measurements.csv", required=["device", "operator", *TIMING]))


def quiet(measurements: pd.DataFrame, widest: float) -> pd.DataFrame:
    """The rows whose spread, (90th - 10th percentile) / median, does not exceed a limit."""
    return measurements[measurements["spread"] <= widest].reset_index(drop=True)
