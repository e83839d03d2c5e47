"""The bibliography: one record a work, read from BibTeX and refused when broken or given twice."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import bibtexparser
import pandas as pd
from bibtexparser.model import DuplicateBlockKeyBlock, DuplicateFieldKeyBlock, Entry
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from analysis.configs import told
from analysis.documents import read_text
from analysis.errors import InputError

WANTED = {
    "article": ("journal", "year", "volume", "pages"),
    "inproceedings": ("booktitle", "year", "pages"),
    "misc": ("howpublished", "year"),
}
COLUMNS = [
    *("key", "kind", "title", "authors", "venue", "venue_short", "year", "pages", "doi", "arxiv", "category", "role", "cited_in"),
    *("verified", "corrected", "source_seen", "note"),
]


def _plain(text: str) -> str:
    return " ".join(text.replace("{", "").replace("}", "").replace("\\&", "&").split())


def _names(text: Any) -> Any:
    return tuple(_plain(name) for name in " ".join(text.split()).split(" and "))


def _cited(text: Any) -> Any:
    found = [re.fullmatch(r"\s*(00[0-4]|book):?([\d-]*)\s*", part) for part in text.split(";")]
    if None in found:
        raise ValueError("must be document:number pairs such as 000:57; 001:12")
    return tuple((match[1], match[2]) for match in found if match)


Plain = Annotated[str, BeforeValidator(_plain)]


class Reference(BaseModel):
    """One work.

    Attributes:
        key, kind: citation key and entry type (article, inproceedings, misc).
        title, authors, venue, year: as corrected; year is None where none is known.
        pages, doi, arxiv, url: empty where unknown.
        category, role: subject, and surveyed, foundational, related or context.
        cited_in: pairs (document, number in its list), for example ("000", "57").
        verified: primary, secondary or not found.
        source_seen, corrected, note: where it was checked, what a document prints otherwise, remarks.
        line: line in the file.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    key: str
    kind: Literal["article", "inproceedings", "misc"]
    title: Plain
    authors: Annotated[tuple[str, ...], BeforeValidator(_names)] = Field(alias="author")
    venue: Plain
    year: int | None = Field(default=None, ge=1900, lt=2100)
    pages: str = ""
    doi: str = Field(default="", pattern=r"^10\.\d{4,9}/\S+$")
    arxiv: str = Field(default="", alias="eprint", pattern=r"^\d{4}\.\d{4,5}$")
    url: str = ""
    category: str = Field(alias="x-category")
    role: Literal["surveyed", "foundational", "related", "context"] = Field(alias="x-role")
    cited_in: Annotated[tuple[tuple[str, str], ...], BeforeValidator(_cited)] = Field(alias="x-cited-in")
    verified: Literal["primary", "secondary", "partial", "not found"] = Field(alias="x-verified")
    source_seen: str = Field(default="", alias="x-source-seen")
    corrected: str = Field(default="", alias="x-corrected")
    note: str = Field(default="", alias="x-note")
    line: int

    @model_validator(mode="after")
    def _says_where_it_was_checked(self) -> Reference:
        if self.verified != "not found" and not self.source_seen:
            raise InputError("a checked record must say where it was checked", key="x-source-seen")
        return self


def load_bibliography(path: str | Path) -> tuple[Reference, ...]:
    """Read a BibTeX file and check that every record is whole and given once.

    Source: field conventions in the head of bib/references.bib.
    """
    path = Path(path)
    text = read_text(path)
    try:
        library = bibtexparser.parse_string(text)
    except Exception as error:  # the parser is another project's: whatever it trips over, the file is at fault
        raise InputError(f"not a BibTeX file: {type(error).__name__}: {error}", path=path) from None
    for block in library.failed_blocks:
        line = (block.start_line or 0) + 1
        if isinstance(block, DuplicateBlockKeyBlock):
            raise InputError("key given twice", path=path, line=line, key=block.key)
        if isinstance(block, DuplicateFieldKeyBlock):
            raise InputError(f"field given twice: {', '.join(sorted(block.duplicate_keys))}", path=path, line=line)
        raise InputError("not a BibTeX entry (unbalanced braces or a missing comma?)", path=path, line=line)
    opened = len(re.findall(r"^[ \t]*@\s*(?!comment|string|preamble)\w+\s*[{(]", text, flags=re.MULTILINE | re.IGNORECASE))
    if opened != len(library.entries):
        raise InputError(f"{opened} entries begin but {len(library.entries)} can be read: an entry is not closed", path=path)
    references = tuple(_reference(entry, path) for entry in library.entries)
    _refuse_twice(references, path)
    return references


