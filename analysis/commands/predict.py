"""One answer with an error bar: training steps and offline batches from workload, hardware, software and plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="CSV to write: the cases, in their order, with the answer behind each")]
Scheduler = Annotated[str, typer.Option(help="address of a dask scheduler over whose workers the rows are spread")]


@app.command()
def training(
    cases: Annotated[Path, typer.Argument(help="CSV, a training run a row: model or its sizes, system, gpus, batch, plan, precision")],
    out: Out,
    scheduler: Scheduler = "",
) -> None:
    """Time and memory of a training step, with a 90 % interval; a row that cannot be answered says why in `status`."""
    from analysis.composition.case_files import answer_file
    from analysis.composition.training.answers import answers

    done, not_done = answer_file(cases, out, answers, scheduler)
    typer.echo(f"{done} cases answered, {not_done} not, in {out}")


@app.command()
def batch(
    cases: Annotated[
        Path, typer.Argument(help="CSV, a batch a row: hardware, devices, framework, model, input_tokens, output_tokens, batch_size")
    ],
    out: Out,
    scheduler: Scheduler = "",
) -> None:
    """Latency of an offline batch, with a 90 % interval; a row that cannot be answered says why in `status`."""
    from analysis.composition.batch.answers import answers
    from analysis.composition.case_files import answer_file

    done, not_done = answer_file(cases, out, answers, scheduler)
    typer.echo(f"{done} cases answered, {not_done} not, in {out}")
