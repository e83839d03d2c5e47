"""Values between the points of axes and grids, for compiled loops."""

from __future__ import annotations

from typing import Any

from analysis.compiled import inner


@inner(_nrt=False)
def place(axis: Any, x: float) -> tuple[int, float]:
    """Interval of a value on an ascending axis and its share of it; above the axis the share goes on growing, below it is 0."""
    low, high = 0, axis.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if axis[middle] <= x else (low, middle)
    share = (x - axis[low]) / (axis[high] - axis[low]) if high > low else 0.0
    return low, max(0.0, share)


@inner(_nrt=False)
def line(axis: Any, values: Any, x: float) -> float:
    """Linear between the points, level below them, along the last slope above."""
    i, f = place(axis, float(x))
    return values[i] + f * (values[i + 1] - values[i])


@inner(_nrt=False)
def surface(first: Any, second: Any, values: Any, x: float, y: float) -> float:
    """Bilinear between the points, level below them, along the last slopes above."""
    i, f = place(first, float(x))
    j, g = place(second, float(y))
    low = values[i, j] + g * (values[i, j + 1] - values[i, j])
    high = values[i + 1, j] + g * (values[i + 1, j + 1] - values[i + 1, j])
    return low + f * (high - low)
