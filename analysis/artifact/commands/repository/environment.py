"""The locked environment: environment.yml for conda, and a bill of materials."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.callback()
def _group() -> None:
    """The locked environment."""


@app.command()
def write() -> None:
    """Write environment.yml and THIRD_PARTY.md."""
    from analysis.artifact.publishing.environment import write as write_environment

    write_environment()


@app.command()
def dates() -> None:
    """Write when each version of the lock appeared (needs uv and the network; `make lock` does this)."""
    from analysis.artifact.publishing.environment import write_dates

    write_dates()


@app.command()
def sbom(out: Annotated[Path, typer.Option(help="JSON file to write")]) -> None:
    """Write a bill of materials (CycloneDX 1.5, JSON): every package of the lock with its version and the digests that pip accepts."""
    from analysis.artifact.publishing.environment import bill_of_materials
    from analysis.tables import write_atomic

    write_atomic(out, bill_of_materials().encode("utf-8"))
