"""One look for every figure: sizes, fonts, and a palette that colour-blind readers can tell apart."""

from __future__ import annotations

from typing import Any, Literal

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text

COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"]
"""Okabe and Ito's palette (Color Universal Design, 2008), darkest contrasts first."""

MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
WIDTHS = {"full": 7.0, "half": 3.4}


def apply() -> None:
    """Set matplotlib's defaults for every figure of the book; output bytes depend on the data alone."""
    matplotlib.use("agg")
    matplotlib.rcParams.update(
        {
            "axes.prop_cycle": plt.cycler(color=COLORS),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": "#dddddd",
            "grid.linewidth": 0.6,
            "axes.titlesize": 10,
            "axes.labelsize": 9,
            "xtick.labelsize": 8,
            "ytick.labelsize": 8,
            "legend.fontsize": 8,
            "legend.frameon": False,
            "font.size": 9,
            "font.family": "DejaVu Sans",
            "figure.dpi": 100,
            "savefig.dpi": 200,
            "savefig.bbox": "tight",
            "svg.hashsalt": "ml-performance-survey",
            "svg.fonttype": "path",
            "figure.constrained_layout.use": True,
        }
    )


SMALLEST_PT = 6.7
"""The smallest type of a figure: 9 pixels on a phone, where a wide figure is 44rem (`book.css`) and a narrow one as wide as the screen."""


def legible(fig: Figure) -> None:
    """Raise type below the smallest size to it."""
    for axis in (axis for axes in fig.axes for axis in (axes.xaxis, axes.yaxis)):
        size = FontProperties(size=axis.get_tick_params().get("labelsize", SMALLEST_PT)).get_size_in_points()  # it may be a word
        if size < SMALLEST_PT:  # ticks are made when the figure is drawn
            axis.set_tick_params(labelsize=SMALLEST_PT)
    for text in fig.findobj(Text):
        if isinstance(text, Text) and float(text.get_fontsize()) < SMALLEST_PT:
            text.set_fontsize(SMALLEST_PT)


def figure(width: Literal["full", "half"] = "full", height: float = 2.8, rows: int = 1, columns: int = 1) -> tuple[Figure, Axes]:
    """A figure of the book's width.

    Args:
        rows, columns: subplots; with more than one, the second value returned is an array of axes.
    """
    fig, axes = plt.subplots(rows, columns, figsize=(WIDTHS[width], height))
    return fig, axes


def heatmap(table: pd.DataFrame, ax: Axes, slant: float = 0, size: float = 8, **looks: Any) -> None:
    """seaborn's heatmap without axis titles or grid, its text in whichever of black and white contrasts more with its cell."""
    import seaborn as sns

    sns.heatmap(table, ax=ax, annot_kws={"size": size}, **looks)
    ax.grid(False)
    ax.set(xlabel="", ylabel="")
    ax.collections[0].update_scalarmappable()
    colors = np.asarray(ax.collections[0].get_facecolor())[table.notna().to_numpy().ravel(), :3]
    luminance = np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]  # WCAG 2
    for text, bright in zip(ax.texts, luminance, strict=False):
        text.set_color("black" if bright > 0.179 else "white")  # where both contrast alike
    plt.setp(ax.get_xticklabels(), rotation=slant, ha="right" if slant else "center", rotation_mode="anchor")
    plt.setp(ax.get_yticklabels(), rotation=0)
