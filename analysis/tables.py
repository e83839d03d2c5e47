"""Tidy CSV tables: reading with clear errors, writing atomically and stably."""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from analysis.errors import InputError
from analysis.packed import unpacked

MOST_BYTES = 4 << 30  # of a table
# A formula, to a spreadsheet: = or @, or a sign, before a name, a bracket or a reference. Signed numbers are none.
FORMULA = r"^[\t\r]*(?:[=@]|[+-]+\s*(?:[A-Za-z]\w*\s*[(!|]|[A-Za-z]{1,3}\d|\(|[\d.]+\s*[+*/^-].*[(!|]))"
_FORMULA = re.compile(FORMULA, re.ASCII)


def write_atomic(path: str | Path, content: bytes) -> Path:
    """Write a file so that a reader, or a killed build, sees the old bytes or the new ones and nothing between."""
    with atomic(path) as stream:
        stream.write(content)
    return Path(path)


@contextmanager
def atomic(path: str | Path) -> Iterator[IO[bytes]]:
    """A stream whose bytes become the file when the block ends well, and are gone when it does not; as for `write_atomic`."""
    path = Path(os.path.realpath(path))  # what a link points to, not the link
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                yield stream
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", path=path) from error


def _umask() -> int:
    """What the user lets others do with new files; a temporary file is the owner's alone until it gets its name."""
    current = os.umask(0o077)
    os.umask(current)
    return current


@cache
def arrow() -> Any:
    """The package pyarrow (extra [parquet]), with which large tables are read and written several times faster; `None` without it."""
    try:
        import pyarrow
        import pyarrow.compute
    except ModuleNotFoundError:
        return None
    return pyarrow


def numeric(cells: pd.Series) -> pd.Series:
    """Cells of text as floats, NaN where one holds no number; a number of any length is read, beyond 1.8e308 as infinity."""
    if isinstance(cells.dtype, pd.StringDtype) and (pa := arrow()) is not None:
        try:
            text = pa.array(cells, pa.large_string(), from_pandas=True)
            found = pa.compute.cast(pa.compute.if_else(pa.compute.equal(text, ""), None, text), pa.float64())
            return pd.Series(found.to_numpy(zero_copy_only=False), index=cells.index)
        except pa.ArrowInvalid:
            pass  # a cell that is no number, or one in a form that pandas alone reads
    try:
        return pd.to_numeric(cells, errors="coerce").astype(float)
    except OverflowError:  # a whole number that no float holds
        return cells.map(as_number)


_GROUPS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def ungrouped(text: str) -> str:
    """Text of a number without the commas that group its thousands; a decimal comma stays, and is no number here."""
    return _GROUPS.sub("", text) if "," in text else text


def as_number(cell: object) -> float:
    """A cell as a float; NaN where it holds no number."""
    try:
        return float(str(cell))
    except ValueError:
        return float("nan")


def numbers(frame: pd.DataFrame, name: str, expected: str, path: str | Path, least: float = 0.0, most: float = np.inf) -> Any:
    """A column as floats, shape (rows,); the first cell that is no number from `least` to `most` is refused with its line."""
    values = numeric(frame[name]).to_numpy(dtype=np.float64)
    wrong = ~(np.isfinite(values) & (values >= least) & (values <= most))
    if wrong.any():
        at = int(wrong.argmax())
        raise InputError(f"expected {expected}, got {str(frame[name].iloc[at])!r}", path=path, line=at + 2, key=name)
    return values


def check_output(path: str | Path, *inputs: str | Path) -> None:
    """Tell before the work begins what would keep its result from being written at the end."""
    path = Path(path)
    try:
        if not path.parent.is_dir():
            raise InputError("no such folder to write into", path=path)
        if path.exists() and not path.is_file():
            raise InputError("cannot be written: something other than a file has that name", path=path)
        with suppress(FileNotFoundError):
            path.stat()  # a link that leads to itself
        if os.path.realpath(path) in map(os.path.realpath, inputs):
            raise InputError("cannot be written: the same command uses this file for something else", path=path)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=path) from error
    os.close(handle)
    Path(temporary).unlink()


def to_csv_bytes(frame: pd.DataFrame, header: bool = True) -> bytes:
    """A table as UTF-8 CSV: LF line ends, no index, floats in the shortest form that reads back to the same value.

    A cell of text that a spreadsheet would run as a formula gets an apostrophe in front.
    """
    texts = [name for name in frame.columns if frame[name].dtype.kind not in "biufcmM" and frame[name].map(_is_formula).any()]
    if texts:
        frame = frame.assign(**{name: frame[name].map(lambda cell: f"'{cell}" if _is_formula(cell) else cell) for name in texts})
    return frame.to_csv(index=False, header=header, lineterminator="\n").encode("utf-8")


def _is_formula(cell: object) -> bool:
    return isinstance(cell, str) and _FORMULA.match(cell) is not None


OTHER_FORMATS = (".xlsx", ".xls", ".ods", ".json", ".jsonl", ".tsv", ".gz", ".zip", ".yaml", ".yml", ".feather", ".arrow", ".html")


def check_format(path: str | Path) -> None:
    """Refuse a table under a name that says another format than it would have."""
    if Path(path).suffix.lower() in OTHER_FORMATS:
        raise InputError("is no name of a table that is written here; expected one that ends in .csv", path=path)


def write_csv(frame: pd.DataFrame, path: str | Path) -> Path:
    """Write a table as CSV, atomically."""
    check_format(path)
    return write_atomic(path, to_csv_bytes(frame))


def read_csv(path: str | Path, required: Sequence[str] = (), **options: Any) -> pd.DataFrame:
    """Read a CSV and make sure that it has the columns needed.

    Args:
        path: the file, plain or packed with gzip, whatever its name; unpacked it has at most `packed.MOST_UNPACKED_BYTES`.
    """
    options.setdefault("index_col", False)
    try:
        if not Path(path).is_file():  # pandas would fetch what has the form of an address
            raise InputError("is not a regular file" if Path(path).exists() else "no such file", path=path)
        if Path(path).stat().st_size > MOST_BYTES:
            raise InputError(f"has {Path(path).stat().st_size:,} bytes; at most {MOST_BYTES:,} are read", path=path)
        packed = unpacked(path)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(path if packed is None else packed, compression=None, **options)
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from None
    except pd.errors.EmptyDataError:
        raise InputError(f"is empty; expected a header with {', '.join(required) or 'column names'}", path=path, line=1) from None
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", path=path) from None
    except (pd.errors.ParserError, pd.errors.ParserWarning, OverflowError, RecursionError, ValueError) as error:
        told = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"is not a CSV table: {told}", path=path) from None
    missing = [column for column in required if column not in frame.columns]
    if missing:
        raise InputError(f"missing column; expected {', '.join(required)}", path=path, line=1, key=", ".join(missing))
    return frame


def records(frame: pd.DataFrame) -> list[Any]:
    """Rows as named tuples."""
    return list(frame.itertuples())
