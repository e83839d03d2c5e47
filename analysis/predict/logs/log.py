"""A log as rows of a case command, with what was measured; lines and JSON read within bounds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.documents import parse_json, read_bytes, read_text
from analysis.errors import InputError
from analysis.tables import as_number, ungrouped

LARGEST_JSON = 64 << 20
LARGEST_TEXT = 4 << 30
LONGEST_LINE = 1 << 16
"""A line is cut there: what is read of it stands far before."""
MOST_POINTS = 10_000
_AROUND = re.compile(r"\x1b\[[0-9;]*m|^(?:\[default\d+\]:|\[\d+,\d+\]<std(?:out|err)>:) ?")
"""Colours, and what torchrun and mpirun put before a line."""


@dataclass(frozen=True)
class Log:
    """What was read from a log.

    Attributes:
        kind: training, serving or collective; tool: whose log it is.
        rows: a measured point each: columns of the case command, and `measured_` columns, as text.
        notes: what was taken of it, and what it leaves open, in sentences.
    """

    kind: str
    tool: str
    rows: list[dict[str, str]]
    notes: tuple[str, ...] = ()


def lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Numbered lines of a text, one at a time, without colours; what is not UTF-8 is replaced."""
    path = Path(path)
    if not path.is_file():
        read_bytes(path, 0)  # says why
    if path.stat().st_size > LARGEST_TEXT:
        raise InputError(f"has {path.stat().st_size:,} bytes; at most {LARGEST_TEXT:,} are read", path=path)
    with path.open("rb") as stream:
        number, fresh = 0, True
        while piece := stream.readline(LONGEST_LINE):
            if fresh:
                number += 1
                yield number, _AROUND.sub("", piece.decode("utf-8", "replace").replace("\0", "")).rstrip("\r\n")
            fresh = piece.endswith(b"\n")


def records(path: str | Path) -> list[dict[str, Any]]:
    """JSON objects of a file: one, a list of them, or one a line; numbers that JSON has not (Infinity, NaN) are null."""
    text = read_text(path, LARGEST_JSON)
    try:
        whole = parse_json(text, path, python=True)
        found = whole if isinstance(whole, list) else [whole]
    except InputError as error:
        each = [line for line in text.splitlines() if line.strip()]
        if len(each) < 2 or not each[0].lstrip().startswith("{"):
            raise
        found = []
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                try:
                    found.append(parse_json(line, path, python=True))
                except InputError:
                    raise InputError(error.message, path=path, line=number) from None
    if not found or not all(isinstance(one, dict) for one in found) or len(found) > MOST_POINTS:
        raise InputError(f"expected 1 to {MOST_POINTS:,} JSON objects", path=path)
    return found


def number(value: object, path: str | Path, key: str, line: int | None = None) -> float | None:
    """A measured value: None where there is none."""
    if value is None or value == "":
        return None
    found = as_number(ungrouped(str(value)))
    if not 0 < found < 1e15:
        raise InputError(f"expected a number above 0, got {str(value)[:40]!r}", path=path, line=line, key=key)
    return found


def text_of(row: dict[str, Any]) -> dict[str, str]:
    """A row's cells as text, those that say nothing left out; numbers in the shortest form that reads back."""
    return {key: f"{value:.12g}" if isinstance(value, float) else str(value) for key, value in row.items() if value not in (None, "")}
