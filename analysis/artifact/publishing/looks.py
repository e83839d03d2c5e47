"""How the book's figures look beside the theme: legible type, heatmaps whose numbers can be read."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text

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
