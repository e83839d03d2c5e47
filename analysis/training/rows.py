"""How is a table read by its columns? Each different text of some cells is worked out once; rows are refused and noted one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.case_files import count
from analysis.errors import InputError
from analysis.training.columns import Shared, alike


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
