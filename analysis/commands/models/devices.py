"""Devices: peak, memory and bandwidth of each, and where the numbers come from."""

from __future__ import annotations

from typing import Annotated

import typer

from analysis.commands.common.options import Json, in_words, print_json

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main(
    device: Annotated[str, typer.Argument(help="name, alias or the path of a file of your own; without it all are listed")] = "",
    json: Json = False,
    as_yaml: Annotated[
        bool, typer.Option("--yaml", help="the device as a file to edit; its path stands wherever a device is asked for")
    ] = False,
) -> None:
    """List the devices, or show one: dense peak by type (FLOP/s), memory (bytes), bandwidth (bytes/s) and sources."""
    from analysis.errors import InputError
    from analysis.hardware import devices, own

    if as_yaml:
        if not device:
            raise InputError("which device? name one that is near to yours", key="--yaml")
        typer.echo(own.as_file(devices.load(device)), nl=False)
        return

    every = [devices.facts(one) for one in ([devices.load(device)] if device else devices.all_devices().values())]
    if json:
        print_json(every[0] if device else {"devices": every})
        return
    if device:
        for key, value in every[0].items():
            typer.echo(f"{key:30s} {in_words(value)}")
        return
    typer.echo(f"{'name':24s} {'TFLOP/s (dense)':44s} {'GB':>7s} {'TB/s':>6s}  also called; source")
    for one in every:
        peaks = " ".join(
            f"{kind} {peak / 1e12:g}" for kind, peak in one["peak_flop_per_s"].items() if kind in ("fp32", "bf16", "fp8", "fp4")
        )
        sizes = f"{one['memory_bytes'] / 1e9:7.0f} {one['memory_bandwidth_bytes_per_s'] / 1e12:6.2f}"
        typer.echo(f"{one['name']:24s} {peaks:44s} {sizes}  {', '.join(one['aliases'])}; {one['source']}")
