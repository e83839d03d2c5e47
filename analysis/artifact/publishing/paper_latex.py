"""How LaTeX, in the form of ACM's class, writes each kind of node of the article, and the document around them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from analysis.errors import InputError

ENDING, PICTURE = "tex", "pdf"
WRAPPED = {
    "em": (r"\emph{", "}"),
    "strong": (r"\textbf{", "}"),
    "paragraph": ("", "\n\n"),
    "inline": ("", ""),
    "bullet_list": ("\\begin{itemize}\n", "\\end{itemize}\n\n"),
    "ordered_list": ("\\begin{enumerate}\n", "\\end{enumerate}\n\n"),
    "list_item": (r"\item ", "\n"),
}
SIGNS = {
    **{sign: f"\\{sign}" for sign in "{}$&#_%"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", chr(0xA0): "~", "’": "'", "‘": "`", "“": "``", "”": "''", "–": "--", "—": "---",
    "σ": r"$\sigma$", "ρ": r"$\rho$", "µ": r"$\mu$", "×": r"$\times$", "−": "$-$", "≤": r"$\leq$", "≥": r"$\geq$", "√": r"$\surd$",
    "…": r"\dots{}", "→": r"$\to$",
}  # fmt: skip
HEAD = r"""\documentclass[sigconf,nonacm]{acmart}
\usepackage{array}
\settopmatter{printacmref=false}
% \result{KEY}{TEXT}: a number of the book; notebooks/NAME.ipynb writes what KEY says, `NAME.key` or a cell of its table.
\newcommand{\result}[2]{#2}
\begin{document}
\title{TITLE}
\author{Authors}
\affiliation{\institution{placeholder, filled in at submission}\country{}}
ABSTRACT\maketitle
"""


def whole(title: str, body: str, numbers: Mapping[str, Mapping[str, str]], cites: bool) -> str:
    """The document: abstract and keywords where the class wants them, the body, the references."""
    front = ""
    for name, before, after in (("Abstract", "\\begin{abstract}\n", "\\end{abstract}\n"), ("Keywords", r"\keywords{", "}\n")):
        part = re.search(rf"\\section\{{{name}\}}\n(.*?)(?=\\section\{{)", body, re.DOTALL)
        if part:
            front += before + part[1].strip() + ("\n" if name == "Abstract" else "") + after
            body = body.replace(part[0], "", 1)
    tail = "\\bibliographystyle{ACM-Reference-Format}\n\\bibliography{references}\n" if cites else ""
    return HEAD.replace("TITLE", text(title)).replace("ABSTRACT", front) + body + tail + "\\end{document}\n"


def text(words: str) -> str:
    """Plain text: signs that LaTeX reads as markup are escaped."""
    if strange := sorted({sign for sign in words if ord(sign) > 0x17F and sign not in SIGNS}):
        raise InputError(f"no LaTeX is known for {strange[0]!r}; it belongs into SIGNS")
    return "".join(SIGNS.get(sign, sign) for sign in words.replace("--", "-\0-")).replace("\0", "{}")


def code(words: str) -> str:
    """Code in a line; it may break behind slashes, dots, underscores and equals signs."""
    return rf"\texttt{{{re.sub(r'(?<=[/._=])(?=.)', lambda _: chr(92) + 'allowbreak{}', text(words))}}}"


def heading(level: int, inside: str) -> str:
    """A heading."""
    return f"\\{'sub' * (level - 1)}section{{{inside}}}\n"


def link(address: str, shown: str) -> str:
    """A link to the web."""
    return rf"\href{{{text(address)}}}{{{shown}}}"


def number(key: str, shown: str) -> str:
    """A number with the key of its result."""
    return rf"\result{{{text(key)}}}{{{shown}}}"


def cite(keys: Sequence[str]) -> str:
    """References."""
    return rf"\cite{{{','.join(keys)}}}"


def math(tex: str) -> str:
    """A displayed formula."""
    return f"\\begin{{equation*}}\n{tex}\n\\end{{equation*}}\n\n"


def figure(file: str, wide: bool, title: str, caption: str) -> str:
    """A picture with its title and caption; a wide one over both columns."""
    name, words = f"figure{'*' * wide}", rf"\textbf{{{title}.}} {caption}" if title else caption
    picture = rf"\includegraphics[width=\linewidth]{{{file}}}"
    return f"\\begin{{{name}}}[t]\n\\centering\n{picture}\n\\caption{{{words}}}\n\\Description{{{title or caption}}}\n\\end{{{name}}}\n\n"


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table with its head first; one of more than five columns over both columns of the page."""
    from analysis.artifact.publishing.paper import widths

    shares = widths(rows, r"\\result\{[^{}]*\}|\\\w+|[{}]")
    columns = [rf"p{{\dimexpr {share / sum(shares):.3f}\linewidth-2\tabcolsep}}" for share in shares]
    head, *lines = (" & ".join(row) + r" \\" for row in rows)
    spec = "".join(rf">{{\raggedright\arraybackslash}}{column}" for column in columns)
    made = "\n".join([rf"\begin{{tabular}}{{{spec}}}", r"\toprule", head, r"\midrule", *lines, r"\bottomrule", r"\end{tabular}"])
    if len(rows[0]) > 5:
        return f"\\begin{{table*}}[t]\n\\small\n{made}\n\\end{{table*}}\n\n"
    return f"{{\\small\\noindent\n{made}\n\\par}}\n\n"
