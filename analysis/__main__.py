"""`python -m analysis [--debug] NAME ...`: runs the command in `analysis/commands/NAME.py`.

Exit status: 0 done; 1 a check failed; 2 bad input, told in one line; 70 a fault of this program, told in one line (`--debug` shows where).
"""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

COMMANDS = Path(__file__).parent / "commands"


def command_names() -> list[str]:
    """Names of the commands there are, sorted."""
    return sorted(path.stem for path in COMMANDS.glob("*.py") if path.stem != "__init__")


def summary(name: str) -> str:
    """First line of a command's docstring, read without importing it."""
    text = (COMMANDS / f"{name}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").split("\n")[0]


EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name: str) -> int:
    """Print the small inputs of a command, with their paths; returns the exit status."""
    files = sorted(path for path in (EXAMPLES / name).glob("*") if path.is_file())
    if not files:
        there = ", ".join(sorted(path.name for path in EXAMPLES.glob("*") if path.is_dir()))
        print(f"error: no example of {name}; there are: {there}", file=sys.stderr)
        return 2
    for path in files:
        print(f"# {path.relative_to(EXAMPLES.parent)}\n{path.read_text(encoding='utf-8').rstrip()}\n")
    return 0


UNFORESEEN = 70  # EX_SOFTWARE of sysexits.h


def main(arguments: list[str]) -> int:
    """Run one command; returns the exit status."""
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
        if isinstance(error, OSError) and error.errno is not None:  # a full disk, a folder that went away
            print(f"error: {shown(str(error.filename or 'a file'), 300)}: {error.strerror or what}", file=sys.stderr)
            return 2
        print(
            f"error: a fault of this program: {what} (python -m analysis --debug {' '.join(arguments[:1])} ... shows where)",
            file=sys.stderr,
        )
        return UNFORESEEN


def _run(arguments: list[str]) -> int:
    names = command_names()
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: python -m analysis [--debug] COMMAND [ARGUMENTS]\n")
        print("COMMAND --help says more, COMMAND --example shows an input; --debug shows where a fault of this program is\n")
        for name in names:
            print(f"  {name:<12} {summary(name)}")
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in names:
        print(f"error: no command {name!r}; there are: {', '.join(names)}", file=sys.stderr)
        return 2
    if rest == ["--example"]:
        return example(name)
    from analysis.datasets import DatasetMissing
    from analysis.errors import InputError

    app = importlib.import_module(f"analysis.commands.{name}").app
    try:
        result = app(args=rest, prog_name=f"python -m analysis {name}", standalone_mode=True)
        return int(result or 0)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    except (InputError, DatasetMissing) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
