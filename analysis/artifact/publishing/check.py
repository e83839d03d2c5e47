"""Everything `make check` compares: data descriptions, results against their manifests, claims, requirements."""

from __future__ import annotations

import json
from collections.abc import Callable

from analysis.artifact.publishing import package, plan
from analysis.errors import InputError
from analysis.paths import BOOK, BUILD, DATA, NOTEBOOKS, RESULTS, ROOT


def altered_results() -> list[str]:
    """Files under data/results that are not what their notebook wrote, a line each."""
    lines = []
    for path in sorted(RESULTS.glob("*/manifest.json")):
        for name, known in json.loads(path.read_text(encoding="utf-8"))["files"].items():
            found = plan.digest(path.parent / name)
            if found != known:
                state = "not what its notebook wrote" if found else "missing"
                lines.append(f"data/results/{path.parent.name}/{name}: {state}; make book restores it")
    return lines


def missing_results() -> list[str]:
    """Notebooks that have not been run here, a line each."""
    return [
        f"notebooks/{name}.ipynb has no results; run make book"
        for name in plan.notebooks("book")
        if not (RESULTS / name / "manifest.json").exists()
    ]


def column_names() -> list[str]:
    """Names of `data/columns.yaml` that no table has, and descriptions in notebooks that only repeat it, a line each."""
    known, unused, lines = package.glossary(), set(package.glossary()), []
    for path in sorted(RESULTS.glob("*/manifest.json")):
        for table, about in json.loads(path.read_text(encoding="utf-8"))["tables"].items():
            unused -= set(package.header(path.parent / f"{table}.csv"))
            again = [column for column, words in about["columns"].items() if known.get(column) == words]
            lines += [f"notebooks/{path.parent.name}.ipynb, table {table}: data/columns.yaml says the same of {column}" for column in again]
    return lines + [f"data/columns.yaml, {column}: no table has this column" for column in sorted(unused)]


def claims() -> list[str]:
    """Claims and findings whose value, verdict or outcome is not the expected one, a line each."""
    from analysis.artifact.claims.report import judge_all, unexpected

    return unexpected(*judge_all(RESULTS, DATA / "claims"))


def requirements() -> list[str]:
    """Requirements marked done that lack a page, a notebook or a test, a line each."""
    from analysis.artifact.claims.requirements import problems, read_requirements

    return problems(read_requirements(DATA / "claims" / "requirements.csv"), ROOT)


def numbers() -> list[str]:
    """What `{num}` takes in chapters and notebooks and no result gives, a line each."""
    from analysis.artifact.claims.prose import numbers_of
    from analysis.artifact.publishing.pages import number

    lines = []
    for path in [*sorted(BOOK.glob("*.md")), *sorted(NOTEBOOKS.glob("*.ipynb"))]:
        for line, name in numbers_of(path):
            try:
                number(name)
            except InputError as error:
                lines.append(f"{path.relative_to(ROOT)}:{line}: {error}")
    return lines


def prose() -> list[str]:
    """Numbers typed into a chapter although a results file gives them, a line each."""
    from analysis.artifact.claims.prose import typed_numbers

    return [str(line) for line in typed_numbers(BOOK, RESULTS)]


def plain_english() -> list[str]:
    """Limits on words, sentences, numbers and raw keys that the built pages do not keep, a line each; prints the figures."""
    from analysis.artifact.publishing import reading

    pages = BUILD / "html"
    if not (pages / "index.html").exists():
        return ["there are no pages to read; make book builds them"]
    counted = reading.book(pages)
    print("         " + ", ".join(f"{name} {value:,.1f}" for name, value in counted.figures().items()))
    return counted.beyond()


CHECKS: dict[str, Callable[[], list[str]]] = {
    "notebooks have run": missing_results,
    "results are as written": altered_results,
    "names of columns": column_names,
    "data package": package.differences,
    "requirements": requirements,
    "numbers": numbers,
    "prose": prose,
    "plain English": plain_english,
    "claims": claims,
}


def run() -> int:
    """Run every check, print one line each and what is wrong; returns how many failed."""
    failed = 0
    for name, check in CHECKS.items():
        try:
            lines = check()
        except InputError as error:
            lines = [str(error)]
        print(f"{'FAILED' if lines else 'ok    '} {name}", flush=True)
        for line in lines[:20]:
            print(f"         {line}")
        if len(lines) > 20:
            print(f"         ... and {len(lines) - 20} more")
        failed += bool(lines)
    return failed
