"""Tables that people write, a pydantic model a row, with errors that name file, line and column."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import ConfigDict, ValidationError

from analysis.configs import Strict, told
from analysis.errors import InputError
from analysis.tables import read_csv


class Row(Strict):
    """A row of a CSV, a field a column (named as its alias where it has one); an empty cell is None where that is the field's default."""

    model_config = ConfigDict(populate_by_name=True)


TableRow = TypeVar("TableRow", bound=Row)


def columns_of(model: type[Row]) -> tuple[str, ...]:
    """The columns of a table that is read into a model."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


def read_rows(
    path: str | Path, model: type[TableRow], unique: Sequence[str] = (), known: Mapping[str, Collection[str]] | None = None
) -> tuple[TableRow, ...]:
    """Read a CSV into one model a row.

    Args:
        unique: columns in which no two rows say the same.
        known: by column, what it may name.
    """
    columns = columns_of(model)
    optional = {column for column, field in zip(columns, model.model_fields.values(), strict=True) if field.default is None}
    frame = read_csv(path, required=columns, dtype=str, keep_default_na=False)
    rows: dict[tuple[str, ...], TableRow] = {}
    for line, cells in enumerate(frame[list(columns)].to_dict("records"), start=2):
        for column, names in (known or {}).items():
            if cells[column] not in names:
                raise InputError(f"is not known (got {cells[column]!r})", path=path, line=line, key=column)
        name = tuple(cells[column] for column in unique) or (str(line),)
        if name in rows:
            raise InputError(f"{' and '.join(name)} given twice", path=path, line=line, key=unique[0])
        try:
            rows[name] = model.model_validate({str(key): text for key, text in cells.items() if text or key not in optional})
        except ValidationError as error:
            key, message = told(error)
            raise InputError(message, path=path, line=line, key=key) from None
    return tuple(rows.values())
