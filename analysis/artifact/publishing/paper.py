"""The article and the artifact appendix: Markdown with the chapters' roles and directives, as PDF by Typst and as LaTeX in ACM's form.

One walk over the Markdown (`_node`) writes both; `paper_typst` and `paper_latex` say how each kind of node is written.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import typst
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.front_matter import front_matter_plugin
from mdit_py_plugins.myst_role import myst_role_plugin

from analysis.artifact.claims import blindness
from analysis.artifact.claims.prose import numbers_of
from analysis.artifact.publishing import pages, paper_latex, paper_typst
from analysis.errors import InputError
from analysis.paths import BOOK, BUILD, RESULTS, ROOT
from analysis.tables import write_atomic, write_csv

LONGEST = 11
"""Pages that the article may have before its references."""
DOCUMENTS = {"article": LONGEST, "artifact": 2}
"""Each document (`book/<name>.md`) with the pages that it may have."""


@dataclass
class Document:
    """A chapter on its way to Typst or LaTeX.

    Attributes:
        source: the Markdown file, for messages.
        folder: where the source and its pictures go.
        form: `paper_typst` or `paper_latex`.
        numbers: what `{num}` takes, for every number in the text, in the order of its first use.
        cites: whether anything is cited.
    """

    source: Path
    folder: Path
    form: Any = paper_typst
    numbers: dict[str, None] = field(default_factory=dict)
    cites: bool = False

    def line_of(self, name: str) -> int | None:
        """The line on which `{num}` takes `name`."""
        return next((line for line, used in numbers_of(self.source) if used == name), None) if self.source.exists() else None


def write(name: str) -> Path:
    """Set one document; returns the PDF, beside which a CSV lists its numbers with the notebook that writes each, and LaTeX in `paper/`."""
    source = BOOK / f"{name}.md"
    folder = BUILD / "paper"
    folder.mkdir(parents=True, exist_ok=True)
    title, _, text = source.read_text(encoding="utf-8").partition("\n")
    shutil.copyfile(ROOT / "bib" / "references.bib", folder / "references.bib")
    for form in (paper_latex, paper_typst):
        document = Document(source, folder, form)
        body = _markdown(text, document)
        known = {key: _known(key, document) for key in document.numbers}
        whole = form.whole(title.lstrip("# "), body, known, document.cites)
        written = write_atomic(folder / f"{name}.{form.ENDING}", whole.encode("utf-8"))
    target = BUILD / f"{name}.pdf"
    try:
        typst.compile(str(written), output=str(target), root=str(folder), ignore_system_fonts=True, timestamp=0)
        used = int(typst.query(str(written), "<end-of-text>", field="value", one=True, root=str(folder), ignore_system_fonts=True))
    except typst.TypstError as error:
        raise InputError(str(error).splitlines()[0], path=source) from None
    rows = [{"number": key, "printed": _known(key, document)["text"], "kind": _known(key, document)["kind"]} for key in document.numbers]
    write_csv(pd.DataFrame(rows, columns=["number", "printed", "kind"]), BUILD / f"{name}_numbers.csv")
    print(f"{os.path.relpath(target, ROOT)}: {used} pages before references, {len(rows)} numbers, each from a result")
    if used > DOCUMENTS[name]:
        raise InputError(f"{used} pages, of which there may be {DOCUMENTS[name]}", path=source)
    return target


def _known(name: str, document: Document) -> dict[str, str]:
    try:
        return pages.number(name)
    except InputError as error:
        raise InputError(str(error), path=document.source, line=document.line_of(name)) from None


def _markdown(text: str, document: Document) -> str:
    reader = MarkdownIt("commonmark").enable("table").use(myst_role_plugin).use(colon_fence_plugin).use(front_matter_plugin)
    return _children(SyntaxTreeNode(reader.parse(text)), document)


def _children(node: SyntaxTreeNode, document: Document) -> str:
    return "".join(_node(child, document) for child in node.children)


def _node(node: SyntaxTreeNode, document: Document) -> str:
    form = document.form
    if node.type in form.WRAPPED:
        before, after = form.WRAPPED[node.type]
        return str(before + _children(node, document) + after)
    if node.type == "text":
        return str(form.text(node.content))
    if node.type in ("softbreak", "hardbreak"):
        return "\n"
    if node.type == "code_inline":
        return str(form.code(node.content))
    if node.type == "heading":
        return str(form.heading(int(node.tag[1]) - 1, _children(node, document)))
    if node.type == "link":
        address, shown = str(node.attrs["href"]), _children(node, document)
        return str(form.link(address, shown)) if "://" in address else shown
    if node.type == "myst_role":
        return _role(node, document)
    if node.type == "table":
        rows = [[_children(cell, document) for cell in row.children] for part in node.children for row in part.children]
        return str(form.table(rows))
    if node.type in ("fence", "colon_fence"):
        return _fence(node, document)
    if node.type in ("front_matter", "html_block", "myst_line_comment"):
        return ""
    raise InputError(f"{node.type} cannot be set in the article", path=document.source)


def _role(node: SyntaxTreeNode, document: Document) -> str:
    name, content, form = node.meta["name"], node.content, document.form
    if name == "num":
        text = _known(content, document)["text"]
        document.numbers.setdefault(content)
        return str(form.number(content, form.text(text.replace(" ", chr(0xA0)) if len(text) <= 16 else text)))
    if name == "cite":
        document.cites = True
        return str(form.cite([key.strip() for key in content.split(",")]))
    if name == "blind":
        found = blindness.said(content, lambda key: _known(key, document)["text"])
        return str(form.text(found.words or found.sentence))
    raise InputError(f"role {name} cannot be set in the article", path=document.source)


def _fence(node: SyntaxTreeNode, document: Document) -> str:
    word, _, rest = node.info.strip().partition(" ")
    if word == "{math}":
        return str(document.form.math(node.content.strip()))
    if word == "{result-figure}":
        return _figure(rest.strip(), node.content.strip(), document)
    raise InputError(f"directive {word} cannot be set in the article", path=document.source)


def _figure(name: str, title: str, document: Document) -> str:
    notebook, _, figure = name.partition("/")
    about = (pages.manifest(notebook) or {}).get("figures", {}).get(figure)
    if about is None:
        raise InputError(f"unknown figure {name}: no notebook writes it", path=document.source)
    drawn = RESULTS / notebook / "figures" / f"{figure}.svg"
    picture = document.folder / f"{notebook}-{figure}.svg"
    shutil.copyfile(drawn, picture)
    if document.form.PICTURE == "pdf":  # LaTeX takes no SVG
        alone = picture.with_suffix(".typ")
        alone.write_text(f'#set page(width: auto, height: auto, margin: 0pt)\n#image("{picture.name}")', encoding="utf-8")
        picture = picture.with_suffix(".pdf")
        typst.compile(str(alone), output=str(picture), root=str(document.folder), timestamp=0)
    words = [_markdown(part, document).strip() for part in (title, about["caption"])]
    return str(document.form.figure(picture.name, pages.wide(drawn), *words))


def widths(lines: Sequence[Sequence[str]], markup: str) -> list[float]:
    """Shares of the columns of a table, by their longest cells without markup."""
    shown = [[re.sub(markup, "", cell) for cell in line] for line in lines]
    return [max(5.0, min(max(len(line[k]) for line in shown), 60.0)) ** 0.8 for k in range(len(shown[0]))]
