"""Prepare a notebook for the repository: no outputs, stable cell ids."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.callback()
def _group() -> None:
    """Keep `clean` a subcommand."""


@app.command()
def clean(paths: Annotated[list[Path], typer.Argument(help="notebooks to clean, in place")]) -> None:
    """Remove outputs and set cell ids."""
    import nbformat

    from analysis.artifact.publishing.execute import clean as clean_notebook

    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        clean_notebook(notebook, outputs=False)
        nbformat.write(notebook, path)
