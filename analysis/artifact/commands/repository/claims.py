"""Check every printed number of the five documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.paths import DATA, RESULTS

app = typer.Typer(help="The ledger of claims.", no_args_is_help=True)


@app.callback()
def main() -> None:
    """The ledger of claims."""


@app.command()
def check(
    results: Annotated[Path, typer.Option(help="folder of results, one folder a notebook")] = RESULTS,
    claims: Annotated[Path, typer.Option(help="folder with ledger.csv, checks/ and findings.yaml")] = DATA / "claims",
    brief: Annotated[bool, typer.Option(help="only the counts and what is not as expected")] = False,
) -> None:
    """Recompute every verdict and every finding; exit 1 and name those that are not as expected."""
    from analysis.artifact.claims.report import judge_all, report, report_findings, unexpected

    outcomes, findings = judge_all(results, claims)
    typer.echo(report(outcomes, everything=not brief))
    typer.echo(report_findings(findings))
    if unexpected(outcomes, findings):
        raise typer.Exit(1)
