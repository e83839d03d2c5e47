"""What the pages are made of, without a build: cells, titles, counts of sentences, plans of notebooks, packages, the article's markup."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pandas as pd
import pytest

from analysis.artifact.publishing import build, execute, package, pages, paper, paper_latex, paper_typst, plan, run, words
from analysis.errors import InputError
from analysis.paths import ROOT
from tests.checks import reading
from tests.golden import answer, kept


def test_cells_of_a_table() -> None:
    """Three figures, alike in a column of one size; whole numbers with thousands; years without; keys and yes and no in words."""
    columns: dict[str, list[Any]] = {
        "alike": [1.8, 2.2, 2.0, 999.0],
        "apart": [0.0012, 3.4, 56789.123, 1e20],
        "signed": [-1.25, 0.031, 4.5, 0.0],
        "whole": [1234567, -5, 0, 12],
        "small": [1e-5, 2e-5, 0.0, 3.3e-5],
        "yes": [True, False, True, False],
        "words": ["megatron_sc21", "x y", "True", "False"],
        "missing": [None, 1.5, float("nan"), 2.5],
        "large": [12345.6, 99999.9, 1000.4, 100.26],
        "version": ["3.8", "3.11", "3.9", "3.10"],
        "python": ["3.8", "3.11", "3.9", "3.10"],
        "year": [2019.0, 2020.0, float("nan"), 2021.0],
        "address": ["https://a.b/c_d?e=f&g", "http://x y", "no", "https://example.org/a/very/long/path-of-words.html"],
        "hash": ["0123456789abcdef0123456789abcdef0", "a-b", "a_very_long_word_of_many_parts", "<b>"],
        "energy_uj": [1.0, 2.0, 3.5, 4.25],
        "long": ["a sentence that is longer than forty-five letters, as prose is in a table"] * 4,
    }
    frame = pd.DataFrame(columns)
    about = dict.fromkeys(frame.columns, "what it is") | {"apart": "how far (ms)", "small": "share (percent)", "whole": "size (GiB)"}
    found: dict[str, Any] = {name: pages.cells(frame[[name]]) for name in frame.columns}
    found |= {f"precise {name}": pages.cells(pd.DataFrame({name: [1.234567891, 2.0, 1e7 / 3]})) for name in sorted(pages.PRECISE)}
    found["html"] = [pages._html_table(frame[list(columns)[:count]], about, "t").split("<tr>") for count in (2, 4, 9, 16)]
    found["empty"] = [
        pages._html_table(frame[["alike"]].iloc[:0], about, "t"),
        pages.cells(frame[[]]),
    ]
    found["titles"] = [
        words.heading(name, text)
        for name, text in (
            ("energy_uj", ""),
            ("tpot_ms", ""),
            ("ttft_lower_ms", ""),
            ("gpus", ""),
            ("mtap_score", ""),
            ("time", "how long (s)"),
            ("rate", "how many (1/s)"),
            ("memory_gib", "it (GiB)"),
            ("share", "a share (percent)"),
            ("cost", "price (EUR)"),
        )
    ]
    found["in words"] = [words.in_words(text) for text in ("megatron_sc21", "vllm_v1", "plain text", "x", "h100_sxm", "a_b_c")]
    kept("cells_of_pages", found)
    assert [pages._is_number(value) for value in (1, 2.5, np.float64(3), True, np.bool_(True), float("inf"), float("nan"), "1", None)] == [
        True,
        True,
        True,
    ] + [False] * 6
    assert pages.without_tags("a<b>c</b>d") == r"a\<b>c\</b>d"  # Markdown would read a tag


def test_a_figure_is_wide_from_430_points_on(tmp_path: Path) -> None:
    found = {}
    for width in ("429.9pt", "430pt", "430.1pt", "504pt"):
        (tmp_path / "f.svg").write_text(f'<?xml version="1.0"?>\n<svg width="{width}" height="10pt">\n</svg>\n')
        found[width] = pages.wide(tmp_path / "f.svg")
    assert list(found.values()) == [False, False, True, True]


SENTENCE = "One two three four five."
PAGE = f"""<html><p>Outside the article it is not counted at all.</p><article><h1>Title of words</h1>
<p>{SENTENCE} {"word " * 35}End. Three words only.</p>
<li>Numbers 1, 2.5, -3 and 4,000 are four of them. H100 and 70B (of 3) are names 1 2 3.</li>
<details><p>Folded text is not counted here.</p></details>
<table><tr><th>a_key</th><td>snake_case_key</td><td>no key</td><td><p>Text of a cell is no sentence here.</p></td></tr></table>
<p>In brackets (of 12 rows) there is a number. <code>1 2 3 4 5</code> stays out of it.</p></article></html>"""


def test_sentences_of_a_page_by_hand(tmp_path: Path) -> None:
    """Sentences of four words and more in paragraphs and lists; above 35 words long; four numbers, names apart; cells with keys."""
    got = reading.read(PAGE)
    assert (got.sentences, got.long, got.four, got.bracketed, got.keys) == (4, 1, 1, 2, 2)
    assert got.length == 41 + 10 + 10 + 13 and got.words == got.length + 3
    shares = {"long": 25.0, "four": 25.0, "bracketed": 50.0}
    assert got.figures() == pytest.approx({"words": 77, "mean": 74 / 4, **shares, "keys": 2})
    assert (got + got).sentences == 8 and reading.Reading().figures()["mean"] == 0
    for name in ("a.html", "search.html", "_static/b.html", "notebooks/c.html"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(PAGE)
    (tmp_path / "empty.html").write_text("<article></article>")
    book = reading.book(tmp_path)
    assert list(book.pages) == ["a.html"] and book.figures()["pages"] == 1
    assert [line.split(":")[0] for line in book.beyond()] == ["mean", "long", "four", "bracketed"] and "worst: a.html" in book.beyond()[0]


def test_costs_and_orders_of_notebooks_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """(wall + doubt) / (expected + doubt); the longest way to the end first; what a notebook needs comes before it."""
    assert build.slowdown({"a": {"wall_s": 30.0}, "x": {"wall_s": 99.0}}, {"a": 10.0, "b": 5.0}) == pytest.approx(50 / 30)
    assert build.slowdown({}, {"a": 10.0}) == 1.0
    monkeypatch.setattr(plan, "NOTEBOOKS", tmp_path)
    (tmp_path / "parameters.yaml").write_text("a: {quick: {n: 2}}\n")
    cell = lambda text: {"cell_type": "code", "source": [text], "metadata": {}, "outputs": [], "execution_count": None}  # noqa: E731
    texts = {"a": 'run.read("b", "t")', "b": "1", "c": "run.read('a', 't'); run.read(\"b\", 't')"}
    for name, text in texts.items():
        (tmp_path / f"{name}.ipynb").write_text(json.dumps({"cells": [cell(text)], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    books = plan.notebooks("quick", {"b": {"m": 3}})
    assert list(books) == ["b", "a", "c"] and [one.needs for one in books.values()] == [(), ("b",), ("a", "b")]
    assert [one.parameters for one in books.values()] == [{"m": 3}, {"n": 2}, {}] and plan.notebooks("book")["a"].parameters == {}
    assert build._weights(books, {"a": 3.0, "b": 2.0}) == {"c": 10.0, "a": 13.0, "b": 15.0}
    assert build._closure(books, ["a"]) == {"a", "b"} and build._closure(books, ["b"]) == {"b"}
    with pytest.raises(InputError, match="no such notebook; there are: a, b, c"):
        build._closure(books, ["d"])
    (tmp_path / "b.ipynb").write_text((tmp_path / "c.ipynb").read_text())
    with pytest.raises(InputError, match="in a circle: a, b, c"):
        plan.notebooks("quick")
    (tmp_path / "parameters.yaml").write_text("z: {}\n")
    with pytest.raises(InputError, match="parameters for a notebook that does not exist"):
        plan.notebooks("quick")
    assert plan.folder("quick") != plan.folder("book") == plan.folder("full")


def test_what_makes_a_notebook_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its source, parameters, lock, an input, a folder's files, an output; else its results stand."""
    for name in ("ROOT", "NOTEBOOKS", "RESULTS", "BUILD"):
        monkeypatch.setattr(plan, name, tmp_path if name == "ROOT" else tmp_path / name.lower())
    for name in ("notebooks", "results/n", "build/book/stamps", "data", "work"):
        (tmp_path / name).mkdir(parents=True)
    source, out, used = tmp_path / "notebooks" / "n.ipynb", tmp_path / "results" / "n" / "t.csv", tmp_path / "data" / "in.csv"
    for path in (source, out, used, tmp_path / "requirements.txt", tmp_path / "work" / "t.csv"):
        path.write_text("x")
    book = plan.Notebook("n", source, {"p": 1}, ())
    stamp = plan.record(
        book, "book", {"modules": ["data/in.csv"], "files": ["work/t.csv"], "folders": ["data", "work", "gone"]}, tmp_path / "work"
    )
    assert list(stamp["inputs"]) == ["data/in.csv"] and list(stamp["folders"]) == ["data"] and list(stamp["outputs"]) == ["t.csv"]
    (tmp_path / "build" / "book" / "stamps" / "n.json").write_text(json.dumps(stamp))
    assert plan.reason_to_run(book, "book") is None and plan.reason_to_run(book, "quick") == "never run"
    assert plan.reason_to_run(plan.Notebook("n", source, {"p": 2}, ()), "book") == "changed: parameters"
    for path, said in (
        (source, "changed: notebook"),
        (tmp_path / "requirements.txt", "changed: lock"),
        (used, "changed: data/in.csv"),
        (out, "result missing or altered: t.csv"),
    ):
        path.write_text("y")
        assert plan.reason_to_run(book, "book") == said
        path.write_text("x")
    (tmp_path / "data" / "more").write_text("")
    assert plan.reason_to_run(book, "book") == "changed: the files in data"
    assert plan.digest(tmp_path / "none") == plan.digest(tmp_path / "data") == "" and len(plan.digest(used)) == 64


