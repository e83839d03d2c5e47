"""The bibliography: whole, without doubles, refused with file and line when broken; and readable by the book's own parser."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.artifact.survey.bibliography import frame, load_bibliography, missing_fields, normal, printed_names, surnames, venue_short
from analysis.errors import InputError
from analysis.paths import ROOT

BIB = ROOT / "bib" / "references.bib"
ENTRY = """@article{one2020a,
  author = {Ada One and Bob Two},
  title = {{A Title}},
  journal = {A Journal},
  year = {2020},
  doi = {10.1000/one},
  x-category = {gpu},
  x-role = {related},
  x-cited-in = {000:1; 001:2},
  x-verified = {primary},
  x-source-seen = {somewhere},
}
"""


@pytest.fixture(scope="module")
def works():
    return {reference.key: reference for reference in load_bibliography(BIB)}


def test_union_of_all_lists(works):
    """Every number of the four reference lists stands for a record: 000 cites 1 to 92, 001 lists 20, 003 lists 59, 004 lists 33."""
    cited = {(document, number) for work in works.values() for document, number in work.cited_in}
    for document, count in (("000", 92), ("001", 20), ("003", 59), ("004", 33)):
        assert {(document, str(n)) for n in range(1, count + 1)} <= cited


def test_known_corrections(works):
    neusight = works["lee2025neusight"]  # OpenAlex, doi 10.1145/3669940.3707265
    assert neusight.title == "Forecasting GPU Performance for Deep Learning Training and Inference"
    assert neusight.authors == ("Seonho Lee", "Amar Phanishayee", "Divya Mahajan")
    habitat = works["yu2021habitat"]  # https://usenix.org/conference/atc21/presentation/yu
    assert habitat.authors == ("Geoffrey X. Yu", "Yubo Gao", "Pavel Golikov", "Gennady Pekhimenko")
    assert works["kwon2019understanding"].doi == "10.1145/3352460.3358252"  # printed ...58292
    assert "Vivek Sarkar" in works["kwon2019understanding"].authors  # missing in both printed lists
    assert works["wang2025simai"].authors[-2:] == ("Dennis Cai", "Binzhang Fu")  # conference programme of NSDI 2025
    assert works["rakhshanfar2021survey"].verified == "not found"


def test_every_checked_record_says_where(works):
    for work in works.values():
        assert work.verified == "not found" or work.source_seen, work.key
        assert work.role and work.category and work.cited_in


def test_names_survive_the_books_parser(works):
    """sphinxcontrib-bibtex reads the file with pybtex: the same keys, the same number of authors, every entry can be formatted."""
    from pybtex.database import parse_file
    from pybtex.plugin import find_plugin

    data = parse_file(str(BIB))
    assert set(data.entries) == set(works)
    for key, entry in data.entries.items():
        assert len(entry.persons["author"]) == len(works[key].authors), key
    style = find_plugin("pybtex.style.formatting", "unsrt")()
    backend = find_plugin("pybtex.backends", "text")()
    texts = [entry.text.render(backend) for entry in style.format_entries(data.entries.values())]
    assert len(texts) == len(works)
    assert any("In-Datacenter Performance Analysis of a Tensor Processing Unit" in text for text in texts)  # capitals kept


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (ENTRY + ENTRY, 13, "key given twice"),
        (ENTRY + ENTRY.replace("one2020a", "two2020b").replace("A Title", "Other"), 13, "same DOI as one2020a"),
        (ENTRY + ENTRY.replace("one2020a", "two2020b").replace("10.1000/one", "10.1000/two"), 13, "same title as one2020a"),
        (ENTRY.replace("  year = {2020},\n", "  year = {2020},\n  year = {2021},\n"), 1, "field given twice: year"),
        (ENTRY.replace("{2020}", "{20x0}"), 1, "year: Input should be a valid integer"),
        (ENTRY.replace("10.1000/one", "doi:10.1000"), 1, "doi: String should match"),
        (ENTRY.replace("{primary}", "{maybe}"), 1, "x-verified: Input should be 'primary'"),
        (ENTRY.replace("  x-role = {related},\n", ""), 1, "x-role: required key is missing"),
        (ENTRY.replace("{somewhere}", "{}"), 1, "must say where"),
        (ENTRY.replace("000:1", "7:1"), 1, "document:number"),
        (ENTRY.replace("@article", "@thesis"), 1, "kind: Input should be 'article'"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, text: str, line: int, words: str):
    path = tmp_path / "broken.bib"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_bibliography(path)
    assert words in str(caught.value)
    assert caught.value.line == line
    assert "\n" not in str(caught.value)


def test_cut_off_file_is_refused(tmp_path: Path):
    path = tmp_path / "cut.bib"
    path.write_text(BIB.read_text(encoding="utf-8")[:5000].rsplit("}", 1)[0], encoding="utf-8")
    with pytest.raises(InputError):
        load_bibliography(path)


def test_missing_file():
    with pytest.raises(InputError, match="cannot be read"):
        load_bibliography(ROOT / "bib" / "absent.bib")


def test_incomplete_records_are_named(works):
    assert "full author list" in missing_fields(works["jouppi2017tpu"])
    assert missing_fields(works["parashar2019timeloop"]) == ()


def test_frame_keeps_all(works):
    table = frame(works.values())
    assert list(table["key"]) == sorted(works)
    assert venue_short(works["parashar2019timeloop"]) == "ISPASS"
    assert venue_short(works["feng2024echo"]) == "arXiv"


def test_printed_names():
    assert printed_names("A. One, B. Two, and C. Three et al.") == ("A. One", "B. Two", "C. Three")
    assert surnames(["Ondřej Sýkora", "others"]) == ("sykora",)


@given(st.text(max_size=40))
def test_normal_is_idempotent(text: str):
    assert normal(normal(text)) == normal(text)
