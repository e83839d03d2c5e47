"""`python -m analysis [--debug] NAME ...`, installed `howfast NAME ...`: runs the command in `analysis/commands/*/NAME.py`.

Exit status: 0 done; 1 a check failed; 2 bad input, told in one line; 70 a fault of this program, told in one line (`--debug` shows where).
"""

from __future__ import annotations

import ast
import gc
import importlib
import signal
import sys
from pathlib import Path

from analysis.paths import CHECKOUT, EXAMPLES

COMMANDS = Path(__file__).parent / "commands"
GROUPS = {"models": "predictions of your own input", "evaluation": "measurements and scores", "repository": "the repository itself"}
"""Folders of commands, and what `--help` calls them; a wheel has no notebooks, pages, ledger or records for the last."""
PROGRAM = "python -m analysis" if CHECKOUT else "howfast"


EXTRAS = {"pyarrow": "parquet", "matplotlib": "plot", "jax": "hlo", "jaxlib": "hlo", "dask": "cluster", "distributed": "cluster"}
EXTRAS |= dict.fromkeys(("cryptography", "networkx", "onnx", "onnxruntime", "opentelemetry", "optax", "scipy", "sklearn"), "learning")
"""Package that a command may miss -> the extra of the wheel that brings it."""


def command_names(*groups: str) -> list[str]:
    """Names of the commands there are in some groups (in all that work here), sorted."""
    asked = groups or [group for group in GROUPS if CHECKOUT or group != "repository"]
    return sorted(path.stem for group in asked for path in (COMMANDS / group).glob("[!_]*.py"))


def summary(group: str, name: str) -> str:
    """First line of a command's docstring, read without importing it."""
    text = (COMMANDS / group / f"{name}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").split("\n")[0]


def example(name: str, into: str | None = None) -> int:
    """Print the small inputs of a command and the lines that use them, or copy them into a folder; returns the exit status.

    Args:
        into: folder for copies, made if needed; a file that is there already is not touched.
    """
    files = sorted(path for path in (EXAMPLES / name).glob("*") if path.is_file() and path.name != RUN)
    lines = (EXAMPLES / name / RUN).read_text(encoding="utf-8").splitlines() if (EXAMPLES / name / RUN).is_file() else []
    if not lines:
        there = ", ".join(sorted(path.name for path in EXAMPLES.glob("*") if path.is_dir()))
        print(f"error: no example of {name}; there are: {there}", file=sys.stderr)
        return 2
    if into is not None:
        from analysis.errors import InputError
        from analysis.tables import write_atomic

        kept = [path.name for path in files if (Path(into) / path.name).exists()]
        if kept:
            raise InputError(f"is there already: {', '.join(kept)}", path=into)
        for path in files:
            write_atomic(Path(into) / path.name, path.read_bytes())
        print(f"{len(files)} files in {into}; there:")
    for line in lines:
        print(line.replace("howfast", PROGRAM))
    for path in files if into is None else ():
        content = path.read_bytes()
        text = content.decode("utf-8").rstrip() if b"\0" not in content else f"({len(content):,} bytes)"
        print(f"\n# {path.relative_to(EXAMPLES.parent)}\n{text}")
    return 0


RUN = "commands.txt"
"""In a folder of `examples`: the lines that use its files, which a test runs from an installed wheel."""
UNFORESEEN = 70  # EX_SOFTWARE of sysexits.h


def main(arguments: list[str]) -> int:
    """Run one command; returns the exit status."""
    gc.set_threshold(100_000)  # what imports make is no garbage, and looking for it is a tenth of a first answer
    debug = arguments[:1] == ["--debug"]
    arguments = arguments[debug:]
    try:
        return _run(arguments)
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if debug:
            raise
        from analysis.errors import shown

        what = shown(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__, 300)
        if isinstance(error, MemoryError):
            print(f"error: needs more memory than there is ({what})", file=sys.stderr)
            return 2
        if isinstance(error, ModuleNotFoundError) and not (error.name or "analysis").startswith("analysis"):
            extra = EXTRAS.get(error.name.split(".")[0] if error.name else "", "book")
            cure = f"pip install 'howfast[{extra}]' brings it"
            print(f"error: needs the package {error.name}; {cure}", file=sys.stderr)
            return 2
        if isinstance(error, OSError) and error.errno is not None:  # a full disk, a folder that went away
            print(f"error: {shown(str(error.filename or 'a file'), 300)}: {error.strerror or what}", file=sys.stderr)
            return 2
        print(
            f"error: a fault of this program: {what} ({PROGRAM} --debug {' '.join(arguments[:1])} ... shows where)",
            file=sys.stderr,
        )
        return UNFORESEEN


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"usage: {PROGRAM} [--debug] COMMAND [ARGUMENTS]\n")
        print("COMMAND --help says more; COMMAND --example shows an input and how to use it, COMMAND --example FOLDER puts it there;")
        print("--debug shows where a fault of this program is")
        for group, title in GROUPS.items():
            if CHECKOUT or group != "repository":
                print(f"\n{title}:", *(f"  {name:<12} {summary(group, name)}" for name in command_names(group)), sep="\n")
        return 0
    names = command_names()
    name, rest = arguments[0], arguments[1:]
    if name not in names and name in command_names("repository"):
        print(f"error: {name} works on the repository, which an installed package is not: run it in a clone", file=sys.stderr)
        return 2
    if name not in names:
        print(f"error: no command {name!r}; there are: {', '.join(names)}", file=sys.stderr)
        return 2
    from analysis.errors import DatasetMissing, InputError

    try:
        group = next(group for group in GROUPS if name in command_names(group))
        if rest[:1] == ["--example"] and len(rest) <= 2:
            return example(name, *rest[1:])
        app = importlib.import_module(f"analysis.commands.{group}.{name}").app
        result = app(args=rest, prog_name=f"{PROGRAM} {name}", standalone_mode=True)
        return int(result or 0)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    except (InputError, DatasetMissing) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def console() -> None:
    """The command `howfast`."""
    for name in ("SIGTERM", "SIGHUP"):  # by default they end a process where it stands, its temporary files beside it
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: sys.exit(128 + number))
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    console()
