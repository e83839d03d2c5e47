"""Run what is out of date and build the pages (make book)."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main(
    pages_only: Annotated[bool, typer.Option(help="do not look at the notebooks, build the pages from the results there are")] = False,
) -> None:
    """Bring results and pages up to date."""
    from analysis.artifact.publishing import book, build

    with build.lock():
        try:
            ran = [] if pages_only else build.run("book", meanwhile=book.load)
            built = book.build()
        except build.BuildFailed as failure:
            typer.echo(f"error: {failure}", err=True)
            raise typer.Exit(1) from None
        except book.PagesFailed as failure:
            typer.echo(f"error: the pages were not built\n{failure}", err=True)
            raise typer.Exit(1) from None
    if not ran and not built:
        typer.echo("the book is up to date: _build/html/index.html")
