"""What a run writes, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from analysis import theme
from analysis.artifact.publishing import looks, package
from analysis.artifact.publishing.run import Choose, Run
from analysis.errors import InputError
from analysis.tables import read_csv


def test_a_table_is_described_and_reads_back(tmp_path: Path) -> None:
    run = Run("probe", out=str(tmp_path))
    frame = pd.DataFrame({"share": [0.1 + 0.2, 1e-300], "name": ["a_b", "50 %"]})
    run.table(frame, "t", title="A 10 % table", columns={"share": "part of the whole (1)"})
    assert read_csv(tmp_path / "t.csv").equals(frame), "floats round-trip"
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["tables"]["t"]["columns"] == {"share": "part of the whole (1)"} and set(manifest["files"]) == {"t.csv"}
    described = package.manifest(tmp_path / "manifest.json")["tables"]["t"]["columns"]
    assert described == {"share": "part of the whole (1)", "name": package.glossary()["name"]}, "the notebook's words, or the glossary's"


def test_refusals(tmp_path: Path) -> None:
    run = Run("probe", out=str(tmp_path))
    frame = pd.DataFrame({"undescribed": [1]})
    with pytest.raises(InputError, match="without a description"):
        run.table(frame, "t", title="T")
    with pytest.raises(InputError, match="descriptions without a column"):
        run.table(frame, "t", title="T", columns={"undescribed": "x", "y": "y"})
    with pytest.raises(InputError, match="lower-case"):
        run.table(frame, "T t", title="T", columns={"undescribed": "x"})
    run.table(frame, "t", title="T", columns={"undescribed": "x"})
    with pytest.raises(InputError, match="written twice"):
        run.table(frame, "t", title="T", columns={"undescribed": "x"})
    undescribed = json.loads((tmp_path / "manifest.json").read_text())
    undescribed["tables"]["t"]["columns"] = {}
    (tmp_path / "manifest.json").write_text(json.dumps(undescribed))
    with pytest.raises(InputError, match="does not describe: undescribed"):
        package.manifest(tmp_path / "manifest.json")
    run.number("n", 1)
    with pytest.raises(InputError, match="set twice"):
        run.number("n", 2)
    with pytest.raises(InputError, match="static figure"):
        run.interactive_html("<p></p>", "nothing")
    with pytest.raises(InputError, match="quick, book or full"):
        Run("probe", tier="slow", out=str(tmp_path))


def test_figures_have_the_same_bytes_every_time(tmp_path: Path) -> None:
    theme.apply()
    for folder in ("one", "two"):
        fig, ax = theme.figure()
        ax.plot([1, 2], [3, 4], label="line")
        ax.legend()
        Run("probe", out=str(tmp_path / folder)).figure(fig, "f", caption="C.", made="M.", preview=True)
        plt.close("all")
    for ending in ("png", "svg"):
        assert (tmp_path / "one" / "figures" / f"f.{ending}").read_bytes() == (tmp_path / "two" / "figures" / f"f.{ending}").read_bytes()


def test_no_figure_has_type_too_small_for_a_phone(tmp_path: Path) -> None:
    """Ticks, legends and labels below the smallest size are raised to it; glyphs are drawn at a hundredth of the size in points."""
    theme.apply()
    fig, ax = theme.figure()
    ax.plot([1, 2], [3, 4], label="line")
    ax.legend(fontsize=5)
    ax.text(1.5, 3.5, "here", fontsize=4)
    ax.tick_params(labelsize=5.5)
    Run("probe", out=str(tmp_path)).figure(fig, "f", caption="C.", made="M.")
    sizes = {float(size) for size in re.findall(r"scale\(([0-9.]+) -", (tmp_path / "figures" / "f.svg").read_text())}
    assert sizes == {looks.SMALLEST_PT / 100}


def test_lists_above_a_figure_say_which_traces_they_show(tmp_path: Path) -> None:
    """Native lists with labels; what they hold cannot end the script; each combination names its traces."""
    import plotly.graph_objects as go

    run = Run("probe", out=str(tmp_path))
    fig, _ = theme.figure()
    run.figure(fig, "chart", caption="c", made="m")
    figure = go.Figure([go.Scatter(x=[0], y=[0]), go.Scatter(x=[1], y=[1])])
    choose = Choose({"kind": ["a", "</script>"]}, {("a",): [0], ("</script>",): [1]}, {("a",): "time"})
    run.interactive(figure, "chart", choose)
    page = (tmp_path / "figures" / "chart.html").read_text(encoding="utf-8")
    assert '<label for="probe-chart-choose-0">kind</label>' in page and "<option>&lt;/script&gt;</option>" in page
    assert '"traces": {"<\\/script>": [1], "a": [0]}' in page and '"a": "time"' in page
