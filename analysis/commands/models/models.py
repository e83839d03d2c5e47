"""Models by name, or of a config.json: parameters, weights, key-value cache."""

from __future__ import annotations

from typing import Annotated

import typer

from analysis.commands.common.options import Json, in_words, print_json

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main(
    model: Annotated[
        str, typer.Argument(help="name, alias or checkpoint's name, or path of a Hugging Face config.json; without it all are listed")
    ] = "",
    json: Json = False,
) -> None:
    """List the models, or show one: its parameters, the bytes of its weights, and of a token's key-value cache in 16 bits."""
    from analysis.workloads import models

    if model:
        named, kind = models.load(model), models.type_in_name(model)
        if kind and kind not in named.types.model_dump().values():
            named = named.model_copy(
                update={"types": models.WeightTypes.model_validate(dict.fromkeys(("attention", "dense", "experts"), kind))}
            )
        found = models.facts(named)
        if json:
            print_json(found)
            return
        for key, value in found.items():
            typer.echo(f"{key:34s} {in_words(value)}")
        return
    every = [models.facts(one) for one in models.all_models().values()]
    if json:
        print_json({"models": every})
        return
    typer.echo(
        f"{'name':22s} {'parameters':>18s} {'active':>16s} {'weights (GB)':>13s} {'KV (bytes/token)':>17s} {'context':>10s}  also called"
    )
    for one in every:
        cache = f"{one['kv_bytes_per_token']:17,.0f}" if one.get("causal", True) else f"{'none (encoder)':>17s}"
        sizes = f"{one['parameters']:18,} {one['active_parameters']:16,} {one['weight_bytes'] / 1e9:13,.1f} {cache}"
        typer.echo(f"{one['name']:22s} {sizes} {one.get('context') or '':>10}  {', '.join(one.get('aliases', ()))}")
