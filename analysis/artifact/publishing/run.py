"""One run of a notebook: where it writes, and what it says about each thing it writes.

Every table, figure and number lands in the notebook's own folder, with a `manifest.json` that describes it and holds its digest.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis.artifact.publishing.looks import legible
from analysis.artifact.publishing.package import glossary
from analysis.artifact.publishing.words import spell, with_unit
from analysis.errors import InputError
from analysis.paths import DATA, RESULTS
from analysis.tables import read_csv, to_csv_bytes, write_atomic
from analysis.theme import COLORS

Kind = Literal["computed", "measured", "recorded", "cited", "frozen"]
KINDS = ("computed", "measured", "recorded", "cited", "frozen")
NAME = re.compile(r"[a-z0-9_]+")
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Choose:
    """Lists by which a reader picks what a figure shows.

    Attributes:
        lists: label of each list, and its options.
        traces: numbers of the figure's traces for each combination of options; a combination without any is said to be empty.
        titles: title of the vertical axis for some combinations.
    """

    lists: Mapping[str, Sequence[str]]
    traces: Mapping[tuple[str, ...], Sequence[int]]
    titles: Mapping[tuple[str, ...], str] = field(default_factory=dict)


def _lists(choose: Choose, figure: str) -> str:
    """The lists as native HTML with the script that shows the chosen traces."""
    fields = []
    for number, (label, options) in enumerate(choose.lists.items()):
        written = "".join(f"<option>{escape(option)}</option>" for option in options)
        place = f"{figure}-choose-{number}"
        fields.append(f'<label for="{place}">{escape(label)}</label> <select id="{place}">{written}</select> ')
    data = {
        "traces": {" | ".join(key): list(value) for key, value in choose.traces.items()},
        "titles": {" | ".join(key): value for key, value in choose.titles.items()},
    }
    script = LISTS.replace("FIGURE", json.dumps(figure)).replace("DATA", json.dumps(data, sort_keys=True).replace("</", "<\\/"))
    return f'<div class="chart-lists">{"".join(fields)}<span role="status"></span></div><script>{script}</script>'


LISTS = """window.addEventListener('load', function () {
  var data = DATA, figure = document.getElementById(FIGURE), box = figure.closest('.interactive').querySelector('.chart-lists');
  var lists = Array.from(box.querySelectorAll('select')), said = box.querySelector('[role=status]');
  function show() {
    var key = lists.map(function (l) { return l.value; }).join(' | '), chosen = data.traces[key] || [];
    Plotly.restyle(figure, 'visible', figure.data.map(function (_, k) { return chosen.indexOf(k) >= 0; }));
    if (data.titles[key]) Plotly.relayout(figure, {'yaxis.title.text': data.titles[key]});
    said.textContent = chosen.length ? '' : 'nothing to show: the model gives no answer here';
  }
  lists.forEach(function (l) { l.addEventListener('change', show); });
  show();
});"""


class Run:
    """What a notebook writes, all of it into one folder.

    Args:
        name: the notebook's name, without `.ipynb`.
        tier: quick, book or full.
        out: output folder; empty means `data/results/<name>`.
    """

    def __init__(self, name: str, tier: str = "book", out: str = "") -> None:
        if tier not in ("quick", "book", "full"):
            raise InputError("expected quick, book or full", key="tier")
        self.name, self.tier = name, tier
        self.out = Path(out) if out else RESULTS / name
        self.results = self.out.parent
        self.out.mkdir(parents=True, exist_ok=True)
        self._manifest: dict[str, Any] = {"notebook": name, "tier": tier, "files": {}, "tables": {}, "figures": {}, "numbers": {}}
        self._described = True
        self._shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        if self._shell:
            self._shell.events.register("post_run_cell", lambda _: self._describe())

    def _write(self, relative: str, content: bytes) -> Path:
        if relative in self._manifest["files"]:
            raise InputError("written twice in one run", path=self.out / relative)
        path = write_atomic(self.out / relative, content)
        self._manifest["files"][relative] = hashlib.sha256(content).hexdigest()
        self._changed()
        return path

    def _changed(self) -> None:
        """Have the description written: at the end of the cell, or at once where there are no cells."""
        self._described = False
        if not self._shell:
            self._describe()

    def _describe(self) -> None:
        if self._described:
            return
        if self._manifest["numbers"]:
            content = _json(self._manifest["numbers"])
            write_atomic(self.out / "numbers.json", content)
            self._manifest["files"]["numbers.json"] = hashlib.sha256(content).hexdigest()
        write_atomic(self.out / "manifest.json", _json(self._manifest))
        self._described = True

    def table(
        self,
        frame: pd.DataFrame,
        name: str,
        *,
        title: str,
        columns: Mapping[str, str] = NOTHING,
        kind: Kind = "computed",
        source: str = "",
    ) -> Path:
        """Write a tidy table as CSV, described for the data package.

        Args:
            frame: one observation a row.
            name: file name without ending.
            title: one line.
            columns: description, its unit in parentheses, of columns that `data/columns.yaml` does not describe or that mean something
                else here.
            kind: computed, measured, recorded, cited or frozen.
            source: where the numbers come from, if not from this notebook.
        """
        _check_name(name)
        if kind not in KINDS:
            raise InputError(f"kind must be one of {', '.join(KINDS)}", key=name)
        undescribed = [column for column in frame.columns if column not in columns and column not in glossary()]
        unknown = [column for column in columns if column not in frame.columns]
        if undescribed or unknown:
            raise InputError(f"columns without a description: {undescribed}; descriptions without a column: {unknown}", key=name)
        self._manifest["tables"][name] = {"title": title, "kind": kind, "source": source, "columns": dict(columns)}
        return self._write(f"{name}.csv", to_csv_bytes(frame))

    def figure(self, fig: Figure, name: str, caption: str, made: str, preview: bool = False) -> None:
        """Write a figure as SVG.

        Args:
            fig: the matplotlib figure; closed afterwards, so that the notebook shows the file once.
            name: file name without ending.
            caption: what it shows.
            made: how it was made.
            preview: write it as PNG, too: what shows a link to a page shows no SVG.
        """
        _check_name(name)
        spell(fig)
        legible(fig)
        self._manifest["figures"][name] = {"caption": caption, "made": made, "interactive": False}
        metadata: dict[str, dict[str, Any]] = {"svg": {"Date": None, "Creator": None}, **({"png": {"Software": None}} if preview else {})}
        with warnings.catch_warnings(), _texts_laid_out_once():
            warnings.simplefilter("ignore", UserWarning)
            files = drawn(fig, metadata)
        for ending, content in files.items():
            self._write(f"figures/{name}.{ending}", content)
        plt.close(fig)
        if self._shell:
            from IPython.display import display

            display({"image/svg+xml": files["svg"].decode(), "text/plain": caption}, raw=True)  # type: ignore[no-untyped-call]

    def interactive(self, figure: Any, name: str, choose: Choose | None = None) -> None:
        """Write the interactive version of a figure written before, for readers with a browser.

        Args:
            figure: a plotly figure.
            name: name of the static figure that it stands beside.
            choose: lists above the figure that decide which of its traces are shown.
        """
        margin = {"l": 60, "r": 20, "t": 50, "b": 60}
        figure.update_layout(template="plotly_white", colorway=COLORS, font={"size": 13}, margin=margin, title_font_size=15)
        html = figure.to_html(
            full_html=False, include_plotlyjs=False, div_id=f"{self.name}-{name}", config={"displaylogo": False, "responsive": True}
        )
        self.interactive_html(_lists(choose, f"{self.name}-{name}") + html if choose else html, name)

    def interactive_html(self, html: str, name: str) -> None:
        """Write an interactive fragment (HTML, self-contained, no addresses) beside the static figure of the same name.

        Args:
            html: the fragment; plotly's script, if it uses it, is loaded by the page.
            name: name of the static figure.
        """
        if name not in self._manifest["figures"]:
            raise InputError("write the static figure of this name first", key=name)
        self._manifest["figures"][name]["interactive"] = True
        self._manifest["figures"][name]["plotly"] = "Plotly.newPlot" in html
        self._write(f"figures/{name}.html", html.encode("utf-8"))

    def number(self, key: str, value: Any, form: str = "{}", unit: str = "", kind: Kind = "computed") -> None:
        """Keep a number for the prose: `{num}` prints it by `<notebook>.<key>`.

        Args:
            key: letters, digits and underscores.
            value: a number or a short text.
            form: format for printing, as of `str.format`.
            unit: printed after it, with a space between (none before `/s`); us and uJ become µs and µJ.
            kind: computed, measured, recorded, cited or frozen.
        """
        _check_name(key)
        if key in self._manifest["numbers"]:
            raise InputError("this number is set twice", key=key)
        if kind not in KINDS:
            raise InputError(f"kind must be one of {', '.join(KINDS)}", key=key)
        plain = value.item() if hasattr(value, "item") else value
        self._manifest["numbers"][key] = {"value": plain, "text": with_unit(form.format(plain), unit), "kind": kind}
        self._changed()

    def read(self, notebook: str, table: str) -> pd.DataFrame:
        """Read another notebook's table; the build runs that notebook first.

        Args:
            notebook: its name, as a literal string (the build scans for it).
            table: name of the CSV, without ending.
        """
        return read_csv(self.results / notebook / f"{table}.csv")

    def frozen(self, table: str) -> pd.DataFrame:
        """Read a committed result of `make full`: `data/frozen/<notebook>/<table>.csv`."""
        return read_csv(DATA / "frozen" / self.name / f"{table}.csv")


_laid_out: Any = Text._get_layout  # type: ignore[attr-defined]


@contextmanager
def _texts_laid_out_once() -> Iterator[None]:
    """Lay each text out once for all passes: the layout engine measures it four times, and its font is looked up each time."""
    known: dict[Any, Any] = {}

    def layout(text: Any, renderer: Any) -> Any:
        if text.get_wrap():
            return _laid_out(text, renderer)
        about = (text.get_text(), hash(text.get_fontproperties()), text.get_rotation(), text.get_rotation_mode(), text.get_parse_math())
        place = (text.get_ha(), text.get_va(), text._get_multialignment(), text._linespacing, text.get_figure(root=True).dpi)
        key = (type(getattr(renderer, "_renderer", renderer)), *about, *place)
        if key not in known:
            known[key] = _laid_out(text, renderer)
        return known[key]

    Text._get_layout = layout  # type: ignore[attr-defined]
    try:
        yield
    finally:
        Text._get_layout = _laid_out  # type: ignore[attr-defined]


def drawn(fig: Figure, metadata: Mapping[str, Mapping[str, Any]]) -> dict[str, bytes]:
    """A figure in several formats, arranged once for all of them (savefig alone arranges it anew for each).

    Args:
        fig: the figure; it is left without a layout engine.
        metadata: of each format's file.
    """
    if isinstance(plt.rcParams["savefig.dpi"], (int, float)):
        fig.set_dpi(plt.rcParams["savefig.dpi"])
    if (engine := fig.get_layout_engine()) is not None:
        engine.execute(fig)
    files = {}
    with plt.rc_context({"figure.constrained_layout.use": False, "figure.autolayout": False}):
        fig.set_layout_engine(None)
        edges = fig.get_tightbbox().padded(plt.rcParams["savefig.pad_inches"])
        for ending, about in metadata.items():
            buffer = io.BytesIO()
            fig.savefig(buffer, format=ending, metadata=dict(about), bbox_inches=edges)
            files[ending] = buffer.getvalue()
    return files


def _json(content: Any) -> bytes:
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False).encode("utf-8")


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise InputError("names are lower-case letters, digits and underscores", key=name)
