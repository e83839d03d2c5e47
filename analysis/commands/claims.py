"""Check every printed number of the five documents, and every requirement.

python -m analysis claims check --results data/results
python -m analysis claims requirements
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.paths import BOOK, DATA, RESULTS, ROOT

app = typer.Typer(help="The ledger of claims and the table of requirements.", no_args_is_help=True)


def _end(wrong: list[str]) -> None:
    for line in wrong:
        typer.echo(line)
    if wrong:
        raise typer.Exit(1)


@app.command()
def check(
    results: Annotated[Path, typer.Option(help="folder of results, one folder a notebook")] = RESULTS,
    claims: Annotated[Path, typer.Option(help="folder with ledger.csv, checks/ and findings.yaml")] = DATA / "claims",
    brief: Annotated[bool, typer.Option(help="only the counts and what is not as expected")] = False,
) -> None:
    """Recompute every verdict and every finding; exit 1 and name those that are not as expected."""
    from analysis.claims.check import check_all
    from analysis.claims.findings import judge_findings
    from analysis.claims.report import report, report_findings

    outcomes = check_all(results, claims)
    findings = judge_findings(results, claims / "findings.yaml")
    typer.echo(report(outcomes, everything=not brief))
    typer.echo(report_findings(findings))
    if any(one.problem for one in outcomes) or any(one.problem for one in findings):
        raise typer.Exit(1)


@app.command()
def requirements(
    table: Annotated[Path, typer.Option(help="the table of requirements")] = DATA / "claims" / "requirements.csv",
    root: Annotated[Path, typer.Option(help="the repository")] = ROOT,
) -> None:
    """Exit 1 when an item marked done lacks its page, notebook or test, or names a file that does not exist."""
    from analysis.claims.requirements import problems, read_requirements, summary

    items = read_requirements(table)
    typer.echo(summary(items))
    _end(problems(items, root))


@app.command()
def prose(
    results: Annotated[Path, typer.Option(help="folder of results, one folder a notebook")] = RESULTS,
    book: Annotated[Path, typer.Option(help="folder of chapters")] = BOOK,
) -> None:
    """Exit 1 when a chapter holds a number typed by hand that a results file gives."""
    from analysis.claims.prose import typed_numbers

    _end(typed_numbers(book, results))
