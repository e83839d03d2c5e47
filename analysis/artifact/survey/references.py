"""The reference lists as printed, against the corrected bibliography and against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

from analysis.artifact.survey.bibliography import Reference, normal, printed_names, surnames
from analysis.studies.written_tables import Row, read_rows

FIELDS = ("title", "authors", "given names", "year", "pages", "doi")


class Printed(Row):
    """One entry of a document's reference list, as printed; all empty where the list is cut off in the copy we have.

    Attributes:
        document, number: s000 to s004 and the number in its list.
        key: the work it stands for.
        authors, title, year, pages, doi, arxiv: as printed.
    """

    document: str
    number: int
    key: str
    authors: str
    title: str
    year: int | None = None
    pages: str
    doi: str
    arxiv: str


def load_printed(path: str | Path, keys: Mapping[str, Reference]) -> tuple[Printed, ...]:
    """Read the printed reference lists."""
    return read_rows(path, Printed, unique=("document", "number"), known={"key": keys})


def _compared(one: Printed, other: Printed | Reference, names: Sequence[str], others: Sequence[str], authors_differ: bool) -> list[str]:
    """Fields in which two entries differ; one that is empty on either side is not compared.

    Args:
        names, others: their authors, for the given names where the surnames are the same; authors_differ: where they are not.
    """
    found = ["title"] if normal(one.title) != normal(other.title) else []
    if authors_differ:
        found.append("authors")
    elif _given_names_differ(names, others):
        found.append("given names")
    for field, own, theirs in (
        ("year", one.year, other.year),
        ("pages", one.pages, other.pages.replace("--", "-")),
        ("doi", one.doi.lower(), other.doi.lower()),
    ):
        if own and theirs and own != theirs:
            found.append(field)
    return found


def differences(printed: Printed, record: Reference) -> tuple[str, ...]:
    """Fields in which a printed entry differs from the corrected record.

    Authors differ when the printed surnames are not the first surnames of the record, in order; "given names" stands for the
    right surnames with another first name. A field that is empty on either side is not compared.
    """
    if not printed.title:
        return ("not printed",)
    names = printed_names(printed.authors)
    own, theirs = surnames(names), surnames(record.authors)
    open_list = any(normal(name) == "others" for name in record.authors)
    differ = bool(own and theirs) and (own[: len(theirs)] if open_list else own) != theirs[: len(own)]
    return tuple(_compared(printed, record, names, record.authors, differ))


def _given_names_differ(own: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether two people with one surname have given names of which neither begins with the other (initials are not compared)."""
    for a, b in zip(own, theirs, strict=False):
        if len(a.split()) < 2 or len(b.split()) < 2:
            continue
        if "." in a.split()[0] + b.split()[0]:
            continue
        first, second = normal(a.split()[0]), normal(b.split()[0])
        if not first.startswith(second) and not second.startswith(first):
            return True
    return False


def disagreements(printed: Sequence[Printed]) -> tuple[tuple[str, str, str, str], ...]:
    """Works that two documents print differently.

    Returns:
        (key, first document, second document, fields that differ, comma-separated).
    """
    by_key: dict[str, list[Printed]] = {}
    for entry in printed:
        if entry.title:
            by_key.setdefault(entry.key, []).append(entry)
    found = []
    for key, entries in sorted(by_key.items()):
        for first, second in combinations(entries, 2):
            if first.document == second.document:
                continue
            names, others = printed_names(first.authors), printed_names(second.authors)
            a, b = surnames(names), surnames(others)
            shared = min(len(a), len(b))
            differ = a[:shared] != b[:shared] or (len(a) != len(b) and "et al" not in first.authors + second.authors)
            fields = _compared(first, second, names, others, differ)
            if fields:
                found.append((key, first.document, second.document, ", ".join(fields)))
    return tuple(found)
