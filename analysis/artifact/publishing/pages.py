"""The Sphinx extension of the book: numbers, figures and tables come from results, and every page works without the network."""

from __future__ import annotations

import base64
import html
import json
import math
import re
import statistics
from contextlib import suppress
from functools import cache
from multiprocessing import get_context
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from docutils import nodes
from docutils.parsers.rst import directives
from pandas.api.types import is_numeric_dtype
from pydantic import RootModel
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

from analysis.artifact.claims import blindness
from analysis.artifact.claims.addresses import cell, is_address
from analysis.artifact.claims.prose import QUOTATIONS, numbers_of, quotations
from analysis.artifact.claims.results import Results
from analysis.artifact.publishing import package
from analysis.artifact.publishing.words import heading, in_words
from analysis.configs import read_yaml
from analysis.errors import InputError
from analysis.paths import BOOK, RESULTS, ROOT
from analysis.studies import attempts
from analysis.tables import read_csv

logger = logging.getLogger(__name__)
KIND_WORDS = {
    "computed": "computed by this build",
    "measured": "measured by us",
    "recorded": "recorded from a real run of the tool",
    "cited": "cited from a published source",
    "frozen": "computed earlier by make full and committed",
}


@cache
def manifest(notebook: str) -> dict[str, Any] | None:
    """What a notebook said about its results, or None when it has none.

    `costs` has the seconds and memory of every notebook, `precomputed` how many numbers of a chapter are frozen.
    """
    if notebook == "costs":
        return {"numbers": _costs()}
    if notebook == "precomputed":
        return {"numbers": _precomputed()}
    try:
        return package.manifest(RESULTS / notebook / "manifest.json")
    except FileNotFoundError:
        return None


def _costs() -> dict[str, dict[str, str]]:
    made = read_csv(ROOT / "notebooks" / "make_costs.csv")
    found = {f"make_{row.target}": f"{row.seconds:.0f} s" for row in made.itertuples()}
    ran = read_csv(ROOT / "notebooks" / "costs.csv")
    for row in ran[ran["tier"] == "book"].to_dict("records"):
        name = str(row["notebook"])
        found[name], found[f"{name}_memory"] = f"{row['cpu_s']:.0f} s", f"{row['peak_mib'] / 1024:.1f} GiB"
    return {key: {"text": text, "kind": "measured"} for key, text in found.items()}


def _precomputed() -> dict[str, dict[str, str]]:
    """For each chapter, how many numbers its `{num}` roles print (`article_all`) and how many of them no build computes (`article`)."""
    found = {}
    for path in sorted(BOOK.glob("*.md")):
        kinds = []
        for name in {name for _, name in numbers_of(path) if not name.startswith(("precomputed.", "costs."))}:
            with suppress(InputError):  # its own role says what is wrong with it
                kinds.append(number(name)["kind"])
        found[path.stem], found[f"{path.stem}_all"] = str(kinds.count("frozen")), str(len(kinds))
    return {key: {"text": text, "kind": "computed"} for key, text in found.items()}


class screen_only(nodes.General, nodes.Element):
    """An interactive fragment, shown on screens and left out of print."""


def _visit_screen_only(translator: Any, node: screen_only) -> None:
    depth = translator.builder.current_docname.count("/") if translator.builder.name != "singlehtml" else 0
    translator.body.append(node["html"].replace("{{assets}}", "../" * depth + "_assets"))
    raise nodes.SkipNode


def _skip(translator: Any, node: nodes.Node) -> None:
    raise nodes.SkipNode


def number(name: str) -> dict[str, str]:
    """What `{num}` prints: `text`, `kind`, the `notebook` that writes it, and `words` of its cell there.

    Args:
        name: `notebook.key`, or the address of a cell, `notebook/table[where].column:format`.
    """
    if is_address(name):
        one = cell(name, results())
        return {"text": one.text, "kind": one.kind, "notebook": one.notebook, "words": one.table}
    notebook, _, key = name.partition(".")
    known = (manifest(notebook) or {}).get("numbers", {})
    if key not in known:
        raise InputError(f"unknown number {name}: no notebook writes it")
    return {"text": known[key]["text"], "kind": known[key]["kind"], "notebook": notebook, "words": key}


