"""CPU cores: trace a RISC-V program, time it on an out-of-order core, rank designs by a model."""

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
) -> None:
    """Run the program; its output goes to standard output, its trace into the file, its exit code to standard error."""
    from analysis.cores.trace_command import trace_to_file

    typer.echo(trace_to_file(program, out, limit), err=True)


@app.command()
def build(
    out: Annotated[Path | None, typer.Option(help="folder for the executables; default: beside the sources")] = None,
    compiler: Annotated[str, typer.Option(help="zig (from PyPI) or gcc (Debian's cross compiler)")] = "zig",
) -> None:
    """Compile the programs of our own from their C sources."""
    from analysis.cores.programs import COMPILERS, SOURCES, program_names
    from analysis.cores.programs import build as compile_program
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
    from analysis.cores.sealed import write_key

    write_key(out)


@app.command()
def seal(
    source: Annotated[Path, typer.Argument(help="trace (.npz)")],
    key: Annotated[Path, typer.Option(help="key file")],
    out: Annotated[Path, typer.Option(help="sealed trace to write")],
) -> None:
    """Encrypt a trace (AES-256-GCM)."""
    from analysis.cores.sealed import read_key
    from analysis.cores.sealed import seal as seal_file

    seal_file(source, out, read_key(key))


@app.command()
def unseal(
    source: Annotated[Path, typer.Argument(help="sealed trace")],
    key: Annotated[Path, typer.Option(help="key file")],
    out: Annotated[Path, typer.Option(help=".npz file to write")],
) -> None:
    """Decrypt a sealed trace."""
    from analysis.cores.sealed import read_key, unseal_file

    unseal_file(source, out, read_key(key))
