"""How is a table of cases read by its columns? Each different text of some cells is worked out once; rows are refused one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.case_files import count
from analysis.configs import Strict
from analysis.errors import InputError

Case = TypeVar("Case")
Codes = NDArray[np.int64]
PLAIN = (bool, int, float, np.generic)


class Shared:
    """A column of few distinct values.

    An attribute is the column of the values' attributes: numbers as an array (0 where a value is None), everything else as such a column.

    Args:
        distinct: the values; codes: of each row, the place of its value among them.
    """

    def __init__(self, distinct: Sequence[Any], codes: Codes) -> None:
        self.distinct, self.codes = list(distinct), codes

    @classmethod
    def of(cls, column: Sequence[Any]) -> Shared:
        """The column of some values; models, whose comparison is long, are told apart by identity."""
        known: dict[Any, int] = {}
        codes = [known.setdefault(id(value) if isinstance(value, Strict | dict | list) else value, len(known)) for value in column]
        distinct = [column[row] for row in np.unique(codes, return_index=True)[1]]
        return cls(distinct, np.array(codes, np.int64))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: int) -> Any:
        return self.distinct[self.codes[index]]

    def take(self, rows: Any) -> Shared:
        """Some of the rows, with those of the values that they have."""
        codes = self.codes[rows]
        used = np.flatnonzero(np.bincount(codes, minlength=len(self.distinct)))
        if len(used) == len(self.distinct):
            return Shared(self.distinct, codes)
        places = np.empty(len(self.distinct), np.int64)
        places[used] = np.arange(len(used))
        return Shared([self.distinct[place] for place in used], places[codes])

    def spread(self, codes: Codes) -> Shared:
        """The value of row `code` of this column for each code."""
        return Shared(self.distinct, self.codes[codes])

    def each(self, function: Callable[[Any], Any]) -> Any:
        """A function of each value: an array where it gives numbers, such a column otherwise."""
        found = [function(value) for value in self.distinct]
        if not all(value is None or isinstance(value, PLAIN) for value in found) or all(value is None for value in found):
            return Shared.of(found).spread(self.codes)
        flags = all(value is None or isinstance(value, bool | np.bool_) for value in found)
        return np.array([value or 0 for value in found], np.bool_ if flags else np.float64)[self.codes]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self.each(lambda value: None if value is None else getattr(value, name))
        if isinstance(found, Shared) and all(value is None for value in found.distinct):
            found = found if any(value is not None for value in self.distinct) else np.zeros(len(self))
        setattr(self, name, found)  # asked for once
        return found

    def __eq__(self, other: object) -> Any:
        return np.array([value == other for value in self.distinct], np.bool_)[self.codes]

    __hash__ = None  # type: ignore[assignment]

    def isin(self, *others: Any) -> NDArray[np.bool_]:
        """Whether each row's value is one of these."""
        return np.array([value in others for value in self.distinct], np.bool_)[self.codes]

    def text(self) -> NDArray[np.str_]:
        """The values as an array of texts."""
        return np.array(self.distinct, np.str_)[self.codes]

    @cached_property
    def there(self) -> NDArray[np.bool_]:
        """Whether each row has a value."""
        return np.array([value is not None for value in self.distinct], np.bool_)[self.codes]