@cache
def results() -> Results:
    """The tables that pages address, each read once."""
    return Results(RESULTS)


class NumberRole(SphinxRole):
    """Prints a number by `<notebook>.<key>` or by the address of its cell, with its kind on hover and a link to its notebook."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The number as a link, or its key and a warning."""
        try:
            found = number(self.text)
        except InputError as error:
            logger.warning("%s", error, location=self.get_location())
            return [nodes.literal(text=self.text)], []
        notebook, words, text = found["notebook"], found["words"], found["text"]
        # the text fragment shows the cell that names the number; without it, the page opens at its top
        page = f"notebooks/{notebook}.html#:~:text=%22{words}%22"
        if notebook == "precomputed":
            page = "notebooks_index.html"
        elif notebook == "costs":
            page = "notebooks_index.html" if words.startswith("make_") else f"notebooks/{words.removesuffix('_memory')}.html"
        else:
            self.env.note_dependency(str(RESULTS / notebook / "manifest.json"))
        reference = nodes.reference("", "", internal=True, refuri=f"{self._up()}{page}", classes=["number", found["kind"]])
        reference["reftitle"] = f"{KIND_WORDS[found['kind']]}: {self.text}"
        reference += nodes.Text(text.replace(" ", "\u00a0") if len(text) <= 16 else text)  # a number and its unit stay together
        return [reference], []

    def _up(self) -> str:
        return "../" * self.env.docname.count("/")


class QuotedRole(SphinxRole):
    """Prints a number that the book quotes, by its key in data/evaluation/quotations.yaml, with where it stands on hover."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The number as a span, or its key and a warning."""
        quotation = quotations().get(self.text)
        if quotation is None:
            logger.warning("unknown quotation %s", self.text, location=self.get_location())
            return [nodes.literal(text=self.text)], []
        self.env.note_dependency(str(QUOTATIONS))
        text = html.escape(quotation.text.replace(" ", "\u00a0"))
        return [nodes.raw("", f'<span class="number cited" title="quoted: {html.escape(quotation.of)}">{text}</span>', format="html")], []


class BlindRole(SphinxRole):
    """Prints what a study left out and how often its score was looked at; `words <study>` prints the words, that sentence on hover."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The sentence, or the words as a link to the table of all studies."""
        try:
            found = blindness.said(self.text, lambda name: number(name)["text"])
        except InputError as error:
            logger.warning("%s", error, location=self.get_location())
            return [nodes.literal(text=self.text)], []
        self.env.note_dependency(str(blindness.PATH))
        self.env.note_dependency(str(attempts.PATH))
        if not found.words:
            return [nodes.inline("", found.sentence, classes=["blind"])], []
        up = "../" * self.env.docname.count("/")
        link = nodes.reference("", found.words, internal=True, refuri=f"{up}evaluation_log.html#looks", classes=["blind"])
        link["reftitle"] = found.sentence
        return [link], []


class BlindTable(SphinxDirective):
    """Every study with what it left out, how often its score was looked at, and its first scores beside today's."""

    def run(self) -> list[nodes.Node]:
        """The table."""
        self.env.note_dependency(str(blindness.PATH))
        self.env.note_dependency(str(attempts.PATH))
        shown = blindness.frame(lambda name: number(name)["text"])
        about = {
            "study": "name that the role blind takes",
            "left_out": "what neither parameters nor intervals were fitted on",
            "attempts": "rows of the log of attempts (count)",
            "looks": "of these, attempts that show the score of the judged rows (count)",
            "helped": "attempts in which that score helped to choose the form (count)",
            "score_of": "what is scored",
            "first": "first score",
            "today": "score of this build",
        }
        return [nodes.raw("", f'<div class="result-table">{_html_table(shown, about, "table-blindness")}</div>', format="html")]


def without_tags(text: str) -> str:
    """Inline MyST in which what looks like an HTML tag is text: a caption may quote a file, and a file must not write the page."""
    return re.sub(r"<(?=[A-Za-z/!?])", r"\\<", text)