def test_packages_describe_every_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Types, words and digests of CSVs; one that nothing describes, a column too many or too few, and a description of nothing."""
    monkeypatch.setattr(package, "DATA", tmp_path)
    monkeypatch.setattr(package, "RESULTS", tmp_path / "results")
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "a_b.csv").write_text("n,x,t,b\n1,0.5,w,True\n2,1,v,False\n")
    base = "licence: L\nsource: S\nwritten_by: W\nresources:\n  a_b.csv: {title: T, columns: {n: N, x: X, t: T, b: B}}\n"
    found: dict[str, Any] = {}
    texts = {
        "good": base,
        "lacking": base.replace(", b: B", ""),
        "extra": base.replace("b: B", "b: B, c: C"),
        "nothing": base + "  c.csv: {title: T, columns: {}}\n",
        "own": base.replace("title: T,", "title: T, licence: M, source: Q,"),
        "like": base.replace("columns: {n: N, x: X, t: T, b: B}", "columns_like: z.csv"),
    }
    for name, text in texts.items():
        (tmp_path / "r" / "resources.yaml").write_text(text)
        found[name] = answer(package.inputs, tmp_path)
    (tmp_path / "r" / "resources.yaml").write_text(base)
    (tmp_path / "r" / "d.csv").write_text("a\n")
    found["undescribed"] = answer(package.inputs, tmp_path)
    (tmp_path / "r" / "d.csv").unlink()
    (tmp_path / "results" / "n").mkdir(parents=True)
    (tmp_path / "results" / "n" / "t.csv").write_text("n,own\n1,2\n")
    (tmp_path / "results" / "n" / "manifest.json").write_text(
        json.dumps({"notebook": "n", "tables": {"t": {"title": "T", "columns": {"own": "O"}, "source": "", "kind": "computed"}}})
    )
    monkeypatch.setattr(package, "glossary", lambda: {"n": "N"})
    found["whole"] = package.package()
    monkeypatch.setattr(package, "PACKAGE", tmp_path / "datapackage.json")
    assert package.write() == 2 and package.differences() == []
    monkeypatch.setattr(package, "glossary", lambda: {"n": "M"})
    found["differences"] = package.differences()
    monkeypatch.setattr(package, "glossary", dict)
    found["no words"] = answer(package.package, tmp_path)
    kept("packages", found)


def test_marks_of_the_article_in_both_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Markdown with roles, tables, links, code and maths, in Typst and in LaTeX; what cannot be set is refused."""
    monkeypatch.setattr(pages, "number", lambda name: {"text": "4.2 %", "kind": "computed"} if name == "n.k" else pages_missing(name))
    text = (
        "## A *title* & more_\n\nText with `code_x`, **bold** and [a link](https://a.b/c_d), [inside](other.md).\n"
        "A line {num}`n.k` and {cite}`A2020, B2021`; 5 % of $x.\n\n"
        "- one\n- two #3\n\n1. first\n\n| a | b |\n|---|---|\n| long words of a cell | {num}`n.k` |\n| x | y_z |\n\n"
        "```{math}\ne = m c^2\n```\n\n<div>x</div>\n\n% comment\n\n> quoted\n"
    )
    found: dict[str, Any] = {}
    for form in (paper_typst, paper_latex):
        document = paper.Document(tmp_path / "a.md", tmp_path, form)
        body = answer(lambda document=document: paper._markdown(text.replace("> quoted\n", ""), document), tmp_path)  # type: ignore[misc]
        found[form.__name__.rpartition("_")[2]] = body.split("\n")
        found[f"{form.__name__} whole"] = form.whole(
            "T & t", "body", {"n.k": {"text": "4.2 %", "kind": "computed", "notebook": "n"}}, document.cites
        ).split("\n")[-30:]
        assert list(document.numbers) == ["n.k"] and document.cites
    for odd in ("{ref}`x`", "```{note}\nx\n```", "![i](x.png)", "```{result-figure} n/f\nt\n```", "{num}`m.k`"):
        found[odd] = answer(lambda odd=odd: paper._markdown(odd, paper.Document(tmp_path / "a.md", tmp_path)), tmp_path)  # type: ignore[misc]
    found["widths"] = paper.widths([["ab", "c" * 80], ["*abcdefgh*", "d"]], r"\*")
    kept("article", found)


