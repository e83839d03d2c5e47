"""Pictures of what a command answers: each function takes the answer as plain tables and gives a figure in the book's style."""

from __future__ import annotations

import io
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


def roofline(kernels: pd.DataFrame, peaks_flop_per_s: Mapping[str, float], bandwidth_bytes_per_s: float, device: str) -> Figure:
    """Kernels of a trace whose arithmetic is known, under the roofs of a device; the longest are named.

    Args:
        kernels: `operator`, `shapes`, `count`, `measured_us`, `flop` and `bytes`, as `profiler_trace.kernels` gives them.
    """
    drawn = kernels[(kernels[["measured_us", "flop", "bytes"]] > 0).all(axis=1)]
    if drawn.empty:
        raise InputError("no operator has arithmetic, bytes and time to draw", key="--plot")
    time = (kernels["measured_us"] * kernels["count"]).rename("time")
    drawn = drawn.assign(share=time / time.sum()).sort_values("share", ascending=False, kind="stable")
    intensity, reached = drawn["flop"] / drawn["bytes"], drawn["flop"] / drawn["measured_us"] * 1e6
    fig, axis = _figure(3.6)
    ridge = max(peaks_flop_per_s.values()) / bandwidth_bytes_per_s
    x = np.geomspace(min(intensity.min(), 1.0) / 2, max(intensity.max(), ridge) * 4, 200)
    for peak in dict.fromkeys(peaks_flop_per_s.values()):
        types = ", ".join(kind for kind, rate in peaks_flop_per_s.items() if rate == peak)
        axis.plot(x, np.minimum(peak, x * bandwidth_bytes_per_s), color="#999999", linewidth=0.8)
        axis.text(x[-1], peak, f"{types} ", ha="right", va="bottom", fontsize=6, color="#555555")
    names = drawn["operator"].str.removeprefix("aten::") + " " + drawn["shapes"].str.slice(0, 40)
    for k, (name, part, a, b) in enumerate(zip(names, drawn["share"], intensity, reached, strict=True)):
        label = f"{name}: {part:.1%} of the time" if k < len(theme.COLORS) - 1 else None  # the last colour is grey
        color = theme.COLORS[k] if label else "#999999"
        axis.plot(a, b, "o", color=color, markersize=3 + 20 * part**0.5, label=label)
    axis.set(xscale="log", yscale="log", xlabel="arithmetic intensity (FLOP/byte)", ylabel="FLOP/s", title=device)
    title = f"{drawn['share'].sum():.0%} of the time is in operators whose arithmetic is counted"
    axis.legend(title=title, loc="lower right", fontsize=6, title_fontsize=7)
    return fig
