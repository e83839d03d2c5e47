"""How Typst writes each kind of node of the article, and the document around them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

ENDING, PICTURE = "typ", "svg"
WRAPPED = {
    "em": ("#emph[", "]"),
    "strong": ("#strong[", "]"),
    "paragraph": ("", "\n\n"),
    "inline": ("", ""),
    "bullet_list": ("#list(", ")\n\n"),
    "ordered_list": ("#enum(", ")\n\n"),
    "list_item": ("[", "], "),
}
MARKUP = r"#link\(label\(\"(?:[^\"\\]|\\.)*\"\)\)|#raw|[\\\[\]()\"]"


def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def whole(title: str, body: str, numbers: Mapping[str, Mapping[str, str]], cites: bool) -> str:
    """The document: its look, the body, the references, and where each number comes from."""
    tail = "\n#context [#metadata(counter(page).get().first()) <end-of-text>]\n"
    if cites:
        tail += '#set text(8pt)\n#bibliography("references.bib", title: "References", style: "ieee")\n'
    rows = "".join(
        f'[#box[{text(found["text"][:24])}] #label("{_string(key)}")], [`{key}` {found["kind"]}],\n' for key, found in numbers.items()
    )
    return _beside("paper.typ").replace("TITLE", text(title)) + body + tail + _beside("paper_numbers.typ").replace("ROWS", rows)


def text(words: str) -> str:
    """Plain text: signs that Typst reads as markup are escaped, hyphens and quotation marks stay."""
    return re.sub(r"(?<=-)-|^[-+=/](?=\s)|[\\#$*_`<>@\[\]~;]", lambda found: "\\" + found[0], words).replace("//", "\\/\\/")


def _string(words: str) -> str:
    return words.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def code(words: str) -> str:
    """Code in a line."""
    return f'#raw("{_string(words)}")'


def heading(level: int, inside: str) -> str:
    """A heading."""
    return f"#heading(level: {level})[{inside}]\n"


def link(address: str, shown: str) -> str:
    """A link to the web."""
    return f'#link("{_string(address)}")[{shown}]'


def number(key: str, shown: str) -> str:
    """A number, which leads to its line in the list at the end."""
    return f'#link(label("{_string(key)}"))[{shown}]'


def cite(keys: Sequence[str]) -> str:
    """References."""
    return "".join(f"#cite(<{key}>)" for key in keys)


def math(tex: str) -> str:
    """A displayed formula: of TeX's commands Greek letters, fractions, roots, sub- and superscripts and upright words are understood."""
    upright = re.sub(r"\\mathrm\{(\w+)\}", r'"\1"', tex)
    return "$ " + re.sub(r"\\([a-z]+)", r"\1", upright.replace("}{", ", ").replace("{", "(").replace("}", ")")) + " $\n\n"


def figure(file: str, wide: bool, title: str, caption: str) -> str:
    """A picture with its title and caption; a wide one over both columns."""
    place = 'placement: auto, scope: "parent"' if wide else "placement: auto"
    words = f"#strong[{title}.] {caption}" if title else caption
    return f'#figure({place}, caption: [{words}], image("{file}", width: 100%))\n\n'


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table with its head first; one of more than five columns over both columns of the page."""
    from analysis.artifact.publishing.paper import widths

    columns = ", ".join(f"{share:.2f}fr" for share in widths(rows, MARKUP))
    head, *cells = (", ".join(f"[{cell}]" for cell in row) + ",\n" for row in rows)
    made = f"result-table(({columns}), ({head}),\n{''.join(cells)})"
    return f'#figure(placement: auto, scope: "parent", numbering: none, {made})\n\n' if len(rows[0]) > 5 else f"#{made}\n\n"
