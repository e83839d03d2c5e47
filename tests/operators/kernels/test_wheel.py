"""The wheel of kernel tables: missing, truncated, altered and unreadable files are told in one line; tables are told apart by rule."""

import io
import zipfile

import pandas as pd
import pytest

from analysis.errors import InputError
from analysis.studies.kernels import wheel

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow reads the tables; pip install -r requirements.txt")


def _wheel(path, tables):
    with zipfile.ZipFile(path, "w") as archive:
        for name, frame in tables.items():
            content = io.BytesIO()
            if isinstance(frame, bytes):
                content.write(frame)
            else:
                frame.to_parquet(content)
            archive.writestr(wheel.ROOT + name, content.getvalue())
    return path


def test_missing(tmp_path):
    with pytest.raises(InputError, match="make data"):
        wheel.verify(tmp_path / "none.whl")


def test_truncated(tmp_path):
    path = tmp_path / wheel.FILE
    path.write_bytes(b"PK")
    with pytest.raises(InputError, match="2 bytes instead of 81,715,575"):
        wheel.verify(path)


def test_altered(tmp_path, monkeypatch):
    path = tmp_path / wheel.FILE
    path.write_bytes(b"PK not it")
    monkeypatch.setattr(wheel, "BYTES", 9)
    with pytest.raises(InputError, match="is not the pinned wheel"):
        wheel.verify(path)


def test_not_a_zip_file(tmp_path):
    path = tmp_path / "x.whl"
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match="is not a wheel"):
        wheel.tables(path)


def test_every_table_is_accounted_for_by_rule(tmp_path):
    good = pd.DataFrame({"m": [1, 2, 3], "latency": [0.1, 0.2, 0.3]})
    path = _wheel(
        tmp_path / "x.whl",
        {
            "a100_sxm/gemm/vllm/1.0/gemm_perf.parquet": good,
            "h100_sxm/gemm/vllm/1.0/gemm_perf.parquet": good.iloc[::-1],
            "l40s/gemm/vllm/1.0/gemm_perf.parquet": good.assign(latency=[0.0, 0.0, 0.3]),
            "l40s/comm/vllm/1.0/ll_perf.parquet": pd.DataFrame({"combine_avg_t_us": [4.0]}),
            "l40s/comm/vllm/1.0/none_perf.parquet": good.iloc[:0],
            "l40s/comm/vllm/1.0/bad_perf.parquet": b"PAR1 cut short",
        },
    )
    found = wheel.account(path).set_index(["system", "file"])
    assert found.loc[("a100_sxm", "gemm_perf.parquet"), "kind"] == "measured"
    assert found.loc[("h100_sxm", "gemm_perf.parquet"), ["kind", "same_as"]].tolist() == ["copied", "a100_sxm"]
    assert found.loc[("l40s", "gemm_perf.parquet"), "kind"] == "placeholder"
    assert found.loc[("l40s", "ll_perf.parquet"), ["kind", "unit"]].tolist() == ["measured", "us"]
    assert found.loc[("l40s", "none_perf.parquet"), "kind"] == "empty"
    assert found.loc[("l40s", "bad_perf.parquet"), "kind"] == "unreadable"
    with pytest.raises(InputError, match="cannot be read"):
        wheel.read(path, next(t for t in wheel.tables(path) if t.file == "bad_perf.parquet"))


def test_versions_sort_as_numbers():
    assert sorted(["1.3.0rc20", "1.3.0rc9", "0.24.0"], key=wheel.version_order) == ["0.24.0", "1.3.0rc9", "1.3.0rc20"]
