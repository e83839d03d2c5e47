"""What `--plot` draws is what the command answers: lengths of bars and places of points, not only that there is a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from analysis import theme
from analysis.__main__ import main
from analysis.commands.common import plots
from analysis.commands.common.options import check_plot
from analysis.configs import read_yaml
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.paths import EXAMPLES
from analysis.training import schedule, views
from analysis.training.config import Training


def bars(axes: Axes) -> list[float]:
    """Widths of the horizontal bars, in the order drawn."""
    return [patch.get_width() for patch in axes.patches]


def spans(axes: Axes, which: int) -> list[tuple[float, float]]:
    """Start and end of each rectangle of a `broken_barh`."""
    return [(path.vertices[:, 0].min(), path.vertices[:, 0].max()) for path in axes.collections[which].get_paths()]


def test_a_waterfall_ends_at_the_sum_of_its_parts() -> None:
    parts = pd.DataFrame({"target": ["tpot", "tpot", "ttft"], "part": ["kernels", "host", "queue"], "ms": [8.0, -2.0, 30.0]})
    answer = {"tpot_lower_ms": 5.0, "tpot_upper_ms": 8.0, "ttft_lower_ms": 20.0, "ttft_upper_ms": 50.0}
    tpot, ttft = plots.one_answer(parts, answer).axes
    assert bars(tpot) == [8.0, -2.0, 6.0] and [patch.get_x() for patch in tpot.patches] == [0.0, 8.0, 0.0]
    assert bars(ttft) == [30.0, 30.0]
    assert [label.get_text() for label in tpot.get_yticklabels()] == ["kernels", "host", "answer, 90 % interval"]
    assert tpot.containers[-1].lines[2][0].get_segments()[0][:, 0].tolist() == [5.0, 8.0]


def test_a_training_step_shows_time_memory_and_every_pass() -> None:
    training = read_yaml(EXAMPLES / "train" / "train.yaml", Training)
    answer = views.ask(training)
    step_s = answer.row["step_time_s"]
    time, memory, pipeline = plots.training_step(*views.pictured(answer)).axes
    assert bars(time)[-1] == pytest.approx(step_s) and sum(bars(time)[:-1]) == pytest.approx(step_s)
    ends = time.containers[-1].lines[2][0].get_segments()[0][:, 0].tolist()
    assert ends == pytest.approx([answer.row["lower_s"], answer.row["upper_s"]])
    assert all(words in time.get_title(loc="left") for words in ("llama-2-7b", "H100-SXM5-80GB", "bf16", "tensor 2, pipeline 2, data 2"))
    assert sum(bars(memory)) == pytest.approx(answer.memory.total / 2**30)
    passes = [span for place in range(4) for span in spans(pipeline, place)]
    assert len(passes) == 2 * 2 * answer.case.microbatches
    once = answer.time_s["reduce"] + answer.time_s["optimizer"]
    assert max(end for _, end in passes) == pytest.approx(step_s - once) == pytest.approx(schedule.makespan_s(views.tasks(answer)))


def test_a_serving_run_adds_the_queues_of_its_replicas() -> None:
    batches = pd.DataFrame({"t_sched": [0.0, 1.0, 2.0], "replica": [0, 1, 0], "size": [2, 5, 1], "num_waiting": [3, 4, 0]})
    requests = pd.DataFrame({"arrived_at": [0.0, 1.0], "completed_at": [4.0, 5.0], "ttft": [0.2, 0.3], "tpot_nm1": [0.01, 0.02]})
    queue, ttft, tpot = plots.serving_run(requests, batches, {"ttft_s": 0.25}).axes
    assert [line.get_ydata().tolist() for line in queue.lines] == [[3.0, 7.0, 4.0], [2.0, 7.0, 6.0]]
    assert ttft.lines[0].get_xydata().tolist() == [[0.0, 0.2], [1.0, 0.3]] and ttft.lines[1].get_ydata()[0] == 0.25
    assert tpot.lines[0].get_xydata().tolist() == [[4.0, 0.01], [5.0, 0.02]] and len(tpot.lines) == 1


def test_points_lie_under_the_roof_of_their_type() -> None:
    rows = [("all", 3.0, 9.0, 9.0), ("matmul", 2.0, 8e14, 1e12), ("elementwise", 1.0, 1e12, 3e12), ("transpose", 0.5, 0.0, 1e9)]
    table = pd.DataFrame(rows, columns=["class", "seconds", "flop", "bytes"]).assign(fidelity="fused")
    h100 = devices.load("h100")
    peak = h100.peak_flop_per_s("bf16")
    (axes,) = plots.roofline(table, {"bf16": peak}, h100.memory_bandwidth_bytes_per_s, h100.name).axes
    roof, product, sums = axes.lines
    assert product.get_xydata().tolist() == [[800.0, 4e14]] and sums.get_xydata().tolist() == [[1 / 3, 1e12]]
    x, y = roof.get_xydata().T
    assert y.max() == peak and np.allclose(y, np.minimum(peak, x * 3.35e12), rtol=0.01)  # H100 SXM5: 3.35 TB/s (NVIDIA's data sheet)
    assert axes.get_legend().get_title().get_text() == "without arithmetic: transpose"
    assert axes.get_legend().get_texts()[0].get_text() == "matmul: 67% of the time"
    with pytest.raises(InputError, match="no class of operators"):
        plots.roofline(table.iloc[3:], {"bf16": peak}, 1.0, "h100")


def test_the_place_is_checked_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(EXAMPLES / "train" / "train.yaml")
    assert main(["train", config, "--plot", str(tmp_path / "step.jpg")]) == 2
    printed = capsys.readouterr()
    assert printed.err == "error: --plot: expected a name that ends in .png, .svg, .pdf, got 'step.jpg'\n" and printed.out == ""
    with pytest.raises(InputError, match="same command uses this file"):
        check_plot(tmp_path / "a.png", None, tmp_path / "a.png")


def test_the_same_answer_is_the_same_picture(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        assert (
            main(["train", str(EXAMPLES / "train" / "train.yaml"), "--out", str(tmp_path / "step.json"), "--plot", str(tmp_path / name)])
            == 0
        )
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert json.loads((tmp_path / "step.json").read_text())["step_time_s"] > 0


def test_text_in_a_heatmap_contrasts_with_its_cell() -> None:
    """WCAG 2, success criterion 1.4.3: at least 4.5 to 1; an empty cell holds no text."""
    table = pd.DataFrame(np.linspace(0, 1, 21).reshape(3, 7))
    table.iloc[1, 2] = np.nan
    _, ax = theme.figure()
    theme.heatmap(table, ax, annot=True, cmap="cividis")

    def luminance(color: object) -> float:
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]  # type: ignore[arg-type]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    colors = [color for color, known in zip(ax.collections[0].get_facecolor(), table.notna().to_numpy().ravel(), strict=True) if known]
    assert len(ax.texts) == len(colors) == 20
    for text, color in zip(ax.texts, colors, strict=True):
        one, other = sorted((luminance(text.get_color()), luminance(color[:3])))
        assert (other + 0.05) / (one + 0.05) >= 4.5
