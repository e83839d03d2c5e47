"""Accuracy of fp32 kernel predictors: ours on measured tables, anyone's predictions on the blind rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.commands.common.answers import check_header, tell_table

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def evaluate(
    data: Annotated[Path, typer.Argument(help="measured table: the columns of the cases and latency_ms; NeuSight's tables as they are")],
    split: Annotated[
        str, typer.Option(help="leave-one-device-out, old-to-new, unseen-shapes, new-operators or random")
    ] = "leave-one-device-out",
    out: Annotated[Path | None, typer.Option(help="CSV to write the accuracy to; without it, it is printed")] = None,
    seed: Annotated[int, typer.Option(help="of the draws")] = 0,
) -> None:
    """Fit on one part of a measured table, predict the rest, and report the error by operator group and device."""
    from analysis.studies.kernels.fp32.evaluation import evaluate_file

    check_header("kernels evaluate", data)
    tell_table(evaluate_file(data, split, seed), out)


@app.command()
def score(
    predictions: Annotated[
        Path, typer.Argument(help="CSV with the columns of the cases and latency_ms as predicted; lower_ms and upper_ms if you have them")
    ],
    split: Annotated[
        str, typer.Option(help="which blind rows: leave-one-device-out, old-to-new or unseen-shapes")
    ] = "leave-one-device-out",
    out: Annotated[Path | None, typer.Option(help="CSV to write the accuracy to; without it, it is printed")] = None,
) -> None:
    """Score anyone's predictions against the measured kernels of the datasets (make data), on the rows that a split leaves blind."""
    from analysis.studies.kernels.fp32.evaluation import score_file

    check_header("kernels score", predictions)
    tell_table(score_file(predictions, split), out)
