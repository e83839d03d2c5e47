"""Constants of your own site from its log, shrunk towards none: a file that --site of predict, train and serve takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.commands.common.options import LOGS, logs_and_question

app = typer.Typer(help=__doc__, add_completion=False)


@app.command(context_settings={"ignore_unknown_options": True})
def main(
    logs: Annotated[list[str], typer.Argument(help=LOGS)],
    out: Annotated[Path, typer.Option(help="YAML to write, for --site")],
) -> None:
    """Fit a few constants and the interval to the measured points of a log (`compare` reads the same)."""
    from analysis.predict import compare
    from analysis.site import write_site
    from analysis.tables import check_output

    paths, asked = logs_and_question(logs)
    check_output(out, *paths)
    site = compare.calibrated(compare.compare(paths, asked), out.stem)
    write_site(site, out)
    typer.echo(f"{compare.calibration_text(site)}\nsite in {out}")
