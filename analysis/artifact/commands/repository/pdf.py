"""Print the book as one PDF (make pdf)."""

from __future__ import annotations

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main() -> None:
    """Write _build/book.pdf."""
    from analysis.artifact.publishing import build, pdf

    with build.lock():
        pdf.write()
