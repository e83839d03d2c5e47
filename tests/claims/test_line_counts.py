"""Lines of a section of a YAML file."""

import pytest

from analysis.artifact.claims import arithmetic
from analysis.artifact.claims.arithmetic import yaml_lines
from analysis.errors import InputError


def test_lines_of_a_section_leave_out_comments_and_blank_lines(tmp_path, monkeypatch):
    (tmp_path / "file.yaml").write_text("# head\nfirst:\n  a: 1\n\n  # why\n  b: 2   # counted\nsecond: {c: 3}\n")
    monkeypatch.setattr(arithmetic, "ROOT", tmp_path)
    assert (yaml_lines("file.yaml", "first"), yaml_lines("file.yaml", "second"), yaml_lines("file.yaml")) == (3, 1, 4)
    with pytest.raises(InputError, match="no such section"):
        yaml_lines("file.yaml", "third")
    with pytest.raises(InputError, match="no such file"):
        yaml_lines("missing.yaml", "first")
