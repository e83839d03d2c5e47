"""The best mapping of a layer on a design, proven over the whole constrained space."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from analysis.commands.common.options import Scheduler

app = typer.Typer(help=__doc__, add_completion=False)


class Goal(StrEnum):
    """What is minimised."""

    latency = "latency"
    energy = "energy"
    edp = "edp"


@app.command()
def main(
    arch: Annotated[
        Path,
        typer.Option(help="design and its constraints: YAML (`data schema arch` prints its keys), or Timeloop's own"),
    ],
    layer: Annotated[
        list[Path],
        typer.Option(
            help="layer: YAML of N, C, M, P, Q, R, S, stride (`data schema layer`), or Timeloop's own; may be given several times"
        ),
    ],
    objective: Annotated[Goal, typer.Option(help="what to minimise")] = Goal.edp,
    out: Annotated[
        Path | None, typer.Option(help="YAML to write the mapping to, or with several layers a folder; printed otherwise")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="threads")] = 1,
    ert: Annotated[Path | None, typer.Option(help="Timeloop's energy reference table, for a design in its own format")] = None,
    constraints: Annotated[list[Path] | None, typer.Option(help="Timeloop's constraints, besides those of the design")] = None,
    scheduler: Scheduler = "",
) -> None:
    """Search every mapping that the constraints allow, and say how large the space was and how it was pruned; a layer at a time."""
    from functools import partial

    from analysis.accelerators.loopnest.mapping import mapping_yaml
    from analysis.accelerators.mapper.best_mapping import best_mapping, best_of
    from analysis.accelerators.timeloop.files import read_constrained
    from analysis.errors import InputError
    from analysis.progress import Progress
    from analysis.sweeps import sweep
    from analysis.tables import write_atomic

    names = [one.stem for one in layer]
    if len(set(names)) < len(names):
        raise InputError("two layers have one file name, and so would their mappings", key="--layer")
    asked = [read_constrained(arch, one, ert=ert, constraints=constraints or ()) for one in layer]
    if scheduler:
        answers = sweep(partial(best_of, objective=objective.value, workers=workers), asked, scheduler=scheduler)
    else:
        with Progress() as progress:
            progress(0, 0, "listing and bounding configurations")
            answers = [best_mapping(*one, objective.value, workers=workers, progress=progress) for one in asked]
    for name, (_, architecture), found in zip(names, asked, answers, strict=True):
        text = mapping_yaml(found.mapping, architecture, name)
        if out:
            write_atomic(out if len(layer) == 1 else out / f"{name}.yaml", text.encode())
        else:
            typer.echo(text)
        cost, counted = found.evaluation, found.statistics
        typer.echo(
            f"{f'{name}: ' if len(layer) > 1 else ''}{'proven optimum' if found.proven else 'best found, not proven,'} "
            f"for {objective.value}: {cost.cycles} cycles, "
            f"{cost.lanes_used} of {cost.lanes} units, {cost.energy_j * 1e6:.4f} uJ; {found.tilings} tilings before capacities and orders, "
            f"{counted['configurations']} inner configurations bounded, {counted['nodes_visited']} nodes visited, "
            f"{counted['nodes_expanded']} expanded, {counted['mappings_evaluated']} mappings evaluated, {found.cpu_s:.2f} CPU-seconds",
            err=True,
        )