def _reference(entry: Entry, path: Path) -> Reference:
    line = (entry.start_line or 0) + 1
    written = {name.lower(): str(field.value).strip() for name, field in entry.fields_dict.items()}
    fields = {name: text for name, text in written.items() if text}
    venue = fields.get("journal") or fields.get("booktitle") or fields.get("howpublished", "")
    try:
        return Reference.model_validate({**fields, "key": entry.key, "kind": entry.entry_type, "venue": venue, "line": line})
    except ValidationError as error:
        key, message = told(error)
        raise InputError(message, path=path, line=line, key=f"{entry.key}.{key}") from None


def _refuse_twice(references: Iterable[Reference], path: Path) -> None:
    seen: dict[tuple[str, str], Reference] = {}
    for reference in references:
        for kind, value in (("DOI", reference.doi), ("arXiv number", reference.arxiv), ("title", normal(reference.title))):
            if not value:
                continue
            other = seen.setdefault((kind, value.lower()), reference)
            if other is not reference:
                raise InputError(f"same {kind} as {other.key} (line {other.line})", path=path, line=reference.line, key=reference.key)


def normal(text: str) -> str:
    """Text reduced to what a comparison needs: no accents, case, spaces or punctuation."""
    folded = unicodedata.normalize("NFKD", text.replace("ø", "o").replace("Ł", "L").replace("ł", "l").replace("ı", "i"))
    return re.sub(r"[^a-z0-9]", "", folded.encode("ascii", "ignore").decode().lower())


def surnames(names: Iterable[str]) -> tuple[str, ...]:
    """Last word of each name, reduced by `normal`; "others" and "et al." are dropped."""
    words = [name.split()[-1] for name in names if name.split() and normal(name) not in ("others", "etal")]
    return tuple(normal(word) for word in words)


def printed_names(text: str) -> tuple[str, ...]:
    """Names of a printed author list such as "A. One, B. Two, and C. Three et al"."""
    text = re.sub(r",? ?et al\.?$", "", " ".join(text.split()))
    return tuple(part.strip() for part in re.split(r", ?(?:and )?| and ", text) if part.strip())


def frame(references: Iterable[Reference]) -> pd.DataFrame:
    """The bibliography as a table, one row a work, sorted by key."""
    rows = [
        r.model_dump()
        | {
            "authors": "; ".join(r.authors),
            "venue_short": venue_short(r),
            "pages": r.pages.replace("--", "-"),
            "cited_in": "; ".join(f"{document}:{number}" if number else document for document, number in r.cited_in),
        }
        for r in references
    ]
    table = pd.DataFrame(rows, columns=COLUMNS).sort_values("key", kind="stable").reset_index(drop=True)
    table["year"] = table["year"].astype("Int64")
    return table


def venue_short(reference: Reference) -> str:
    """Acronym of the venue: the last bracketed acronym of its name, the journal's name, or what a misc entry is."""
    found: list[str] = re.findall(r"\(([A-Z][A-Za-z ]{1,14}|NeurIPS|SBAC-PAD)\)", reference.venue)
    if found:
        return found[-1]
    if reference.venue.startswith("arXiv"):
        return "arXiv"
    if reference.kind == "misc":
        return "web or software"
    if "NeurIPS" in reference.venue:
        return "NeurIPS"
    if "CVPR" in reference.venue:
        return "CVPR workshops"
    return reference.venue


def missing_fields(reference: Reference) -> tuple[str, ...]:
    """Fields that a complete record of this kind would have and this one has not."""
    values = {
        "journal": reference.venue,
        "booktitle": reference.venue,
        "howpublished": reference.venue,
        "year": reference.year,
        "pages": reference.pages,
        "volume": "given with the venue",
    }
    absent = [name for name in WANTED[reference.kind] if not values[name]]
    if not (reference.doi or reference.arxiv or reference.url):
        absent.append("identifier")
    if any(normal(name) == "others" for name in reference.authors):
        absent.append("full author list")
    return tuple(absent)
