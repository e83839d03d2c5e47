"""Rank designs of a CPU core by a learned model, and seal traces: NeuroScalar's system."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def key(out: Annotated[Path, typer.Option(help="file to write; must not exist")]) -> None:
    """Make a random key that seals traces."""
    from analysis.studies.cores.system.sealed import write_key

    write_key(out)


@app.command()
def seal(
    source: Annotated[Path, typer.Argument(help="trace (.npz)")],
    key: Annotated[Path, typer.Option(help="key file")],
    out: Annotated[Path, typer.Option(help="sealed trace to write")],
) -> None:
    """Encrypt a trace (AES-256-GCM)."""
    from analysis.studies.cores.system.sealed import read_key
    from analysis.studies.cores.system.sealed import seal as seal_file

    seal_file(source, out, read_key(key))


@app.command()
def unseal(
    source: Annotated[Path, typer.Argument(help="sealed trace")],
    key: Annotated[Path, typer.Option(help="key file")],
    out: Annotated[Path, typer.Option(help=".npz file to write")],
) -> None:
    """Decrypt a sealed trace."""
    from analysis.studies.cores.system.sealed import read_key, unseal_file

    unseal_file(source, out, read_key(key))


@app.command()
def rank(
    trace: Annotated[Path, typer.Argument(help="trace (.npz) that `core trace` wrote, from the start of the program")],
    model: Annotated[str, typer.Option(help="name of a shipped model (ours) or the path of a .safetensors file")] = "ours",
    limit: Annotated[int | None, typer.Option(min=1, help="look at so many instructions at most, from the start")] = 4_000_000,
    blocks: Annotated[int, typer.Option(min=1, help="blocks of 2048 instructions to predict, evenly spread")] = 256,
    out: Annotated[Path | None, typer.Option(help="CSV file for the ranking")] = None,
) -> None:
    """Predicted cycles of a trace on each design, the order of the designs, and how sure the order is."""
    from analysis.studies.cores.learning.model_files import model_path, read_trunk
    from analysis.studies.cores.system.rank import rank as rank_designs
    from analysis.studies.cores.trace_files import count_instructions, read_trace
    from analysis.tables import check_output, write_csv

    if out is not None:
        check_output(out, trace, model)
    trunk = read_trunk(model_path(model))
    ranking = rank_designs(read_trace(trace, limit=limit), trunk, blocks)
    if out is not None:
        write_csv(ranking.table, out)
    last = "faster than the next: by resampling, on other programs"
    typer.echo(f"{'rank':>4} {'design':<10} {'cycles':>14} {'95 % of resampled blocks':>29} {'CPI':>7}  {last}")
    for row in ranking.table.to_dict("records"):
        elsewhere = row["right_order_elsewhere"]
        seen = f"{100 * elsewhere:.0f} %" if elsewhere == elsewhere else "too few pairs"
        sure = "" if row["rank"] == len(ranking.table) else f"{100 * row['faster_than_next']:.1f} %, {seen}"
        span = f"{row['cycles_low']:,} - {row['cycles_high']:,}"
        typer.echo(f"{row['rank']:>4} {row['design']:<10} {row['cycles']:>14,} {span:>29} {row['cpi']:>7.3f}  {sure}")
    typer.echo(f"{ranking.instructions:,} of {count_instructions(trace):,} instructions, {ranking.sampled:,} predicted", err=True)
    typer.echo(f"the model saw the code of {100 * ranking.known:.0f} % of them in training; unseen code is predicted less well", err=True)
    typer.echo(
        "by resampling: what the choice of blocks leaves open. On other programs: how often the model ordered two designs right that it "
        "put as far apart; on programs that it has not seen the first-order model alone, with nothing learned, orders as well",
        err=True,
    )
