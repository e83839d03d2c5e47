"""`python -m analysis [--debug] NAME ...`, installed `howfast NAME ...`: runs a command of `PACKAGES`.

Exit status: 0 done; 1 a check failed; 2 bad input, told in one line; 70 a fault of this program, told in one line (`--debug` shows where).
"""

from __future__ import annotations

import ast
import gc
import importlib
import json
import os
import shlex
import signal
import sys
from functools import cache
from pathlib import Path
from typing import Any

from analysis.call_stack import in_one_piece
from analysis.paths import CHECKOUT, DATA, EXAMPLES, HOME

GROUPS = {"models": "predictions of your own input", "evaluation": "measurements and scores", "repository": "the repository itself"}
"""Groups of commands, and what `--help` calls them; a wheel has no notebooks, pages, ledger or records for the last."""
PACKAGES = {"models": "commands.models", "evaluation": "artifact.commands.evaluation", "repository": "artifact.commands.repository"}
"""Where in `analysis` the commands of a group stand."""
PROGRAM = "python -m analysis" if CHECKOUT else "howfast"


EXTRAS = {"pyarrow": "parquet", "matplotlib": "plot", "jax": "hlo", "jaxlib": "hlo", "onnx": "onnx", "dask": "cluster"}
EXTRAS |= {"distributed": "cluster"} | dict.fromkeys(("cryptography", "networkx", "opentelemetry", "optax", "scipy", "sklearn"), "learning")
"""Package that a command may miss -> the extra of the wheel that brings it."""


def _folder(group: str) -> Path:
    return Path(__file__).parent / PACKAGES[group].replace(".", "/")


def command_names(*groups: str) -> list[str]:
    """Names of the commands there are in some groups (in all that work here), sorted."""
    asked = groups or [group for group in GROUPS if CHECKOUT or group != "repository"]
    return sorted({path.stem for group in asked for path in _folder(group).glob("[!_]*.py")})


def summary(group: str, name: str) -> str:
    """First line of a command's docstring, read without importing it."""
    text = (_folder(group) / f"{name}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").split("\n")[0]


def version() -> str:
    """Version of the package, as installed or as its project file says."""
    if CHECKOUT:
        text = (HOME / "pyproject.toml").read_text(encoding="utf-8")
        return next(line.split('"')[1] for line in text.splitlines() if line.startswith("version"))
    from importlib.metadata import version as installed

    return installed("howfast")


def example(name: str, into: str | None = None, subcommand: str = "") -> int:
    """Print the small inputs of a command and the lines that use them, or copy them into a folder; returns the exit status."""
    files = sorted(path for path in (EXAMPLES / name).glob("*") if path.is_file() and path.name != RUN)
    lines = (EXAMPLES / name / RUN).read_text(encoding="utf-8").splitlines() if (EXAMPLES / name / RUN).is_file() else []
    if subcommand:
        asked = [line for line in lines if line.split()[2:3] == [subcommand]]
        made = {line.split()[-1] for line in lines}
        needed = [line for line in lines if line.split()[-1] in made & {word for other in asked for word in other.split()[:-1]}]
        lines = [line for line in lines if line in asked or line in needed]
        files = [path for path in files if any(path.name in line.split() for line in lines)]
    if not lines:
        there = ", ".join(sorted(path.name for path in EXAMPLES.glob("*") if path.is_dir()))
        print(f"error: no example of {f'{name} {subcommand}'.strip()}; there are: {there}", file=sys.stderr)
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
    # in a folder elsewhere `python -m analysis` finds no package
    program = PROGRAM if into is None or not CHECKOUT else f"PYTHONPATH={shlex.quote(str(HOME))} {shlex.quote(sys.executable)} -m analysis"
    for line in lines:
        print(line.replace("howfast", program))
    for path in files if into is None else ():
        content = path.read_bytes()
        text = content.decode("utf-8").rstrip() if b"\0" not in content else f"({len(content):,} bytes)"
        print(f"\n# {path.relative_to(EXAMPLES.parent)}\n{text}")
    return 0


RUN = "commands.txt"
"""In a folder of `examples`: the lines that use its files, which a test runs from an installed wheel."""
UNFORESEEN = 70  # EX_SOFTWARE of sysexits.h


