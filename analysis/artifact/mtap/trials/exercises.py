"""What does it take to add an accelerator and a workload that a tool does not know? `data/mtap/trial_exercises.yaml`, run live."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import Field

from analysis.artifact.mtap.trials.catalogue import find, printed
from analysis.artifact.mtap.trials.running import answer, run, scrub
from analysis.configs import Strict, read_yaml
from analysis.paths import DATA


class Exercise(Strict):
    """One addition to one tool.

    Attributes:
        name: of its trial and environment.
        way: how it is added.
        lines: lines that describe what is added, of the program and of files (count).
        program: Python that describes it, asks for a prediction and leaves it, a time in `unit`, in `value`.
        files: other files, by name.
    """

    name: str
    adds: Literal["device", "workload"]
    way: Literal["config", "standard", "custom", "code"]
    lines: int
    unit: str
    program: str
    files: dict[str, str] = Field(default_factory=dict)


class Exercises(Strict):
    """`data/mtap/trial_exercises.yaml`."""

    exercises: tuple[Exercise, ...]


def read() -> tuple[Exercise, ...]:
    """Every exercise."""
    return read_yaml(DATA / "mtap" / "trial_exercises.yaml", Exercises).exercises


def do(exercise: Exercise, folder: Path) -> dict[str, object]:
    """Run one exercise in the tool's environment, which a trial has made.

    Returns:
        One row: tool, adds, way, lines, seconds, cpu_s, worked, value, unit, said.
    """
    home, tool = folder.resolve() / "environments" / exercise.name, find(exercise.name).tool
    place = folder.resolve() / "runs" / f"{exercise.name}-{exercise.adds}"
    place.mkdir(parents=True, exist_ok=True)
    for name, text in {"program.py": printed(exercise.program, "time", exercise.unit), **exercise.files}.items():
        (place / name).write_text(text, encoding="utf-8")
    output = place / "said.txt"
    step = run([str(home / "bin" / "python"), "program.py"], tool, exercise.adds, place, 300, output)
    got = answer(output.read_text(encoding="utf-8", errors="replace"))
    worked = step.status == 0 and got is not None and got["value"] > 0
    return {
        "tool": tool,
        "adds": exercise.adds,
        "way": exercise.way,
        "lines": exercise.lines,
        "cpu_s": round(step.cpu_s, 1),
        "worked": worked,
        "value": float(got["value"]) if worked and got else None,
        "unit": got["unit"] if worked and got else "",
        "said": "" if worked else scrub(step.message),
    }


def do_all(folder: Path) -> pd.DataFrame:
    """Every exercise whose tool has an environment."""
    there = [e for e in read() if (folder / "environments" / e.name / "bin" / "python").exists()]
    return pd.DataFrame([do(exercise, folder) for exercise in there])
