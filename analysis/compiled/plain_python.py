"""Compiled functions in plain Python: for inputs so small that compiling, or reading what was compiled, takes longer than the work itself.

Arrays and records become dictionaries and attributes, since one element of a numpy array takes as long as ten of a dictionary, and a numpy
record hides fields that are called like one of its methods. What is changed is changed at the end or, where plain Python stumbles (an index
out of bounds, a slice of an argument), not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from types import CodeType, FunctionType
from typing import Any

import numpy as np

READ_WHOLE = 1 << 14
"""Elements of an array that is read at once; of larger ones each element when it is used."""


def names(code: CodeType) -> set[str]:
    """Global names that a function's code and the code within it use."""
    within = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(names, within))


def plain(function: Any, made: dict[int, Any] | None = None) -> Any:
    """A compiled function in plain Python, and all that it calls; one that says what stands for it (`instead`) is that."""
    made = {} if made is None else made
    if (stand_in := getattr(function, "instead", None)) is not None:
        return stand_in
    given = function.py_func
    if id(given) not in made:
        known = dict(given.__globals__)
        made[id(given)] = FunctionType(given.__code__, known, given.__name__, given.__defaults__, given.__closure__)
        used = {name: known[name] for name in names(given.__code__) & known.keys()}
        known.update({name: plain(value, made) for name, value in used.items() if hasattr(value, "instead") or hasattr(value, "py_func")})
    return made[id(given)]


class _Record:
    """A record: its fields as attributes."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = _read(self.__dict__["_source"][name])
        return found

    def changes(self) -> Iterator[tuple[Any, Any, Any]]:
        """What was read or set: where, at what, and the value in its own type."""
        for name, value in self.__dict__.items():
            if isinstance(value, _Record | _Table):
                yield from value.changes()
            elif name != "_source":
                yield self._source, name, self._source.dtype[name].type(value)


class _Table(dict[Any, Any]):
    """An array: elements by index, or by a tuple of as many as it has axes."""

    def __init__(self, source: Any) -> None:
        self.source, self.shape, self.size = source, source.shape, source.size
        self.whole = source.dtype.kind in "biuf" and source.size <= READ_WHOLE
        if self.whole:
            places = range(self.size) if source.ndim == 1 else product(*map(range, self.shape))
            super().__init__(zip(places, source.ravel() if source.dtype.kind == "f" else source.ravel().tolist(), strict=True))

    def __missing__(self, index: Any) -> Any:
        axes = index if isinstance(index, tuple) else (index,)
        if len(axes) < len(self.shape):
            return _Part(self, axes)
        if any(at < 0 for at in axes):
            beyond = tuple(at % size for at, size in zip(axes, self.shape, strict=True))
            return self[beyond if isinstance(index, tuple) else beyond[0]]
        found = self[index] = _read(self.source[index])
        return found

    def __len__(self) -> int:
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self)))

    def changes(self) -> Iterator[tuple[Any, Any, Any]]:
        """What was read or set: where, at what, and the value in its own type."""
        if self.whole and self.source.flags.writeable:
            yield self.source, ..., np.array([*self.values()], self.source.dtype).reshape(self.shape)  # of another size: set out of bounds
        for index, value in () if self.whole else self.items():
            if isinstance(value, _Record | _Table):
                yield from value.changes()
            elif min(index) < 0 if isinstance(index, tuple) else index < 0:
                raise IndexError("an element was set by a negative index")
            elif self.source.flags.writeable:
                yield self.source, index, self.source.dtype.type(value)


class _Narrow(_Table):
    """An array of short integers: what is set is cut to their bits."""

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        limits = np.iinfo(source.dtype)
        self.low, self.high, self.span = int(limits.min), int(limits.max), 1 << 8 * source.itemsize

    def __setitem__(self, index: Any, value: Any) -> None:
        if not self.low <= value <= self.high:
            value = (int(value) - self.low) % self.span + self.low
        super().__setitem__(index, value)


class _Part:
    """An array within an array."""

    def __init__(self, whole: _Table, at: tuple[int, ...]) -> None:
        self.whole, self.at = whole, at
        self.shape = whole.shape[len(at) :]
        self.size = prod(self.shape)

    def __getitem__(self, index: Any) -> Any:
        return self.whole[self.at + (index if isinstance(index, tuple) else (index,))]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.whole[self.at + (index if isinstance(index, tuple) else (index,))] = value

    def __len__(self) -> int:
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self)))


def _read(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _Narrow(value) if value.dtype.kind in "iu" and value.itemsize < 8 else _Table(value)
    if isinstance(value, np.void):
        return _Record(value)
    return value if isinstance(value, np.floating) else value.item() if isinstance(value, np.generic) else value


def run_plain(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call a plain function; arrays and records among the arguments, or in named tuples among them, are changed when it has ended."""
    read: dict[int, Any] = {}

    def taken(value: Any) -> Any:
        if isinstance(value, tuple):
            return type(value)(*map(taken, value)) if hasattr(value, "_fields") else tuple(map(taken, value))
        if id(value) not in read:
            read[id(value)] = _read(value)
        return read[id(value)]

    with np.errstate(all="ignore"):
        found = function(*map(taken, arguments))
    for where, at, value in [change for each in read.values() if isinstance(each, _Record | _Table) for change in each.changes()]:
        where[at] = value
    return found
