"""What do the results of the notebooks say, and are they as the notebooks wrote them?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.documents import is_file
from analysis.errors import InputError
from analysis.tables import numeric, read_csv


class ResultMissing(InputError):
    """A results table that a claim reads is not there, or is not what its notebook wrote."""


@dataclass
class Results:
    """The folder that `make book` fills, read lazily; each table is compared with its notebook's manifest once.

    Args:
        folder: holds `<notebook>/<table>.csv` and `<notebook>/manifest.json` with `{"files": {"<table>.csv": "<sha256>"}}`.
    """

    folder: Path
    _tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    _failed: dict[str, str] = field(default_factory=dict)
    _manifests: dict[str, dict[str, Any]] = field(default_factory=dict)

    def table(self, name: str) -> pd.DataFrame:
        """A results table by the name `notebook/table`."""
        if name in self._failed:
            raise ResultMissing(self._failed[name])
        if name not in self._tables:
            try:
                self._tables[name] = self._read(name)
            except ResultMissing as error:
                self._failed[name] = str(error)
                raise
        return self._tables[name]

    def cells(self, name: str, where: dict[str, Any], column: str | list[str]) -> Any:
        """The cell of table `name` in the row whose columns equal `where`; with one list in `where` or `column`, a list of cells."""
        if isinstance(column, list):
            return [self.cells(name, where, one) for one in column]
        for key, wanted in where.items():
            if isinstance(wanted, list):
                return [self.cells(name, {**where, key: one}, column) for one in wanted]
        frame = self.table(name)
        for key in [*where, column]:
            if key not in frame.columns:
                raise ResultMissing(f"no column {key!r}; expected one of {', '.join(frame.columns)}", path=self._path(name))
        return one_cell(frame, where, column, self._path(name))

    def kind(self, name: str) -> str:
        """How the numbers of table `name` came about, as its notebook says: computed, measured, recorded, cited or frozen."""
        self.table(name)
        notebook, _, table = name.partition("/")
        return str(self._manifests[notebook]["tables"].get(table, {}).get("kind", "computed"))

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.csv"

    def _read(self, name: str) -> pd.DataFrame:
        path = self._path(name)
        if not is_file(path):
            others = ", ".join(sorted(other.stem for other in path.parent.glob("*.csv")))
            raise ResultMissing(f"no such result; {f'expected one of {others}' if others else 'run `make book`'}", path=path)
        notebook = name.partition("/")[0]
        if notebook not in self._manifests:
            manifest = self.folder / notebook / "manifest.json"
            try:
                self._manifests[notebook] = {"tables": {}, **json.loads(manifest.read_text(encoding="utf-8"))}
                dict(self._manifests[notebook]["files"])
            except OSError:
                raise ResultMissing("no manifest; run `make book`", path=manifest) from None
            except (ValueError, KeyError, TypeError):
                raise ResultMissing('not a manifest; expected {"files": {"name": "sha256"}}', path=manifest) from None
        written = self._manifests[notebook]["files"].get(path.name)
        if written is None:
            raise ResultMissing(f"not in the manifest of notebook {notebook}; run `make book`", path=path)
        if hashlib.sha256(path.read_bytes()).hexdigest() != written:
            raise ResultMissing(
                f"changed since notebook {notebook} wrote it (its manifest has another SHA-256); run `make book`", path=path
            )
        try:
            return read_csv(path)
        except InputError as error:
            raise ResultMissing(str(error)) from None


def one_cell(frame: pd.DataFrame, where: Mapping[str, Any], column: str, path: Path | str) -> Any:
    """The value of `column` in the only row of `frame` whose columns equal `where`; numbers compare as numbers, "" means empty."""
    rows = frame
    for key, wanted in where.items():
        values = rows[key]
        if wanted == "":
            rows = rows[values.isna()]
        elif isinstance(wanted, (bool, str)):
            rows = rows[values.astype(str) == str(wanted)]
        else:
            rows = rows[numeric(values) == wanted]
    if len(rows) != 1:
        told = ", ".join(f"{key}={value}" for key, value in where.items()) or "no condition"
        raise ResultMissing(f"expected one row where {told}, found {len(rows)}", path=path)
    value = rows[column].iloc[0]
    return value.item() if hasattr(value, "item") else value