class ResultFigure(SphinxDirective):
    """A figure of a notebook under its take-away (the directive's content), with its caption, how it was made and where."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """The figure, or nothing and a warning."""
        notebook, _, name = self.arguments[0].partition("/")
        about = (manifest(notebook) or {}).get("figures", {}).get(name)
        if about is None:
            logger.warning("unknown figure %s: no notebook writes it", self.arguments[0], location=self.get_location())
            return []
        up = "../" * self.env.docname.count("/")
        self.env.note_dependency(str(RESULTS / notebook / "manifest.json"))
        title, wrong = self.parse_inline(" ".join(self.content))
        found: list[nodes.Node] = [nodes.paragraph("", "", *title, classes=["figure-title"])] if title else []
        folder = RESULTS / notebook / "figures"
        svg = folder / f"{name}.svg"
        image = nodes.image(uri=f"/figures/{notebook}/{name}.svg", alt=about["caption"], candidates={"*": ""})
        if wide(svg):
            image["width"] = "100%"
        else:
            image["classes"].append("narrow")
        image["classes"].append("static-twin" if about["interactive"] else "static-only")
        if about["interactive"]:
            fragment = (folder / f"{name}.html").read_text(encoding="utf-8")
            script = '<script src="{{assets}}/plotly.min.js" charset="utf-8"></script>' if about.get("plotly") else ""
            block = screen_only(
                html=f'{script}<div class="interactive" role="group" aria-label="{html.escape(about["caption"])}">{fragment}</div>'
            )
            found.append(block)
        caption, problems = self.parse_inline(without_tags(about["caption"]))
        figure = nodes.figure("", image, ids=[nodes.make_id(f"{notebook}-{name}")], align="center")
        text = nodes.caption("", "", *caption)
        made, more = self.parse_inline(without_tags(f" {about['made']}"))
        text += nodes.inline("", "", *made, classes=["made"])
        text += nodes.Text(" ")
        links = nodes.inline(classes=["made"])
        links += nodes.reference("", "Notebook", refuri=f"{up}notebooks/{notebook}.html", internal=True)
        links += nodes.Text(" · ")
        links += nodes.raw("", f'<a href="{up}_downloads_figures/{notebook}/{name}.svg">SVG</a>', format="html")
        text += links
        figure += text
        return [*found, figure, *wrong, *problems, *more]


class Explorer(SphinxDirective):
    """A figure to touch, by name; in print, the figure as it is first drawn."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The explorer, or nothing and a warning."""
        from analysis.artifact.explorers import NAMES, bundle

        if self.arguments[0] not in NAMES:
            logger.warning("unknown explorer %s", self.arguments[0], location=self.get_location())
            return []
        for path in (ROOT / "analysis" / "artifact" / "explorers").glob("*.py"):
            self.env.note_dependency(str(path))
        live = self.env.app.builder.name != "singlehtml"
        return [screen_only(html=bundle.section(self.arguments[0], live))]


