"""Throughput of basic blocks from measured ones: accuracy on held-out blocks and on instructions never seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.commands.common.answers import check_header

app = typer.Typer(help=__doc__, add_completion=False)


@app.callback()
def _group() -> None:
    """Keep the commands subcommands."""


@app.command()
def evaluate(
    data: Annotated[
        Path, typer.Argument(help="table of measured blocks, PMEvo's columns: arch, iseq, cycles, sum_singletons, max_singletons")
    ],
    arch: Annotated[list[str] | None, typer.Option(help="only this core (may be repeated)")] = None,
    seed: Annotated[int, typer.Option(help="of the splits and starts")] = 0,
    members: Annotated[int, typer.Option(min=1, help="fits averaged in the port model")] = 5,
    quick: Annotated[bool, typer.Option(help="only the port model, the additive one and other tools' columns")] = False,
    out: Annotated[Path | None, typer.Option(help="write the table here as CSV")] = None,
) -> None:
    """Fit each predictor on four fifths of a core's blocks, and report all on the rest; likewise on blocks with unseen instructions."""
    from dataclasses import replace

    import pandas as pd

    from analysis.studies.cores.blocks import data as basic_block_data
    from analysis.studies.cores.blocks import ports as basic_block_ports
    from analysis.studies.cores.blocks import trial as basic_block_trial
    from analysis.tables import read_csv, write_csv

    check_header("blocks evaluate", data)
    frame = read_csv(data, required=basic_block_data.REQUIRED)
    settings = replace(basic_block_ports.PortSettings(), members=members)
    methods = ("additive", "ports") if quick else basic_block_trial.METHODS
    cores = arch or list(dict.fromkeys(frame["arch"]))
    tables = [basic_block_trial.compare(basic_block_data.from_table(frame, core, data), settings, [seed], methods) for core in cores]
    table = pd.concat(tables, ignore_index=True)
    if out is not None:
        write_csv(table, out)
    shown = table.drop(columns="seed").rename(
        columns={"mape": "MAPE (%)", "median_error": "median (%)", "p90_error": "90th (%)", "max_error": "max (%)"}
    )
    typer.echo(shown.round(2).to_string(index=False))
