"""Time operators and whole models on this machine's devices."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main(
    suite: Annotated[
        str,
        typer.Option(
            help="quick (about two minutes), full (more than 1,500 shapes) or composition (models and their operators, in CPU time)"
        ),
    ] = "quick",
    out: Annotated[Path, typer.Option(help="folder for the tables and machine.json")] = Path("_build/measured"),
    devices: Annotated[str, typer.Option(help="comma-separated, such as jax-1t-fp32,onnxruntime-2t-fp32; default: all there are")] = "",
    cores: Annotated[str, typer.Option(help="comma-separated cores to measure on; default: the last ones")] = "",
    stride: Annotated[int, typer.Option(help="measure only every n-th operator of the suite", min=1)] = 1,
    only: Annotated[str, typer.Option(help="operators or models; default: both")] = "",
) -> None:
    """Measure a suite."""
    from dataclasses import replace

    from analysis.artifact.measuring import suites
    from analysis.artifact.measuring.campaign import check_folder, measure_suite, noise_lines, write
    from analysis.artifact.measuring.devices import choose_cores, default_devices, parse
    from analysis.errors import InputError

    if suite not in ("quick", "full", "composition"):
        raise InputError(f"no suite {suite!r}; expected quick, full or composition", key="--suite")
    if only not in ("", "operators", "models"):
        raise InputError(f"expected operators or models, got {only!r}", key="--only")
    if not all(part.strip().isdigit() for part in cores.split(",") if cores):
        raise InputError(f"expected core numbers separated by commas, got {cores!r}", key="--cores")
    chosen = [parse(name.strip()) for name in devices.split(",")] if devices else default_devices()
    used = choose_cores(chosen, tuple(int(part) for part in cores.split(",")) if cores else None)
    check_folder(out)
    whole = suites.suite(suite)
    part = replace(
        whole, operators=() if only == "models" else whole.operators[::stride], models=() if only == "operators" else whole.models
    )
    result = measure_suite(part, chosen, used, suite, say=typer.echo)
    write(result, out)
    for line in noise_lines(result.facts):
        typer.echo(line)
    for reason, count in result.unsupported["unsupported"].value_counts().items():
        typer.echo(f"not measured: {count} times: {reason}")
    typer.echo(f"{len(result.measurements)} operators and {len(result.models)} models on {len(chosen)} devices, in {out}")
