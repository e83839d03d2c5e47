"""Small pieces of SVG in one style: text stays as large as the page's, colours follow light and dark pages."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

BLUE, RED, GREEN, PINK, GOLD, SKY, GREY, YELLOW = (f"var(--x{k})" for k in range(1, 9))
INK, FAINT, PAPER = "var(--ink)", "var(--faint)", "var(--paper)"


def svg(width: float, height: float, parts: Sequence[str], label: str) -> str:
    """A picture of so many pixels, with a text for those who do not see it."""
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" role="img" '
        f'aria-label="{html.escape(label)}">{"".join(parts)}</svg>'
    )


def text(x: float, y: float, words: str, anchor: str = "start", color: str = INK, size: float = 13, bold: bool = False) -> str:
    """Words at a place; y is their baseline."""
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}" font-size="{size:g}"{weight}>{html.escape(words)}</text>'


def rect(x: float, y: float, width: float, height: float, color: str, title: str = "", extra: str = "") -> str:
    """A filled box; a title is shown when it is pointed at."""
    inside = f"<title>{html.escape(title)}</title>" if title else ""
    return f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(width, 0):.2f}" height="{max(height, 0):.2f}" fill="{color}" {extra}>{inside}</rect>'


def line(x1: float, y1: float, x2: float, y2: float, color: str = FAINT, width: float = 1, dash: str = "") -> str:
    """A straight line."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" stroke-width="{width:g}"{dashed}/>'


def path(points: Sequence[tuple[float, float]], color: str, width: float = 2, dash: str = "") -> str:
    """A line through points."""
    where = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="{where}" fill="none" stroke="{color}" stroke-width="{width:g}"{dashed}/>'


def dot(x: float, y: float, color: str, radius: float = 5, title: str = "") -> str:
    """A point; a title is shown when it is pointed at."""
    inside = f"<title>{html.escape(title)}</title>" if title else ""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{color}">{inside}</circle>'


def stays(parts: Sequence[str]) -> str:
    """Marks on a scale that stays: of the answer before, the page leaves these as a pale ghost."""
    return f'<g class="stays">{"".join(parts)}</g>'


def span(scale: Scale, y: float, lower: float, middle: float, upper: float, color: str) -> str:
    """A value with its interval, on a scale that stays."""
    return stays([line(scale(lower), y, scale(upper), y, color, 4), dot(scale(middle), y, color, 7)])


class Scale:
    """Places of values along an axis.

    Args:
        low, high: values at its ends; start, end: pixels; log: whether it is logarithmic.
    """

    def __init__(self, low: float, high: float, start: float, end: float, log: bool = False) -> None:
        self.low, self.high, self.start, self.end, self.log = low, high, start, end, log

    def __call__(self, value: float) -> float:
        """Pixel of a value; values outside stay at the ends."""
        low, high, at = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        return self.start + (self.end - self.start) * (at - low) / (high - low)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values between the ends."""
        if self.log:
            powers = range(math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9) + 1)
            every = max(1, math.ceil(len(powers) / most))
            return [10.0**p for p in powers if p % every == 0]
        raw = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw)
        first = math.ceil(self.low / step - 1e-9)
        return [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


def short(value: float, digits: int = 3) -> str:
    """A number as it is said: 1.2 k, 34 M, 5.6 T."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "-"
    value = float(f"{value:.{digits}g}")  # 999.9 is 1 k, not 1e+03
    for size, letter in ((1e15, " P"), (1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.{digits}g}{letter}"
    return f"{value:.{digits}g}"


def seconds(value: float, digits: int = 3) -> str:
    """A time in the unit that suits it."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= size:
            return f"{value / size:.{digits}g} {unit}"
    return f"{value * 1e9:.{digits}g} ns"


def axis_x(scale: Scale, y: float, label: str, names: Sequence[tuple[float, str]] = (), grid: float = 0) -> list[str]:
    """A horizontal axis with its ticks and label; grid: how far its lines go up."""
    marks = list(names) or [(tick, short(tick)) for tick in scale.ticks(6 if abs(scale.end - scale.start) > 400 else 4)]
    found = [line(scale.start, y, scale.end, y, INK)]
    for value, words in marks:
        x = scale(value)
        if grid:
            found.append(line(x, y, x, y - grid))
        last = x > scale.end - 6 and len(words) > 3  # a wide label at the end stays within the picture
        found.append(text(scale.end + 10 if last else x, y + 16, words, "end" if last else "middle", size=12))
    found.append(text((scale.start + scale.end) / 2, y + 34, label, "middle", size=12))
    return found


def axis_y(scale: Scale, x: float, label: str, grid: float = 0) -> list[str]:
    """A vertical axis; its label stands above it."""
    found = [text(0, min(scale.start, scale.end) - 12, label, size=12)]
    for value in scale.ticks(5):
        y = scale(value)
        if grid:
            found.append(line(x, y, x + grid, y))
        found.append(text(x - 6, y + 4, short(value), "end", size=12))
    return found
