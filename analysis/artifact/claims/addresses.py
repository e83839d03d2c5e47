"""What does a page print by the address of a cell: `notebook/table[where].column:format`, with the `where` of a claim's check?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pandas as pd
import yaml
from pydantic import ValidationError

from analysis.artifact.claims.check_files import Source
from analysis.artifact.claims.results import Results
from analysis.artifact.publishing.words import with_unit
from analysis.errors import InputError

ADDRESS = re.compile(r"(?P<table>\w+/\w+)(?:\[(?P<where>.*)\])?\.(?P<column>[^:]+)(?::(?P<form>.*))?")
EXPECTED = "expected notebook/table[column: value, ...].column:format, its `where` as in data/claims/checks"


def is_address(name: str) -> bool:
    """Whether what `{num}` takes names a cell; otherwise it is `notebook.key`."""
    return "/" in name.partition("[")[0]


def read_address(text: str) -> tuple[Source, str]:
    """The cell that an address names, and the format in which it is printed."""
    match = ADDRESS.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        where = yaml.safe_load(f"{{{match['where'] or ''}}}")
        source = Source.model_validate({"table": match["table"], "where": where, "column": match["column"]})
    except (ValueError, yaml.YAMLError, ValidationError):
        raise InputError(EXPECTED, key=text) from None
    if any(isinstance(value, list) for value in source.where.values()):
        raise InputError(f"a list in `where` names several cells; {EXPECTED}", key=text)
    return source, match["form"] or ""


@dataclass(frozen=True)
class Cell:
    """A cell as a page prints it: its text, the notebook and table that hold it, and the kind of that table's numbers."""

    text: str
    notebook: str
    table: str
    kind: str


def cell(text: str, results: Results) -> Cell:
    """The cell at an address.

    Args:
        text: the address; its format is Python's (`.1f`, `,`, `.1%`), with a unit after a space (`.2f GiB`);
            without one, the cell as it is.
    """
    source, form = read_address(text)
    table = str(source.table)
    try:
        value = results.cells(table, source.where, str(source.column))
    except InputError as error:
        raise InputError(str(error), key=text) from None
    if pd.isna(value):
        raise InputError("the cell is empty; expected a value", key=text)
    notebook, _, name = table.partition("/")
    return Cell(_formatted(value, form, text), notebook, name, results.kind(table))


def _formatted(value: Any, form: str, key: str) -> str:
    spec, _, unit = form.partition(" ")
    try:
        number = format(value, spec)
    except (ValueError, TypeError):
        told = f"{spec!r} does not format {value!r}; expected a format of Python's (.1f, `,` or .1%), with a unit after a space"
        raise InputError(told, key=key) from None
    return with_unit(number[:-1], "%") if spec.endswith("%") else with_unit(number, unit)
