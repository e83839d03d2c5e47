"""Set the article and the artifact appendix as PDF (make paper)."""

from __future__ import annotations

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main() -> None:
    """Write _build/article.pdf and _build/artifact.pdf, each with a list of its numbers."""
    from analysis.artifact.publishing import build, paper

    with build.lock():
        for name in paper.DOCUMENTS:
            paper.write(name)
