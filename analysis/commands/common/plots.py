"""Pictures of what a command answers: each function takes the answer as plain tables and gives a figure in the book's style."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import theme
from analysis.errors import InputError
from analysis.tables import write_atomic

METADATA: dict[str, dict[str, None]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def save(figure: Figure, plot: Path) -> None:
    """Write a figure, whole or not at all, in the format of its name; the same figure gives the same bytes."""
    suffix, stream = plot.suffix.lower(), io.BytesIO()
    figure.savefig(stream, format=suffix[1:], metadata=METADATA[suffix])
    plt.close(figure)
    write_atomic(plot, stream.getvalue())


def _figure(height: float, rows: int = 1) -> tuple[Figure, Any]:
    theme.apply()
    return theme.figure("full", height, rows=rows)


def waterfall(axes: Axes, parts: Mapping[str, float], whole: str, unit: str, interval: tuple[float, float] | None = None) -> None:
    """Parts that add up, one below the other, and their sum."""
    start = 0.0
    for k, size in enumerate(parts.values()):
        axes.barh(k, size, left=start, color=theme.COLORS[0 if size >= 0 else 1])
        axes.text(start + max(size, 0.0), k, f" {size:+.3g}", va="center", fontsize=7)
        start += size
    axes.barh(len(parts), start, color=theme.COLORS[2])
    if interval is None:
        axes.text(start, len(parts), f" {start:.4g}", va="center", fontsize=7)
    else:
        low, high = interval
        axes.errorbar(start, len(parts), xerr=[[max(start - low, 0.0)], [max(high - start, 0.0)]], color="black", capsize=3)
    axes.set_yticks(range(len(parts) + 1), [*parts, whole])
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.set_xlabel(unit)


def one_answer(parts: pd.DataFrame, answer: Mapping[str, float]) -> Figure:
    """Waterfall of one served model's time per output token and time to first token, with their 90 % intervals (ms)."""
    fig, axes = _figure(4.6, rows=2)
    for axis, target, unit in zip(axes, ("tpot", "ttft"), ("time per output token (ms)", "time to first token (ms)"), strict=True):
        rows = parts[parts["target"] == target]
        interval = answer[f"{target}_lower_ms"], answer[f"{target}_upper_ms"]
        waterfall(axis, dict(zip(rows["part"], rows["ms"], strict=True)), "answer, 90 % interval", unit, interval)
    return fig


def pareto(curves: Sequence[tuple[str, pd.DataFrame]], chosen: Mapping[str, Any]) -> Figure:
    """Output tokens a second of a GPU over those of a user, a front for each device and mode, between the ends of their 90 % intervals."""
    fig, axis = _figure(3.6)
    for k, (name, part) in enumerate(curves):
        color = theme.COLORS[k % len(theme.COLORS)]
        x, low, high = (part[f"tokens_per_s_per_user{end}"] for end in ("", "_lower", "_upper"))
        y, below, above = (part[f"tokens_per_s_per_gpu{end}"] for end in ("", "_lower", "_upper"))
        axis.fill([*low, *high[::-1]], [*below, *above[::-1]], color=color, alpha=0.15, linewidth=0)
        axis.plot(x, y, marker=theme.MARKERS[k % len(theme.MARKERS)], color=color, label=name)
    at = chosen["tokens_per_s_per_user"], chosen["tokens_per_s_per_gpu"]
    axis.plot(*at, marker="o", markersize=11, markerfacecolor="none", color="black", linestyle="none", label="recommended")
    axis.set(xscale="log", yscale="log", xlabel="output tokens/s of a user", ylabel="output tokens/s of a GPU")
    axis.set_title(f"{chosen['model']}: fronts of the plans tried, shaded to the ends of their 90 % intervals", fontsize=8, loc="left")
    axis.legend()
    return fig


