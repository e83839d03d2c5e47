"""Stands for numpy in the page: numbers, lists of numbers, and the few functions that the explorers' models call on them."""

# mypy: ignore-errors

import builtins
import math

inf, nan = math.inf, math.nan
float64, int64, int8, bool_ = "float", "int", "int", "bool"
void = object


class _Type:
    def __init__(self, kind):
        self.kind = kind


class ndarray:
    """Values in a list; `shape` is () for one number and (n,) for a row."""

    def __init__(self, values, shape):
        self.values, self.shape, self.ndim, self.size = values, shape, len(shape), len(values)

    @property
    def dtype(self):
        """Its kind: U, b, i or f, by the first value."""
        first = self.values[0] if self.values else 0.0
        return _Type("U" if isinstance(first, str) else "b" if isinstance(first, bool) else "i" if isinstance(first, int) else "f")

    def _with(self, other, function):
        other = asarray(other)
        shape = self.shape or other.shape
        count = builtins.max(len(self.values), len(other.values))
        left = self.values * count if len(self.values) == 1 else self.values
        right = other.values * count if len(other.values) == 1 else other.values
        return ndarray([function(a, b) for a, b in zip(left, right, strict=True)], shape)

    def __add__(self, other):
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other):
        return self._with(other, lambda a, b: a - b)

    def __mul__(self, other):
        return self._with(other, lambda a, b: a * b)

    def __truediv__(self, other):
        return self._with(other, lambda a, b: a / b)

    def __floordiv__(self, other):
        return self._with(other, lambda a, b: a // b)

    def __pow__(self, other):
        return self._with(other, lambda a, b: a**b)

    def __radd__(self, other):
        return asarray(other) + self

    def __rsub__(self, other):
        return asarray(other) - self

    def __rmul__(self, other):
        return asarray(other) * self

    def __rpow__(self, other):
        return asarray(other) ** self

    def __neg__(self):
        return ndarray([-a for a in self.values], self.shape)

    def __lt__(self, other):
        return self._with(other, lambda a, b: a < b)

    def __gt__(self, other):
        return self._with(other, lambda a, b: a > b)

    def __ge__(self, other):
        return self._with(other, lambda a, b: a >= b)

    def __eq__(self, other):
        return self._with(other, lambda a, b: a == b)

    def __getitem__(self, place):
        if isinstance(place, tuple):  # [()]: a number where there is one alone
            return self.values[0] if len(self.values) == 1 else self
        return self.values[place]

    def __setitem__(self, place, value):
        value = value.values[0] if isinstance(value, ndarray) else value
        if isinstance(place, ndarray):
            self.values = [value if chosen else old for chosen, old in zip(place.values, self.values, strict=True)]
        else:
            self.values[place] = value

    def __iter__(self):
        return iter(self.values)

    def __len__(self):
        return len(self.values)

    def __bool__(self):
        return bool(self.values[0])

    def __float__(self):
        return float(self.values[0])

    def __int__(self):
        return int(self.values[0])

    def any(self):
        """Whether one is true."""
        return builtins.any(self.values)

    def all(self):
        """Whether all are true."""
        return builtins.all(self.values)

    def min(self):
        """The least value."""
        return builtins.min(self.values)

    def max(self):
        """The greatest value."""
        return builtins.max(self.values)

    def astype(self, kind):
        """The values as float or int."""
        cast = float if kind == "float" or kind is float else int
        return ndarray([cast(a) for a in self.values], self.shape)


class dtype:
    """Records: the names of their fields."""

    def __init__(self, fields, align=False):
        self.names = [name for name, _ in fields]


def asarray(values, dtype=None, order=None):
    """A number or a list as `ndarray`."""
    if not isinstance(values, ndarray):
        made = ndarray(list(values), (len(values),)) if isinstance(values, (list, tuple)) else ndarray([values], ())
    else:
        made = values
    if dtype == "float" or dtype is float:
        return ndarray([float(a) for a in made.values], made.shape)
    return made


array = asarray


def atleast_1d(values):
    """The same as a row."""
    made = asarray(values)
    return ndarray(made.values, (len(made.values),))


def _each(function):
    def applied(values):
        if isinstance(values, ndarray):
            return ndarray([function(a) for a in values.values], values.shape)
        return function(values)

    return applied


exp, sqrt, log, ceil, floor = (_each(f) for f in (math.exp, math.sqrt, math.log, math.ceil, math.floor))
isnan, isfinite = _each(math.isnan), _each(math.isfinite)


def full(shape, value, dtype=None):
    """One value, repeated."""
    count = shape if isinstance(shape, int) else (shape[0] if shape else 1)
    return ndarray([value] * count, (shape,) if isinstance(shape, int) else tuple(shape))


def zeros(shape, dtype=None):
    """Zeros of a shape."""
    return full(shape, 0)


def zeros_like(values):
    """As many zeros."""
    made = asarray(values)
    return ndarray([0.0] * len(made.values), made.shape)


def arange(count, dtype=None):
    """0, 1, ... below `count`."""
    return asarray(list(range(count)), dtype)


def where(condition, yes, no):
    """Of `yes` and `no`, element by element."""
    condition, yes, no = asarray(condition), asarray(yes), asarray(no)
    count = builtins.max(len(condition.values), len(yes.values), len(no.values))
    grown = [a.values * count if len(a.values) == 1 else a.values for a in (condition, yes, no)]
    return ndarray([b if a else c for a, b, c in zip(*grown, strict=True)], condition.shape or yes.shape or no.shape)


def maximum(a, b):
    """The greater of two, element by element."""
    return asarray(a)._with(b, builtins.max)


def all(values):
    """Whether all are true."""
    return builtins.all(asarray(values).values)


class _Stack:
    def __init__(self, rows):
        count = builtins.max(len(row.values) for row in rows)
        self.rows = [row.values * count if len(row.values) == 1 else row.values for row in rows]

    def __iter__(self):
        return iter([ndarray(row, (len(row),)) for row in self.rows])

    def __add__(self, other):
        return _Stack([mine + theirs for mine, theirs in zip(self, other, strict=True)])


def broadcast_arrays(*arrays):
    """The arrays as they are: `stack` makes them equally long."""
    return arrays


def stack(rows):
    """Rows to compare, column by column."""
    return _Stack([asarray(row) for row in rows])


def _columns(stacked):
    return [list(column) for column in zip(*stacked.rows, strict=True)]


def argmin(stacked, axis=0):
    """Row of the least value, for each column."""
    found = [column.index(builtins.min(column)) for column in _columns(stacked)]
    return ndarray(found, (len(found),))


def choose(places, options):
    """For each column the value of the row that `places` names."""
    rows = _Stack([asarray(option) for option in options]).rows
    return ndarray([rows[place][k] for k, place in enumerate(places.values)], places.shape)
