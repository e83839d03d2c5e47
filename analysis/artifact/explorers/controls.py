"""What a reader can set: sliders over written-out values, and lists of options; their HTML, and their state as text for the address bar."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Slider:
    """A number chosen from written-out values.

    Attributes:
        name: key; label: what the reader sees; values: in order; default: one of them.
        unit: printed behind the value; form: how the value is printed, as of `str.format`.
    """

    name: str
    label: str
    values: tuple[float, ...]
    default: float
    unit: str = ""
    form: str = "{:g}"

    def text(self, value: float) -> str:
        """The value as the reader sees it."""
        return self.form.format(value) + (f" {self.unit}" if self.unit else "")


@dataclass(frozen=True)
class Choice:
    """One of several options.

    Attributes:
        name: key; label: what the reader sees; options: key and text of each; default: a key.
    """

    name: str
    label: str
    options: tuple[tuple[str, str], ...]
    default: str


@dataclass(frozen=True)
class Pasted:
    """A text of the reader's own, typed, pasted or dropped as a file; it stays in the page and out of the address.

    Attributes:
        name: key; label: what the reader sees; default: the text to begin with.
    """

    name: str
    label: str
    default: str


Control = Slider | Choice | Pasted


def log_spaced(low: float, high: float) -> tuple[float, ...]:
    """Values from low to high in the steps of one decade: 1, 2, 5, 10, ...; whole numbers stay whole."""
    found = []
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        for digit in (1, 2, 5):
            value = digit * 10**power if power >= 0 else digit / 10**-power
            if low <= value * (1 + 1e-9) and value <= high * (1 + 1e-9):
                found.append(value)
    return tuple(found)


def remembered(answer: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """An explorer's answer that keeps its last result: the picture and the sentence ask for the same one."""
    last: list[Any] = [None, None]

    def kept(values: Mapping[str, Any]) -> dict[str, Any]:
        key = dict(values)
        if last[0] != key:
            last[0], last[1] = key, answer(values)
        return last[1]  # type: ignore[no-any-return]

    kept.__doc__ = answer.__doc__
    return kept


def defaults(controls: Sequence[Control]) -> dict[str, Any]:
    """The values that an explorer starts with."""
    return {control.name: control.default for control in controls}


def to_text(controls: Sequence[Control], values: Mapping[str, Any]) -> str:
    """The values as text for the address bar: `name=value` joined by commas, those that differ from their defaults alone."""
    parts = []
    for control in controls:
        value = values[control.name]
        if value != control.default and not isinstance(control, Pasted):
            parts.append(f"{control.name}={value:g}" if isinstance(control, Slider) else f"{control.name}={value}")
    return ",".join(parts)


def decoded(text: str) -> str:
    """Text of an address with its percent signs undone; one that begins no code stays (the browser's own function raises there)."""
    first, *others = text.split("%")
    codes = [len(part) > 1 and all(letter in "0123456789abcdefABCDEF" for letter in part[:2]) for part in others]
    return first + "".join(chr(int(part[:2], 16)) + part[2:] if code else f"%{part}" for part, code in zip(others, codes, strict=True))


def from_text(controls: Sequence[Control], text: str) -> dict[str, Any]:
    """The values of such a text; what is unknown or out of range keeps its default, a number goes to the nearest value there is."""
    found = defaults(controls)
    given = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    for control in controls:
        if control.name not in given or isinstance(control, Pasted):
            continue
        raw = given[control.name]
        if isinstance(control, Choice):
            if raw in [key for key, _ in control.options]:
                found[control.name] = raw
            continue
        try:
            number = float(raw)
        except ValueError:
            continue
        if math.isfinite(number):
            found[control.name] = min(control.values, key=lambda value: abs(value - number))
    return found


def form_html(explorer: str, controls: Sequence[Control]) -> str:
    """The controls as native HTML: a label for each, a range or a select, and the chosen value beside it."""
    rows = []
    for control in controls:
        identifier = f"{explorer}-{control.name}"
        label = f'<label for="{identifier}">{html.escape(control.label)}</label>'
        if isinstance(control, Slider):
            place = control.values.index(control.default)
            shown = html.escape(control.text(control.default))
            field = (
                f'<input type="range" id="{identifier}" name="{control.name}" min="0" max="{len(control.values) - 1}" step="1" '
                f'value="{place}" aria-valuetext="{shown}"><output for="{identifier}">{shown}</output>'
            )
        elif isinstance(control, Pasted):
            field = (
                f'<textarea id="{identifier}" name="{control.name}" rows="4" spellcheck="false">{html.escape(control.default)}</textarea>'
                f'<input type="file" accept=".json" aria-label="{html.escape(control.label)}: choose a file">'
            )
        else:
            options = "".join(
                f'<option value="{html.escape(key)}"{" selected" if key == control.default else ""}>{html.escape(text)}</option>'
                for key, text in control.options
            )
            field = f'<select id="{identifier}" name="{control.name}">{options}</select>'
        rows.append(f'<div class="control">{label}{field}</div>')
    return "".join(rows)
