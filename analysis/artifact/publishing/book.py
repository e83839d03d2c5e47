"""Builds the pages of the book from the chapters and the results, and puts them in place in one step."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import time
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path

import yaml

from analysis.artifact.publishing import plan
from analysis.artifact.publishing.build import cores
from analysis.paths import BOOK, BUILD, RESULTS, ROOT


class PagesFailed(RuntimeError):
    """Sphinx found something wrong; the message holds its warnings, one a line."""


def load() -> None:
    """Import what builds the pages: two seconds."""
    for name in ("jupyter_book.sphinx", "myst_nb.sphinx_ext", "sphinx_book_theme", "sphinxcontrib.bibtex", f"{__package__}.pages"):
        import_module(name)


def place(names: list[str]) -> None:
    """Copy figures, CSV tables and executed notebooks from results to where the chapters expect them."""
    for room in ("figures", "tables", "notebooks"):
        shutil.rmtree(BOOK / room, ignore_errors=True)
    for name in names:
        results = RESULTS / name
        if (results / "figures").exists():
            shutil.copytree(results / "figures", BOOK / "figures" / name, ignore=shutil.ignore_patterns("*.html"))
        for table in sorted(results.glob("*.csv")):
            (BOOK / "tables" / name).mkdir(parents=True, exist_ok=True)
            shutil.copy(table, BOOK / "tables" / name / table.name)
        (BOOK / "notebooks").mkdir(exist_ok=True)
        (BOOK / "notebooks" / f"{name}.ipynb").write_text(folded((results / f"{name}.ipynb").read_text(encoding="utf-8")), encoding="utf-8")


def folded(notebook: str) -> str:
    """A notebook's JSON with every cell of code tagged, so that its page shows words and figures first and code when asked."""
    read = json.loads(notebook)
    for cell in read["cells"]:
        if cell["cell_type"] == "code":
            cell["metadata"]["tags"] = [*cell["metadata"].get("tags", []), "hide-input"]
    return json.dumps(read)


def fingerprint(names: list[str], explored: list[Path]) -> str:
    """Digest of everything the pages are made of."""
    chapters = [
        path
        for path in sorted(BOOK.rglob("*"))
        if path.is_file() and path.relative_to(BOOK).parts[0] not in ("figures", "tables", "notebooks", "_build")
    ]
    files = [
        ROOT / "_config.yml",
        ROOT / "requirements.txt",
        *sorted((ROOT / "bib").glob("*.bib")),
        *sorted((ROOT / "analysis" / "artifact" / "publishing").glob("*.*")),
        plan.GLOSSARY,
        *sorted((ROOT / "analysis" / "artifact" / "explorers").rglob("*.py")),
        *explored,
    ]
    results = [path for name in names for path in (RESULTS / name / "manifest.json", RESULTS / name / f"{name}.ipynb")]
    total = hashlib.sha256()
    for path in [*chapters, *files, *results]:
        total.update(f"{path.relative_to(ROOT)} {plan.digest(path)}\n".encode())
    return total.hexdigest()


def build(builder: str = "html", force: bool = False) -> bool:
    """Build the pages; returns whether anything had to be done.

    Args:
        builder: html or singlehtml.
        force: build even when nothing changed.
    """
    names = list(plan.notebooks("book"))
    mark = BUILD / f"{builder}.stamp"
    out = BUILD / builder
    if not force and mark.exists() and (out / "index.html").exists():
        before = json.loads(mark.read_text(encoding="utf-8"))
        explored = [ROOT / name for name in before.get("explored", ())]
        if all(path.exists() for path in explored) and before["inputs"] == fingerprint(names, explored):
            return False
    from analysis.artifact.explorers.bundle import sources
    from analysis.tables import write_atomic  # pandas: not for a book that is up to date

    began = time.monotonic()
    explored = sources()
    now = fingerprint(names, explored)
    mark.unlink(missing_ok=True)
    place(names)
    partial = BUILD / f"{builder}.partial"
    trees = BUILD / f"{builder}.doctrees"
    for folder in (partial, trees):
        shutil.rmtree(folder, ignore_errors=True)
    problems, status = _sphinx(builder, partial, trees)
    shutil.rmtree(trees, ignore_errors=True)
    if problems or status:
        shutil.rmtree(partial, ignore_errors=True)
        raise PagesFailed("\n".join(problems) or f"Sphinx stopped with status {status}")
    for unused in (".buildinfo", "objects.inv"):
        (partial / unused).unlink(missing_ok=True)
    old = BUILD / f"{builder}.old"
    shutil.rmtree(old, ignore_errors=True)
    if out.exists():
        out.rename(old)
    partial.rename(out)
    shutil.rmtree(old, ignore_errors=True)
    write_atomic(mark, json.dumps({"inputs": now, "explored": [str(path.relative_to(ROOT)) for path in explored]}).encode())
    print(f"pages built in {time.monotonic() - began:.0f} s: {(out / 'index.html').relative_to(ROOT)}", flush=True)
    return True


def _contents(builder: str) -> Path:
    """The table of contents; what is printed leaves out the notebooks, whose code is for screens."""
    whole = BOOK / "_toc.yml"
    if builder != "singlehtml":
        return whole
    contents = yaml.safe_load(whole.read_text(encoding="utf-8"))
    contents["parts"] = [part for part in contents["parts"] if part["caption"] != "Notebooks"]
    from analysis.tables import write_atomic

    return write_atomic(BUILD / "print_toc.yml", yaml.safe_dump(contents, sort_keys=False).encode("utf-8"))


def _sphinx(builder: str, out: Path, trees: Path) -> tuple[list[str], int]:
    from jupyter_book.sphinx import build_sphinx

    shown, warned = io.StringIO(), io.StringIO()
    with redirect_stdout(shown), redirect_stderr(warned):
        status = build_sphinx(
            BOOK,
            out,
            noconfig=True,
            path_config=ROOT / "_config.yml",
            confoverrides={"nitpicky": True, "latex_individualpages": False, "external_toc_path": str(_contents(builder))},
            doctreedir=trees,
            builder=builder,
            warningiserror=True,
            keep_going=True,
            freshenv=True,
            jobs=cores(),
        )
    lines = [line for line in warned.getvalue().splitlines() if "WARNING" in line or "ERROR" in line]
    clean = [line.replace(str(ROOT) + "/", "") for line in dict.fromkeys(lines)]
    if isinstance(status, Exception):
        return [*clean, f"{type(status).__name__}: {status}"], 1
    return clean, int(status or 0) if not clean else 1
