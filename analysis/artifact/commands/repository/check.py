"""Compare what was built with what is expected: claims, requirements, data descriptions, expected results (make check)."""

from __future__ import annotations

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main() -> None:
    """Run every check; exits 1 when one fails."""
    from analysis.artifact.publishing.check import run

    raise typer.Exit(1 if run() else 0)
