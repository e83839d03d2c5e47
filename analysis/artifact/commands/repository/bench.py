"""Measure the target speeds and print each with its target."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main(group: Annotated[str | None, typer.Argument(help="only this group (networks, serving, ...)")] = None) -> None:
    """Run the benchmarks; exits 1 when a figure misses its target."""
    from analysis.artifact.bench.report import report

    raise typer.Exit(1 if report(group) else 0)
