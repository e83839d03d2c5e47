"""Which tools can be tried, how do their own instructions install and run them, and which cures are known?

Read from `data/mtap/trials.yaml`. A first program is what a tool's instructions give as the first prediction, quoted by address, with the
answer printed as one line of JSON. It runs in the tool's environment, never in ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated

from pydantic import BeforeValidator, Field

from analysis.accelerators.peers.scalesim import CONFIG
from analysis.accelerators.peers.zigzag import DESIGN, DRIVER
from analysis.configs import Strict, configuration, read_yaml
from analysis.errors import InputError
from analysis.paths import DATA, ROOT


def _design(side: int) -> str:
    return CONFIG.format(rows=side, columns=side, dataflow="ws").replace("run_name = peer", "run_name = trial")


PIECES = {
    "SCALE_SIM_DESIGN_16": _design(16),
    "SCALE_SIM_DESIGN_24": _design(24),
    "ZIGZAG_DRIVER_OF_OUR_DEVICE": DRIVER.strip("\n").replace(DESIGN, 'design = "device.yaml"'),
    "ZIGZAG_DRIVER": DRIVER.strip("\n"),
    "REPOSITORY": str(ROOT),
}
"""What stands for these words in the programs and files of the catalogue and of the exercises."""
_WORD = re.compile(rf"\b({'|'.join(PIECES)})\b")
Text = Annotated[str, BeforeValidator(lambda text: _WORD.sub(lambda word: PIECES[word[0]], text) if isinstance(text, str) else text)]


def printed(program: str, quantity: str, unit: str) -> str:
    """A program that leaves its answer in `value`, with the line that prints it."""
    return program + f"import json\nprint(json.dumps({{'quantity': {quantity!r}, 'value': float(value), 'unit': {unit!r}}}))\n"


@configuration
class Cure:
    """Something that the instructions do not say and that a tool turns out to need.

    Attributes:
        reason: why; source: where that is known from.
        requirements: what pip installs, too.
        files: files that it needs, too; first: the first prediction as it then has to be asked for, where that changes.
        python: minor version of another interpreter, with which everything is installed again.
    """

    reason: str
    source: str
    requirements: tuple[str, ...] = ()
    files: Mapping[str, Text] = Field(default_factory=dict)
    prints: tuple[str, str] | None = None
    first: Text = ""
    python: str = ""

    @property
    def program(self) -> str:
        """As `Trial.program`; empty where it does not change."""
        return printed(self.first, *self.prints) if self.prints else self.first

    @property
    def step(self) -> str:
        """What is done, in words."""
        if self.python:
            return f"everything again with Python {self.python}"
        return f"pip install {' '.join(self.requirements)}" if self.requirements else f"by hand: {self.reason}"


@configuration
class Trial:
    """One tool as its instructions install and run it.

    Attributes:
        tool: name as in the survey; name: of its files here; package: in the index.
        documented_install: the command of the instructions; requirements: what of it pip is given (the package, where empty).
        instructions: address of the instructions; prediction: address of the documented first prediction.
        predicts: what the first prediction is, in words; prints: its quantity and unit.
        first: Python program that makes the first prediction and leaves it in `value`, if it prints one.
        files: other files it needs, by name.
        cures: tried in order where the first prediction fails.
        documented_value: the answer that the instructions print, where they do.
    """

    tool: str
    name: str
    package: str
    documented_install: str
    instructions: str
    prediction: str
    predicts: str
    first: Text
    requirements: tuple[Text, ...] = ()
    files: Mapping[str, Text] = Field(default_factory=dict)
    prints: tuple[str, str] | None = None
    cures: tuple[Cure, ...] = ()
    documented_value: float | None = None

    @property
    def program(self) -> str:
        """The first program with the line that prints its answer."""
        return printed(self.first, *self.prints) if self.prints else self.first

    def arguments(self) -> tuple[str, ...]:
        """What pip is given."""
        return self.requirements or (self.package,)


class _File(Strict):
    tools: tuple[Trial, ...]


@cache
def catalogue() -> tuple[Trial, ...]:
    """Every tool that can be tried."""
    return read_yaml(DATA / "mtap" / "trials.yaml", _File).tools


def find(name: str) -> Trial:
    """A trial by its name."""
    for trial in catalogue():
        if trial.name == name:
            return trial
    raise InputError(f"expected one of {', '.join(trial.name for trial in catalogue())}, got {name!r}", key="--only")
