"""`python -m analysis NAME ...`: runs the command in `analysis/commands/NAME.py`."""

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


def main(arguments: list[str]) -> int:
    """Run one command; returns the exit status (2: bad input, told in one line)."""
    names = command_names()
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: python -m analysis COMMAND [ARGUMENTS]   (COMMAND --help says more)\n")
        for name in names:
            print(f"  {name:<12} {summary(name)}")
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in names:
        print(f"error: no command {name!r}; there are: {', '.join(names)}", file=sys.stderr)
        return 2
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
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
