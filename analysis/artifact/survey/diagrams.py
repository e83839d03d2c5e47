"""Box-and-arrow figures of the survey: how methodologies compose, the levels of abstraction, the earlier taxonomy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from analysis import theme
from analysis.tables import records

RELATION_STYLE = {
    "structure for": (theme.COLORS[0], "-"),
    "correction for": (theme.COLORS[2], "-"),
    "node times for": (theme.COLORS[1], "-"),
    "training data for": (theme.COLORS[4], "-"),
    "oracle for": (theme.COLORS[7], "--"),
}


def box(ax: Axes, centre: tuple[float, float], text: str, width: float, height: float, color: str, size: float = 8.5) -> None:
    """A rounded box with text, in data coordinates.

    Args:
        color: of the edge; the face is a light tint of it.
    """
    x, y = centre
    ax.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - height / 2),
            width,
            height,
            boxstyle="round,pad=0.02,rounding_size=0.08",
            facecolor=color + "22",
            edgecolor=color,
            linewidth=1.2,
        )
    )
    ax.text(x, y, text, ha="center", va="center", fontsize=size, linespacing=1.25)


def arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], color: str, style: str = "-", bend: float = 0.0) -> None:
    """An arrow between two points.

    Args:
        bend: curvature; 0 is straight.
    """
    ax.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=11,
            color=color,
            linestyle=style,
            linewidth=1.4,
            connectionstyle=f"arc3,rad={bend}",
            shrinkA=2,
            shrinkB=2,
        )
    )


def _bare(ax: Axes, width: float, height: float) -> None:
    ax.set_xlim(0, width)
    ax.set_ylim(0, height)
    ax.axis("off")


def composition(edges: pd.DataFrame) -> Figure:
    """How the methodologies feed one another.

    Args:
        edges: columns source, target, relation (keys of `RELATION_STYLE`).
    """
    fig, ax = theme.figure(height=3.9)
    _bare(ax, 10, 5.4)
    places = {
        "measured profile": (1.5, 4.4),
        "analytical": (5.0, 4.4),
        "ML-augmented": (1.5, 2.6),
        "hybrid": (5.0, 2.6),
        "trace-driven": (8.5, 3.5),
        "cycle-accurate": (3.25, 0.8),
    }
    colors = {
        "measured profile": theme.COLORS[6],
        "analytical": theme.COLORS[0],
        "ML-augmented": theme.COLORS[4],
        "hybrid": theme.COLORS[2],
        "trace-driven": theme.COLORS[1],
        "cycle-accurate": theme.COLORS[7],
    }
    captions = {
        "measured profile": "measured profile\nof the target device",
        "analytical": "analytical\nbounds, loop nests",
        "ML-augmented": "ML-augmented\nlearned from profiles",
        "hybrid": "hybrid\nstructure + residual",
        "trace-driven": "trace-driven\nsystem level: replay\nwith a network model",
        "cycle-accurate": "cycle-accurate\nvalidates and labels",
    }
    width, height = 2.3, 0.95
    for name, centre in places.items():
        tall = 1.25 if name == "trace-driven" else height
        box(ax, centre, captions[name], width, tall, colors[name])
    for edge in records(edges):
        a, b = places[edge.source], places[edge.target]
        start, end, bend = _ports(edge.source, edge.target, a, b, width, height)
        color, style = RELATION_STYLE[edge.relation]
        arrow(ax, start, end, color, style, bend)
    for index, (relation, (color, style)) in enumerate(RELATION_STYLE.items()):
        x, y = 6.6, 1.75 - 0.36 * index
        ax.plot([x, x + 0.6], [y, y], color=color, linestyle=style, linewidth=1.6)
        ax.text(x + 0.75, y, relation.removesuffix(" for"), va="center", fontsize=8.5)
    return fig


def _ports(
    source: str, target: str, a: tuple[float, float], b: tuple[float, float], width: float, height: float
) -> tuple[tuple[float, float], tuple[float, float], float]:
    """Where an edge leaves one box and enters the other."""
    if source == "cycle-accurate":
        if target == "analytical":
            return (a[0] + 0.05, a[1] + height / 2), (b[0] - width / 2, b[1] - 0.25), 0.0
        return (
            (a[0] + (0.75 if target == "hybrid" else -0.6), a[1] + height / 2),
            (b[0] - (0.4 if target == "hybrid" else -0.3), b[1] - height / 2),
            0.0,
        )
    if source == "measured profile" and target == "trace-driven":
        return (a[0] + 0.6, a[1] + height / 2), (b[0], b[1] + 0.66), -0.22
    if abs(a[0] - b[0]) < 0.1:
        sign = -1 if a[1] > b[1] else 1
        return (a[0], a[1] + sign * height / 2), (b[0], b[1] - sign * height / 2), 0.0
    return (a[0] + width / 2, a[1]), (b[0] - width / 2, b[1] + (0.25 if a[1] > b[1] else -0.25 if a[1] < b[1] else 0)), 0.0


def hierarchy(levels: pd.DataFrame, examples: Mapping[str, Sequence[str]]) -> Figure:
    """The three levels of abstraction with the error ranges that the survey prints, to one scale.

    Args:
        levels: columns level, low_percent, high_percent, what; lowest level first.
    """
    panels: Any
    fig, panels = theme.figure(height=3.4, columns=2)
    left, right = panels
    _bare(left, 10, 9)
    colors = [theme.COLORS[0], theme.COLORS[2], theme.COLORS[1]]
    missing = ["launches, data movement,\nfusion between kernels", "communication, overlap,\nbatching, scheduling"]
    for index, row in enumerate(records(levels)):
        y = 1.2 + 3.3 * index
        names = ", ".join(list(examples.get(row.level, ()))[:4])
        box(left, (5, y), f"{row.level}: {row.what}\n{names}", 9.4, 1.7, colors[index], size=8)
        if index:
            arrow(left, (2.2, y - 2.35), (2.2, y - 0.95), theme.COLORS[7])
            left.text(2.7, y - 1.65, "adds: " + missing[index - 1].replace("\n", " "), va="center", fontsize=7.5, color="#444444")
    for index, row in enumerate(records(levels)):
        right.barh(index, row.high_percent - row.low_percent, left=row.low_percent, height=0.5, color=colors[index])
        right.text(row.high_percent + 0.3, index, f"{row.low_percent:g} to {row.high_percent:g} %", va="center", fontsize=8.5)
    right.set_yticks(range(len(levels)), [row.level for row in records(levels)])
    right.set_xlim(0, 20)
    right.set_ylim(-0.364, 2.364)
    right.set_xlabel("error range as printed (%)")
    right.grid(axis="y", visible=False)
    return fig


def three_columns(frame: pd.DataFrame, columns: Sequence[str], titles: Sequence[str]) -> Figure:
    """Values of three columns as three stacks of boxes, with lines as thick as the number of tools they stand for."""
    fig, ax = theme.figure(height=4.2)
    _bare(ax, 10, 10.6)
    places: list[dict[str, tuple[float, float]]] = []
    for index, column in enumerate(columns):
        counts = frame[column].value_counts()
        order = sorted(counts.index, key=lambda value, counts=counts: (-counts[value], value))  # type: ignore[misc]
        step = 9.4 / len(order)
        x = 1.5 + 3.5 * index
        spots = {value: (x, 9.4 - step * (i + 0.5)) for i, value in enumerate(order)}
        places.append(spots)
        ax.text(x, 10.1, titles[index], ha="center", fontsize=9.5, fontweight="bold")
        for value, centre in spots.items():
            box(ax, centre, f"{value} ({counts[value]})", 2.5, min(0.95, step * 0.75), theme.COLORS[index], size=8.5)
    for index in (0, 1):
        pairs: list[Any] = list(frame.groupby([columns[index], columns[index + 1]]).size().items())
        for (a, b), count in pairs:
            start, end = places[index][a], places[index + 1][b]
            ax.plot(
                [start[0] + 1.28, end[0] - 1.28],
                [start[1], end[1]],
                color="#777777",
                linewidth=0.9 * count,
                alpha=0.65,
                solid_capstyle="butt",
            )
    return fig