@cache
def retired(kind: str) -> dict[str, str]:
    """Commands, or options and values of one, of earlier editions -> what does their work now."""
    return dict(json.loads((DATA / "workloads" / "retired.json").read_text(encoding="utf-8"))[kind])


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
    if arguments[:1] == ["--version"]:
        print(f"howfast {version()}")
        return 0
    if arguments[:1] == ["--completion"]:
        if arguments[1:] not in (["bash"], ["zsh"]):
            print("error: --completion: expected bash or zsh", file=sys.stderr)
            return 2
        print("autoload -U +X bashcompinit && bashcompinit\n" * (arguments[1] == "zsh") + COMPLETION, end="")
        return 0
    if arguments[:1] == ["--complete"]:
        print(*complete(arguments[1:]), sep="\n")
        return 0
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(f"usage: {PROGRAM} [--debug] COMMAND [ARGUMENTS]\n")
        print("COMMAND --help says more; COMMAND --example shows an input and how to use it, COMMAND --example FOLDER puts it there;")
        print("--debug shows where a fault of this program is; --version prints the version;")
        print('eval "$(howfast --completion bash)" (or zsh) completes commands, options, devices and models')
        for group, title in GROUPS.items():
            if CHECKOUT or group != "repository":
                print(f"\n{title}:", *(f"  {name:<12} {summary(group, name)}" for name in command_names(group)), sep="\n")
        return 0
    names = command_names()
    name, rest = arguments[0], arguments[1:]
    if name not in names and name in command_names("repository"):
        print(f"error: {name} works on the repository, which an installed package is not: run it in a clone", file=sys.stderr)
        return 2
    gone = next((old for old in (" ".join([name, *rest[:1]]), name) if old in retired("commands")), "")
    if name not in names or gone:
        from analysis.case_columns import nearest

        meant = retired("commands").get(gone) or (f"did you mean {near}? " if (near := nearest(name, names)) else "")
        print(f"error: no command {(gone or name)!r}; {meant}there are: {', '.join(names)}", file=sys.stderr)
        return 2
    from analysis.errors import DatasetMissing, InputError

    given = [part for word in rest for part in (word.split("=", 1) if word.startswith("--") else [word])]  # --option=value is two
    for at, option in enumerate(given):
        gone = next((old for old in (" ".join([name, *given[at : at + 2]]), f"{name} {option}") if old in retired("options")), "")
        if gone:
            print(f"error: {gone.partition(' ')[2]} of an earlier edition is gone from {name}; {retired('options')[gone]}", file=sys.stderr)
            return 2
    try:
        if "--example" in rest[:2]:
            at = rest.index("--example")
            if len(rest) <= at + 2:
                return example(name, next(iter(rest[at + 1 :]), None), "".join(rest[:at]))
        app = _app(name)
        _written_over(given)
        result = app(args=_by_our_names(app, rest), prog_name=f"{PROGRAM} {name}", standalone_mode=True)
        return int(result or 0)
    except SystemExit as stop:
        if "--help" in rest and not stop.code:
            print(columns(" ".join([name, *rest[: rest.index("--help")]][:2])), end="")
        return stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    except (InputError, DatasetMissing) as error:
        from analysis.foreign import kind

        whose = kind(path) if (path := getattr(error, "path", None)) else ""
        taken_here = f"`{' '.join([name, *rest][:2])}` takes it" in whose
        print(f"error: {path}: {whose}" if whose and not taken_here else f"error: {error}", file=sys.stderr)
        return 2


def _app(name: str) -> Any:
    """A command; that of several groups has the subcommands of all: `kernels` predicts your input, and is scored."""
    groups = [group for group in GROUPS if name in command_names(group)]
    app, *others = [importlib.import_module(f"analysis.{PACKAGES[group]}.{name}").app for group in groups]
    for other in others:
        app.registered_commands += [one for one in other.registered_commands if one not in app.registered_commands]
    return app


COMPLETION = """_howfast() { COMPREPLY=($(howfast --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)); }
complete -o default -F _howfast howfast
"""
"""For bash, and for zsh with its emulation: the shell asks the program, and falls back to files."""


