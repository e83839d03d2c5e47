"""Whose file is it that no reader here takes? Its kind by what stands at its beginning, and what is taken in its place."""

from __future__ import annotations

import re
from pathlib import Path

from analysis.configs import Strict, read_yaml
from analysis.paths import DATA

PATH = DATA / "workloads" / "foreign_files.yaml"
LOOKED_AT = 65_536
"""Bytes at a file's beginning that say whose it is."""


class Kind(Strict):
    """What a file is, how its beginning looks, and what is taken in its place."""

    what: str
    looks: str
    instead: str


class Kinds(Strict):
    """`data/workloads/foreign_files.yaml`."""

    kinds: tuple[Kind, ...]


def kind(path: str | Path) -> str:
    """What a refused file is and what is taken in its place; empty where neither is known."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(LOOKED_AT)
    except (OSError, ValueError):
        return ""
    if re.search(rb"(?m)^(plan|steps):", head):  # a file of ours, with a word that is not
        return ""
    found = (each for each in read_yaml(PATH, Kinds).kinds if re.search(each.looks.encode(), head))
    return next((f"is {each.what}: {each.instead}" for each in found), "")
