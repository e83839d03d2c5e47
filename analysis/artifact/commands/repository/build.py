"""Run the notebooks that are out of date (make book does this, then builds the pages)."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main(
    tier: Annotated[str, typer.Option(help="quick, book or full")] = "book",
    only: Annotated[list[str] | None, typer.Option(help="only this notebook and what it needs (may be repeated)")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="NOTEBOOK.key=value: a parameter of a notebook for this run (may be repeated)")
    ] = None,
    jobs: Annotated[int, typer.Option(help="how many at once; 0: one more than cores")] = 0,
    record_costs: Annotated[bool, typer.Option(help="write notebooks/costs.csv from what was measured here")] = False,
) -> None:
    """Bring the results of a tier up to date."""
    from analysis.artifact.publishing import build, plan

    given = plan.given(settings or [])
    with build.lock():
        try:
            ran = build.run(tier, only=only or list(given) or None, jobs=jobs or None, settings=given)
        except build.BuildFailed as failure:
            typer.echo(f"error: {failure}", err=True)
            raise typer.Exit(1) from None
    if not ran:
        typer.echo("all notebooks are up to date")
    if given:
        typer.echo("the next build without --set restores the results of the book")
    if record_costs:
        build.record_costs(tier)
