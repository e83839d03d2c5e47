"""Words for readers in place of the data's keys: heads of columns with their units, cells that hold a key, and labels of figures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from matplotlib.category import StrCategoryFormatter
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter, FuncFormatter

from analysis.configs import read_yaml_text

_WORDS: dict[str, Any] = read_yaml_text(Path(__file__).with_name("words.yaml"))[0]
_UNITS, _TITLES, _KEYS = _WORDS["units"], _WORDS["titles"], _WORDS["keys"]
_ACRONYMS = {word.lower(): word for word in _WORDS["acronyms"]}
_SPELLINGS = {word.lower(): word for word in _WORDS["spelled"]} | _WORDS["spellings"]
KEY = re.compile(r"[a-z0-9]+(_[a-z0-9]+)+")


def heading(column: str, about: str = "") -> str:
    """A column's name as a table's head prints it: words, with the unit in parentheses (`energy_uj`: energy (µJ)).

    Args:
        column: name in the CSV; its last part may be a unit.
        about: the column's description, which ends with a unit in parentheses when the name has none.
    """
    if column in _TITLES:
        return _TITLES[column]
    for unit in sorted(_UNITS, key=len, reverse=True):
        if column.endswith(f"_{unit}"):
            return f"{heading(column.removesuffix(f'_{unit}'))} ({_UNITS[unit]})"
    described = re.search(r"\((%|percent|s|1/s|uJ|us|ms|ns|GiB|MiB|KiB|GB/s|GiB/s|mJ|pJ/MAC|min|tokens/s)\)$", about)
    if described and not re.search(r"_(kib|gib|pj|fj)|seconds|per_s", column):
        return f"{heading(column)} ({described[1].replace('percent', '%').replace('u', 'µ')})"
    return " ".join(_ACRONYMS.get(word.lower(), word) for word in column.split("_"))


def in_words(text: str) -> str:
    """A key of the data as readers read it (`megatron_sc21`: Megatron SC21); any other text as it is."""
    if text in _KEYS or not KEY.fullmatch(text):
        return str(_KEYS.get(text, text))
    return " ".join(_SPELLINGS.get(word) or _ACRONYMS.get(word, word) for word in text.split("_"))


def spell(fig: Figure) -> None:
    """Put words for keys in the labels, legends and ticks of a figure about to be written."""
    for axis in (axis for axes in fig.axes for axis in (axes.xaxis, axes.yaxis)):
        formatter: Any = axis.get_major_formatter()
        if isinstance(formatter, FixedFormatter):
            formatter.seq = [in_words(str(label)) for label in formatter.seq]
        elif isinstance(formatter, (FuncFormatter, StrCategoryFormatter)):
            axis.set_major_formatter(FuncFormatter(lambda x, place, of=formatter: in_words(str(of(x, place)))))
    for text in fig.findobj(Text):
        if isinstance(text, Text):
            text.set_text(in_words(text.get_text()))


def with_unit(number: str, unit: str) -> str:
    """A printed number with its unit, a space between (none before `/s`); us and uJ become µs and µJ."""
    unit = re.sub(r"^u(?=[sJ]$)", "µ", unit.strip())
    return number + ("" if not unit or unit.startswith("/") else " ") + unit
