"""Which columns does a command read from a file of cases, and what becomes of the others?

A column that the command does not read is refused where it looks like one that it reads or belongs to another command: left out, it would
turn the question into another one. Every other column is the user's own (an id, a note, a measured value) and is carried through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from analysis import vocabulary
from analysis.errors import InputError

COMMANDS = {
    "predict training": "analysis.training.cases",
    "predict batch": "analysis.serving.batch",
    "predict serving": "analysis.serving.points.cases",
    "predict recommend": "analysis.predict.recommend.choice",
    "predict collective": "analysis.networks.collective_cases",
    "collectives": "analysis.networks.case_table",
    "systolic": "analysis.accelerators.systolic.cases",
    "kernels predict": "analysis.kernels.cases",
}
"""Commands that answer files of cases, and the module whose `READS` declares their columns; loaded only where a column is unknown."""

TABLES = {
    "predict requests": "analysis.serving.points.request_answers",
    "measured score": "analysis.studies.suite.score",
    "replay": "analysis.networks.trace",
    "serve": "analysis.serving.requests",
    "blocks evaluate": "analysis.studies.cores.blocks.data",
}
"""Commands that read other tables, likewise; a column of theirs is no question to another command."""

SIMILAR = (
    ("gpus", "max_gpus", "devices", "tp_size"),
    ("framework", "backend", "engine", "engines", "program"),
    ("batch_size", "batch", "clients", "concurrency", "global_batch"),
    ("data_parallel", "dp", "dp_size", "data_parallel_size", "attention_dp_size"),
    ("zero", "sharding", "Sharding Strategy"),
)
"""Names that may mean one quantity and need not: a column that is refused is told which of them the command reads."""

USERS_OWN = ("id", "row_id", "name", "note", "notes", "comment", "label", "tag", "source", "date", "version", "layer", "scenario")
"""Carried through whatever a command's own columns are called."""


@dataclass(frozen=True)
class Columns:
    """The columns that a command reads.

    Args:
        names: as the command calls them; required: those that the header has to name; aliases: what else a column may be called -> name.
        meanings: what a column says, where its name does not.
        also: our names of columns that the command calls otherwise -> name; they are called so before the command sees them.
        kept: of names, those that do not mean what `vocabulary.NAMES` says.
        carried: of tables that the command reads, columns that say nothing more, though another command reads them.
    """

    names: tuple[str, ...]
    required: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    carried: tuple[str, ...] = ()
    meanings: Mapping[str, str] = field(default_factory=dict)
    also: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[str, ...] = ()

    def read_as(self, name: str) -> str:
        """The column of `names` that is meant by any name of it; empty where none is."""
        return vocabulary.read_as(name, self.names, {**self.aliases, **self.also}, self.kept)

    def ours(self, name: str) -> str:
        """The name of the one vocabulary for a column of `names`."""
        return vocabulary.ours(name, self.names, self.also, self.kept)

    def known(self) -> tuple[str, ...]:
        """Every spelling that is read."""
        return (*self.names, *self.aliases)


def reads(command: str) -> Columns:
    """The columns of a command."""
    found = import_module({**COMMANDS, **TABLES}[command]).READS
    assert isinstance(found, Columns)
    return found


def read_as(header: Iterable[object], command: str) -> dict[str, str]:
    """Columns of a header that the command calls otherwise -> what it calls them."""
    if command not in COMMANDS:
        return {}
    columns = reads(command)
    own = {*USERS_OWN, *columns.carried} - {*columns.known()}
    named = {str(name): columns.read_as(str(name)) for name in header if str(name) not in own}
    return {name: called for name, called in named.items() if called and called != name and name not in columns.known()}


def carried(header: Iterable[object], command: str, path: str | Path | None = None) -> list[str]:
    """The user's own columns of a header: those that the command does not read and that nobody could take for one that it does."""
    given = [str(name) for name in header]
    columns = reads(command)
    if len(given) == 1 and given[0] not in columns.known():
        for sign, name in (("\t", "tabs"), (";", "semicolons")):
            if sign in given[0]:
                raise InputError(f"the columns are separated by {name}; expected commas", path=path, line=1)
    known = set(columns.known())
    own = {*USERS_OWN, *columns.carried}
    meant = read_as(given, command)
    known |= set(meant)
    unknown = [name for name in given if name not in known and name not in own and not name.startswith("measured_")]
    for name in unknown:
        said = _refusal(name, command, columns)
        if said:
            raise InputError(said, path=path, line=1, key=name)
    here: dict[str, str] = {}
    for name in given:
        called = meant.get(name) or columns.aliases.get(name, name)
        if called in here and name in known:
            raise InputError(f"says the same as the column {here[called]}: give one of them", path=path, line=1, key=name)
        here[called] = name
    missing = [name for name in columns.required if name not in here]
    if missing:
        expected = ", ".join(map(columns.ours, columns.required))
        raise InputError(f"missing column; expected {expected}", path=path, line=1, key=", ".join(map(columns.ours, missing)))
    if not known.intersection(given):
        raise InputError(f"has none of the columns that `{command}` reads: {_listed(columns)}", path=path, line=1)
    return [name for name in given if name not in known]


def _refusal(name: str, command: str, columns: Columns) -> str:
    """Why a column that is not read cannot be carried through either; empty where it can."""
    near = nearest(name, (*map(columns.ours, columns.names), *columns.known()))
    if near:
        return f"no such column; did you mean {near}?"
    plain = vocabulary.plain(name)
    if called := columns.read_as(name):
        return f"no such column; `{command}` calls it {called}"
    here = [own for same in SIMILAR if plain in map(vocabulary.plain, same) for own in same if own in columns.names]
    if here:
        return f"no such column; `{command}` calls it {columns.ours(here[0])}"
    owners = [other for other in COMMANDS if other != command and reads(other).read_as(name)]
    if owners or any(plain in map(vocabulary.plain, same) for same in (*SIMILAR, *vocabulary.NAMES)):
        whose = f"a column of `{owners[0]}`, " if owners else ""
        return f"{whose}not read by `{command}`, which reads {_listed(columns)}"
    return ""


def _listed(columns: Columns) -> str:
    return ", ".join(dict.fromkeys(map(columns.ours, columns.names)))


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is misspelt: at most two letters off (one in names of up to five, none in one or two); empty if there is none."""
    plain, best = vocabulary.plain(name), ("", 3)
    for other in known:
        longest = max(len(plain), len(vocabulary.plain(other)))
        most = 2 if longest > 5 else int(longest > 2)
        steps = distance(plain, vocabulary.plain(other))
        if steps <= most and steps < best[1]:
            best = (other, steps)
    return best[0]


def distance(one: str, other: str) -> int:
    """Letters to insert, delete, change or swap with their neighbour to make one word the other."""
    if abs(len(one) - len(other)) > 2:
        return 3
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        last, row = row, [i]
        for j, theirs in enumerate(other, 1):
            steps = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != theirs))
            if before and j > 1 and letter == other[j - 2] and one[i - 2] == theirs:
                steps = min(steps, before[j - 2] + 1)
            row.append(steps)
        before = last
    return row[-1]
