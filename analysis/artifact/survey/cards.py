"""One file a tool: what its own paper or repository says of method, accuracy, speed, code and data, where and when that was read.

`data/survey/tools.csv` transcribes what the five documents say of the tools that they name. A card (`data/survey/tools/NAME.yaml`)
holds what the tool's own text says; a tool that no document names is added by its card alone, which then classifies it as well.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import Field, model_validator

from analysis.artifact.survey.tools import METHODOLOGIES, PLATFORMS, Level, Tool
from analysis.configs import Strict, read_yaml
from analysis.errors import InputError

ADDED = "added here"
Address = str


class Statement(Strict):
    """What a text states, or why nothing is stated.

    Attributes:
        reported: as the text reports it, in our words; numbers as printed.
        source: address of the text.
        none: the reason why there is nothing (exclusive with `reported`).
    """

    reported: str = ""
    source: Address = ""
    none: str = ""

    @model_validator(mode="after")
    def _one_of_two(self) -> Statement:
        if bool(self.reported) == bool(self.none):
            raise ValueError("either `reported` with its `source`, or `none` with the reason")
        if self.reported and not self.source.startswith("https://"):
            raise ValueError("`source` must be an https address")
        return self

    @property
    def text(self) -> str:
        """The statement, or the reason in brackets."""
        return self.reported or f"[{self.none}]"


class Accuracy(Statement):
    """Accuracy as reported.

    Attributes:
        kind: what the figure is (mean absolute percentage error, largest error, correlation, hit rate, ...).
        against: what it was compared with (a GPU, a simulator, RTL, ...).
        low_percent, high_percent: range of an error; empty where the figure is no error.
    """

    kind: str = ""
    against: str = ""
    low_percent: float | None = Field(default=None, ge=0)
    high_percent: float | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _figure(self) -> Accuracy:
        if self.reported and not self.kind:
            raise ValueError("`kind` must say what the figure is")
        if self.low_percent is not None and self.high_percent is not None and self.low_percent > self.high_percent:
            raise ValueError("`low_percent` must not be above `high_percent`")
        return self


class Material(Strict):
    """Code or data: found at an address, or not.

    Attributes:
        found: yes, no (looked for and not found) or partly.
        address: where; empty where not found.
        note: what exactly, or where it was looked for.
    """

    found: Literal["yes", "partly", "no"]
    address: Address = ""
    note: str = ""

    @model_validator(mode="after")
    def _says_where(self) -> Material:
        if self.found != "no" and not self.address.startswith("https://"):
            raise ValueError("`address` must be an https address")
        if self.found == "no" and not self.note:
            raise ValueError("`note` must say where it was looked for")
        return self


class Classification(Strict):
    """Where an added tool stands in the taxonomy; keys as in `analysis.artifact.survey.tools`."""

    platform: str
    methodology: str
    year: int = Field(gt=1990, lt=2100)
    venue: str
    target: str
    levels: tuple[Level, ...] = Field(min_length=1)
    domain: str
    section: str

    @model_validator(mode="after")
    def _known(self) -> Classification:
        for name, value, known in (("platform", self.platform, PLATFORMS), ("methodology", self.methodology, METHODOLOGIES)):
            if value not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)} (got {value!r})")
        return self


class Card(Strict):
    """One tool.

    Attributes:
        tool: name; for a tool that a document names, as in `tools.csv`.
        key: citation key of an added tool, where bib/references.bib has it.
        added: date on which a tool that no document names was added.
        classification: of an added tool.
        method: how it predicts, one sentence.
        accuracy, speed, workloads: as the tool's own text reports them.
        code, data: found or not.
        address: of the text that was read; text_read: which text that was; looked_at: when.
        remark: anything a reader should know.
        predicts: whether it predicts at all; a benchmark or a trace generator is in the table and counts in no cell.
    """

    tool: str = Field(min_length=1)
    key: str = ""
    added: datetime.date | None = None
    classification: Classification | None = None
    method: str = Field(min_length=10)
    accuracy: Accuracy
    speed: Statement
    workloads: Statement
    code: Material
    data: Material
    address: str = Field(pattern=r"^https://\S+$")
    text_read: Literal["paper", "abstract", "repository", "documentation", "package"]
    looked_at: datetime.date
    remark: str = ""
    predicts: bool = True

    @model_validator(mode="after")
    def _added_is_classified(self) -> Card:
        if (self.added is None) != (self.classification is None):
            raise ValueError("`added` and `classification` go together: both for a tool that no document names, neither otherwise")
        return self


def slug(name: str) -> str:
    """File name of a tool's card: lower case, words joined by hyphens."""
    words = "".join(c if c.isalnum() else " " for c in name.lower()).split()
    return "-".join(words)