def pages_missing(name: str) -> dict[str, str]:
    raise InputError("no such number", key=name)


def test_stored_notebooks_hold_their_content_alone() -> None:
    """Ids in order, tags kept, no outputs or metadata; of a page the outputs without paths."""
    out = nbformat.v4.new_output
    cells = [nbformat.v4.new_markdown_cell("# t"), nbformat.v4.new_code_cell("1", execution_count=7)]
    cells[1].metadata = {"tags": ["parameters"], "time": 3}
    cells[1].outputs = [
        out("stream", text=f"at {ROOT}/data and /tmp/x/ipykernel_12/34.py"),
        out("execute_result", data={"text/plain": "PosixPath('x')"}),
        out("display_data", data={"text/plain": "y"}, metadata={"m": 1}),
    ]
    book = nbformat.v4.new_notebook(cells=cells, metadata={"widgets": 1})
    execute.clean(book, outputs=True)
    assert (
        [cell["id"] for cell in book.cells] == ["cell-0", "cell-1"]
        and book.cells[1].metadata == {"tags": ["parameters"]}
        and book.cells[0].metadata == {}
    )
    assert [one.output_type for one in book.cells[1].outputs] == ["stream", "display_data"] and book.cells[1].outputs[0][
        "text"
    ] == "at data and cell"
    assert (
        book.cells[1].outputs[1]["metadata"] == {} and book.cells[1].execution_count == 7 and (book.nbformat, book.nbformat_minor) == (4, 5)
    )
    execute.clean(book, outputs=False)
    assert book.cells[1].outputs == [] and book.cells[1].execution_count is None
    assert execute._without('/a/"b/é', "X", 'p = "/a/\\"b/\\xe9" and /a/"b/é') == 'p = "X" and X'


