"""Write environment.yml from the lock."""

from __future__ import annotations

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.callback()
def _group() -> None:
    """Keep `write` a subcommand."""


@app.command()
def write() -> None:
    """Write environment.yml."""
    from analysis.publishing.environment import write as write_environment

    write_environment()
