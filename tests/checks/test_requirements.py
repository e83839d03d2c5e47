"""An item marked done names a page, a notebook and a test that exist; so does what the second reading of the documents calls whole."""

import random

import pytest

from analysis.documents import is_file
from analysis.errors import InputError
from analysis.paths import DATA, ROOT
from analysis.studies.written_tables import columns_of
from analysis.tables import read_csv
from tests.checks.requirements import Requirement, not_shown, problems, read_requirements


def table(tmp_path, *rows):
    path = tmp_path / "requirements.csv"
    lines = [",".join([str(number), "A", "core", "text", "survey", *row]) for number, row in enumerate(rows, start=1)]
    path.write_text("\n".join([",".join(columns_of(Requirement)), *lines]) + "\n")
    for name in ("book/a.md", "notebooks/a.ipynb", "tests/test_a.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "tests" / "test_a.py").write_text("def test_scores():\n    assert True\n")
    (tmp_path / "data" / "results" / "a").mkdir(parents=True, exist_ok=True)
    (tmp_path / "data" / "results" / "a" / "manifest.json").write_text('{"tables": {"scores": {}}, "figures": {}}')
    return path


FULL = ("book/a.md", "notebooks/a.ipynb", "tests/test_a.py", "table a/scores; tests/test_a.py::test_scores", "done", "")


def test_done_with_all_three_is_fine(tmp_path):
    assert problems(read_requirements(table(tmp_path, FULL)), tmp_path) == []


@pytest.mark.parametrize("lacking", [0, 1, 2])
def test_done_without_one_of_the_three_fails(tmp_path, lacking):
    row = list(FULL)
    row[lacking] = ""
    assert problems(read_requirements(table(tmp_path, FULL, row)), tmp_path) == [
        f"requirement 2: marked done but names no {('page', 'notebook', 'test')[lacking]}"
    ]


def test_a_file_that_does_not_exist_fails(tmp_path):
    row = ("book/a.md; book/b.md", *FULL[1:])
    assert problems(read_requirements(table(tmp_path, row)), tmp_path) == ["requirement 1: page book/b.md does not exist"]


@pytest.mark.parametrize(
    ("shown_by", "message"),
    [
        ("", "marked done but nothing shows it"),
        ("figure a/scores", "figure a/scores is not among what the notebook writes"),
        ("table a/rank", "table a/rank is not among what the notebook writes"),
        ("table b/rank", "table b/rank: no such notebook"),
        ("tests/test_a.py::test_rank", "tests/test_a.py::test_rank is not defined"),
        ("tests/test_b.py::test_scores", "tests/test_b.py::test_scores is not defined"),
        ("a picture", "a picture: expected `table notebook/name`, `figure notebook/name` or `tests/file.py::test_name`"),
    ],
)
def test_what_shows_it_must_be_there(tmp_path, shown_by, message):
    row = (*FULL[:3], shown_by, *FULL[4:])
    assert problems(read_requirements(table(tmp_path, row)), tmp_path) == [f"requirement 1: {message}"]


def test_partly_and_later_need_a_reason(tmp_path):
    items = read_requirements(table(tmp_path, ("", "", "", "", "later", ""), ("", "", "", "", "partly", "no figure yet")))
    assert problems(items, tmp_path) == ["requirement 1: marked later but does not say what is missing"]


@pytest.mark.parametrize(("row", "message"), [(("", "", "", "", "finished", "x"), "status: .*got 'finished'")])
def test_unknown_status_is_refused(tmp_path, row, message):
    with pytest.raises(InputError, match=message):
        read_requirements(table(tmp_path, row))


def test_numbers_run_without_holes(tmp_path):
    path = table(tmp_path, FULL, FULL)
    path.write_text(path.read_text().replace("\n2,", "\n3,"))
    with pytest.raises(InputError, match="expected number 2, got '3'"):
        read_requirements(path)


def test_the_artifacts_own_table():
    items = read_requirements(DATA / "claims" / "requirements.csv")
    assert len(items) == 123
    assert [item.number for item in items if item.tag.startswith("core") and item.status == "later"] == []
    assert problems(items, ROOT) == []


NUMBERED = {
    "survey": [f"figure {n}" for n in range(1, 8)] + [f"table {n}" for n in range(1, 9)],
    "ml_survey": ["figure 1", *[f"table {n}" for n in range(1, 6)]],
    "plan": ["table of tools", "table of issues"],
    "stablehlo": [*[f"figure {n}" for n in range(1, 13)], "table IV"],
    "neuroscalar": [f"figure {n}" for n in range(1, 6)]
    + [f"table {n}" for n in range(1, 8)]
    + [f"appendix, {a}" for a in ("parameters", "metrics", "pairs")],
}  # the captions and references of the five texts, read through on 2026-11-26; the plan numbers none


def test_the_second_reading_names_every_exhibit_and_shows_or_says_what_it_calls_whole():
    rows = read_csv(DATA / "claims" / "second_reading.csv", keep_default_na=False)
    exhibits = rows[rows["place"].str.match("(figure|table|appendix, )")]
    assert {document: sorted(part) for document, part in exhibits.groupby("document")["place"]} == {
        d: sorted(n) for d, n in NUMBERED.items()
    }
    assert not rows.duplicated(["document", "place", "thing"]).any()
    for row in rows.itertuples():
        named = f"{row.document}, {row.place}, {row.thing}"
        assert row.state in ("whole", "said", "partly", "absent"), named
        assert (row.missing == "") == (row.state in ("whole", "said")), f"{named}: what is missing"
        assert bool(row.shown_by) + bool(row.sentence) == (row.state != "absent"), f"{named}: shown by one thing or by words"
        assert row.sentence or row.state != "said", f"{named}: a sentence says why not"
        assert not_shown(row.shown_by, ROOT) == [], named
        kind, _, name = row.shown_by.partition(" ")
        wanted = row.sentence or (f"```{{result-{kind}}} {name}" if kind in ("table", "figure") else "")
        assert row.state == "absent" or wanted in " ".join((ROOT / row.page).read_text(encoding="utf-8").split()), (
            f"{named}: not on {row.page}"
        )


@pytest.mark.parametrize(
    "item", random.Random(35).sample(read_requirements(DATA / "claims" / "requirements.csv"), 10), ids=lambda item: item.number
)
def test_a_requirement_fails_when_what_shows_it_is_removed(tmp_path, item):
    shown = [one.strip() for one in item.shown_by.split(";") if one.strip()]
    files = [name.strip() for column in (item.page, item.notebook, item.test) for name in column.split(";") if name.strip()]
    files += [one.partition("::")[0] for one in shown if "::" in one]
    files += [f"data/results/{one.split()[1].split('/')[0]}/manifest.json" for one in shown if "::" not in one]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if is_file(ROOT / name):
            (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    assert problems([item], tmp_path) == []
    for one in shown:
        thing, _, key = one.replace("::", " ").replace("/", " ", "::" not in one).rpartition(" ")
        path = tmp_path / (thing if "::" in one else f"data/results/{thing.split()[1]}/manifest.json")
        if not is_file(path):
            continue  # not built here
        kept = path.read_text(encoding="utf-8")
        path.write_text(kept.replace(f"def {key}(" if "::" in one else f'"{key}"', '"gone"'), encoding="utf-8")
        assert [line for line in problems([item], tmp_path) if one in line], f"requirement {item.number} stands without {one}"
        path.write_text(kept, encoding="utf-8")
