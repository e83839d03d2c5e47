"""What do plain sums over printed tables give? Each function is one line of arithmetic on a CSV under `data/` or on printed numbers."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Literal

import pandas as pd

from analysis.artifact.claims.results import one_cell
from analysis.documents import is_file
from analysis.errors import InputError
from analysis.paths import DATA, ROOT
from analysis.studies import statistics
from analysis.studies.checkable import TableName, Where, checkable
from analysis.tables import read_csv


@cache
def _read(name: str) -> pd.DataFrame:
    return read_csv(DATA / f"{name}.csv")


def printed_table(name: str) -> pd.DataFrame:
    """A table under `data/` by its path without ending, such as `claims/printed/survey_table5`."""
    return _read(name).copy()


def select(table: str, where: Where | None = None) -> pd.DataFrame:
    """The rows of a table whose columns equal `where`; a list of values stands for any of them."""
    rows = printed_table(table)
    for column, wanted in (where or {}).items():
        rows = rows[rows[column].isin(wanted)] if isinstance(wanted, list) else rows[rows[column] == wanted]
    return rows


@checkable
def cell(table: TableName, where: Where, column: str) -> Any:
    """One cell: `column` of the only row where all of `where` holds."""
    return one_cell(printed_table(table), where, column, table)


@checkable
def looked_up(ids: list[str]) -> list[float]:
    """Figures looked up in primary sources, by their identifiers."""
    return [float(cell("claims/observed/look_ups", {"id": one}, "value")) for one in ids]


@checkable
def count_rows(table: TableName, where: Where | None = None) -> int:
    """How many rows have the values of `where`."""
    return len(select(table, where))


@checkable
def sum_of(table: TableName, columns: list[str], where: Where | None = None) -> float:
    """Sum over rows and columns."""
    return _tidy(select(table, where)[columns].to_numpy(dtype=float).sum())


@checkable
def of_column(table: TableName, column: str, how: Literal["mean", "min", "max", "nunique"], where: Where | None = None) -> float:
    """Mean, least, largest or number of different values of a column."""
    return _tidy(select(table, where)[column].agg(how))


@checkable
def range_of(table: TableName, low: str, high: str, where: Where | None = None) -> list[float]:
    """[smallest of `low`, largest of `high`]; an entry with only an upper bound counts as a point at that bound."""
    rows = select(table, where)
    lows = rows[low].fillna(rows[high])
    return [_tidy(float(lows.min())), _tidy(float(rows[high].max()))]


@checkable
def spread_of_means(table: TableName, column: str, by: str) -> float:
    """Largest minus smallest group mean of `column`, grouped `by`."""
    means = printed_table(table).groupby(by)[column].mean()
    return float(means.max() - means.min())


@checkable
def count_where(table: TableName, column: str, relation: str, threshold: float, where: Where | None = None) -> int:
    """How many values of a column are `below`, `at least` or `at most` the threshold."""
    values = select(table, where)[column]
    chosen = {"below": values < threshold, "at least": values >= threshold, "at most": values <= threshold}
    return int(chosen[relation].sum())


@checkable
def row_of_extreme(table: TableName, column: str, name: str, largest: bool = True) -> str:
    """The name of the row with the largest (or smallest) value of a column."""
    rows = printed_table(table).sort_values(column, ascending=not largest, kind="stable")
    return str(rows[name].iloc[0])


@checkable
def count_items(table: TableName, where: Where, column: str = "items") -> int:
    """How many items, separated by semicolons, a cell lists."""
    return len([item for item in str(cell(table, where, column)).split(";") if item.strip()])


@checkable
def cells_that_differ(table: TableName, other: TableName, key: str, columns: dict[str, str]) -> int:
    """How many cells of `table` differ from `other` for the same key; `columns` maps names of one to names of the other."""
    joined = printed_table(table).merge(printed_table(other), on=key, how="left", suffixes=("", "_other"))
    differing = 0
    for mine, theirs in columns.items():
        name = f"{theirs}_other" if f"{theirs}_other" in joined else theirs
        differing += int((joined[mine] != joined[name]).sum())
    return differing


@checkable
def ratio(numerator: float, denominator: float, scale: float = 1.0) -> float:
    """scale * numerator / denominator."""
    return scale * numerator / denominator


@checkable
def product(factors: list[float]) -> float:
    """Product of the factors."""
    return _tidy(math.prod(factors))


@checkable
def total(terms: list[float]) -> float:
    """Sum of the terms (give a negative term to subtract)."""
    return _tidy(math.fsum(terms))


@checkable
def mape(truth: list[float], predicted: list[float]) -> float:
    """Mean absolute percentage error of two lists, in percent."""
    return statistics.mape(truth, predicted)


@checkable
def rmse(truth: list[float], predicted: list[float]) -> float:
    """Root mean square error of two lists."""
    return statistics.rmse(truth, predicted)


@checkable
def bits_of_integer(largest: int) -> int:
    """Bits that an unsigned integer up to `largest` needs."""
    return int(largest).bit_length()


@checkable
def parameters(table: TableName) -> int:
    """Sum of rows * columns over a table of parameter shapes."""
    shapes = printed_table(table)
    return int((shapes["rows"] * shapes["columns"]).sum())


@checkable
def shape_product(table: TableName, where: Where) -> int:
    """rows * columns of one parameter."""
    return int(cell(table, where, "rows")) * int(cell(table, where, "columns"))


def _tidy(value: float) -> float:
    rounded = round(float(value), 12)
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else float(value) if math.isnan(rounded) else rounded


@checkable
def yaml_lines(file: TableName, section: str | None = None) -> int:
    """Lines of a YAML file, or of one top-level section with its own line, without blank lines and comments."""
    path = ROOT / file
    if not is_file(path):
        raise InputError("no such file", path=file)
    count, inside = 0, False
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not line[0].isspace():
            inside = section is None or line.split(":")[0] == section
        count += inside
    if not count:
        raise InputError("no such section", path=file, key=section)
    return count
