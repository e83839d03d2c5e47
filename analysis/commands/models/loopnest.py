"""Cycles, energy and every access count of a mapping, by Timeloop's rules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main(
    arch: Annotated[Path, typer.Option(help="design: YAML (`data schema arch` prints its keys), or Timeloop's own")],
    layer: Annotated[Path, typer.Option(help="layer: YAML of N, C, M, P, Q, R, S, stride (`data schema layer`), or Timeloop's own")],
    mapping: Annotated[Path, typer.Option(help="loops: YAML (`data schema mapping` prints its keys), or Timeloop's own mapping")],
    out: Annotated[Path, typer.Option(help="JSON to write")],
    ert: Annotated[Path | None, typer.Option(help="Timeloop's energy reference table, for a design in its own format")] = None,
    before_2025: Annotated[
        bool,
        typer.Option("--before-2025", help="as Timeloop before commit a12fff5: a tile that rested is fetched whole when it moves again"),
    ] = False,
    every_step: Annotated[bool, typer.Option(help="walk every iteration, where Timeloop lets the second stand for the rest")] = False,
) -> None:
    """Count the accesses of one mapping and price them."""
    import json

    from analysis.accelerators.loopnest.evaluation import evaluate, report
    from analysis.accelerators.timeloop.files import read_mapped
    from analysis.errors import InputError
    from analysis.tables import write_atomic

    problem, architecture, loops = read_mapped(arch, layer, mapping, ert=ert)
    try:
        walk: Literal["sampled", "every"] = "every" if every_step else "sampled"
        evaluation = evaluate(problem, architecture, loops, walk=walk, rest_resets=before_2025)
        other = evaluate(problem, architecture, loops, walk=walk, rest_resets=not before_2025)
    except InputError as error:
        raise InputError(error.message, path=mapping, key=error.key) from None
    moved = [
        f"{a.level} {a.tensor} {b.total:,} for {a.total:,}" for a, b in zip(evaluation.accesses, other.accesses, strict=True) if a != b
    ]
    if moved:
        release = "since January 2025" if before_2025 else "before January 2025 (--before-2025)"
        typer.echo(f"Timeloop {release} counts other accesses: {', '.join(moved)}", err=True)
    write_atomic(out, (json.dumps(report(evaluation), indent=1) + "\n").encode())
    typer.echo(
        f"{evaluation.cycles} cycles (bound by {evaluation.bound_by}), {evaluation.lanes_used} of {evaluation.lanes} units, "
        f"{evaluation.energy_j * 1e6:.4f} uJ"
    )
