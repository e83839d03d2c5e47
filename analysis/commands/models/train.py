"""Training steps: time, memory and breakdown of a parallel plan (train), or of every plan of a cluster (train search)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import typer.core

from analysis.commands.common.answers import asked_row
from analysis.commands.common.options import Scheduler, SiteFile


class _ConfigFirst(typer.core.TyperGroup):
    """`train CONFIG.yaml` runs the step; `train search CLUSTER.yaml` the search."""

    def parse_args(self, ctx, args):  # type: ignore[no-untyped-def]
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["step", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(help="Predict training steps of transformers.", cls=_ConfigFirst, no_args_is_help=True, add_completion=False)


@app.command()
def step(
    config: Annotated[
        Path | None, typer.Argument(help="model, system, plan, program and precision (YAML); `data schema train` prints its keys")
    ] = None,
    model: Annotated[str, typer.Option(help="without a file: a model's name or the path of its config.json")] = "",
    device: Annotated[str, typer.Option(help="a device or a machine")] = "",
    gpus: Annotated[str, typer.Option(help="devices in all")] = "",
    global_batch: Annotated[str, typer.Option(help="sequences a step")] = "",
    sequence_length: Annotated[str, typer.Option(help="tokens of a sequence")] = "",
    columns: Annotated[
        list[str] | None, typer.Option("--set", metavar="COLUMN=VALUE", help="another column of `predict training`; may be repeated")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="write the prediction as JSON")] = None,
    trace: Annotated[Path | None, typer.Option(help="folder to write Chakra traces of all ranks to")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the prediction as JSON")] = False,
    site: SiteFile = None,
) -> None:
    """Predict one training step, as `predict training` does (the word `step` may be left out): of a file, or of --model, --device, ..."""
    from analysis.configs import read_yaml
    from analysis.errors import InputError
    from analysis.site import read_site
    from analysis.tables import write_atomic
    from analysis.training import traces, views
    from analysis.training.config import Training, row_of
    from analysis.workloads.chakra.traces import write_trace

    if trace and trace.suffix == ".json":
        raise InputError(f"expected a folder for Chakra traces, got {trace.name!r}; timelines in one JSON are not written", key="--trace")
    said = {"model": model, "device": device, "gpus": gpus, "global_batch": global_batch, "sequence_length": sequence_length}
    said = {name: value for name, value in said.items() if value}
    if bool(config) == bool(said):
        raise InputError("expected either a file or a question (--model, --device, --gpus, --global-batch, --sequence-length)", key="train")
    own = read_site(site)
    row = asked_row(row_of(read_yaml(config, Training)) if config else said, columns or [], "predict training")
    try:
        answer = views.ask(row, own)
        nodes, groups = traces.step_nodes(answer) if trace else ([], {})
    except InputError as error:
        raise (error.of(config) if config else error) from None
    typer.echo(views.as_json(answer) if as_json else views.text(answer), nl=not as_json)
    if out:
        write_atomic(out, views.as_json(answer).encode())
    if trace:
        write_trace(nodes, trace, config.stem if config else "step", groups)


@app.command()
def search(
    cluster: Annotated[Path, typer.Argument(help="model, system and what to try (YAML); `data schema train_search` prints its keys")],
    out: Annotated[Path, typer.Option(help="every plan (CSV), fastest first, tight ones after those that surely fit")],
    scheduler: Scheduler = "",
) -> None:
    """Every plan of a cluster as `predict training` answers it: those that surely fit, then tight ones; others keep their reason."""
    from analysis.configs import read_yaml
    from analysis.progress import Progress
    from analysis.tables import check_output, write_csv
    from analysis.training import views
    from analysis.training.config import Cluster, search_of
    from analysis.training.search import search as find

    check_output(out, cluster)
    asked = read_yaml(cluster, Cluster)
    with Progress() as progress:
        table = find(*search_of(asked), scheduler, progress)
    write_csv(table, out)
    typer.echo(views.search_text(table))