def training_step(
    title: str,
    time_s: Mapping[str, float],
    bounds_s: tuple[float, float],
    memory_bytes: Mapping[str, float],
    capacity_bytes: float,
    tasks: Sequence[Any],
) -> Figure:
    """A training step: where its time goes, what fills the memory of a device, and the schedule of the pipeline.

    Args:
        time_s: parts of the step (s), without their total; parts of zero are left out; bounds_s: its 90 % interval (s).
        memory_bytes: parts of the fullest stage's memory (bytes), without their total; capacity_bytes: of a device.
    """
    stages = max(task.stage for task in tasks) + 1
    theme.apply()
    fig, axes = plt.subplots(3, 1, figsize=(theme.WIDTHS["full"], 5.0 + 0.22 * stages), height_ratios=[2.6, 0.9, 0.5 + 0.2 * stages])
    axes[0].set_title(title, fontsize=8, loc="left")
    waterfall(axes[0], {name: size for name, size in time_s.items() if size}, "step, 90 % interval", "time (s)", bounds_s)
    start = 0.0
    for k, (name, size) in enumerate((name, size) for name, size in memory_bytes.items() if size):
        axes[1].barh(0, size / 2**30, left=start, label=name, color=theme.COLORS[k % 8], hatch="//" if k > 7 else None)
        start += size / 2**30
    axes[1].axvline(capacity_bytes / 2**30, color="black", linestyle="--")
    axes[1].text(capacity_bytes / 2**30, 0.45, " what the device has", va="bottom", ha="right", fontsize=7)
    axes[1].set(yticks=[], xlabel="memory of the fullest device (GiB)")
    axes[1].legend(ncols=6, loc="upper left", bbox_to_anchor=(0.0, 1.6), fontsize=7, handlelength=1.2, columnspacing=1.0)
    for phase, color in (("forward", theme.COLORS[5]), ("backward", theme.COLORS[4])):
        for stage in range(stages):
            spans = [(task.start_s, task.end_s - task.start_s) for task in tasks if (task.stage, task.phase) == (stage, phase)]
            label = phase if stage == 0 else None
            axes[2].broken_barh(spans, (stage - 0.42, 0.84), facecolor=color, edgecolor="white", linewidth=0.3, label=label)
    microbatches = 1 + max(task.microbatch for task in tasks)
    axes[2].set(yticks=range(stages), ylabel="stage", xlabel=f"time of the pipeline (s), {microbatches} microbatches")
    axes[2].invert_yaxis()
    axes[2].legend(ncols=2, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return fig


def serving_run(requests: pd.DataFrame, batches: pd.DataFrame, bounds: Mapping[str, float], title: str = "") -> Figure:
    """A simulated run over time: requests that wait and run, time to first token, time per output token."""
    fig, axes = _figure(5.0, rows=3)
    fig.suptitle("\n".join(textwrap.wrap(title, 80)), fontsize=8)
    for name, column, color in (("waiting", "num_waiting", theme.COLORS[1]), ("in the batch", "size", theme.COLORS[0])):
        wide = batches.pivot_table(index="t_sched", columns="replica", values=column, aggfunc="last").ffill().fillna(0.0)
        axes[0].step(wide.index, wide.sum(axis=1), where="post", color=color, label=name, linewidth=1)
    axes[0].set_ylabel("requests")
    axes[0].legend(ncols=2, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    series = (("ttft", "ttft_s", "arrived_at", "time to first token (s)"), ("tpot_nm1", "tpot_s", "completed_at", "per output token (s)"))
    for axis, (column, bound, at, label) in zip(axes[1:], series, strict=True):
        axis.plot(requests[at], requests[column], ".", markersize=3, color=theme.COLORS[0])
        if bound in bounds:
            axis.axhline(bounds[bound], color=theme.COLORS[1], linestyle="--", label=f"bound {bounds[bound]:g} s")
            axis.legend(loc="upper left")
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
        axis.set_xlabel("arrival (s)" if at == "arrived_at" else "completion (s)")
    return fig


def roofline(table: pd.DataFrame, peaks_flop_per_s: Mapping[str, float], bandwidth_bytes_per_s: float, device: str) -> Figure:
    """Classes of operators or kernels under the roofs of a device; those without arithmetic are named below the legend."""
    rows = table[~table["class"].isin(["all", "launch", "communication"])]
    drawn = rows[(rows["flop"] > 0) & (rows["bytes"] > 0) & (rows["seconds"] > 0)]
    if drawn.empty:
        raise InputError("no class of operators has arithmetic, bytes and time to draw", key="--plot")
    intensity, reached = drawn["flop"] / drawn["bytes"], drawn["flop"] / drawn["seconds"]
    fig, axis = _figure(3.6)
    ridge = max(peaks_flop_per_s.values()) / bandwidth_bytes_per_s
    x = np.geomspace(min(intensity.min(), 1.0) / 2, max(intensity.max(), ridge) * 4, 200)
    by_peak: dict[float, list[str]] = {}
    for dtype, peak in peaks_flop_per_s.items():
        by_peak.setdefault(peak, []).append(dtype)
    for peak, dtypes in by_peak.items():
        axis.plot(x, np.minimum(peak, x * bandwidth_bytes_per_s), color="#999999", linewidth=0.8)
        axis.text(x[-1], peak, f"{', '.join(dtypes)} ", ha="right", va="bottom", fontsize=6, color="#555555")
    classes = list(dict.fromkeys(drawn["class"]))
    fidelities = list(dict.fromkeys(drawn["fidelity"]))
    share = drawn["seconds"] / drawn.groupby("fidelity")["seconds"].transform("sum")
    for fidelity, kind, a, b, part in zip(drawn["fidelity"], drawn["class"], intensity, reached, share, strict=True):
        k, marker = classes.index(kind), theme.MARKERS[fidelities.index(fidelity) % 8]
        label = f"{kind}{f', {fidelity}' if len(fidelities) > 1 else ''}: {part:.0%} of the time"
        axis.plot(a, b, marker, color=theme.COLORS[k % 8], markersize=4 + 8 * part**0.5, label=label)
    axis.set(xscale="log", yscale="log", xlabel="arithmetic intensity (FLOP/byte)", ylabel="FLOP/s", title=device)
    idle = [kind for kind in dict.fromkeys(rows["class"]) if kind not in classes]
    axis.legend(title=f"without arithmetic: {', '.join(idle)}" if idle else None, loc="lower right", fontsize=7, title_fontsize=7)
    return fig
