"""Files of cases: rows in order whatever the parts, CSV or Parquet, the same bytes from a cluster that loses a worker half way."""

from __future__ import annotations

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

from analysis import case_files
from analysis.case_files import answer_file
from analysis.errors import InputError
from analysis.paths import EXAMPLES, ROOT
from analysis.tables import to_csv_bytes

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
