"""What `--plot` draws is what the command answers: lengths of bars and places of points, not only that there is a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from analysis import theme
from analysis.__main__ import main
from analysis.artifact.publishing import looks
from analysis.commands.common import plots
from analysis.commands.common.options import check_plot
from analysis.errors import InputError
from analysis.hardware import devices


def bars(axes: Axes) -> list[float]:
    """Widths of the horizontal bars, in the order drawn."""
    return [patch.get_width() for patch in axes.patches]


def test_a_waterfall_ends_at_the_sum_of_its_parts() -> None:
    parts = pd.DataFrame({"target": ["tpot", "tpot", "ttft"], "part": ["kernels", "host", "queue"], "ms": [8.0, -2.0, 30.0]})
    answer = {"tpot_lower_ms": 5.0, "tpot_upper_ms": 8.0, "ttft_lower_ms": 20.0, "ttft_upper_ms": 50.0}
    tpot, ttft = plots.one_answer(parts, answer).axes
    assert bars(tpot) == [8.0, -2.0, 6.0] and [patch.get_x() for patch in tpot.patches] == [0.0, 8.0, 0.0]
    assert bars(ttft) == [30.0, 30.0]
    assert [label.get_text() for label in tpot.get_yticklabels()] == ["kernels", "host", "answer, 90 % interval"]
    assert tpot.containers[-1].lines[2][0].get_segments()[0][:, 0].tolist() == [5.0, 8.0]


def test_kernels_of_a_trace_lie_under_the_roof_of_their_type() -> None:
    rows = [("aten::add", 1, 1e6, 1e12, 3e12), ("aten::mm", 2, 1e6, 4e14, 5e11), ("aten::t", 1, 1e6, 0.0, 1e9)]
    table = pd.DataFrame(rows, columns=["operator", "count", "measured_us", "flop", "bytes"]).assign(shapes="2x3 3x4")
    h100 = devices.load("h100")
    peak = h100.peak_flop_per_s("bf16")
    (axes,) = plots.roofline(table, {"bf16": peak}, h100.memory_bandwidth_bytes_per_s, h100.name).axes
    roof, product, sums = axes.lines
    assert product.get_xydata().tolist() == [[800.0, 4e14]] and sums.get_xydata().tolist() == [[1 / 3, 1e12]]
    x, y = roof.get_xydata().T
    assert y.max() == peak and np.allclose(y, np.minimum(peak, x * 3.35e12), rtol=0.01)  # H100 SXM5: 3.35 TB/s (NVIDIA's data sheet)
    assert axes.get_legend().get_title().get_text() == "75% of the time is in operators whose arithmetic is counted"
    assert axes.get_legend().get_texts()[0].get_text() == "mm 2x3 3x4: 50.0% of the time"
    with pytest.raises(InputError, match="no operator has"):
        plots.roofline(table.iloc[2:], {"bf16": peak}, 1.0, "h100")


def test_the_place_is_checked_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "one", "--model", "llama-3.1-8b", "--device", "h100", "--plot", str(tmp_path / "step.jpg")]) == 2
    printed = capsys.readouterr()
    assert printed.err == "error: --plot: expected a name that ends in .png, .svg, .pdf, got 'step.jpg'\n" and printed.out == ""
    with pytest.raises(InputError, match="same command uses this file"):
        check_plot(tmp_path / "a.png", None, tmp_path / "a.png")


def test_the_same_answer_is_the_same_picture(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        assert main(["predict", "one", "--model", "llama-3.1-8b", "--device", "h100", "--plot", str(tmp_path / name)]) == 0
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_text_in_a_heatmap_contrasts_with_its_cell() -> None:
    """WCAG 2, success criterion 1.4.3: at least 4.5 to 1; an empty cell holds no text."""
    table = pd.DataFrame(np.linspace(0, 1, 21).reshape(3, 7))
    table.iloc[1, 2] = np.nan
    _, ax = theme.figure()
    looks.heatmap(table, ax, annot=True, cmap="cividis")

    def luminance(color: object) -> float:
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]  # type: ignore[arg-type]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    colors = [color for color, known in zip(ax.collections[0].get_facecolor(), table.notna().to_numpy().ravel(), strict=True) if known]
    assert len(ax.texts) == len(colors) == 20
    for text, color in zip(ax.texts, colors, strict=True):
        one, other = sorted((luminance(text.get_color()), luminance(color[:3])))
        assert (other + 0.05) / (one + 0.05) >= 4.5
