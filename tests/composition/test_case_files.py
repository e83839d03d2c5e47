"""Files of cases: rows in order whatever the parts, CSV or Parquet, the same bytes from a cluster that loses a worker half way."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import run_here

from analysis import case_files, case_rows, packed, tables
from analysis.case_files import answer_file
from analysis.errors import InputError
from analysis.paths import EXAMPLES, ROOT
from analysis.tables import to_csv_bytes
from tests.golden import answer, kept

ROWS = 4001


def squares(frame: pd.DataFrame) -> pd.DataFrame:
    """An answer that depends on its row alone."""
    value = pd.to_numeric(frame["x"]).to_numpy(float)
    return pd.DataFrame({"root": np.sqrt(value), "status": np.where(value % 7 == 0, "a seventh", "")}, index=frame.index)


def slow_squares(frame: pd.DataFrame) -> pd.DataFrame:
    """The same, and the worker that gets the second part dies of it, once."""
    mark = Path(str(frame["mark"].iloc[0]))
    if int(frame["x"].iloc[0]) > 0 and not mark.exists():
        mark.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
    return squares(frame)


def _cases(folder: Path) -> pd.DataFrame:
    frame = pd.DataFrame({"x": np.arange(ROWS).astype(str), "note": ["plain", 'with "quotes", commas', "=1+A1", ""] * 1000 + ["end"]})
    frame.to_csv(folder / "cases.csv", index=False)
    frame.to_parquet(folder / "cases.parquet")
    return frame


def test_parts_are_seamless_and_csv_is_that_of_all_other_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = _cases(tmp_path)
    monkeypatch.setattr(case_files, "PART_BYTES", 5000)
    assert answer_file(tmp_path / "cases.csv", tmp_path / "out.csv", squares) == (ROWS - 572, 572)
    whole = pd.concat([frame, squares(frame)], axis=1)
    assert (tmp_path / "out.csv").read_bytes() == to_csv_bytes(whole)
    answer_file(tmp_path / "cases.parquet", tmp_path / "out.parquet", squares)
    assert pd.read_parquet(tmp_path / "out.parquet").astype({"root": float}).equals(whole.astype({"root": float})) or (
        to_csv_bytes(pd.read_parquet(tmp_path / "out.parquet")) == to_csv_bytes(whole)
    )


def test_what_the_strict_reader_refuses_is_told_or_read_as_before(tmp_path: Path) -> None:
    (tmp_path / "short.csv").write_text("x,note\n4,a\n9\n")
    assert answer_file(tmp_path / "short.csv", tmp_path / "out.csv", squares) == (2, 0)
    (tmp_path / "long.csv").write_text("x,note\n4,a\n9,b,c\n")
    with pytest.raises(InputError, match="is not a CSV table"):
        answer_file(tmp_path / "long.csv", tmp_path / "none.csv", squares)
    (tmp_path / "twice.csv").write_text("x,note, x\n4,a,5\n")
    with pytest.raises(InputError, match=r"twice\.csv:1: x: given twice"):
        answer_file(tmp_path / "twice.csv", tmp_path / "none.csv", squares)
    (tmp_path / "no.parquet").write_text("x\n4\n")
    with pytest.raises(InputError, match="is not a Parquet table"):
        answer_file(tmp_path / "no.parquet", tmp_path / "none.csv", squares)
    (tmp_path / "empty.csv").write_text("x,note\n")
    with pytest.raises(InputError, match="has no rows"):
        answer_file(tmp_path / "empty.csv", tmp_path / "none.csv", squares)
    assert not (tmp_path / "none.csv").exists() and not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_cluster_that_loses_a_worker_gives_the_same_bytes(tmp_path: Path) -> None:
    from distributed import LocalCluster

    _cases(tmp_path)
    frame = pd.read_csv(tmp_path / "cases.csv", dtype=str, keep_default_na=False).assign(mark=str(tmp_path / "died"))
    frame.to_csv(tmp_path / "cases.csv", index=False)
    answer_file(tmp_path / "cases.csv", tmp_path / "here.csv", squares)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        answer_file(tmp_path / "cases.csv", tmp_path / "there.csv", slow_squares, cluster.scheduler_address)
    assert (tmp_path / "died").exists(), "no worker died"
    assert (tmp_path / "there.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()


def without_pyarrow(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.modules['pyarrow'] = None; from analysis.__main__ import main; sys.exit(main({list(arguments)!r}))"
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize(
    "arguments",
    [("predict", "batch", "predict/batch.csv"), ("systolic", "systolic/cases.csv"), ("collectives", "collectives/cases.csv"),
     ("kernels", "predict", "kernels/cases.csv")],
)  # fmt: skip
def test_without_pyarrow_the_same_bytes_are_written(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """pyarrow is an extra of the wheel: a table of cases as CSV needs none of it."""
    *command, example = arguments
    assert run_here(*command, str(EXAMPLES / example), "--out", str(tmp_path / "with.csv")).returncode == 0
    assert without_pyarrow(*command, str(EXAMPLES / example), "--out", str(tmp_path / "without.csv")).returncode == 0
    assert (tmp_path / "without.csv").read_bytes() == (tmp_path / "with.csv").read_bytes()


def test_a_parquet_file_without_pyarrow_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "cases.parquet").write_bytes(b"PAR1")
    done = without_pyarrow("systolic", str(tmp_path / "cases.parquet"), "--out", str(tmp_path / "none.csv"))
    assert done.returncode == 2 and "pyarrow" in done.stderr and "[parquet]" in done.stderr


def both(frame: pd.DataFrame) -> pd.DataFrame:
    """An answer with columns that the cases may have."""
    return pd.DataFrame({"root": np.arange(len(frame)) + 0.5, "whole": 3.0, "yes": [True] * len(frame), "status": ""}, index=frame.index)


def test_cells_and_columns_at_their_edges(tmp_path: Path) -> None:
    """Numbers, counts, formulas, names that are taken: what is written, and what is refused in which words."""
    cells = ("", " ", "n/a", "NA", "nan", "None", "-", "0", "-0.1", "1", "1.5", "1,024", "1e3", "inf", "x", "-1")
    found: dict[str, object] = {f"number {cell!r}": answer(lambda cell=cell: case_files.number({"k": cell}, "k")) for cell in cells}  # type: ignore[misc]
    found |= {
        f"count {cell!r}": answer(lambda cell=cell: [case_files.count({"k": cell}, "k", least) for least in (0, 1)]) for cell in cells
    }  # type: ignore[misc]
    found["missing"] = answer(lambda: case_files.number({}, "k"))
    found["rows"] = case_rows.read_cases(pd.DataFrame({"k": ["1", "x", ""]}), lambda row: case_files.count(row, "k"))
    texts = {
        "plain": "x,note\n4,a\n9,b\n",
        "taken": "x,root\n4,1\n",
        "both taken": "x,root,predicted_root\n4,1,2\n",
        "status": "x,status\n4,mine\n",
        "twice": "x, x\n1,2\n",
        "no rows": "x\n",
        "empty": "",
        "spaces": " x , note \n4, a\n",
        "formulas": 'x,note\n1,=A1\n1,+A1\n1,-3\n1,@x\n1,"\t=1"\n1,+1+2\n1,"-(2)"\n1,+SUM(1)\n1,"a,b"\n1,"say ""x"""\n1,\n',
        "short": "x,note\n4\n",
        "tabs": "x\tnote\n4\ta\n",
    }
    for name, text in texts.items():
        (tmp_path / "in.csv").write_text(text)
        for beside in (True, False) if name != "status" else (True,):
            done = answer(lambda beside=beside: answer_file(tmp_path / "in.csv", tmp_path / "out.csv", both, beside=beside), tmp_path)  # type: ignore[misc]
            written = (tmp_path / "out.csv").read_text() if (tmp_path / "out.csv").exists() else ""
            (tmp_path / "out.csv").unlink(missing_ok=True)
            found[f"{name} {beside}"] = [done, written.split("\n")]
    refusals = {
        "same": ("in.csv", "in.csv"),
        "no file": ("none.csv", "out.csv"),
        "no folder": ("in.csv", "none/out.csv"),
        "a folder": ("in.csv", "."),
    }
    found |= {
        name: answer(lambda pair=pair: answer_file(tmp_path / pair[0], tmp_path / pair[1], both), tmp_path)
        for name, pair in refusals.items()
    }  # type: ignore[misc]
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    found["no parquet"] = answer(lambda: answer_file(tmp_path / "bad.parquet", tmp_path / "out.csv", both), tmp_path)
    found["in their words"] = case_files._in_their_words(
        pd.DataFrame({"a": [1], "status": ["tp_size is odd; isl too, batch is a word"]}),
        {"gpus": "tp_size", "prompt": "isl", "b": "batch"},
        False,
    )
    mixed = (
        [1, "a", None, math.nan, 2.5, True],
        [1.0, 1e15, -1e15, 0.1, math.nan, math.inf],
        [True, False, None],
        [{"a": 1}, (2,), ""],
        [10**30, "x"],
        ["=1", 'a"b', "c,d", "e\nf", "\t=2"],
    )
    found["columns"] = [answer(lambda column=column: case_files._cells(pd.Series(column)).to_pylist()) for column in mixed]  # type: ignore[misc]
    kept("cells", found)


