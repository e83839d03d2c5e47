"""Which tools can be tried, how do their own instructions install and run them, and which cures are known? `data/mtap/trials.yaml`.

A first program is what a tool's instructions give as the first prediction, quoted by address, with the answer printed as one line of JSON.
It runs in the tool's environment, never in ours.
"""

from __future__ import annotations

from functools import cache

from pydantic import Field

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.paths import DATA, ROOT


def printed(program: str, quantity: str, unit: str) -> str:
    """A program that leaves its answer in `value`, with the lines that print it."""
    return f"{program}import json\nprint(json.dumps({{'quantity': {quantity!r}, 'value': float(value), 'unit': {unit!r}}}))\n"


class Cure(Strict):
    """Something that the instructions do not say and that a tool turns out to need.

    Attributes:
        requirements: what pip installs, too.
        reason: why.
        source: where that is known from.
        files: files that it needs, too; program: the first prediction as it then has to be asked for, where that changes.
        python: minor version of another interpreter, with which everything is installed again; build: shell commands.
    """

    requirements: tuple[str, ...] = ()
    reason: str
    source: str
    files: dict[str, str] = Field(default_factory=dict)
    program: str = ""
    python: str = ""
    build: tuple[str, ...] = ()

    @property
    def step(self) -> str:
        """What is done, in words."""
        if self.python:
            return f"everything again with Python {self.python}"
        return f"pip install {' '.join(self.requirements)}" if self.requirements else f"by hand: {self.reason}"


class Trial(Strict):
    """One tool as its instructions install and run it.

    Attributes:
        tool: name as in the survey; name: of its files here; package: in the index.
        documented_install: the command of the instructions; requirements: what of it pip is given (the package, where empty).
        repository: address that is cloned first, into `clone`, for a tool that no index has; commit: what is checked out of it.
        python: minor version of the interpreter that its instructions name; build: shell commands after the installation.
        instructions: address of the instructions; prediction: address of the documented first prediction.
        predicts: what the first prediction is, in words.
        program: Python that makes the first prediction; quantity, unit: of what it leaves in `value`, where it leaves something.
        files: other files it needs, by name.
        cures: tried in order where the first prediction fails.
    """

    tool: str
    name: str
    package: str = ""
    documented_install: str
    requirements: tuple[str, ...] = ()
    repository: str = ""
    commit: str = ""
    python: str = ""
    build: tuple[str, ...] = ()
    instructions: str
    prediction: str
    predicts: str
    program: str
    quantity: str = ""
    unit: str = ""
    files: dict[str, str] = Field(default_factory=dict)
    cures: tuple[Cure, ...] = ()

    def arguments(self) -> list[str]:
        """What pip is given."""
        return [text.replace("{root}", str(ROOT)) for text in self.requirements or (self.package,) if text]

    def first(self, program: str = "") -> str:
        """The whole first program, or one that a cure puts in its place."""
        text = (program or self.program).replace("{root}", str(ROOT))
        return printed(text, self.quantity, self.unit) if self.quantity else text


class Trials(Strict):
    """`data/mtap/trials.yaml`."""

    trials: tuple[Trial, ...]


@cache
def catalogue() -> tuple[Trial, ...]:
    """Every trial."""
    return read_yaml(DATA / "mtap" / "trials.yaml", Trials).trials


def find(name: str) -> Trial:
    """A trial by its name."""
    for trial in catalogue():
        if trial.name == name:
            return trial
    raise InputError(f"expected one of {', '.join(trial.name for trial in catalogue())}, got {name!r}", key="--only")