class Live(SphinxDirective):
    """Python to change and run in the page; in print, the code and what it printed when the book was built."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """The cell; an error in its code is a warning of the build."""
        from analysis.artifact.explorers import bundle

        try:
            live = self.env.app.builder.name != "singlehtml"
            shown = bundle.live_section(self.arguments[0], "\n".join(self.content), live)
        except Exception as error:
            logger.warning("live cell %s: %s: %s", self.arguments[0], type(error).__name__, error, location=self.get_location())
            return []
        return [screen_only(html=shown + (bundle.START if live else ""))]


def wide(svg: Path) -> bool:
    """Whether a figure was drawn for the full width of the text (more than 430 points)."""
    with svg.open(encoding="utf-8") as lines:
        found = re.search(r'<svg[^>]* width="([0-9.]+)pt"', lines.read(4000))
    return bool(found and float(found[1]) > 430)


class ResultTable(SphinxDirective):
    """A result CSV as a table; with `:filter:` it stands folded behind its caption, to be opened, searched and sorted."""

    required_arguments = 1
    option_spec = {  # noqa: RUF012 - docutils' own way
        "columns": directives.unchanged,
        "caption": directives.unchanged,
        "rows": directives.nonnegative_int,
        "filter": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """The table, or nothing and a warning."""
        notebook, _, name = self.arguments[0].partition("/")
        about = (manifest(notebook) or {}).get("tables", {}).get(name)
        if about is None:
            logger.warning("unknown table %s: no notebook writes it", self.arguments[0], location=self.get_location())
            return []
        self.env.note_dependency(str(RESULTS / notebook / "manifest.json"))
        frame = read_csv(RESULTS / notebook / f"{name}.csv", dtype=VERBATIM, keep_default_na=True)
        chosen = [column.strip() for column in self.options.get("columns", "").split(",") if column.strip()] or list(frame.columns)
        missing = [column for column in chosen if column not in frame.columns]
        if missing:
            logger.warning("table %s has no column %s", self.arguments[0], ", ".join(missing), location=self.get_location())
            return []
        shown = frame[chosen] if frame.empty else frame[chosen].dropna(axis="columns", how="all")  # a title without a value says nothing
        cut = self.options.get("rows")
        rest = len(shown) - cut if cut and len(shown) > cut else 0
        up = "../" * self.env.docname.count("/")
        caption = self.options.get("caption", about["title"])
        note = f"First {cut} of {len(shown)} rows. " if rest else ""
        links = (
            f"{note}{KIND_WORDS[about['kind']].capitalize()}{': ' + html.escape(about['source']) if about['source'] else ''}. "
            f'<a href="{up}notebooks/{notebook}.html">Notebook</a> · <a href="{up}_downloads_tables/{notebook}/{name}.csv">CSV</a>'
        )
        identifier = nodes.make_id(f"table-{notebook}-{name}")
        body = _html_table(shown.head(cut) if cut else shown, about["columns"], identifier)
        text = (
            f'<div class="result-table"><p class="table-caption">{html.escape(caption)} <span class="made">{links}</span></p>{body}</div>'
        )
        if "filter" in self.options:
            options = {
                "paging": len(shown) > 12,
                "pageLength": 10,
                "lengthMenu": [10, 25, 100],
                "order": [],
                "autoWidth": False,
                "scrollX": False,
            }
            call = f"window.filterable({json.dumps(identifier)}, {json.dumps(options)})"
            rows = f"{len(shown):,} row{'s' if len(shown) != 1 else ''}"
            if self.env.app.builder.name == "singlehtml":  # in print the data are in the CSV
                line = f'<p class="table-caption">Data: {html.escape(caption)} ({rows}) <span class="made">{links}</span></p>'
                return [nodes.raw("", line, format="html")]
            folded = f'<details class="data"><summary>Data: {html.escape(caption)} ({rows})</summary>{text}</details>'
            if shown.empty:  # its one row says so over all columns, which DataTables takes for a fault and halts the page with a window
                return [nodes.raw("", folded, format="html")]
            script = f'<script src="{{{{assets}}}}/datatables.js" charset="utf-8"></script>{folded}<script>{call};</script>'
            return [screen_only(html=script, table=True)]
        return [nodes.raw("", text, format="html")]


PRECISE = ("printed", "got", "expected", "computed", "by_hand", "year")
"""Columns whose values are compared digit by digit, and so are not rounded to three figures."""


VERBATIM = {"python": str, "version": str}
"""Columns that look like numbers and are none: 3.8 is a version before 3.11."""


def cells(frame: pd.DataFrame) -> list[list[str]]:
    """The printed text of a table's cells, row by row; numbers are rounded to three figures, alike in a column where they are of a size."""
    columns = [_column(frame[name], str(name)) for name in frame.columns]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []


