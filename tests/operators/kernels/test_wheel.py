"""The wheel of kernel tables: missing, truncated, altered and unreadable files are told in one line; tables are told apart by rule."""

import io
import zipfile

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


def test_a_table_that_is_cut_short_is_told(tmp_path):
    path = _wheel(tmp_path / "x.whl", {"l40s/comm/vllm/1.0/bad_perf.parquet": b"PAR1 cut short"})
    with pytest.raises(InputError, match="cannot be read"):
        wheel.read(path, next(iter(wheel.tables(path))))


def test_versions_sort_as_numbers():
    assert sorted(["1.3.0rc20", "1.3.0rc9", "0.24.0"], key=wheel.version_order) == ["0.24.0", "1.3.0rc9", "1.3.0rc20"]
