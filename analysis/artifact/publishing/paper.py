"""The article and the artifact appendix as PDF: Markdown with the roles and directives of the chapters, set by Typst."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import typst
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.front_matter import front_matter_plugin
from mdit_py_plugins.myst_role import myst_role_plugin

from analysis.artifact.claims import blindness
from analysis.artifact.claims.prose import numbers_of
from analysis.artifact.publishing import pages
from analysis.artifact.publishing.words import heading
from analysis.errors import InputError
from analysis.paths import BOOK, BUILD, RESULTS, ROOT
from analysis.tables import read_csv, write_atomic, write_csv

LONGEST = 11
"""Pages that the article may have before its references."""
DOCUMENTS = {"article": LONGEST, "artifact": 2}
"""Each document (`book/<name>.md`) with the pages that it may have."""


@dataclass
class Document:
    """What a chapter becomes on its way to Typst.

    Attributes:
        source: the Markdown file, for messages.
        folder: where the Typst file and its pictures go.
        numbers: what `{num}` takes, for every number in the text, in the order of its first use.
        cites: whether anything is cited.
    """

    source: Path
    folder: Path
    numbers: dict[str, None] = field(default_factory=dict)
    cites: bool = False

    def line_of(self, name: str) -> int | None:
        """The line on which `{num}` takes `name`."""
        return next((line for line, used in numbers_of(self.source) if used == name), None) if self.source.exists() else None


def write(name: str) -> Path:
    """Set one document; returns the PDF, beside which a CSV lists its numbers with the notebook that writes each.

    Args:
        name: `article` or `artifact`.
    Raises:
        InputError: an unknown number, figure, table or work, or more pages than the document may have.
    """
    source = BOOK / f"{name}.md"
    folder = BUILD / "paper"
    folder.mkdir(parents=True, exist_ok=True)
    document = Document(source, folder)
    title, _, text = source.read_text(encoding="utf-8").partition("\n")
    body = _markdown(text, document)
    shutil.copyfile(ROOT / "bib" / "references.bib", folder / "references.bib")
    written = write_atomic(folder / f"{name}.typ", (_head(title.lstrip("# ")) + body + _tail(document)).encode("utf-8"))
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


def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _head(title: str) -> str:
    return _beside("paper.typ").replace("TITLE", _text(title))


def _tail(document: Document) -> str:
    tail = "\n#context [#metadata(counter(page).get().first()) <end-of-text>]\n"
    if document.cites:
        tail += '#set text(8pt)\n#bibliography("references.bib", title: "References", style: "ieee")\n'
    rows = "".join(
        f'[#box[{_text(_known(key, document)["text"][:24])}] #label("{_string(key)}")], [`{key}` {_known(key, document)["kind"]}],\n'
        for key in document.numbers
    )
    return tail + _beside("paper_numbers.typ").replace("ROWS", rows)


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


WRAPPED = {
    "em": ("#emph[", "]"),
    "strong": ("#strong[", "]"),
    "paragraph": ("", "\n\n"),
    "inline": ("", ""),
    "bullet_list": ("#list(", ")\n\n"),
    "ordered_list": ("#enum(", ")\n\n"),
    "list_item": ("[", "], "),
}


def _node(node: SyntaxTreeNode, document: Document) -> str:
    if node.type in WRAPPED:
        before, after = WRAPPED[node.type]
        return before + _children(node, document) + after
    if node.type == "text":
        return _text(node.content)
    if node.type in ("softbreak", "hardbreak"):
        return "\n"
    if node.type == "code_inline":
        return f'#raw("{_string(node.content)}")'
    if node.type == "heading":
        return f"#heading(level: {int(node.tag[1]) - 1})[{_children(node, document)}]\n"
    if node.type == "link":
        address, shown = str(node.attrs["href"]), _children(node, document)
        return f'#link("{_string(address)}")[{shown}]' if "://" in address else shown
    if node.type == "myst_role":
        return _role(node, document)
    if node.type == "table":
        return _pipe_table(node, document)
    if node.type in ("fence", "colon_fence"):
        return _fence(node, document)
    if node.type in ("front_matter", "html_block", "myst_line_comment"):
        return ""
    raise InputError(f"{node.type} cannot be set in the article", path=document.source)


def _role(node: SyntaxTreeNode, document: Document) -> str:
    name, content = node.meta["name"], node.content
    if name == "num":
        text = _known(content, document)["text"]
        document.numbers.setdefault(content)
        return f'#link(label("{_string(content)}"))[{_text(text.replace(" ", chr(0xA0)) if len(text) <= 16 else text)}]'
    if name == "cite":
        document.cites = True
        return "".join(f"#cite(<{key.strip()}>)" for key in content.split(","))
    if name == "blind":
        found = blindness.said(content, lambda key: _known(key, document)["text"])
        return _text(found.words or found.sentence)
    raise InputError(f"role {name} cannot be set in the article", path=document.source)


def _fence(node: SyntaxTreeNode, document: Document) -> str:
    word, _, rest = node.info.strip().partition(" ")
    if word == "typst":
        return node.content + "\n"
    if word == "{result-figure}":
        return _figure(rest.strip(), node.content.strip(), document)
    if word == "{result-table}":
        options = dict(re.findall(r"^:(\w+):\s*(.*)$", node.content, re.MULTILINE))
        return _result_table(rest.strip(), options, document)
    if word.startswith("{"):
        raise InputError(f"directive {word} cannot be set in the article", path=document.source)
    return f'#block(raw("{_string(node.content.rstrip())}", block: true))\n\n'


def _figure(name: str, title: str, document: Document) -> str:
    notebook, _, figure = name.partition("/")
    about = (pages.manifest(notebook) or {}).get("figures", {}).get(figure)
    if about is None:
        raise InputError(f"unknown figure {name}: no notebook writes it", path=document.source)
    drawn = RESULTS / notebook / "figures" / f"{figure}.svg"
    shutil.copyfile(drawn, document.folder / f"{notebook}-{figure}.svg")
    place = 'placement: auto, scope: "parent"' if pages.wide(drawn) else "placement: auto"
    caption = _markdown(about["caption"], document).strip()
    if title:
        caption = f"#strong[{_markdown(title, document).strip()}.] {caption}"
    return f'#figure({place}, caption: [{caption}], image("{notebook}-{figure}.svg", width: 100%))\n\n'


def _result_table(name: str, options: dict[str, str], document: Document) -> str:
    notebook, _, table = name.partition("/")
    about = (pages.manifest(notebook) or {}).get("tables", {}).get(table)
    if about is None:
        raise InputError(f"unknown table {name}: no notebook writes it", path=document.source)
    frame = read_csv(RESULTS / notebook / f"{table}.csv", dtype=None, keep_default_na=True)
    chosen = [column.strip() for column in options.get("columns", "").split(",") if column.strip()] or list(frame.columns)
    missing = [column for column in chosen if column not in frame.columns]
    if missing:
        raise InputError(f"table {name} has no column {', '.join(missing)}", path=document.source)
    frame = frame[chosen].head(int(options.get("rows", len(frame))))
    head = [_text(heading(column, about["columns"][column])) for column in chosen]
    rows = [[_text(text) for text in line] for line in pages.cells(frame)]
    return _table(head, rows, _text(options.get("caption", about["title"])))


def _pipe_table(node: SyntaxTreeNode, document: Document) -> str:
    lines = [[_children(cell, document) for cell in row.children] for part in node.children for row in part.children]
    return _table(lines[0], lines[1:], "")


def _table(head: list[str], rows: list[list[str]], caption: str) -> str:
    shown = [[re.sub(r"#link\(label\(\"(?:[^\"\\]|\\.)*\"\)\)|#raw|[\\\[\]()\"]", "", cell) for cell in line] for line in [head, *rows]]
    widths = [max(len(line[k]) for line in shown) for k in range(len(head))]
    columns = ", ".join(f"{max(5.0, min(width, 60.0)) ** 0.8:.2f}fr" for width in widths)
    cells = "".join(", ".join(f"[{cell}]" for cell in row) + ",\n" for row in rows)
    table = f"result-table(({columns}), ({', '.join(f'[{cell}]' for cell in head)},),\n{cells})"
    place = 'placement: auto, scope: "parent"' if len(head) > 5 else "placement: auto"
    if not caption:
        return f"#figure({place}, numbering: none, {table})\n\n" if len(head) > 5 else f"#{table}\n\n"
    return f"#figure({place}, kind: table, caption: [{caption}], {table})\n\n"


def _text(text: str) -> str:
    """Plain text as Typst markup: signs that Typst reads as markup are escaped, hyphens and quotation marks stay."""
    return re.sub(r"(?<=-)-|^[-+=/](?=\s)|[\\#$*_`<>@\[\]~;]", lambda found: "\\" + found[0], text).replace("//", "\\/\\/")


def _string(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