def _column(values: pd.Series, name: str) -> list[str]:
    numbers = [abs(float(value)) for value in values if _is_number(value) and value]
    decimals, alike = None, False
    signs = {float(value) > 0 for value in values if _is_number(value) and value}
    signed = len(signs) == 2 and max(numbers) <= 100 * statistics.median(numbers)  # errors: the smallest is small by chance
    if numbers and (signed or max(numbers) <= 1000 * min(numbers)) and name not in PRECISE:
        decimals = min(6, max(0, 2 - math.floor(math.log10(statistics.median(numbers)))))
        if signed and not all(number.is_integer() for number in numbers):
            return [f"{round(float(value), decimals) + 0.0:,.{decimals}f}" if _is_number(value) else _cell(value) for value in values]
        alike = 2 * sum(not number.is_integer() for number in numbers) >= len(numbers)  # 2 among 1.80 and 2.20 is 2.00
    return [_cell(value, decimals, 6 if name in PRECISE else 3, alike) for value in values]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, np.bool_)) and math.isfinite(float(value))


def _cell(value: Any, decimals: int | None = None, figures: int = 3, alike: bool = False) -> str:
    if value is None or value is pd.NA or (isinstance(value, float) and pd.isna(value)):
        return ""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if not _is_number(value):
        return {"True": "yes", "False": "no"}.get(str(value)) or in_words(str(value))
    number = float(value)
    if number.is_integer() and abs(number) < 1e15 and not (alike and number and abs(number) < 1000):
        return f"{int(number):,}"
    if 10**figures <= abs(number) < 1e15:
        return f"{number:,.0f}"
    if decimals is not None and abs(number) < 10 ** (1 - decimals) and round(number, decimals):
        return f"{number:.2g}"  # 1.7 beside 919 is not 2
    if decimals is not None and round(number, decimals):
        return f"{number:,.{decimals}f}"
    return f"{number:.{figures}g}" if 1e-4 <= abs(number) < 1e15 else f"{number:.1e}"


def _html_cell(text: str, whole: bool) -> str:
    if text.startswith(("http://", "https://")) and " " not in text:
        return f'<a href="{html.escape(text)}" rel="noreferrer">{_breakable(text)}</a>'
    inside = _breakable(text)
    return f"<span>{inside}</span>" if whole and "<" in inside else inside  # on a card, what stands beside the title is one element


def _breakable(text: str) -> str:
    """HTML of a text in which words that are too long for a column may break after their punctuation, and others not at all."""
    return "".join(_breakable_word(word) for word in re.split(r"(\s+)", text))


def _breakable_word(word: str) -> str:
    if len(word) > 32 and word.isalnum():  # a hash
        return "<wbr>".join(word[k : k + 16] for k in range(0, len(word), 16))
    if len(word) > 16:
        return "<wbr>".join(html.escape(part) for part in re.split(r"(?<=[_/.,:;=?)\-])(?=[^_/.,:;=?)\-])", word))
    return f'<span class="one">{html.escape(word)}</span>' if "-" in word[:-1] else html.escape(word)


