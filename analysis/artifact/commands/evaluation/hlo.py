"""Lower a workload of the zoo, or a JAX function of your own, to StableHLO."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def lower(
    name: Annotated[str, typer.Argument(help="workload of the zoo; list shows them; none with --jax")] = "",
    out: Annotated[
        Path | None, typer.Option(help="file to write: .mlir text, .mlirbc bytecode, .vhlo or .stablehlo portable artifact")
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="option of the workload, such as batch=8; may be given often")] = None,
    form: Annotated[str, typer.Option(help="text, bytecode or portable, whatever the file's name")] = "",
    partitioned: Annotated[bool, typer.Option(help="one device's module of a program split over several (text)")] = False,
    jax: Annotated[
        str, typer.Option(help="MODULE:FUNCTION, a JAX function of your own in place of the zoo's; importing MODULE runs the code in it")
    ] = "",
    arg: Annotated[list[str] | None, typer.Option(help="with --jax: type and shape of an argument, such as f32[64,128]; in order")] = None,
) -> None:
    """Lower a workload of the zoo, or a JAX function of your own, to StableHLO, from shapes alone; `list` shows what there is.

    In Python, with arguments that are trees: `open("step.mlir", "w").write(jax.jit(function).lower(*arguments).as_text())`.
    """
    from analysis.errors import InputError
    from analysis.studies.workloads.zoo import catalogue as zoo
    from analysis.studies.workloads.zoo import files as zoo_files

    if name == "list":
        for entry in zoo.entries().values():
            typer.echo(f"{entry.name:26} {entry.title}; " + " ".join(f"{key}={value}" for key, value in entry.options.items()))
        return
    if out is None:
        raise InputError("expected --out FILE", key="out")
    if bool(name) == bool(jax):
        raise InputError("expected the name of a workload (list shows them) or --jax MODULE:FUNCTION", key="name")
    if jax:
        if set_ or partitioned:
            raise InputError("is for workloads of the zoo, not for --jax", key="--set" if set_ else "--partitioned")
        size = zoo_files.save(zoo_files.own(jax, arg or []), out, form)
    else:
        size = zoo_files.write(name, zoo_files.options(set_ or []), out, form, partitioned)
    typer.echo(f"{out}: {size:,} bytes")
