"""Fit committed constants again and freeze the scores that pages print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.callback()
def main() -> None:
    """Studies that need other people's datasets and run in CPU-minutes."""


@app.command()
def serving(
    sample: Annotated[Path, typer.Argument(help="silicon_sample.csv of aiconfigurator-core 0.12.0")],
    recorded: Annotated[Path, typer.Option(help="folder with row_flags.csv.gz and predictions.csv.gz")] = Path(
        "data/recorded/aiconfigurator"
    ),
) -> None:
    """Fit the constants of `predict serving` and freeze its scores by split."""
    from analysis.studies.serving.points.freeze import freeze
    from analysis.studies.serving.sources.freeze import freeze as freeze_sources

    typer.echo(freeze(sample, recorded).to_string())
    typer.echo(freeze_sources(sample, recorded).to_string())


@app.command()
def sites() -> None:
    """Freeze the points by which `calibrate` is judged, and the spread that its constants are shrunk by."""
    from analysis.studies.sites import freeze

    typer.echo(freeze().to_string())
