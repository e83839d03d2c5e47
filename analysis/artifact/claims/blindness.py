"""How blind is a score? What was left out of the fit, how often the judged rows were looked at, and the first score beside today's."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from pydantic import RootModel

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.studies import attempts

PATH = DATA / "evaluation" / "blindness.yaml"
HELPED = re.compile(
    r"in view|(?:is|was|were|been) seen|residuals? (?:of|on)|by eye|on all families|of all families|on the same architectures"
    r"|not by the selection|kept although",
    re.IGNORECASE,
)
"""Words of the log by which an attempt says that the judged rows helped to choose its form."""


class Score(Strict):
    """One score, first and today. `first` stands in the log (experiment, attempt, column or fragment of the note) or in `where`."""

    of: str
    first: str
    today: str
    where: str = ""
    experiment: str = ""
    attempt: int | None = None
    column: str = ""
    fragment: str = ""


class Study(Strict):
    """What a study left out, and which rows of the log are its attempts."""

    left_out: str
    files: tuple[str, ...]
    experiments: tuple[str, ...]
    scores: tuple[Score, ...]
    tested_on: str = ""
    helped: str = ""
    test: str = ""


class Studies(RootModel[dict[str, Study]]):
    """`data/evaluation/blindness.yaml`: name -> study."""


@dataclass(frozen=True)
class Looks:
    """What the log holds of a study: forms tried, attempts that show the judged rows' score, attempts that this score helped to choose."""

    tried: int
    looks: int
    helped: int


@cache
def studies() -> dict[str, Study]:
    """Every study by the name that the role `blind` takes."""
    return read_yaml(PATH, Studies).root


@cache
def counted(name: str) -> Looks:
    """What the log holds of a study, by its name."""
    return looks(studies()[name], attempts.read())


def looks(study: Study, log: pd.DataFrame) -> Looks:
    """Count a study's attempts in the log.

    An attempt *helped to choose* where its selection value is the judged rows' own score, or where its words say so (`HELPED`, `helped`).
    """
    rows = log[log["experiment"].isin(study.experiments)]
    rows = rows[rows["tested_on"].fillna("").str.contains(study.tested_on, regex=True)] if study.tested_on else rows
    words = rows[["configuration", "selection_metric", "note"]].fillna("").agg(" ".join, axis=1)
    scored = rows["test_value"].notna()
    same = scored & np.isclose(rows["selection_value"], rows["test_value"])
    said = words.str.contains(HELPED)
    if study.helped:
        said |= words.str.contains(study.helped, regex=True) & (scored | (study.helped != "^"))
    return Looks(len(rows), int(scored.sum()), int((same | said).sum()))


def sentence(study: Study, found: Looks, number: Callable[[str], str]) -> str:
    """What the book says of a study.

    Args:
        number: from what `{num}` takes to its printed form.
    """
    text = [f"Held out of the fit: {study.left_out}."]
    if found.tried == 1:
        text.append("We tried one form, which was written down before it was scored.")
    else:
        text.append(f"We tried {found.tried} variants and looked at the held-out score of {found.looks} of them.")
        times = "once" if found.helped == 1 else f"{found.helped} times"
        none = "According to the log, it never helped us to choose."
        text.append(f"According to the log, it helped us to choose at least {times}." if found.helped else none)
    text += [f"First held-out score on {one.of}: {one.first}; today's: {number(one.today)}." for one in study.scores]
    return " ".join(text)


@dataclass(frozen=True)
class Said:
    """What the role `blind` prints: `words` of the page (empty: the sentence itself), and the sentence of the study."""

    words: str
    sentence: str


STRONG = re.compile(r"took? no part|taken no part|unseen|never seen|scored once|nothing was chosen|nobody had read|\bblind", re.IGNORECASE)
"""Words that claim that the judged rows had no say at all."""


def said(content: str, number: Callable[[str], str]) -> Said:
    """Read what a page writes in the role: `study`, or `words <study>`."""
    match = re.fullmatch(r"(?:(?P<words>.+?)\s*<(?P<named>\w+)>|(?P<study>\w+))", content, re.DOTALL)
    name = (match["named"] or match["study"]) if match else content
    known = studies()
    if name not in known:
        raise InputError(f"unknown study {name!r}; expected one of {', '.join(known)}", path=PATH)
    words, found = (match["words"] if match else "") or "", counted(name)
    if found.helped and STRONG.search(words):
        raise InputError(f"{words!r} of a study whose judged rows helped to choose in {found.helped} attempts", path=PATH, key=name)
    return Said(words, sentence(known[name], found, number))


def frame(number: Callable[[str], str]) -> pd.DataFrame:
    """All studies as a table: one row a score (one a study without scores)."""
    rows = []
    for name, study in studies().items():
        found = counted(name)
        line = {"study": name, "left_out": study.left_out, "attempts": found.tried, "looks": found.looks, "helped": found.helped}
        rows += [{**line, "score_of": one.of, "first": one.first, "today": number(one.today)} for one in study.scores] or [line]
    return pd.DataFrame(rows)
