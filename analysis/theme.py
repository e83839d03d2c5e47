"""One look for every figure: sizes, fonts, and a palette that colour-blind readers can tell apart."""

from __future__ import annotations

from typing import Literal

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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


def figure(width: Literal["full", "half"] = "full", height: float = 2.8, rows: int = 1, columns: int = 1) -> tuple[Figure, Axes]:
    """A figure of the book's width.

    Args:
        rows, columns: subplots; with more than one, the second value returned is an array of axes.
    """
    fig, axes = plt.subplots(rows, columns, figsize=(WIDTHS[width], height))
    return fig, axes