def test_tables_at_their_edges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What reading a CSV refuses, packed ones, the largest that is read; text as numbers; where a result may be written."""
    import gzip

    monkeypatch.setattr(packed, "MOST_UNPACKED_BYTES", 8)
    monkeypatch.setattr(tables, "MOST_BYTES", 60)
    files = {
        "good": b"a,b\n1,2\n",
        "packed": gzip.compress(b"a,b\n1,2\n"),
        "packed more": gzip.compress(b"a,b\n1,22\n"),
        "cut": gzip.compress(b"a,b\n1,2\n")[:-9],
        "zip": b"PK\x03\x04abc",
        "bz": b"BZh9",
        "xz": b"\xfd7zXZ\x00",
        "zstd": b"\x28\xb5\x2f\xfdx",
        "empty": b"",
        "latin": b"a,b\n\xe4,1\n",
        "ragged": b"a,b\n1,2,3\n",
        "largest": b"a,b\n" + b"1,2\n" * 14,
        "larger": b"a,b\n" + b"1,2\n" * 14 + b"\n",
        "other": b"c\n1\n",
    }
    found: dict[str, object] = {}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        found[name] = answer(lambda name=name: tables.read_csv(tmp_path / name, ["a"] if name != "good" else ["a", "b"]), tmp_path)  # type: ignore[misc]
    found["no file"], found["folder"] = (
        answer(lambda: tables.read_csv(tmp_path / "none"), tmp_path),
        answer(lambda: tables.read_csv(tmp_path), tmp_path),
    )
    found["numbers"] = [str(cell) for cell in tables.numeric(pd.Series(["1", "", "x", "1e3", " 2", "9" * 400, "nan", "-0.5"]))]
    assert tables.numeric(pd.Series(["1", "", "2.5"])).tolist()[::2] == [1.0, 2.5]
    written = tables.write_csv(pd.DataFrame({"a": [0.1, 1e16], "t": ["=A1", "x"]}), tmp_path / "sub" / "t.csv")
    assert written.read_bytes() == b"a,t\n0.1,'=A1\n1e+16,x\n" and not list((tmp_path / "sub").glob(".*"))
    assert written.stat().st_mode & 0o777 == 0o666 & ~tables._umask()
    with pytest.raises(RuntimeError), tables.atomic(tmp_path / "sub" / "t.csv") as stream:
        stream.write(b"half")
        raise RuntimeError
    assert written.read_bytes().startswith(b"a,t") and len(list((tmp_path / "sub").iterdir())) == 1
    kept("tables", found)


@pytest.mark.parametrize(("cell", "value"), [("1,024", 1024), ("1,073,741,824", 2**30), ("12,500.5", 12500.5), ("1024", 1024)])
def test_commas_that_group_thousands_are_read(cell: str, value: float) -> None:
    assert case_files.number({"k": cell}, "k") == value


@pytest.mark.parametrize("cell", ["12,5", "0,25", "1,6", "1,5e9", "1,0242", ",5", "8,"])
def test_a_decimal_comma_is_refused(cell: str) -> None:
    """A network of 12,5 Gbit/s was answered as one of 125, and 1,6 GPUs as 16."""
    with pytest.raises(InputError, match="is not a number"):
        case_files.number({"k": cell}, "k")
