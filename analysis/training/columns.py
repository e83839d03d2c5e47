"""Columns whose values repeat: each distinct value is kept, and worked out, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.configs import Strict

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
    """Rows in which all columns say the same: a number for each row, and the first row of each number.

    Args:
        columns: `Shared`, or arrays of numbers.
    """
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
