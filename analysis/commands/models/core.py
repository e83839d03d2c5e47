"""CPU cores: trace a RISC-V program, time it on an out-of-order core."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
) -> None:
    """Time the program on an out-of-order core: instructions, cycles, IPC, mispredictions, misses."""
    from analysis.cores.timing.simulate_command import simulate_to_file

    typer.echo(simulate_to_file(program, design, out, limit), err=True)
