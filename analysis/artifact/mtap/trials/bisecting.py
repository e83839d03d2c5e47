"""Which versions of a dependency does a tool work with? One installation a version, everything else as it is.

A forest that scikit-learn 0.23.1 saved stands for nn-Meter's predictors, which are such forests and cannot be had from the package index.
It is written and read only in throw-away environments; nothing of this project is pickled.
"""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from analysis.artifact.mtap.trials.catalogue import Trial, find
from analysis.artifact.mtap.trials.running import Step, attempt, interpreter, run, scrub
from analysis.errors import InputError

SAVE = """
import pickle, sys, sklearn
from sklearn.ensemble import RandomForestRegressor
forest = RandomForestRegressor(5, random_state=0).fit([[i, i % 3] for i in range(60)], [float(i) for i in range(60)])
with open(sys.argv[1], "wb") as stream:
    pickle.dump(forest, stream)
print(sklearn.__version__, float(forest.predict([[30, 0]])[0]))
"""
LOAD = """
import pickle, sys, sklearn
with open(sys.argv[1], "rb") as stream:
    forest = pickle.load(stream)
print(sklearn.__version__, float(forest.predict([[30, 0]])[0]))
"""


@dataclass(frozen=True)
class Tried:
    """One version, tried.

    Attributes:
        tool: whose dependency it is.
        dependency, version: what was installed.
        python: interpreter (minor version).
        step: save, load or run.
        worked: whether it came to an answer.
        said: the answer, or the last line of the error.
    """

    tool: str
    dependency: str
    version: str
    python: str
    step: str
    worked: bool
    said: str


@dataclass(frozen=True)
class Version:
    """A version to try: with which Python, and what it needs beside it."""

    number: str
    python: str
    beside: tuple[str, ...] = ()


OLD = ("numpy<1.24", "scipy<1.11")
FORESTS = (
    Version("0.23.1", "3.8", OLD),
    Version("1.0.2", "3.8", OLD),
    Version("1.2.2", "3.8", OLD),
    Version("1.3.2", "3.8", OLD),
    Version("1.9.1", "3.11"),
)
ARRAYS = tuple(Version(number, "3.11") for number in ("1.26.4", "2.2.6", "2.3.5", "2.4.6"))


def _said(step: Step, output: Path) -> str:
    lines = output.read_text(encoding="utf-8").strip().splitlines() or [""]
    return scrub(step.message if step.status else lines[-1])


def _pip(python: Path) -> list[str]:
    return [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--only-binary=:all:"]


def forests(folder: Path, versions: tuple[Version, ...] = FORESTS) -> pd.DataFrame:
    """Save a forest with the first version and load it with each."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    forest, output, rows = folder / "forest.pkl", folder / "said.txt", []
    for i, version in enumerate(versions):
        home = folder / f"sklearn-{version.python}"
        if not (home / "bin" / "python").exists():
            made = run([interpreter(version.python), "-m", "venv", str(home)], "", "", folder)
            if made.status:
                raise InputError(f"no environment for Python {version.python}: {made.message}", key="python")
        python = home / "bin" / "python"
        installed = run([*_pip(python), f"scikit-learn=={version.number}", *version.beside], "", "", folder)
        if installed.status:
            if i == 0:
                raise InputError(f"scikit-learn {version.number} cannot be installed: {installed.message}", key="scikit-learn")
            rows.append(Tried("nn-Meter", "scikit-learn", version.number, version.python, "install", False, scrub(installed.message)))
            continue
        for step, program in (("save", SAVE), ("load", LOAD))[0 if i == 0 else 1 :]:
            done = run([str(python), "-W", "ignore", "-c", program, str(forest)], "", "", folder, output=output)
            rows.append(Tried("nn-Meter", "scikit-learn", version.number, version.python, step, done.status == 0, _said(done, output)))
    return pd.DataFrame([asdict(row) for row in rows])


def arrays(folder: Path, versions: tuple[Version, ...] = ARRAYS) -> pd.DataFrame:
    """Run SCALE-Sim's first prediction, the layout file in place, with each version of NumPy."""
    trial, home = find("scalesim"), folder.resolve() / "scalesim-numpy"
    home.parent.mkdir(parents=True, exist_ok=True)
    run([sys.executable, "-m", "venv", "--clear", str(home)], "", "", folder)
    python, rows = home / "bin" / "python", []
    run([*_pip(python), *trial.arguments()], "", "", folder)
    layout = trial.cures[0]
    for name, text in {"first.py": trial.first(layout.program), **trial.files, **layout.files}.items():
        (home / name).write_text(text, encoding="utf-8")
    for version in versions:
        installed = run([*_pip(python), f"numpy=={version.number}"], "", "", folder)
        if installed.status:
            rows.append(Tried(trial.tool, "NumPy", version.number, version.python, "install", False, scrub(installed.message)))
            continue
        done = run([str(python), "first.py"], "", "", home, 120, home / "said.txt")
        rows.append(Tried(trial.tool, "NumPy", version.number, version.python, "run", done.status == 0, _said(done, home / "said.txt")))
    return pd.DataFrame([asdict(row) for row in rows])


def releases(trial: Trial, folder: Path, count: int = 3) -> pd.DataFrame:
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
