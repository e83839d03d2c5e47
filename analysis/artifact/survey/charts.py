"""Charts of the survey: coverage matrices, timeline, workloads by period, speed against reported error, printed against own figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis import theme
from analysis.artifact.survey.tools import METHODOLOGIES, PLATFORMS
from analysis.tables import records

METHOD_COLORS = dict(zip(METHODOLOGIES, theme.COLORS, strict=False)) | {"": theme.COLORS[7]}
METHOD_MARKERS = dict(zip(METHODOLOGIES, theme.MARKERS, strict=False)) | {"": "*"}
SHORT_PLATFORMS = {"accelerator": "accel.", "gpu": "GPU", "distributed": "distr.", "edge": "edge", "cpu": "CPU", "memory": "memory"}
SPEED_TICKS = ((1e-6, "1 µs"), (1e-3, "1 ms"), (1.0, "1 s"), (60.0, "1 min"), (3600.0, "1 h"), (86400.0, "1 day"))


def matrices(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Several coverage matrices side by side; cells without a tool are marked.

    Args:
        tables: title to counts (rows keys of `METHODOLOGIES`, columns keys of `PLATFORMS`), the first as printed.
    """
    fig, axes = theme.figure(height=2.75, columns=len(tables))
    panels: list[Any] = list(np.atleast_1d(np.asarray(axes, dtype=object)))
    top = max(int(table.to_numpy().max()) for table in tables.values())
    first = next(iter(tables.values()))
    for index, (ax, (title, table)) in enumerate(zip(panels, tables.items(), strict=True)):
        ax.imshow(table.to_numpy(), cmap="Blues", vmin=0, vmax=top * 1.6, aspect="auto")
        for i, row in enumerate(table.index):
            for j, column in enumerate(table.columns):
                value = int(table.loc[row, column])
                differs = index > 0 and value != int(first.loc[row, column])
                label = "gap" if value == 0 else str(value)
                ax.text(
                    j,
                    i,
                    label,
                    ha="center",
                    va="center",
                    fontsize=7 if value == 0 else 9.5,
                    color="#888888" if value == 0 else "black",
                    fontweight="bold" if differs else "normal",
                )
                if differs:
                    ax.add_patch(_frame(j, i))
        ax.set_xticks(range(len(table.columns)), [SHORT_PLATFORMS[c] for c in table.columns], fontsize=7)
        ax.set_yticks(range(len(table.index)), [METHODOLOGIES[r] for r in table.index] if index == 0 else [""] * len(table.index))
        ax.set_title(title)
        ax.grid(visible=False)
        ax.tick_params(length=0)
    return fig


def _frame(x: int, y: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, fill=False, edgecolor=theme.COLORS[1], linewidth=1.6)


def timeline(frame: pd.DataFrame) -> Figure:
    """Tools by year, one lane a platform; filled marks are in the survey's table.

    Args:
        frame: columns tool, year (int), platform, methodology (keys), group.
    """
    lanes = [p for p in PLATFORMS if (frame["platform"] == p).any()]
    fig, ax = theme.figure(height=6.4)
    first = int(frame["year"].min())
    base = 0.0
    ticks, edges = [], [0.0]
    for lane in lanes:
        part = frame[frame["platform"] == lane].sort_values(["year", "tool"])
        ends: list[float] = []
        for row in records(part):
            level = next((i for i, end in enumerate(ends) if end < row.year), len(ends))
            ends[level:level] = [] if level < len(ends) else [0.0]
            ends[level] = row.year + 0.25 + 0.2 * len(row.tool)
            y = base + level + 0.5
            inside = row.group == "table 2"
            color = METHOD_COLORS[row.methodology]
            ax.plot(row.year, y, METHOD_MARKERS[row.methodology], color=color, markerfacecolor=color if inside else "white", markersize=5.5)
            ax.text(row.year + 0.2, y, row.tool, fontsize=6.2, va="center", fontweight="bold" if inside else "normal")
        depth = len(ends)
        ticks.append(base + depth / 2)
        base += depth + 0.4
        edges.append(base - 0.2)
    for edge in edges[1:-1]:
        ax.axhline(edge, color="#bbbbbb", linewidth=0.7)
    ax.set_yticks(ticks, [PLATFORMS[lane].replace(" ", "\n") for lane in lanes])
    ax.set_xlim(first - 0.5, int(frame["year"].max()) + 1.3)
    ax.set_ylim(-0.2, base)
    ax.set_xticks(range(first, int(frame["year"].max()) + 1))
    ax.tick_params(axis="x", labelrotation=45)
    ax.grid(axis="y", visible=False)
    ax.axvspan(2015.5, int(frame["year"].max()) + 1.3, color="#f3f3f3", zorder=-2)
    handles = [
        Line2D([], [], marker=METHOD_MARKERS[m], color=METHOD_COLORS[m], linestyle="", label=METHODOLOGIES.get(m, "method not given"))
        for m in [*METHODOLOGIES, ""]
    ]
    fig.legend(handles=handles, loc="outside lower center", ncols=6)
    return fig


