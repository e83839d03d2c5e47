"""Describe the data package; fetch other people's datasets (make data)."""

from __future__ import annotations

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.callback()
def _group() -> None:
    """Keep the commands subcommands."""


@app.command()
def describe() -> None:
    """Write data/datapackage.json from the resources.yaml files and the notebooks' manifests."""
    from analysis.publishing import package

    typer.echo(f"data/datapackage.json describes {package.write()} tables")
