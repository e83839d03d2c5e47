"""Claimed against measured errors: every row that a file of this repository can give again is given again; bad rows are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.configs import columns_of, read_rows
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.survey import claimed

ROWS = read_rows(DATA / "survey" / "claimed_measured.csv", claimed.Measured)


@pytest.mark.parametrize("row", [row for row in ROWS if row.recomputed_from], ids=lambda row: f"{row.tool}-{row.cases}")
def test_written_errors_are_recomputed(row: claimed.Measured) -> None:
    """Within half a unit of the last digit of two that are written in data/survey/claimed_measured.csv."""
    assert claimed.recompute(row) == pytest.approx(row.measured, abs=0.02)


def test_largest_gap_comes_first_and_baselines_last() -> None:
    order = [group[0].tool for group in claimed.by_tool(ROWS)]
    assert order[:2] == ["Habitat", "NeuSight"]  # 385 / 11.8 and 30.58 / 2.3
    assert order[-1] == "roofline"


def test_chart_names_every_tool_and_value() -> None:
    page = claimed.chart_html(ROWS)
    for row in ROWS:
        assert ("roofline alone" if row.tool == "roofline" else row.tool) in page
        assert claimed.percent(row.measured) in page


@pytest.mark.parametrize(
    ("column", "value"),
    [("measured_percent", "many"), ("measured_percent", ""), ("measured_by", "somebody"), ("claim_source", ""), ("source", "")],
)
def test_a_bad_row_is_refused(tmp_path: Path, column: str, value: str) -> None:
    lines = (DATA / "survey" / "claimed_measured.csv").read_text(encoding="utf-8").splitlines()
    cells = ["GenZ", "", "5.82", "error", "https://arxiv.org/abs/2406.01698", "56.7", "483", "points", "recorded here", "", "package"]
    cells[columns_of(claimed.Measured).index(column)] = value
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([lines[0], ",".join(cells)]) + "\n", encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read_rows(path, claimed.Measured)
    assert ":2" in str(refused.value) and column in str(refused.value)