def workloads(frame: pd.DataFrame, order: Sequence[str]) -> Figure:
    """Share of tools validated on each workload, by period.

    Args:
        frame: columns period, workload, tools, known, share.
    """
    fig, ax = theme.figure(height=2.9)
    periods = list(dict.fromkeys(frame["period"]))
    width = 0.8 / len(periods)
    for index, period in enumerate(periods):
        part = frame[frame["period"] == period].set_index("workload").loc[list(order)]
        x = np.arange(len(order)) + (index - (len(periods) - 1) / 2) * width
        bars = ax.bar(x, part["share"] * 100, width * 0.92, color=theme.COLORS[index], label=f"{period} (of {int(part['known'].iloc[0])})")
        for bar, count in zip(bars, part["tools"], strict=True):
            if count:
                ax.text(bar.get_x() + bar.get_width() / 2, bar.get_height() + 1, str(int(count)), ha="center", fontsize=7)
    for position, name in enumerate(order):
        if not frame[frame["workload"] == name]["tools"].sum():
            ax.text(position, 2, "none", ha="center", fontsize=7.5, color="#666666")
    ax.set_xticks(range(len(order)), [name.replace(" ", "\n").replace("recommendation", "recommen-\ndation") for name in order])
    ax.set_ylabel("tools of the period (%)")
    ax.set_ylim(0, 105)
    ax.grid(axis="x", visible=False)
    ax.legend(title="published (of tools with known validation)", title_fontsize=8, loc="upper right")
    return fig


def speed_against_error(frame: pd.DataFrame, domains: Sequence[str]) -> Figure:
    """Printed order of magnitude of the answering time against the printed error, ranges as boxes.

    Args:
        frame: columns tool, domain, low, high (percent, low 0 for an upper bound), bound, is_error, fast_s, slow_s,
            shift (factor that spreads tools of one class), side (left or right, of the label).
    """
    fig, ax = theme.figure(height=4.6)
    colors = dict(zip(domains, [theme.COLORS[i] for i in (0, 1, 2, 3, 4, 5, 6)], strict=False))
    bottom = 0.35
    for row in records(frame):
        color = colors[row.domain]
        x = float(np.sqrt(row.fast_s * row.slow_s)) * float(row.shift)
        low, high = max(row.low, bottom), row.high
        if not row.is_error:
            ax.plot(x, high, "X", color=color, markersize=10, markeredgecolor="black", markeredgewidth=0.9, zorder=4)
        elif row.bound == "below":
            ax.plot([x, x], [bottom, high], color=color, linewidth=1.4, linestyle=":")
            ax.plot(x, high, "v", color=color, markersize=7, zorder=4)
        elif low == high:
            ax.plot(x, high, "o", color=color, markersize=6.5, markerfacecolor=color if row.bound == "exact" else "white", zorder=4)
        else:
            ax.plot([x, x], [low, high], color=color, linewidth=4, solid_capstyle="butt", alpha=0.8)
        offset, align = ((-6, 3), "right") if row.side == "left" else ((6, -8), "left")
        ax.annotate(row.tool, (x, high), xytext=offset, textcoords="offset points", fontsize=7, ha=align)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(2e-8, 2e6)
    ax.set_ylim(bottom, 40)
    ax.set_xticks([t for t, _ in SPEED_TICKS], [n for _, n in SPEED_TICKS])
    ax.set_yticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"])
    ax.minorticks_off()
    ax.set_xlabel("time for one answer, printed order of magnitude (tools of one class spread sideways)")
    ax.set_ylabel("figure printed as error (%)")
    handles: list[Line2D] = [
        Line2D([], [], marker="s", linestyle="", color=colors[d], label=d) for d in domains if (frame["domain"] == d).any()
    ]
    handles += [
        Line2D([], [], color="#555555", linewidth=4, label="range"),
        Line2D([], [], color="#555555", marker="v", linestyle=":", label="upper bound"),
        Line2D([], [], color="#555555", marker="o", linestyle="", label="value"),
        Line2D([], [], color="#555555", marker="o", markerfacecolor="white", linestyle="", label='"about"'),
        Line2D([], [], color="#555555", marker="X", markeredgecolor="black", markersize=9, linestyle="", label="not an error at all"),
    ]
    fig.legend(handles=handles, loc="outside lower center", ncols=4)
    return fig


def printed_and_own(frame: pd.DataFrame) -> Figure:
    """For each tool the printed error and the one of its own paper, as intervals.

    Args:
        frame: columns tool, printed_low, printed_high, own_low, own_high (percent; low 0 for an upper bound), agree.
    """
    fig, ax = theme.figure(height=0.34 * len(frame) + 1.1)
    for index, row in enumerate(records(frame)):
        y = len(frame) - 1 - index
        for offset, low, high, color in (
            (0.15, row.printed_low, row.printed_high, theme.COLORS[1]),
            (-0.15, row.own_low, row.own_high, theme.COLORS[0]),
        ):
            if low == high:
                ax.plot(high, y + offset, "o", color=color, markersize=5.5)
            else:
                ax.plot([low, high], [y + offset] * 2, color=color, linewidth=4, solid_capstyle="butt")
    names = [f"{row.tool}{'' if row.agree else '  *'}" for row in records(frame)]
    ax.set_yticks(range(len(frame) - 1, -1, -1), names)
    ax.set_xlim(-0.5, 26)
    ax.set_xlabel("error (%)")
    ax.grid(axis="y", visible=False)
    handles = [
        Line2D([], [], color=theme.COLORS[1], linewidth=4, label="printed in the survey documents"),
        Line2D([], [], color=theme.COLORS[0], linewidth=4, label="tool's own paper or documentation (* they differ)"),
    ]
    fig.legend(handles=handles, loc="outside lower center", ncols=2)
    return fig