def alike(*columns: Any) -> tuple[Codes, Codes]:
    """Rows in which all columns say the same: a number for each row, and the first row of each number."""
    codes, most = np.zeros(len(columns[0]), np.int64), 1
    if len(codes) == 1:
        return codes, np.zeros(1, np.int64)
    for column in columns:
        own = column.codes if isinstance(column, Shared) else pd.factorize(np.asarray(column), use_na_sentinel=False)[0]
        codes = pd.factorize(codes * (int(own.max(initial=0)) + 1) + own)[0].astype(np.int64)
        most = int(codes.max(initial=-1)) + 1
    first = np.empty(most if len(codes) else 0, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return codes, first


class Rows:
    """The rows of a table as they are read: its cells, why a row is refused (the first reason), and what is assumed of it."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.columns: dict[str, Shared] = {}
        self.empty = Shared([""], np.zeros(len(frame), np.int64))
        self.errors: dict[int, InputError] = {}
        self.refused = np.zeros(len(frame), np.bool_)
        self.notes: list[Shared] = []
        for label in frame.columns:
            cells: Any = frame[label]
            codes, cells = pd.factorize(cells, use_na_sentinel=False) if len(cells) > 1 else (np.zeros(1, np.int64), cells)
            self.columns[str(label).strip()] = Shared([str(cell) for cell in cells], codes)
        self.called = tuple(self.columns)

    def rename(self, names: Mapping[str, str]) -> None:
        """Read columns by other names too, where the cells of their own are empty."""
        for label, column in list(self.columns.items()):
            name = names.get(label, label)
            own = self.columns.get(name)
            self.columns[name] = column if own is None else self.joined(own, column)

    def joined(self, own: Shared, other: Shared) -> Shared:
        """The cells of a column, and where they are empty those of another."""
        said = own.each(lambda cell: bool(cell.strip()))
        if own is other or said.all():
            return own
        return Shared([*own.distinct, *other.distinct], np.where(said, own.codes, len(own.distinct) + other.codes))

    def __len__(self) -> int:
        return len(self.refused)

    def text(self, key: str) -> Shared:
        """The cells of a column; empty where the table has none of that name."""
        return self.columns.get(key, self.empty)

    def refuse(self, where: Any, words: str, key: str | None = None, **facts: Any) -> None:
        """Refuse some rows, each that is not refused yet with its reason: `words`, with facts of the row in their places."""
        for row in np.flatnonzero(where & ~self.refused).tolist():
            self.errors[row] = InputError(words.format(**{fact: column[row] for fact, column in facts.items()}), key=key)
            self.refused[row] = True

    def note(self, where: Any, words: str | Callable[[int], str], *columns: Any) -> None:
        """What is assumed of some rows; words that depend on the row are made once where `columns` are alike."""
        if isinstance(words, str):
            self.notes.append(Shared(["", words], np.asarray(where).astype(np.int64)))
            return
        rows = np.flatnonzero(where & ~self.refused)
        if rows.size:
            codes, first = alike(*(column.take(rows) if isinstance(column, Shared) else column[rows] for column in columns))
            every = np.zeros(len(self), np.int64)
            every[rows] = 1 + codes
            self.notes.append(Shared(["", *(words(row) for row in rows[first])], every))

    def each(self, function: Callable[..., Any], keys: Sequence[str], *known: Any) -> Shared:
        """A function of some cells of a row, of what is known of it already and of a list of notes, once for each different input.

        Rows that it refuses have None.
        """
        cells = {key: self.columns[key] for key in keys if key in self.columns}
        codes, first = alike(self.empty, *cells.values(), *known)
        found: list[Any] = []
        notes: list[tuple[str, ...]] = []
        errors: dict[int, InputError] = {}
        live = np.zeros(len(first), np.bool_)
        live[codes[~self.refused]] = True
        for place, row in enumerate(first.tolist()):
            assumed: list[str] = []
            value = None
            if live[place]:
                try:
                    value = function({key: column[row] for key, column in cells.items()}, *(column[row] for column in known), assumed)
                except InputError as error:
                    errors[place] = error.with_traceback(None)  # which would keep the arrays of this call
            found.append(value)
            notes.append(tuple(assumed))
        if any(notes):
            self.notes.append(Shared(notes, codes))
        if errors:
            bad = np.zeros(len(first), np.bool_)
            bad[list(errors)] = True
            for row in np.flatnonzero(bad[codes] & ~self.refused).tolist():
                self.errors[row] = errors[int(codes[row])]
                self.refused[row] = True
        return Shared.of(found).spread(codes)

    def numbers(self, keys: Sequence[str], read: Callable[[dict[str, str], str], Any] = count) -> list[Any]:
        """Columns of counts (0 where a cell is empty), each refused where its cell is none."""
        columns = [self.each(lambda row, assumed, key=key: read(row, key), [key]) for key in keys]
        return [np.array([value or 0 for value in column.distinct])[column.codes] for column in columns]

    def assumed(self) -> Shared:
        """Everything that was noted of each row, in order."""
        codes, first = alike(self.empty, *self.notes)
        said = [[note[row] for note in self.notes] for row in first]
        return Shared(
            [tuple(words for each in row for words in ([each] if isinstance(each, str) else each) if words) for row in said], codes
        )


def read_cases(frame: pd.DataFrame, case: Callable[[dict[str, str]], Case]) -> tuple[list[Case | None], list[str]]:
    """Every row of a table (cells as text) as a case, and why those that could not be read could not; equal rows are read once."""
    rows = Rows(frame.astype(str))
    found = rows.each(lambda cells, assumed: [case(cells)], rows.called)  # in a list: cases are told apart by identity, not compared
    return (
        [None if found[row] is None else found[row][0] for row in range(len(rows))],
        [rows.errors[row].reason if row in rows.errors else "" for row in range(len(rows))],
    )
