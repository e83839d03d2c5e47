"""Is a number typed into a chapter that a results file gives?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from analysis.artifact.claims.addresses import cell, is_address
from analysis.artifact.claims.prose import numbers_of
from analysis.artifact.claims.results import Results

SKIPPED_BLOCK = re.compile(r"^(`{3,}|~{3,}|:{3,}|\$\$)")
SKIPPED_INLINE = re.compile(r"\{\w+(?::\w+)?\}`[^`]*`|`[^`]*`|\$[^$]*\$|\]\([^)]*\)|<[^>]*>|https?://\S+")
NUMBER = re.compile(r"(?<![\w.,/§-])[-−]?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w.]*\d)|(?<![\w.,/§-])[-−]?\d+(?:\.\d+)?(?![\w.,]*\d)")
BARE = re.compile(r"\$\s*([-−]?[\d.,]+)\s*(?:\\?%)?\s*\$")
SIGNIFICANT = 3


def known_numbers(results: str | Path, pages: Iterable[Path] = ()) -> dict[str, str]:
    """Printed form, without unit and thousands separators -> what `{num}` takes, for every number that notebooks give to the prose.

    These are the numbers that a notebook names, and the cells that a page addresses.

    Quotations (kind cited) are left out: a document's own figure may stand in a sentence about it.
    """
    found: dict[str, str] = {}
    for path in sorted(Path(results).glob("*/numbers.json")):
        for key, entry in json.loads(path.read_text(encoding="utf-8")).items():
            if isinstance(entry["value"], (int, float)) and entry["kind"] != "cited":
                _note(found, entry["text"], f"{path.parent.name}.{key}")
    tables = Results(Path(results))
    for name in sorted({name for page in pages for _, name in numbers_of(page) if is_address(name)}):
        one = cell(name, tables)
        if one.kind != "cited":
            _note(found, one.text, name)
    return found


def _note(found: dict[str, str], text: str, name: str) -> None:
    if match := re.fullmatch(r"[-−]?[\d,]*\.?\d+", text.split(" ")[0]):
        found.setdefault(normal(match[0]), name)


def normal(text: str) -> str:
    """A number's digits without thousands separators, with a plain minus."""
    return text.replace(",", "").replace("−", "-")


def telling(text: str) -> bool:
    """Whether a number is long enough that meeting it twice is no accident: three significant digits, and not a year or a round number."""
    digits = normal(text).lstrip("-").replace(".", "").lstrip("0")
    if "." not in text:
        digits = digits.rstrip("0")
        if len(normal(text).lstrip("-")) <= 4:
            return False
    return len(digits) >= SIGNIFICANT


def prose_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """The lines of a chapter with code, maths, roles, links and directives taken out, with their numbers.

    A number alone between dollar signs is no formula and stays.
    """
    fence = ""
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        mark = SKIPPED_BLOCK.match(line.strip())
        if mark:
            if not fence:
                fence = mark[1]
            elif line.strip().startswith(fence):
                fence = ""
            continue
        if not fence:
            yield number, SKIPPED_INLINE.sub(" ", BARE.sub(r"\1", line))


def typed_numbers(book: str | Path, results: str | Path) -> list[str]:
    """Numbers typed into chapters although a results file gives them, a line each with the role to write instead."""
    chapters = sorted(Path(book).glob("*.md"))
    known = known_numbers(results, chapters)
    lines = []
    for path in chapters:
        for number, text in prose_lines(path):
            for match in NUMBER.finditer(text):
                key = known.get(normal(match[0]))
                if key and telling(match[0]):
                    lines.append(f"{path.parent.name}/{path.name}:{number}: {match[0]} is typed by hand; write {{num}}`{key}`")
    return lines