def complete(words: list[str]) -> list[str]:
    """What may stand for the last of the words that were typed after the program's name."""
    *before, begun = words or [""]
    names = command_names()
    if not before:
        return [name for name in names if name.startswith(begun)]
    if before[0] not in names:
        return []
    if before[-1] in ("--device", "--devices"):
        from analysis.hardware.devices import all_devices

        return [name for name in all_devices() if name.lower().startswith(begun.lower())]
    if before[-1] == "--model":
        from analysis.workloads.models import all_models

        return [name for name in all_models() if name.lower().startswith(begun.lower())]
    from typer.main import get_command

    found: Any = get_command(_app(before[0]))
    commands = getattr(found, "commands", {})
    if commands and len(before) == 1 and not begun.startswith("-"):
        return [name for name in commands if name.startswith(begun)]
    command = commands.get(before[1], found) if len(before) > 1 else found
    options = [option for param in command.params for option in param.opts if option.startswith("--")]
    return [option for option in [*options, "--help", "--example"] if begun.startswith("-") and option.startswith(begun)]


OUTPUTS = ("--out", "--timeline", "--plot", "--trace")


def _written_over(words: list[str]) -> None:
    """Refuse an output that is a file which the same command is given to read."""
    from analysis.errors import InputError

    outputs = {at + 1 for at, word in enumerate(words) if word in OUTPUTS}
    read = {os.path.realpath(word) for at, word in enumerate(words) if at not in outputs and word and os.path.isfile(word)}
    for at in outputs & set(range(len(words))):
        if os.path.realpath(words[at]) in read:
            raise InputError("cannot be written: the same command uses this file for something else", path=words[at], key=words[at - 1])


def _by_our_names(app: object, arguments: list[str]) -> list[str]:
    """Arguments, with options by any name of `vocabulary.NAMES` called as the command calls them."""
    from typer.main import get_command

    from analysis.errors import InputError
    from analysis.vocabulary import ALSO, read_as

    found: Any = get_command(app)  # type: ignore[arg-type]
    commands = getattr(found, "commands", {})
    command = commands.get("".join(arguments[:1]), commands.get("step", found))  # `train CONFIG.yaml` is `train step CONFIG.yaml`
    known = {option[2:].replace("-", "_") for param in command.params for option in param.opts if option.startswith("--")}
    single = {
        option for param in command.params if getattr(param, "is_flag", None) is False and not param.multiple for option in param.opts
    }
    printed = {option: getattr(param, "help", None) or "" for param in command.params for option in param.opts}
    called: list[str] = []
    first: dict[str, tuple[str, str]] = {}
    for at, word in enumerate(arguments):
        option, equals, value = word.partition("=")
        name = option[2:].replace("-", "_")
        if option.startswith("--") and name not in known and (meant := read_as(name, known, ALSO)):
            option = f"--{meant.replace('_', '-')}"
        called.append(option + equals + value)
        if option in single:
            value = value if equals else "".join(arguments[at + 1 : at + 2])
            before, earlier = first.setdefault(option, (word.partition("=")[0], value))
            if value != earlier:
                raise InputError(f"{value!r}, and {before} {earlier!r}: one quantity is given twice", key=word.partition("=")[0])
            if value.strip().lower() in ("nan", "+nan", "-nan"):
                raise InputError("is no number (nan)", key=word.partition("=")[0])
            if value == "-" and option in OUTPUTS and "standard output" not in printed[option]:
                raise InputError("expected the name of a file or folder: this does not go to standard output", key=option)
    return called


def columns(command: str) -> str:
    """What `--help` adds for a command that reads a table: its columns, with what each says where that is declared."""
    from analysis.case_columns import COMMANDS, TABLES, reads

    if command not in {**COMMANDS, **TABLES}:
        return ""
    found = reads(command)
    said = found.meanings
    lines = [f"  {found.ours(name):<28} {said.get(name, '')}{' (required)' * (name in found.required)}".rstrip() for name in found.names]
    spelt = [f"{name} for {found.ours(name)}" for name in found.names if found.ours(name) != name]
    spelt += [f"{theirs} for {found.ours(ours)}" for theirs, ours in found.aliases.items() if theirs != found.ours(ours)]
    spelt += ["the names of other tools, such as tp_size, isl and model_path"]
    more = f"Also read: {', '.join(spelt)}.\n" if command in COMMANDS else ""
    return "\n".join(["Columns of the table:", *lines, ""]) + f"{more}Other columns are carried through, and named on standard error.\n"


def console() -> None:
    """The command `howfast`."""
    for name in ("SIGTERM", "SIGHUP"):  # by default they end a process where it stands, its temporary files beside it
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: sys.exit(128 + number))
    sys.exit(in_one_piece(main, sys.argv[1:]))


if __name__ == "__main__":
    console()
