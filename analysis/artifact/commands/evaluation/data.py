"""Describe the data package; fetch other people's datasets (make data); print the JSON Schema of a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.callback()
def _group() -> None:
    """Keep the commands subcommands."""


@app.command()
def describe() -> None:
    """Write data/datapackage.json from the resources.yaml files and the notebooks' manifests."""
    from analysis.artifact.publishing import package

    typer.echo(f"data/datapackage.json describes {package.write()} tables")


@app.command()
def fetch(only: Annotated[list[str] | None, typer.Option(help="only this dataset (may be repeated)")] = None) -> None:
    """Fetch other people's datasets into data/datasets, verified against pinned digests (needs the network)."""
    from analysis.artifact.publishing.fetching.fetch import fetch as fetch_datasets
    from analysis.artifact.publishing.fetching.wheel import fetch_wheel, names

    wheels = [name for name in names() if only is None or name in only]
    others = None if only is None else [name for name in only if name not in wheels]
    if others is None or others:
        fetch_datasets(others)
    for name in wheels:
        fetch_wheel(name)


@app.command()
def schema(
    name: Annotated[str, typer.Argument(help="configuration; without it, all are listed")] = "",
    out: Annotated[Path | None, typer.Option(help="folder to write all into, as NAME.schema.json (data/schemas is one such)")] = None,
) -> None:
    """Print the JSON Schema of a configuration: editors complete and check a YAML file by it."""
    from analysis.artifact.publishing import schemas

    if out is not None:
        typer.echo(f"{schemas.write(out)} schemas in {out}")
    elif name:
        typer.echo(schemas.text(name), nl=False)
    else:
        for each, (_, _, read_by) in schemas.MODELS.items():
            typer.echo(f"{each:14} {read_by}")