def test_lists_and_tables_of_a_run(tmp_path: Path) -> None:
    """Native lists above a figure; names; a file written once and described."""
    lists = run._lists(run.Choose({"A <": ("x", "y")}, {("x",): (0, 2)}, {("x",): "t"}), "f")
    assert lists.startswith(
        '<div class="chart-lists"><label for="f-choose-0">A &lt;</label> <select '
        'id="f-choose-0"><option>x</option><option>y</option></select> '
    )
    assert '{"titles": {"x": "t"}, "traces": {"x": [0, 2]}}' in lists and 'getElementById("f")' in lists
    assert run._json({"b": 1, "a": "é"}) == '{\n "a": "é",\n "b": 1\n}'.encode()
    one = run.Run("n", tier="quick", out=str(tmp_path / "n"))
    one._write("t.txt", b"x")
    with pytest.raises(InputError, match="written twice in one run"):
        one._write("t.txt", b"y")
    told = json.loads((tmp_path / "n" / "manifest.json").read_text())
    assert (told["notebook"], told["tier"], list(told["files"])) == ("n", "quick", ["t.txt"])
    for name in ("Bad", "a-b", ""):
        with pytest.raises(InputError, match="lower-case letters"):
            run._check_name(name)
    with pytest.raises(InputError, match="expected quick, book or full"):
        run.Run("n", tier="all", out=str(tmp_path))


