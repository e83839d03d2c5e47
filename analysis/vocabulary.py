"""What is a quantity called? The one table of names for options, columns of cases, keys of YAML and arguments in Python.

`data/workloads/vocabulary.txt` has a line a quantity. Its first name is ours; the others, of other tools and of earlier editions, are read
for good. A name means what the reader of the table, command or file makes of ours: where that reader has no such quantity, nobody's name of
it is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache

from analysis.paths import DATA

NAMES = tuple(tuple(line.split()) for line in (DATA / "workloads" / "vocabulary.txt").read_text(encoding="utf-8").splitlines())
ALSO = {"device": "devices", "engine": "engines", "tensor_parallel": "gpus"}
"""Of options and arguments: what a name means where a command has the other alone: several devices; GPUs that are all tensor parallel."""
ENGINES = {"vllm": (), "sglang": (), "trtllm": ("tensorrt-llm", "trt")}
"""Serving engine -> its other names."""
PARTS = ("prefill_", "decode_")
"""Before a quantity of one kind of workers."""


def plain(name: str) -> str:
    """A name as far as spelling matters: letters and digits, in lower case."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def engine(name: str) -> str:
    """Our name of a serving engine; any other name as it is written."""
    return next((ours for ours, others in ENGINES.items() if plain(name) in map(plain, (ours, *others))), name)


@cache
def _by_letters() -> dict[str, list[tuple[str, ...]]]:
    """The lines of the table in which a name stands, as far as spelling matters."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for same in NAMES:
        for letters in dict.fromkeys(map(plain, same)):
            found.setdefault(letters, []).append(same)
    return found


@cache
def _groups(name: str) -> tuple[tuple[str, ...], ...]:
    """All names of the quantities that a name may stand for."""
    part = next((part for part in PARTS if name.startswith(part)), "")
    bare = plain(name.removeprefix(part))
    return tuple(tuple(part + other for other in same) for same in _by_letters().get(bare, ()))


def read_as(name: str, names: Collection[str], aliases: Mapping[str, str] | None = None, kept: Collection[str] = ()) -> str:
    """What a reader calls the quantity that was written as `name`; empty where it has none.

    Args:
        names: the reader's own; aliases: more names of its own, and which they stand for; kept: of `names`, those that mean something else
            than the table says, and are read by themselves alone.
    """
    more = aliases or {}
    for other in (name, *(other for same in _groups(name) for other in same)):
        for found in (other, more.get(other, "")):
            if found in names and (found not in kept or other == name):
                return found
    return ""


def ours(name: str, names: Iterable[str], aliases: Mapping[str, str] | None = None, kept: Collection[str] = ()) -> str:
    """Our name of a reader's quantity: the first of its line, unless the reader has that for another."""
    taken, more = set(names), aliases or {}
    if name in kept:
        return name
    for same in _groups(name):
        if more.get(same[0], same[0] if same[0] in taken else name) == name:
            return same[0]
    return next((other for other, meant in more.items() if meant == name and any(same[0] == other for same in _groups(other))), name)
