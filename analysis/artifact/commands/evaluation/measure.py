"""Time operators on this machine's CPU, in JAX and NumPy, at the shapes of the committed campaign."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main(
    suite: Annotated[str, typer.Option(help="quick (a minute or two) or full (1,600 shapes on one thread, 400 on two)")] = "quick",
    out: Annotated[Path, typer.Option(help="folder for the tables and machine.json")] = Path("_build/measured"),
) -> None:
    """Measure a suite on one and on two threads; prints how noisy it was and how it compares with the committed rows."""
    from analysis.artifact.measuring.campaign import CAMPAIGN, DEVICES, measure_folder, report, shapes, usable_cores
    from analysis.errors import InputError
    from analysis.tables import write_atomic

    if suite not in ("quick", "full"):
        raise InputError(f"no suite {suite!r}; expected quick or full", key="--suite")
    if out.resolve() == CAMPAIGN:
        raise InputError("holds the committed campaign; expected another folder", path=out, key="--out")
    write_atomic(out / ".probe", b"").unlink()  # before minutes are spent
    for folder in DEVICES if len(usable_cores()) > 1 else ["one_thread"]:
        measure_folder(folder, shapes(suite, folder), out)
        typer.echo("\n".join(report(folder, out)))
    typer.echo(f"tables and machine.json in {out}; the notebook cpu_measurements shows them with the parameter campaign={out}")