def load_cards(folder: str | Path, tools: Sequence[Tool], keys: Iterable[str] | None = None) -> tuple[Card, ...]:
    """Read every card and hold it against the tools that the documents name."""
    named = {tool.name for tool in tools}
    known = None if keys is None else set(keys)
    cards = []
    for path in sorted(Path(folder).glob("*.yaml")):
        card = read_yaml(path, Card)
        if path.stem != slug(card.tool):
            raise InputError(f"the card of {card.tool!r} belongs in {slug(card.tool)}.yaml", path=path, key="tool")
        if (card.tool in named) == (card.added is not None):
            named_already = "a document names this tool: leave `added` and `classification` out"
            raise InputError(named_already if card.added else "no document names this tool: expected `added`", path=path, key="added")
        if known is not None and card.key and card.key not in known:
            raise InputError(f"is not in the bibliography (got {card.key!r})", path=path, key="key")
        cards.append(card)
    return tuple(cards)


def added_tools(cards: Iterable[Card], predictors: bool = True) -> tuple[Tool, ...]:
    """The tools that the cards add, in the form of the documents' own table."""
    return tuple(
        Tool(
            tool=card.tool,
            key=card.key,
            group=ADDED,
            speed_printed=card.speed.reported,
            capability=card.method,
            level=card.classification.levels,
            source=card.address,
            **card.classification.model_dump(exclude={"levels"}),
        )
        for card in cards
        if card.classification is not None and (card.predicts or not predictors)
    )


def missing(cards: Iterable[Card], tools: Iterable[Tool]) -> tuple[str, ...]:
    """Names of tools that a document names and that have no card."""
    have = {card.tool for card in cards}
    return tuple(tool.name for tool in tools if tool.name not in have)


def frame(cards: Iterable[Card], tools: Iterable[Tool]) -> pd.DataFrame:
    """The living table, one row a tool, by platform, then year, then name."""
    cards = tuple(cards)
    facts = {tool.name: tool for tool in (*tools, *added_tools(cards, predictors=False))}
    rows = []
    for card in cards:
        tool = facts[card.tool]
        rows.append(
            {
                "tool": card.tool,
                "status": f"added {card.added.isoformat()}" if card.added else "in the documents",
                "platform": PLATFORMS[tool.platform],
                "methodology": METHODOLOGIES.get(tool.methodology, "no document says") if card.predicts else "predicts nothing",
                "year": tool.year,
                "venue": tool.venue,
                "target": tool.target,
                "level": ", ".join(tool.levels),
                "method": card.method,
                "accuracy": card.accuracy.text,
                "accuracy_kind": card.accuracy.kind or "[no figure]",
                "accuracy_against": card.accuracy.against or ("[not said in the text read]" if card.accuracy.reported else "[no figure]"),
                "error_low_percent": card.accuracy.low_percent,
                "error_high_percent": card.accuracy.high_percent,
                "speed": card.speed.text,
                "workloads": card.workloads.text,
                "code": card.code.address or f"[{card.code.note}]",
                "data": card.data.address or f"[{card.data.note}]",
                "address": card.address,
                "text_read": card.text_read,
                "looked_at": card.looked_at.isoformat(),
                "remark": card.remark,
            }
        )
    return pd.DataFrame(rows).sort_values(["platform", "year", "tool"], ignore_index=True)


def stale(cards: Iterable[Card], today: datetime.date, days: int = 365) -> tuple[str, ...]:
    """Names of the tools whose text was last read more than a year ago."""
    return tuple(card.tool for card in cards if (today - card.looked_at).days > days)
