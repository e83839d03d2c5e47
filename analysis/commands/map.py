"""The best mapping of a layer on a design, proven over the whole constrained space."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help=__doc__, add_completion=False)


class Goal(StrEnum):
    """What is minimised."""

    latency = "latency"
    energy = "energy"
    edp = "edp"


@app.command()
def main(
    arch: Annotated[Path, typer.Option(help="design and its constraints: YAML as in data/recorded/timeloop/architecture.yaml")],
    layer: Annotated[Path, typer.Option(help="layer: YAML map of N, C, M, P, Q, R, S, stride")],
    objective: Annotated[Goal, typer.Option(help="what to minimise")] = Goal.edp,
    out: Annotated[Path | None, typer.Option(help="YAML to write the mapping to; printed otherwise")] = None,
    workers: Annotated[int, typer.Option(min=1, help="threads")] = 1,
) -> None:
    """Search every mapping that the constraints allow, and say how large the space was and how it was pruned."""
    import sys

    from analysis.accelerators.architecture import read_architecture
    from analysis.accelerators.layer import read_layer
    from analysis.accelerators.mapper import best_mapping
    from analysis.accelerators.mapping import mapping_yaml
    from analysis.tables import write_atomic

    architecture, problem = read_architecture(arch), read_layer(layer)
    with typer.progressbar(length=1000, label="configurations", file=sys.stderr) as bar:
        found = best_mapping(
            problem, architecture, objective.value, workers=workers, progress=lambda done, total: bar.update(1000 * done // total - bar.pos)
        )
        bar.update(1000 - bar.pos)
    text = mapping_yaml(found.mapping, architecture, layer.stem)
    if out:
        write_atomic(out, text.encode())
    else:
        typer.echo(text)
    cost, counted = found.evaluation, found.statistics
    typer.echo(
        f"{'proven optimum' if found.proven else 'best found, not proven'} for {objective.value}: {cost.cycles} cycles, "
        f"{cost.lanes_used} of {cost.lanes} units, {cost.energy_j * 1e6:.4f} uJ; {found.tilings} tilings before capacities and orders, "
        f"{counted['configurations']} inner configurations bounded, {counted['splits']} splits looked at, {counted['opened']} opened, "
        f"{counted['priced']} mappings priced, {found.cpu_s:.2f} CPU-seconds",
        err=True,
    )
