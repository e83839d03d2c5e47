"""How hard are the pages to read? Words, sentences, numbers and raw keys of each built page, against the limits that the book keeps."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

APART = ("notebooks", "genindex", "search", "index", "bibliography", "py-modindex", "glossary", "ledger", "claims", "columns", "commands")
"""Pages that document columns, commands or works, and those of notebooks: their text is a list."""
NAME = re.compile(
    r"\b(?:[A-Z][A-Za-z]*-?\s?\d+(?:\.\d+)?[A-Z]?|[A-Za-z]+\d+\w*|\d+[A-Za-z]+\w*"
    r"|(?:Llama|Qwen|GPT|Table|Fig\.|Figure|Chapter|Section|DeepSeek|Gemma|Mistral|Kimi|GLM|vLLM|CUDA|Python|version|MLPerf)[ -]v?[\d.]+)"
)
"""Names that hold digits: H100, 70B, FP8, Table 7."""
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?!\w)")
KEY = re.compile(r"[a-z0-9]+(_[a-z0-9]+)+")
SKIPPED = ("details", "pre", "code", "script", "style", "figcaption")
LIMITS = {"pages": 58, "words": 46_000, "mean": 17.5, "long": 3.0, "four": 3.0, "bracketed": 3.0, "keys": 50}
"""At most: pages, words, words per sentence, and the percentage of sentences above 35 words, with four numbers and with numbers in
brackets; cells that hold a key."""


class _Page(HTMLParser):
    """Text of paragraphs and list items of the article outside tables, code and folded parts, and the text of every cell."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.cells: list[str] = []
        self.depth = {"article": 0, "text": 0, "cell": 0, "skip": 0}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where the text that follows belongs."""
        self.depth["article"] += tag == "article"
        self.depth["skip"] += tag in SKIPPED
        if tag in ("td", "th"):
            self.depth["cell"] += 1
            self.cells.append("")
        if tag in ("p", "li") and self.depth["article"] and not self.depth["cell"]:
            if not self.depth["text"]:
                self.text.append("")
            self.depth["text"] += 1

    def handle_endtag(self, tag: str) -> None:
        """Note what ends here."""
        self.depth["article"] -= tag == "article"
        self.depth["skip"] -= tag in SKIPPED
        if tag in ("td", "th") and self.depth["cell"]:
            self.depth["cell"] -= 1
        if tag in ("p", "li") and self.depth["text"] and not self.depth["cell"]:
            self.depth["text"] -= 1

    def handle_data(self, data: str) -> None:
        """Keep text of sentences and cells."""
        if self.depth["cell"]:
            self.cells[-1] += data
        elif self.depth["text"] and not self.depth["skip"]:
            self.text[-1] += data


@dataclass(frozen=True)
class Reading:
    """Counts of a page, or of several added up.

    Attributes:
        length: words of all sentences of four words and more.
        long, four, bracketed: sentences above 35 words, with four numbers and more, with a number in brackets.
        keys: cells that hold a key of the data.
    """

    words: int = 0
    sentences: int = 0
    length: int = 0
    long: int = 0
    four: int = 0
    bracketed: int = 0
    keys: int = 0

    def __add__(self, other: Reading) -> Reading:
        return Reading(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def figures(self) -> dict[str, float]:
        """What the limits are on: words a sentence, and percentages of the sentences."""
        count = max(1, self.sentences)
        shares = {name: 100 * getattr(self, name) / count for name in ("long", "four", "bracketed")}
        return {"words": self.words, "mean": self.length / count, **shares, "keys": self.keys}


def read(page: str) -> Reading:
    """The counts of one page's HTML."""
    parser = _Page()
    parser.feed(page)
    parts = [re.split(r"(?<=[.?!])\s+(?=[A-Z])", " ".join(text.split())) for text in parser.text]
    sentences = [one for part in parts for one in part if len(one.split()) >= 4]
    plain = [NAME.sub("N", one) for one in sentences]
    lengths = [len(one.split()) for one in sentences]
    return Reading(
        words=sum(len(text.split()) for text in parser.text),
        sentences=len(sentences),
        length=sum(lengths),
        long=sum(length > 35 for length in lengths),
        four=sum(len(NUMBER.findall(one)) >= 4 for one in plain),
        bracketed=sum(bool(re.search(r"\([^()]*\d[^()]*\)", one)) for one in plain),
        keys=sum(bool(KEY.fullmatch(cell.strip())) for cell in parser.cells),
    )


@dataclass(frozen=True)
class Book:
    """Every counted page of a built book."""

    pages: dict[str, Reading] = field(default_factory=dict)

    def figures(self) -> dict[str, float]:
        """What the limits are on, of all pages together."""
        return {"pages": len(self.pages), **sum(self.pages.values(), Reading()).figures()}

    def beyond(self) -> list[str]:
        """Limits that the book does not keep, a line each, with the pages that are worst."""
        found, lines = self.figures(), []
        for name, limit in LIMITS.items():
            if round(found[name], 1) > limit:
                worst = sorted(self.pages, key=lambda page: -self.pages[page].figures().get(name, 0))[:5]
                lines.append(f"{name}: {found[name]:,.1f}, at most {limit:,}" + (f"; worst: {', '.join(worst)}" if name != "pages" else ""))
        return lines


def book(folder: Path) -> Book:
    """The counts of the pages under a folder, without those whose text is a list or empty."""
    found = {}
    for path in sorted(folder.rglob("*.html")):
        name = str(path.relative_to(folder))
        apart = "_static" in name or "_downloads" in name or name.split("/")[0].removesuffix(".html") in APART
        counts = Reading() if apart else read(path.read_text(encoding="utf-8", errors="replace"))
        if counts.sentences:
            found[name] = counts
    return Book(found)
