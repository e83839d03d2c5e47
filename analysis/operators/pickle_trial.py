"""A forest saved by an old scikit-learn and loaded by a new one: why nn-Meter's predictors stopped working.

Needs the network: it installs both versions, each in an environment of its own. Run with `python -m analysis.operators.pickle_trial`.
The pickle is made and read only in the two throw-away environments; nothing of this project is pickled.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from analysis.errors import InputError
from analysis.tables import write_csv

OLD = ("scikit-learn==1.2.2", "numpy<2", "scipy<1.14")
NEW = ("scikit-learn==1.9.1",)
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
class Outcome:
    """What a version of scikit-learn did with the forest.

    Attributes:
        requirements: what was installed.
        step: save or load.
        worked: whether it came to an answer.
        said: the answer, or the last line of the error.
    """

    requirements: str
    step: str
    worked: bool
    said: str


def environment(folder: Path, requirements: tuple[str, ...]) -> Path:
    """A new environment with these packages; returns its Python.

    Raises:
        InputError: it cannot be made, for instance without a network.
    """
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        for command in ([sys.executable, "-m", "venv", str(folder)], [str(python), "-m", "pip", "install", "--quiet", *requirements]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                raise InputError(f"environment cannot be made: {last}", path=folder, key=" ".join(requirements))
    return python


def attempt(python: Path, requirements: tuple[str, ...], step: str, program: str, forest: Path) -> Outcome:
    """Run one of the two programs and keep what it said last."""
    done = subprocess.run([str(python), "-c", program, str(forest)], capture_output=True, text=True, check=False)
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines() or [""]
    errors = [line for line in lines if "Error:" in line]
    return Outcome(" ".join(requirements), step, done.returncode == 0, (errors or lines)[-1])


def trial(folder: Path) -> list[Outcome]:
    """Save with the old version; load with the old one and with the new one.

    Args:
        folder: where environments and the forest go.
    """
    folder.mkdir(parents=True, exist_ok=True)
    old, new, forest = environment(folder / "old", OLD), environment(folder / "new", NEW), folder / "forest.pkl"
    return [
        attempt(old, OLD, "save", SAVE, forest),
        attempt(old, OLD, "load", LOAD, forest),
        attempt(new, NEW, "load", LOAD, forest),
    ]


def main() -> int:
    """Print what happened and keep it; the exit status is 0 when the old version reads its forest and the new one does not."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("_build/pickle_trial")
    outcomes = trial(folder)
    write_csv(pd.DataFrame([asdict(outcome) for outcome in outcomes]), folder / "pickle_trial.csv")
    for outcome in outcomes:
        print(f"{outcome.step} with {outcome.requirements}: {'works' if outcome.worked else 'fails'}: {outcome.said}")
    return 0 if [outcome.worked for outcome in outcomes] == [True, True, False] else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(f"error: {error}")
