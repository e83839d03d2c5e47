"""Install other tools live and compare them with our models on identical inputs (needs the network)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main(
    only: Annotated[str | None, typer.Option(help="one tool: scalesim or zigzag")] = None,
    out: Annotated[Path, typer.Option(help="folder for environments, runs and the two tables")] = Path("_build/peers"),
) -> None:
    """Write comparison.csv (every number, ours and theirs) and steps.csv (what it took); exits 1 if a number differs."""
    from dataclasses import asdict

    import pandas as pd

    from analysis.accelerators.peers import scalesim as peers_scalesim
    from analysis.accelerators.peers import zigzag as peers_zigzag
    from analysis.errors import InputError
    from analysis.tables import write_csv

    tools = {"scalesim": peers_scalesim.compare, "zigzag": peers_zigzag.compare}
    if only is not None and only not in tools:
        raise InputError(f"expected one of {', '.join(tools)}, got {only!r}", key="--only")
    out.mkdir(parents=True, exist_ok=True)
    comparisons, steps, failed = [], [], []
    for name, compare in tools.items():
        if only not in (None, name):
            continue
        typer.echo(f"{name}: installing and running ...")
        try:
            comparison, taken = compare(out)
        except InputError as error:
            failed.append(name)
            typer.echo(f"{name}: {error}", err=True)
            continue
        comparisons.append(comparison)
        steps += [asdict(step) for step in taken]
        wrong = comparison[comparison["difference"].abs() > 1e-6 * comparison["theirs"].abs().clip(lower=1e-9)]
        typer.echo(f"{name}: {len(comparison) - len(wrong)} of {len(comparison)} numbers agree")
        if len(wrong):
            failed.append(name)
            typer.echo(wrong.to_string(index=False))
    if comparisons:
        write_csv(pd.concat(comparisons, ignore_index=True), out / "comparison.csv")
        write_csv(pd.DataFrame(steps), out / "steps.csv")
    raise typer.Exit(1 if failed else 0)
