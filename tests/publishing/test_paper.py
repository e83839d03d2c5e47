"""The article and the artifact appendix: at most 11 and 2 pages, no number but a result's, and the same text as LaTeX.

LaTeX is compiled where latexmk and acmart are at hand; elsewhere `test_latex_compiles` skips and says that the structure alone was checked.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from analysis.artifact.publishing import paper, paper_latex
from analysis.errors import InputError
from analysis.paths import BOOK, RESULTS
from analysis.tables import read_csv

typst = pytest.importorskip("typst", reason="Typst is not installed: pip install -r requirements.txt")
built = pytest.mark.skipif(not (RESULTS / "claims" / "numbers.json").exists(), reason="no results yet: make book")


@built
@pytest.mark.parametrize("name", paper.DOCUMENTS)
def test_a_document_is_set_within_its_pages(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MICRO's limit is 11 pages without references (plan, milestone 9); an artifact appendix has two."""
    monkeypatch.setattr(paper, "BUILD", tmp_path)
    target = paper.write(name)
    assert target.read_bytes().startswith(b"%PDF")
    numbers = read_csv(tmp_path / f"{name}_numbers.csv")
    roles = set(re.findall(r"\{num\}`([^`]+)`", (BOOK / f"{name}.md").read_text(encoding="utf-8")))
    assert set(numbers["number"]) == roles and len(roles) > 40
    tex = re.sub(r"(?m)^%.*$", "", (tmp_path / "paper" / f"{name}.tex").read_text(encoding="utf-8"))
    assert faults(tex, tmp_path / "paper") == []
    # one source: every number of the PDF stands in the LaTeX with its key, and every work that the text cites in the bibliography
    keys = set(re.findall(r"\\result\{((?:[^{}\\]|\\.)*)\}", tex))
    assert keys == {paper_latex.text(key) for key in roles}
    cited = {key for group in re.findall(r"\\cite\{([^}]*)\}", tex) for key in group.split(",")}
    assert len(cited) >= (50 if name == "article" else 0)
    entries = set(re.findall(r"^@\w+\{([^,]+),", (tmp_path / "paper" / "references.bib").read_text(encoding="utf-8"), re.MULTILINE))
    assert cited <= entries


ENVIRONMENT = re.compile(r"\\(begin|end)\{([\w*]+)\}")


def faults(tex: str, folder: Path) -> list[str]:
    """What would stop LaTeX: unmatched braces or environments, rows of different length, a bare sign, a missing picture."""
    found, opened, depth = [], [], 0
    for kind, name in ENVIRONMENT.findall(tex):
        if kind == "begin":
            opened.append(name)
        elif not opened or opened.pop() != name:
            found.append(f"end of {name}")
    found += [f"{name} is not ended" for name in opened]
    bare = re.sub(r"\\[\\{}$&#_%]", "", tex)
    for sign in bare:
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if depth < 0:
            break
    found += ["braces"] if depth else []
    for table in re.findall(r"\\toprule\n(.*?)\\bottomrule", tex, re.DOTALL):
        rows = [re.sub(r"\\&", "", row).count("&") for row in table.replace("\\midrule\n", "").split("\\\\\n") if row.strip()]
        found += [] if len(set(rows)) == 1 else [f"rows of {sorted(set(rows))} cells"]
    prose = re.sub(r"\\begin\{(equation\*|tabular)\}.*?\\end\{\1\}|\$[^$\n]{1,12}\$", "", bare, flags=re.DOTALL)
    prose = re.sub(r"\\newcommand.*|\\(cite|includegraphics\[[^]]*\])\{[^}]*\}", "", prose)
    found += [f"a bare {sign}" for sign in "$&#_^~%" if sign in prose.replace("~\\", "").replace("~", "" if sign == "~" else "~")]
    return found + [f"no {file}" for file in re.findall(r"includegraphics\[[^]]*\]\{([^}]*)\}", tex) if not (folder / file).is_file()]


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        ("\\begin{figure}", "figure is not ended"),
        ("{\\emph{x}", "braces"),
        ("50 % of it_", "a bare _"),
        ("\\toprule\na & b \\\\\n\\midrule\n1 \\\\\n\\bottomrule", "rows of [0, 1] cells"),
        ("\\includegraphics[width=1cm]{none.pdf}", "no none.pdf"),
    ],
)
def test_a_fault_of_latex_is_found(broken: str, fault: str, tmp_path: Path) -> None:
    assert fault in faults(broken, tmp_path)


@pytest.mark.parametrize(
    ("words", "tex"),
    [("5 % of $3 & #1_x", r"5 \% of \$3 \& \#1\_x"), ("a--b {c} ~", r"a-{}-b \{c\} \textasciitilde{}"), ("σ", r"$\sigma$")],
)
def test_signs_of_latex_are_text(words: str, tex: str) -> None:
    assert paper_latex.text(words) == tex


def test_a_sign_without_latex_is_refused() -> None:
    with pytest.raises(InputError, match="no LaTeX is known for '❄'"):
        paper_latex.text("frozen ❄")


@built
@pytest.mark.parametrize("name", paper.DOCUMENTS)
def test_latex_compiles(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = shutil.which("latexmk")
    found = subprocess.run(["kpsewhich", "acmart.cls"], capture_output=True, check=False).stdout if shutil.which("kpsewhich") else b""
    if not program or not found:
        pytest.skip("latexmk or acmart.cls is not here (apt-get install latexmk texlive-publishers): the structure alone was checked")
    monkeypatch.setattr(paper, "BUILD", tmp_path)
    paper.write(name)
    command = [program, "-pdf", "-interaction=nonstopmode", f"{name}.tex"]
    done = subprocess.run(command, cwd=tmp_path / "paper", capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-3000:]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{num}`claims.no_such_number`", "unknown number claims.no_such_number"),
        ("{unknown}`x`", "role unknown"),
        ("```{result-figure} claims/no_such_figure\n```", "unknown figure"),
        ("```{explorer} decode_knee\n```", "directive {explorer}"),
    ],
)
def test_what_cannot_be_set_is_refused(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(why)):
        paper._markdown(text, paper.Document(tmp_path / "x.md", tmp_path))


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [("a #1 $x_y$ @k [b]", "a #1 $x_y$ @k [b]"), ("1 -- 2 http://a", "1 -- 2 http://a"), ('`a"\\b`', 'a"\\b'), ("- one\n- *two*", "one")],
)
def test_signs_of_typst_are_text(markdown: str, shown: str, tmp_path: Path) -> None:
    """What Typst would read as markup comes out as written (compared through Typst's own reading)."""
    document = paper.Document(tmp_path / "x.md", tmp_path)
    (tmp_path / "x.typ").write_text("#metadata[" + paper._markdown(markdown, document) + "] <it>", encoding="utf-8")
    found = str(typst.query(str(tmp_path / "x.typ"), "<it>", field="value", root=str(tmp_path)))
    assert re.sub(r"[^\w#$@]", "", shown) in re.sub(r"[^\w#$@]", "", "".join(re.findall(r'"text": ?"((?:[^"\\]|\\.)*)"', found)))
