"""Which numbers does a chapter take from results, and which does it quote?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from analysis.configs import Strict, read_yaml
from analysis.paths import DATA

NUM = re.compile(r"\{num\}`([^`]*)`")
QUOTATIONS = DATA / "evaluation" / "quotations.yaml"


class Quotation(Strict):
    """A number that a chapter quotes and no build computes: its printed form and where it stands."""

    text: str
    of: str
    experiment: str | None = None
    attempt: int | None = None
    tested_on: str | None = None
    column: str | None = None


class Quotations(Strict):
    """The file of quotations."""

    quotations: dict[str, Quotation]


def quotations(path: str | Path = QUOTATIONS) -> dict[str, Quotation]:
    """Every quoted number by the key that the role `quoted` prints it by."""
    return read_yaml(path, Quotations).quotations


def numbers_of(path: str | Path) -> Iterator[tuple[int, str]]:
    """What each `{num}` of a chapter, or of a stored notebook's cells of text, takes, with its line in the file."""
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        for name in NUM.findall(line):
            yield number, json.loads(f'"{name}"') if Path(path).suffix == ".ipynb" else name
