"""Pack everything that a reviewer or an archive keeps into one file (make archive)."""

from __future__ import annotations

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main() -> None:
    """Write _build/archive.tar.gz: sources, results, pages, PDFs, lock files, and PROVENANCE.json with the digest of each."""
    from analysis.artifact.publishing import archive, build

    with build.lock():
        path, count = archive.write()
    typer.echo(f"{path}: {count} files, {path.stat().st_size / 1e6:.0f} MB")
