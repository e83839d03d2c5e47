"""What a page says of blindness is rendered from the log of attempts: nothing of the kind is typed."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pandas as pd
import pytest

from analysis.artifact.claims import blindness
from analysis.artifact.publishing.pages import number
from analysis.errors import InputError
from analysis.paths import BOOK, NOTEBOOKS, RESULTS, ROOT
from analysis.studies import attempts
from analysis.tables import read_csv

CLAIM = re.compile(
    r"left[- ]out|leav(?:e|es|ing) (?:\w+ ){1,3}out\b|leave-one-\w+-out|held[- ]out|\bunseen\b|t(?:ook|ake|akes) no part|scored once"
    r"|\b(?:never|not) seen\b|\b(?:has|have|had) seen\b|nobody had read|\bblind(?:ly|ness)?\b|no constant (?:was|is) fitted"
    r"|nothing (?:was|is) (?:chosen|fitted)|(?:was|were|is|are) not fitted|no fit saw|fitted to nothing|without a fit|with nothing fitted"
    r"|before (?:any|the first) (?:[\w-]+ ){0,4}(?:is|was|were) (?:seen|scored|looked)|before the first score",
    re.IGNORECASE,
)
SKIPPED = re.compile(r"```(?!\{result-table\}).*?```|\{\w+\}`[^`]*`|`[^`\n]*`|\]\([^)]*\)|^:(?!caption:)\w+:.*$", re.DOTALL | re.MULTILINE)
PAGES = [*sorted(BOOK.glob("*.md")), *sorted(NOTEBOOKS.glob("*.ipynb")), ROOT / "README.md"]
ROLE = re.compile(r"\{blind\}`([^`]*)`")


def text_of(page: Path) -> str:
    """What a reader reads: a page, or the cells of text of a notebook."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return text
    return "\n\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")


def claims(text: str) -> list[str]:
    """Phrases of blindness outside the role, with what stands before each."""
    plain = SKIPPED.sub(" ", text)
    return [" ".join(plain[max(0, found.start() - 40) : found.end() + 20].split()) for found in CLAIM.finditer(plain)]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_no_claim_of_blindness_is_typed(page: Path) -> None:
    assert claims(text_of(page)) == [], "write {blind}`study` or {blind}`words <study>` (data/evaluation/blindness.yaml)"


def captions_of(notebook: Path) -> list[str]:
    """The constant parts of every caption that a notebook gives a figure."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    found = []
    for cell in (cell for cell in cells if cell["cell_type"] == "code"):
        for call in (node for node in ast.walk(ast.parse("".join(cell["source"]))) if isinstance(node, ast.Call)):
            for word in (word.value for word in call.keywords if word.arg == "caption"):
                found += [part.value for part in ast.walk(word) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return found


@pytest.mark.parametrize("notebook", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_no_caption_claims_blindness(notebook: Path) -> None:
    assert [line for caption in captions_of(notebook) for line in claims(caption)] == []


@pytest.mark.parametrize(
    "text",
    [
        "on families that took no part",
        "rows that nobody had read",
        "with the architecture\nleft out",
        "scored once",
        "before any AMD device is seen",
        "```{result-table} a/b\n:caption: a device left out\n```",
    ],
)
def test_the_phrases_are_recognised(text: str) -> None:
    assert claims(text) and not claims(f"{{blind}}`{text.split(chr(10))[0]} <serving>`")


def test_every_study_is_named_by_a_page_and_leads_to_its_log() -> None:
    log, used = attempts.read(), set()
    for page in PAGES:
        for content in ROLE.findall(text_of(page)):
            used.add(content.rpartition("<")[2].rstrip(">") if "<" in content else content)
    known = blindness.studies()
    assert used <= set(known)
    for name, study in known.items():
        counted = blindness.looks(study, log)
        assert counted.tried >= 1, name
        assert all((ROOT / file).is_file() for file in study.files), name
        if study.test:
            file, _, test = study.test.partition("::")
            assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), name
        for score in study.scores:
            if score.where:
                assert re.fullmatch(r"commit [0-9a-f]{7}: data/frozen/\S+\.csv", score.where), (name, score.of)
                continue
            (row,) = log[(log["experiment"] == score.experiment) & (log["attempt"] == score.attempt)].head(1).to_dict("records")
            if score.fragment:
                digits = score.first.removesuffix(" %")
                assert score.fragment in str(row["note"]), (name, score.of)
                assert digits in score.fragment or f"{float(digits) / 100:.3f}" in score.fragment, (name, score.of)
            else:
                value = float(row[score.column])
                decimals = len(score.first.removesuffix(" %").partition(".")[2])
                assert score.first in (f"{value:.{decimals}f} %", f"{100 * value:.{decimals}f} %"), (name, score.of)


def test_the_log_convicts_as_an_audit_counted() -> None:
    """At least what an audit read in the log: kernels 52 looks, 26 of them selections by these looks; training 3, 6 and 7 to 12."""
    log, known = attempts.read(), blindness.studies()
    kernels, training = (blindness.looks(known[name], log) for name in ("kernels", "training"))
    assert kernels.looks >= 52 and kernels.helped >= 26
    assert training.helped >= 8
    assert blindness.looks(known["serving_others"], log).helped >= 3  # 10, 51, 54
    assert blindness.looks(known["elsewhere"], log).helped >= 1
    assert blindness.looks(known["energy"], log).helped == 0


def test_a_look_that_helped_is_counted_by_value_or_by_words() -> None:
    rows = attempts.rows(
        [
            {"configuration": "a", "selection_value": 3.0, "test_value": 3.0},
            {"configuration": "b", "selection_value": 3.0, "test_value": 4.0},
            {"configuration": "c", "test_value": 4.0, "note": "tried after the coverage of all families was seen"},
            {"configuration": "d", "selection_value": 2.0},
        ],
        room="x", experiment="e", fitted_on="others", tested_on="judged rows",
    )  # fmt: skip
    study = blindness.Study(left_out="the family", files=(), experiments=("e",), scores=())
    assert blindness.looks(study, rows) == blindness.Looks(4, 3, 2)
    said = blindness.sentence(study, blindness.looks(study, rows), str)
    assert "tried 4 variants and looked at the held-out score of 3 of them" in said and "helped us to choose at least 2 times" in said
    alone = blindness.sentence(study, blindness.looks(study, rows.iloc[1:2]), str)
    assert "We tried one form" in alone
    assert "never helped us" in blindness.sentence(study, blindness.looks(study, pd.concat([rows.iloc[1:2], rows.iloc[3:]])), str)


@pytest.mark.parametrize("words", ["families that took no part", "unseen architectures", "scored once"])
def test_strong_words_are_refused_where_the_log_contradicts_them(words: str) -> None:
    with pytest.raises(InputError, match="helped to choose"):
        blindness.said(f"{words} <kernels>", str)
    with pytest.raises(InputError, match="unknown study"):
        blindness.said("left out <no_such_study>", str)


@pytest.mark.skipif(not (RESULTS / "measured_suite" / "numbers.json").exists(), reason="no results yet: make book")
def test_first_scores_stand_beside_todays() -> None:
    """The first scores that the log holds for training: 12.2, 8.3, 1.5 and 8.7 % (attempt 2)."""
    said = blindness.said("training", lambda name: number(name)["text"]).sentence
    assert all(f"{first} %; today's" in said for first in ("12.2", "8.3", "1.5", "8.7"))
    shown = blindness.frame(lambda name: number(name)["text"])
    assert {"9.8 %", "27.0 %"} <= set(shown.loc[shown["study"] == "serving_others", "first"])
    assert len(read_csv(attempts.PATH)) > 700
