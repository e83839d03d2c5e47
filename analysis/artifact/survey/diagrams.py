"""Boxes and arrows of the drawn figures, in one style."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch


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
