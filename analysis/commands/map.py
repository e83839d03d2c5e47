"""The best mapping of a layer on a design, proven over the whole constrained space."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from analysis.commands.common.options import Plot, check_plot

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
    layer: Annotated[Path, typer.Option(help="layer: YAML of N, C, M, P, Q, R, S, stride (`data schema layer`), or Timeloop's own")],
    objective: Annotated[Goal, typer.Option(help="what to minimise")] = Goal.edp,
    out: Annotated[Path | None, typer.Option(help="YAML to write the mapping to; printed otherwise")] = None,
    workers: Annotated[int, typer.Option(min=1, help="threads")] = 1,
    ert: Annotated[Path | None, typer.Option(help="Timeloop's energy reference table, for a design in its own format")] = None,
    constraints: Annotated[list[Path] | None, typer.Option(help="Timeloop's constraints, besides those of the design")] = None,
    plot: Plot = None,
) -> None:
    """Search every mapping that the constraints allow, and say how large the space was and how it was pruned."""
    from analysis.accelerators.loopnest.mapping import mapping_yaml
    from analysis.accelerators.mapper.best_mapping import best_mapping
    from analysis.accelerators.timeloop.files import read_constrained
    from analysis.commands.common.progress import Progress
    from analysis.tables import write_atomic

    check_plot(plot, arch, layer, out)
    problem, architecture = read_constrained(arch, layer, ert=ert, constraints=constraints or ())
    with Progress() as progress:
        found = best_mapping(problem, architecture, objective.value, workers=workers, progress=progress)
    text = mapping_yaml(found.mapping, architecture, layer.stem)
    if out:
        write_atomic(out, text.encode())
    else:
        typer.echo(text)
    if plot is not None:
        from analysis.commands.common import plots

        plots.save(plots.energy_by_level(found.evaluation.energy_by_level(), found.evaluation.cycles), plot)
    cost, counted = found.evaluation, found.statistics
    typer.echo(
        f"{'proven optimum' if found.proven else 'best found, not proven,'} for {objective.value}: {cost.cycles} cycles, "
        f"{cost.lanes_used} of {cost.lanes} units, {cost.energy_j * 1e6:.4f} uJ; {found.tilings} tilings before capacities and orders, "
        f"{counted['configurations']} inner configurations bounded, {counted['nodes_visited']} nodes visited, "
        f"{counted['nodes_expanded']} expanded, {counted['mappings_evaluated']} mappings evaluated, {found.cpu_s:.2f} CPU-seconds",
        err=True,
    )