def _html_table(frame: pd.DataFrame, about: dict[str, str], identifier: str) -> str:
    if "year" in frame.columns and is_numeric_dtype(frame["year"]):  # a year takes no thousands separator
        frame = frame.assign(year=[f"{year:.0f}" if pd.notna(year) else "" for year in frame["year"]])
    kinds = [' class="n"' if is_numeric_dtype(frame[column]) else "" for column in frame.columns]
    titles = [f'title="{html.escape(about[column])}">{html.escape(heading(column, about[column]))}' for column in frame.columns]
    head = "".join(f'<th scope="col"{kind} {title}</th>' for kind, title in zip(kinds, titles, strict=True))
    prose = [not kind and frame[column].astype(str).str.len().quantile(0.9) > 45 for kind, column in zip(kinds, frame.columns, strict=True)]
    cards = len(frame.columns) > (2 if any(prose) else 3)  # on a phone, a row becomes a card with the column's title beside each value
    labels = [f' data-label="{html.escape(heading(column, about[column]))}"' if cards else "" for column in frame.columns]
    lines = []
    for row, texts in zip(frame.itertuples(index=False, name=None), cells(frame), strict=True):
        names = ["n" if _is_number(value) else "prose" if long else "" for value, long in zip(row, prose, strict=True)]
        fields = (
            f'<td class="{name}"{label}>{_html_cell(text, cards)}</td>' if name else f"<td{label}>{_html_cell(text, cards)}</td>"
            for name, text, label in zip(names, texts, labels, strict=True)
        )
        lines.append("<tr>" + "".join(fields) + "</tr>")
    if not lines:
        lines.append(f'<tr><td colspan="{max(1, len(frame.columns))}">none</td></tr>')
    dense = (" dense" if len(frame.columns) > 7 else "") + (" cards" if cards else "")
    return (
        f'<div class="table-scroll" tabindex="0"><table id="{identifier}" class="result{dense}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _drop_network(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Take out scripts that other extensions would load from the network, and those added twice."""
    for kind in ("script_files", "css_files"):
        kept: dict[tuple[str, str], Any] = {}
        for item in context.get(kind, []):
            name, body = str(getattr(item, "filename", item) or ""), str(getattr(item, "attributes", {}).get("body") or "")
            if "://" not in name and "thebe" not in name.lower() and "thebe" not in body.lower():
                kept.setdefault((name, body), item)
        if kind in context:
            context[kind] = list(kept.values())


def _mend(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Take out roles that promise a list where docutils writes none, and heads of columns that name nothing (the index of a data frame)."""
    if "body" in context:
        context["body"] = re.sub(r' role="(?:list|doc-biblioentry|doc-backlink)"', "", context["body"]).replace("<th></th>", "<td></td>")


@cache
def _contents(builder: Any, folder: str, options: tuple[tuple[str, Any], ...]) -> str:
    """The contents of the book as the sidebar of a page in a folder has them, no page marked."""
    return str(builder._get_local_toctree(f"{folder}none", **dict(options)))


def marked(contents: str, address: str) -> str:
    """The contents in which a page, and all that it stands below, is marked as the current one, as Sphinx marks them."""
    before, link, after = contents.partition(f'<a class="reference internal" href="{address}">')
    around: list[re.Match[str]] = []
    for tag in re.finditer(r"<(/?)(ul|li)[^>]*>", before) if link else ():
        around = around[:-1] if tag[1] else [*around, tag]
    for tag in reversed(around):
        now = '<ul class="current">' if tag[2] == "ul" else tag[0].replace('">', ' current">')
        before = before[: tag.start()] + now + before[tag.end() :]
    return before + (link and '<a class="current reference internal" href="#">') + after


def _contents_once(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Let the sidebar's contents be worked out once for each folder, before pages are written side by side, and not for each page."""
    if app.builder.name != "html":
        return

    def contents(**options: Any) -> str:
        own, *folders = ({name: name[: name.rfind("/") + 1] for name in (pagename, *app.env.found_docs)}).values()
        whole = {folder: _contents(app.builder, folder, tuple(sorted(options.items()))) for folder in {own, *folders}}
        return marked(whole[own], app.builder.get_relative_uri(f"{own}none", pagename))

    context["toctree"] = contents


def _write_assets(app: Sphinx, error: Exception | None) -> None:
    """Put the scripts, figures and tables that pages refer to beside the pages."""
    if error is not None or app.builder.name not in ("html", "singlehtml"):
        return
    import shutil
    from importlib.resources import files

    out = Path(app.outdir)
    assets = out / "_assets"
    assets.mkdir(exist_ok=True)
    shutil.copyfile(str(files("plotly") / "package_data" / "plotly.min.js"), assets / "plotly.min.js")
    bundle, style = (
        base64.b64encode((files("itables") / "html" / name).read_bytes()).decode() for name in ("dt_bundle.js", "dt_bundle.css")
    )
    text = Path(__file__).with_name("datatables.js").read_text(encoding="utf-8")
    assets.joinpath("datatables.js").write_text(text.replace("BUNDLE", bundle).replace("STYLE", style), encoding="utf-8")
    if _bundling is not None:
        _bundling.join()
        if _bundling.exitcode:
            _bundle(assets)  # again, where what is wrong can be said
    for ours, theirs in (("figures", "_downloads_figures"), ("tables", "_downloads_tables")):
        shutil.rmtree(out / theirs, ignore_errors=True)
        if (BOOK / ours).exists():
            shutil.copytree(BOOK / ours, out / theirs)
    if app.builder.name == "html":
        for old, new in moved(BOOK / "moved.yml").items():
            out.joinpath(f"{old}.html").write_text(MOVED.format(page=new), encoding="utf-8")
        for unused in ("static", "_static"):
            mathjax = out / unused / "mathjax"
            if mathjax.exists():
                shutil.rmtree(mathjax / "sre", ignore_errors=True)


def moved(path: Path) -> dict[str, str]:
    """Old address of each page that became part of another -> that page; nothing where there is no such file."""
    return read_yaml(path, Moved).root if path.exists() else {}


class Moved(RootModel[dict[str, str]]):
    """The file of old addresses."""


MOVED = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Moved</title>
<meta http-equiv="refresh" content="0; url={page}.html"></head>
<body><a href="{page}.html">This page is now part of another.</a></body></html>
"""
"""What stands at an old address; the file says where to."""


_bundling: ForkProcess | None = None


def _begin_explorers(app: Sphinx) -> None:
    """Put the interpreter and the models of the explorers beside the pages, in a process of its own while the pages are read."""
    global _bundling
    _bundling = None
    if any("{explorer}" in (text := page.read_text(encoding="utf-8")) or "{live}" in text for page in BOOK.glob("*.md")):
        _bundling = get_context("fork").Process(target=_bundle, args=(Path(app.outdir) / "_assets",))
        _bundling.start()


def _bundle(assets: Path) -> None:
    from analysis.artifact.explorers import bundle

    bundle.write(assets)


def _mathjax(app: Sphinx, config: Any) -> None:
    """Serve MathJax from a copy in the pages: one script with its fonts inside."""
    from importlib.resources import files

    source = files("sphinx-mathjax-offline") / "static" / "mathjax" / "tex-svg.js"
    place = Path(app.outdir) / "_assets"
    place.mkdir(parents=True, exist_ok=True)
    (place / "tex-svg.js").write_bytes(source.read_bytes())
    config.mathjax_path = "../_assets/tex-svg.js"


def _remember() -> None:
    """Let two things be worked out once a word or name: its stem, and the plugin that formats references."""
    import pybtex.plugin
    from sphinx.search.en import SearchEnglish

    pybtex.plugin._load_entry_point = cache(pybtex.plugin._load_entry_point)
    SearchEnglish.stem = cache(SearchEnglish.stem)  # type: ignore[method-assign]


def _parallel(app: Sphinx, config: Any) -> None:
    """Say of two extensions that do not say so that pages may be read side by side: one works when all are read, one is for LaTeX."""
    for name in ("sphinx_multitoc_numbering", "sphinx_jupyterbook_latex"):
        if name in app.extensions:
            app.extensions[name].parallel_read_safe = True


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the role, the directives and the clean-up with Sphinx."""
    visitors: dict[str, Any] = {"html": (_visit_screen_only, None), "latex": (_skip, None), "text": (_skip, None)}
    app.add_node(screen_only, **visitors)
    app.add_role("num", NumberRole())
    app.add_role("quoted", QuotedRole())
    app.add_role("blind", BlindRole())
    app.add_directive("blind-table", BlindTable)
    app.add_directive("result-figure", ResultFigure)
    app.add_directive("result-table", ResultTable)
    app.add_directive("explorer", Explorer)
    app.add_directive("live", Live)
    app.add_js_file(None, body=Path(__file__).with_name("page.js").read_text(encoding="utf-8"), priority=100)
    _remember()
    app.config.html_search_scorer = str(Path(__file__).with_name("search.js"))
    app.connect("config-inited", _mathjax)
    app.connect("config-inited", _parallel)
    app.connect("builder-inited", _begin_explorers)
    app.connect("html-page-context", _contents_once, priority=100)
    app.connect("html-page-context", _drop_network, priority=900)
    app.connect("html-page-context", _mend)
    app.connect("build-finished", _write_assets)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