def test_the_current_page_is_marked_in_the_sidebar_with_all_above_it() -> None:
    """As Sphinx marks it (`_toctree_add_classes`): its link leads nowhere, the lists and entries around it are current."""
    contents = (
        '<ul><li class="toctree-l1"><a class="reference internal" href="a.html">A</a></li>'
        '<li class="toctree-l1"><a class="reference internal" href="b.html">B</a>'
        '<ul><li class="toctree-l2"><a class="reference internal" href="c.html">C</a></li></ul></li></ul>'
    )
    assert pages.marked(contents, "d.html") == contents
    assert pages.marked(contents, "c.html") == (
        '<ul class="current"><li class="toctree-l1"><a class="reference internal" href="a.html">A</a></li>'
        '<li class="toctree-l1 current"><a class="reference internal" href="b.html">B</a>'
        '<ul class="current"><li class="toctree-l2 current"><a class="current reference internal" href="#">C</a></li></ul></li></ul>'
    )


USED = """
import os, sys
from analysis.artifact.publishing import trace
from analysis.paths import DATA, ROOT
open(DATA / "columns.yaml").close()
trace.start()
open(DATA / "hardware" / "sources.yaml").close()
open(DATA / "columns.yaml").close()
open(sys.argv[1] + "/written", "w").close()
open(ROOT / "README.md").close()
os.listdir(DATA / "hardware")
os.listdir(ROOT / "analysis")
import analysis.units
trace.save(sys.argv[1] + "/used.json")
open(DATA / "sources" / "files.csv").close()
"""


def test_what_a_notebook_used_is_what_it_read(tmp_path: Path) -> None:
    """Files of the build opened for reading between start and save, folders listed, modules; not what was written."""
    done = subprocess.run([sys.executable, "-c", USED, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    used = json.loads((tmp_path / "used.json").read_text())
    assert used["files"] == ["data/hardware/sources.yaml"] and used["folders"] == ["data/hardware"]
    assert "analysis/units.py" in used["modules"] and "analysis/artifact/publishing/trace.py" in used["modules"]
