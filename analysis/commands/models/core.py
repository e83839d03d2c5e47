"""CPU cores: trace a RISC-V program, time it on an out-of-order core, rank designs by a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.commands.common.options import Plot, check_plot, save_plot

app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True)


@app.callback()
def main() -> None:
    """CPU cores: programs, traces, timing, ranking."""


@app.command()
def trace(
    program: Annotated[Path, typer.Argument(help="static RV64 Linux ELF executable")],
    out: Annotated[Path, typer.Option(help=".npz file to write: plain arrays, one entry an executed instruction")],
    limit: Annotated[int | None, typer.Option(min=1, help="stop after so many instructions")] = None,
    argument: Annotated[list[str] | None, typer.Option(help="argument of the program (may be repeated)")] = None,
) -> None:
    """Run the program; its output goes to standard output, its trace into the file, its exit code to standard error."""
    from analysis.cores.riscv.trace_command import trace_to_file

    typer.echo(trace_to_file(program, out, limit, tuple(argument or ())), err=True)


@app.command()
def simulate(
    program: Annotated[Path, typer.Argument(help="static RV64 Linux ELF executable")],
    design: Annotated[str, typer.Option(help="8w, 6w+ls, rob, lsq, 4w+mem, or a design's YAML file (`data schema core_design`)")],
    out: Annotated[Path, typer.Option(help="CSV file to write: one row of counters")],
    limit: Annotated[int | None, typer.Option(min=1, help="only the first so many instructions")] = None,
    per_instruction: Annotated[Path | None, typer.Option(help=".npz file for the retire cycle of each instruction")] = None,
    plot: Plot = None,
) -> None:
    """Time the program on an out-of-order core: instructions, cycles, IPC, mispredictions, misses."""
    from analysis.cores.timing.simulate_command import cpi_stack, simulate_to_file

    check_plot(plot, program, design, out, per_instruction)  # type: ignore[arg-type]
    typer.echo(simulate_to_file(program, design, out, limit, per_instruction), err=True)
    save_plot(plot, lambda plots: plots.cpi_stack({program.stem: cpi_stack(program, design, limit)}))


@app.command()
def build(
    out: Annotated[Path | None, typer.Option(help="folder for the executables; default: beside the sources")] = None,
    compiler: Annotated[str, typer.Option(help="zig (from PyPI) or gcc (Debian's cross compiler)")] = "zig",
) -> None:
    """Compile the programs of our own from their C sources."""
    from analysis.cores.riscv.programs import COMPILERS, SOURCES, program_names
    from analysis.cores.riscv.programs import build as compile_program
    from analysis.errors import InputError

    if compiler not in COMPILERS:
        raise InputError(f"expected one of {', '.join(COMPILERS)}, got {compiler!r}", key="--compiler")
    folder = out or SOURCES
    folder.mkdir(parents=True, exist_ok=True)
    for name in program_names():
        typer.echo(compile_program(name, folder, compiler))


@app.command()
def key(out: Annotated[Path, typer.Option(help="file to write; must not exist")]) -> None:
    """Make a random key that seals traces."""
    from analysis.cores.system.sealed import write_key

    write_key(out)


@app.command()
def seal(
    source: Annotated[Path, typer.Argument(help="trace (.npz)")],
    key: Annotated[Path, typer.Option(help="key file")],
    out: Annotated[Path, typer.Option(help="sealed trace to write")],
) -> None:
    """Encrypt a trace (AES-256-GCM)."""
    from analysis.cores.system.sealed import read_key
    from analysis.cores.system.sealed import seal as seal_file

    seal_file(source, out, read_key(key))


@app.command()
def unseal(
    source: Annotated[Path, typer.Argument(help="sealed trace")],
    key: Annotated[Path, typer.Option(help="key file")],
    out: Annotated[Path, typer.Option(help=".npz file to write")],
) -> None:
    """Decrypt a sealed trace."""
    from analysis.cores.system.sealed import read_key, unseal_file

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
    from analysis.cores.learning.model_files import model_path, read_trunk
    from analysis.cores.riscv.trace import count_instructions, read_trace
    from analysis.cores.system.rank import rank as rank_designs
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
