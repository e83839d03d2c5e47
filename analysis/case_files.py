"""How does a file of cases become a file of answers? One row in, one row out, order and columns kept, on this machine or a cluster.

Rows are read, answered and written a part at a time (CSV or Parquet, by the name), so that a million rows need the memory of one part.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import pandas as pd

from analysis.case_columns import carried, read_as
from analysis.errors import InputError
from analysis.sweeps import sweep
from analysis.tables import FORMULA, arrow, atomic, check_format, check_output, read_csv, to_csv_bytes, ungrouped

ROWS_A_TASK = 2000
ROWS_A_PART = 50_000  # of a table that is read at once
PART_BYTES = 3 << 20
ROWS_A_WRITE = 8192
PARQUET = (".parquet", ".pq")


class Unread(ValueError):
    """pyarrow did not read the table; pandas may."""


Answer = Callable[[pd.DataFrame], pd.DataFrame]
"""Cases (every cell as text) -> answers: as many rows, in the same order, with a `status` (or `reason`) that is empty where the case was
answered. The index of the cases counts rows from the top of the file."""


def answer_file(
    cases: str | Path,
    out: str | Path,
    answer: Answer,
    scheduler: str = "",
    beside: bool = True,
    rows_a_task: int = ROWS_A_TASK,
    progress: Callable[[int], None] = lambda rows: None,
    command: str = "",
    tell_carried: Callable[[list[str]], None] = lambda names: None,
) -> tuple[int, int]:
    """Answer every row of a file; returns how many were answered and how many not.

    Args:
        cases: CSV or Parquet; out: likewise, to write: the cases as they are, with the answer's columns behind them; one whose name the
            cases have already is called `predicted_` and that name.
        answer: see `Answer`; importable by name on every worker.
        scheduler: address of a dask scheduler over whose workers the rows are spread; empty: this process.
        beside: the answer has its own columns alone; False: it has those of the cases too, as they are to be written.
        rows_a_task: rows that a worker of the cluster answers at once.
        command: of `case_columns.COMMANDS`, whose columns the file has; tell_carried: called once with the other columns.
    """
    cases, out = Path(cases), Path(out)
    check_output(out, cases)
    check_format(out)
    named: dict[str, str] = {}

    def checked(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for number, frame in enumerate(frames):
            if command and not number:
                tell_carried(carried(frame.columns, command, cases))
                named.update(read_as(frame.columns, command))
            yield frame

    try:
        return _answer(checked(parts(cases)), cases, out, answer, scheduler, beside, rows_a_task, progress, named)
    except Unread as error:
        if cases.suffix in PARQUET:
            raise InputError(f"is not a Parquet table: {(str(error).splitlines() or ['it is damaged'])[0]}", path=cases) from None
        whole = read_csv(cases, dtype=str, keep_default_na=False)  # reads short rows, and says what is wrong with a line
        whole.columns = [str(name).strip() for name in whole.columns]
        return _answer(checked([whole]), cases, out, answer, scheduler, beside, rows_a_task, progress, named)
    except InputError as error:
        raise error.of(cases) from None


def _answer(
    frames: Iterable[pd.DataFrame],
    cases: Path,
    out: Path,
    answer: Answer,
    scheduler: str,
    beside: bool,
    rows_a_task: int,
    progress: Callable[[int], None],
    named: dict[str, str],
) -> tuple[int, int]:
    """As `answer_file`; named: columns of the file that the command calls otherwise, known once the first part was read."""
    if scheduler:
        tasks = [frame.iloc[start : start + rows_a_task] for frame in frames for start in range(0, len(frame), rows_a_task)]
        asked = [frame.rename(columns=named) for frame in tasks]
        pairs: Iterable[tuple[pd.DataFrame, pd.DataFrame]] = zip(tasks, sweep(answer, asked, scheduler=scheduler), strict=True)
    else:
        pairs = ((frame, answer(frame.rename(columns=named) if named else frame)) for frame in frames)
    done = rows = 0
    with atomic(out) as stream:
        write = _parquet_writer(stream) if out.suffix in PARQUET else _csv_writer(stream)
        for frame, found in pairs:
            answers = _in_their_words(found, named, beside)
            rows += len(frame)
            progress(rows)
            done += int((answers[_verdict(frame, answers, beside)] == "").sum())
            write(_beside(frame, answers, cases) if beside else answers)
        if not rows:
            raise InputError("has no rows", path=cases, line=2)
        write(None)
    return done, rows - done


def _in_their_words(answers: pd.DataFrame, named: dict[str, str], beside: bool) -> pd.DataFrame:
    """Answers that call a column as the file does: the column itself where they have it, and its name in a sentence that refuses."""
    if not named:
        return answers
    theirs = {called: name for name, called in named.items()}
    told = {called: name for called, name in theirs.items() if "_" in called or called in ("isl", "osl")}  # others are words as well
    verdicts = [name for name in ("status", "reason") if name in answers and told]
    pattern = "|".join(rf"\b{re.escape(called)}\b" for called in told)
    said = {name: answers[name].astype(object).str.replace(pattern, lambda found: told[found[0]], regex=True) for name in verdicts}
    return (answers if beside else answers.rename(columns=theirs)).assign(**said)


def _verdict(frame: pd.DataFrame, answers: pd.DataFrame, beside: bool) -> str:
    """The answer's column that is empty where the case was answered; not one of the cases' own that has its name."""
    return next((name for name in ("status", "reason") if name in answers and (beside or name not in frame)), "reason")


def _beside(frame: pd.DataFrame, answers: pd.DataFrame, cases: Path) -> pd.DataFrame:
    answers = answers.rename(columns={name: f"predicted_{name}" for name in answers.columns if name in frame.columns})
    for name in answers.columns:
        if name in frame.columns:
            raise InputError(
                f"has the columns {name} and {name.removeprefix('predicted_')}: no name is left for the answer", path=cases, line=1
            )
    return pd.concat([frame.reset_index(drop=True), answers.reset_index(drop=True)], axis=1)


def read_answers(out: str | Path) -> pd.DataFrame:
    """The table that `answer_file` wrote."""
    return pd.read_parquet(out) if Path(out).suffix in PARQUET else read_csv(out)


def parts(path: Path) -> Iterator[pd.DataFrame]:
    """The rows of a table, every cell as text, a part at a time."""
    if not path.is_file():
        read_csv(path)  # says why
    if arrow() is None:
        yield from _plain_parts(path)
        return
    try:
        yield from _parts(path)
    except InputError:
        raise
    except (arrow().ArrowException, OSError, ValueError) as error:  # damaged files bring out all three
        raise Unread(str(error)) from None


def _plain_parts(path: Path) -> Iterator[pd.DataFrame]:
    """As `parts`, without pyarrow: the whole table is read at once."""
    if path.suffix in PARQUET:
        raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
    whole = read_csv(path, dtype=str, keep_default_na=False)
    whole.columns = [str(name).strip() for name in whole.columns]
    for start in range(0, max(1, len(whole)), ROWS_A_PART):
        yield whole.iloc[start : start + ROWS_A_PART]


def _parts(path: Path) -> Iterator[pd.DataFrame]:
    pa = arrow()
    pc = pa.compute
    start = 0
    if path.suffix in PARQUET:
        from pyarrow import parquet

        names = None
        batches: Any = parquet.ParquetFile(path).iter_batches()
    else:
        from pyarrow import csv

        reading, parsing = csv.ReadOptions(block_size=PART_BYTES), csv.ParseOptions(newlines_in_values=True)
        names = csv.open_csv(path, reading, parsing).schema.names
        text = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
        batches = csv.open_csv(path, reading, parsing, text)
    for batch in batches:
        stripped = [name.strip() for name in batch.schema.names]
        for name in stripped if len(set(stripped)) < len(stripped) else ():
            if stripped.count(name) > 1:
                raise InputError("given twice", path=path, line=1, key=name)
        cells = (pc.fill_null(pc.cast(batch.column(at), pa.string()), "") for at in range(len(stripped)))
        columns = dict(zip(stripped, cells, strict=True))
        frame = pa.table(columns).to_pandas()
        frame.index = pd.RangeIndex(start, start + len(frame))
        start += len(frame)
        yield frame


def _parquet_writer(stream: IO[bytes]) -> Callable[[pd.DataFrame | None], None]:
    import pyarrow as pa
    from pyarrow import parquet

    writer: Any = None

    def write(frame: pd.DataFrame | None) -> None:
        nonlocal writer
        if frame is None:
            writer.close()
            return
        table = pa.Table.from_pandas(frame, preserve_index=False)
        if writer is None:
            fields = [field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in table.schema]
            writer = parquet.ParquetWriter(stream, pa.schema(fields))
        writer.write_table(table.cast(writer.schema))

    return write


def _csv_writer(stream: IO[bytes]) -> Callable[[pd.DataFrame | None], None]:
    first = True

    def write(frame: pd.DataFrame | None) -> None:
        nonlocal first
        if frame is None:
            return
        if arrow() is None:
            stream.write(to_csv_bytes(frame, first))
            first = False
            return
        pa = arrow()
        if first:
            stream.write(_lines([_text(pa.array([str(name)], pa.large_string())) for name in frame.columns]))
            first = False
        for start in range(0, len(frame), ROWS_A_WRITE):  # the text of a part takes several times its memory while it is put together
            some = frame.iloc[start : start + ROWS_A_WRITE]
            stream.write(_lines([_cells(some[name]) for name in frame.columns]))

    return write


def _lines(columns: list[Any]) -> bytes:
    pc = arrow().compute
    rows = _joined(_joined(*columns, between=","), "\n")
    return bytes(rows.buffers()[2])[: pc.sum(pc.binary_length(rows)).as_py()]  # the texts lie there one behind the other


def _joined(*pieces: Any, between: str = "") -> Any:
    pa = arrow()
    made = [pa.scalar(piece, pa.large_string()) if isinstance(piece, str) else piece for piece in (*pieces, between)]
    return pa.compute.binary_join_element_wise(*made)


def _cells(column: pd.Series) -> Any:
    """A column as the text of CSV cells: empty where there is no value, floats in the shortest form that reads back to the same value."""
    pa = arrow()
    pc = pa.compute
    if column.dtype.kind in "iufb" or str(column.dtype) in ("Int64", "Float64"):
        found = pa.array(column, from_pandas=True)
        if pa.types.is_boolean(found.type):
            return pc.if_else(found, pa.scalar("True", pa.large_string()), pa.scalar("False", pa.large_string()))
        text = pc.cast(found, pa.large_string())
        if pa.types.is_floating(found.type):
            whole = pc.and_(pc.equal(found, pc.floor(found)), pc.less(pc.abs(found), 1e15))
            text = pc.if_else(whole, _joined(text, ".0"), text) if pc.any(whole).as_py() else text
        return pc.fill_null(text, "")
    try:
        found = pa.array(column, pa.large_string(), from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        found = pa.array([None if cell is None or cell != cell else str(cell) for cell in column], pa.large_string())
    found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    coded = pc.fill_null(found, "").dictionary_encode()
    return _text(coded.dictionary).take(coded.indices)


def _text(cells: Any) -> Any:
    pc = arrow().compute
    formula = pc.match_substring_regex(cells, FORMULA)
    cells = pc.if_else(formula, _joined("'", cells), cells)
    quoted = _joined('"', pc.replace_substring(cells, '"', '""'), '"')
    return pc.if_else(pc.match_substring_regex(cells, '[",\r\n]'), quoted, cells)


def number(row: dict[str, str], key: str) -> float | None:
    """A cell as a number: None where it is empty or n/a."""
    cell = row.get(key)
    if not cell:  # most cells of most rows
        return None
    text = ungrouped(str(cell).strip())
    if text.lower() in ("", "n/a", "na", "nan", "none", "-"):
        return None
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{key} {text!r} is not a number") from None
    if not math.isfinite(value) or value < 0:
        raise InputError(f"{key} {text!r} must be a finite number, not negative")
    return value


def count(row: dict[str, str], key: str, least: int = 1) -> int | None:
    """A cell as a whole number of at least `least`: None where it is empty or n/a."""
    value = number(row, key)
    if value is None:
        return None
    if value != int(value) or value < least:
        raise InputError(f"{key} {value:g} must be a whole number, at least {least}")
    return int(value)
