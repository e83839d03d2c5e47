"""Printed reference lists against the corrected bibliography."""

from __future__ import annotations

import re

import pytest

from analysis.artifact.publishing import pages
from analysis.artifact.survey.bibliography import load_bibliography
from analysis.artifact.survey.references import differences, disagreements, load_printed
from analysis.paths import DATA, ROOT


@pytest.fixture(scope="module")
def keys():
    return {r.key: r for r in load_bibliography(ROOT / "bib" / "references.bib")}


@pytest.fixture(scope="module")
def printed(keys):
    return load_printed(DATA / "survey" / "references_printed.csv", keys)


def entry(printed, document, number):
    return next(e for e in printed if (e.document, e.number) == (document, number))


def test_lists_are_complete(printed):
    """000 cites up to 92 (its list is cut after 81), 001 lists 20, 003 lists 59, 004 lists 33."""
    for document, count in (("s000", 92), ("s001", 20), ("s003", 59), ("s004", 33)):
        assert sorted(e.number for e in printed if e.document == document) == list(range(1, count + 1))
    assert sorted(e.number for e in printed if not e.title) == list(range(82, 93))


def test_every_citation_is_in_the_bibliography(printed, keys):
    for e in printed:
        assert (e.document[1:], str(e.number)) in keys[e.key].cited_in, (e.document, e.number, e.key)


@pytest.mark.parametrize(
    ("document", "number", "fields"),
    [
        ("s000", 48, {"title", "given names"}),  # NeuSight: invented title, Seunghyun for Seonho, pages 1-15 for 493-508
        ("s001", 17, {"authors"}),  # Habitat: Golber, Cidon
        ("s001", 16, {"authors", "pages", "doi"}),  # Sparseloop
        ("s003", 37, set()),  # NeuSight as it should be
        ("s001", 18, set()),  # nn-Meter
    ],
)
def test_known_differences(printed, keys, document, number, fields):
    e = entry(printed, document, number)
    found = set(differences(e, keys[e.key]))
    assert fields <= found and (fields or not found)


def test_corrected_entry_has_no_difference(printed, keys):
    e = entry(printed, "s001", 17)
    record = keys[e.key]
    right = {"authors": ", ".join(record.authors), "title": record.title, "pages": record.pages.replace("--", "-")}
    mended = e.model_copy(update=right)
    assert differences(mended, record) == ()


def test_documents_disagree_on_neusight_and_echo(printed):
    found = {(key, first, second) for key, first, second, _ in disagreements(printed)}
    assert ("lee2025neusight", "s000", "s003") in found
    assert ("feng2024echo", "s000", "s003") in found
    assert ("yang2025pytorchsim", "s000", "s003") in found


REST = r"[^\s,\"'>)]*"
DYING = re.compile(rf"https?://{REST}(deploy-preview|netlify\.app|scholar\?|/search\?|lanfanshu){REST}", re.IGNORECASE)


def test_no_address_is_a_preview_or_a_search():
    """Such pages vanish: BLIS was cited by a deploy preview, Simba by a mirror's page of search results."""
    files = [path for folder in ("data", "book", "bib") for path in (ROOT / folder).rglob("*.*")]
    skipped = {"results", "datasets"}
    found = {
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in files
        if path.suffix in (".csv", ".yaml", ".md", ".bib") and not skipped & set(path.relative_to(ROOT).parts) and path.stat().st_size < 3e6
        for match in DYING.finditer(path.read_text(encoding="utf-8", errors="replace"))
    }
    assert not found


def test_links_of_pages_are_http_or_within_the_book():
    """A link of another kind could run code: written in a page, or in a cell of a table."""
    schemes = re.compile(r"\]\(\s*<?([a-z][a-z0-9+.-]*):", re.IGNORECASE)
    for path in sorted((ROOT / "book").glob("*.md")):
        assert {scheme.lower() for scheme in schemes.findall(path.read_text())} <= {"http", "https", "doi"}, path.name
    for text in ("javascript:alert(1)", "JavaScript://x", "data:text/html,x", "vbscript:x", " https://a.b/c", "file:///etc/passwd"):
        assert "href" not in pages._html_cell(text, False)
    assert 'href="https://a.b/c?d=&quot;&gt;"' in pages._html_cell('https://a.b/c?d=">', False)
