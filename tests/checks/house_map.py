"""Which folder imports which? The picture in CONTRIBUTING.md: `python -m tests.checks.house_map` writes it again."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from analysis.paths import ROOT

PACKAGE = ROOT / "analysis"
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- map: written by python -m tests.checks.house_map -->\n```text\n", "```\n<!-- end of map -->\n"
WINGS = {
    "studies": "what only notebooks and freezing need: splits, scores, trials, baselines, peers; imports models",
    "artifact": "the book's machinery and the evidence, with their commands; imports models and studies",
}
"""Folders that no model imports."""
ENTRANCES = ("commands", "howfast")
"""Folders that call everything and that nothing imports."""


def rooms() -> list[str]:
    """The folders of the models, by name."""
    return sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py") if path.parent.name not in WINGS)


def imported(path: Path) -> set[str]:
    """Rooms that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {parts[1] for parts in (name.split(".") for name in names) if parts[0] == "analysis" and len(parts) > 1}


def edges() -> dict[str, set[str]]:
    """For each room, the rooms that its files import."""
    known = rooms()
    found: dict[str, set[str]] = defaultdict(set)
    for room in known:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            found[room] |= imported(path) & (set(known) - {room})
    return {room: found[room] for room in known}


def levels(graph: dict[str, set[str]]) -> list[list[str]]:
    """Rooms by level: those that import no other first, then each above everything that it imports.

    Raises:
        ValueError: rooms import each other in a circle.
    """
    placed: list[list[str]] = []
    left = {room: graph[room] - set(ENTRANCES) for room in graph if room not in ENTRANCES}
    while left:
        done = {room for level in placed for room in level}
        level = sorted(room for room, needs in left.items() if needs <= done)
        if not level:
            raise ValueError(f"rooms import each other in a circle: {', '.join(sorted(left))}")
        placed.append(level)
        left = {room: needs for room, needs in left.items() if room not in level}
    return placed


def question(room: str) -> str:
    """What a room is about: the first sentence of its docstring."""
    text = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8"))) or ""
    return text.split("\n")[0].split(". ")[0].rstrip(".")


def picture() -> str:
    """The map as text: the wings, then the models' levels from the top down; a room imports only rooms that stand below it."""
    graph = edges()
    lines = []
    for wing, what in WINGS.items():
        inner = sorted(path.parent.name for path in (PACKAGE / wing).glob("*/__init__.py"))
        lines += [f"{wing + '/':17} {what}", f"{'':17} ├ {', '.join(f'{name}/' for name in inner)}"]
    lines += ["", "models: commands/ is the command line, howfast/ the name of the wheel; nothing here imports studies or artifact"]
    for number, level in reversed(list(enumerate(levels(graph)))):
        lines.append(f"level {number} " + "─" * 100)
        for room in level:
            lines.append(f"  {room + '/':15} {question(room)}")
            inner = sorted(path.parent.name for path in (PACKAGE / room).glob("*/__init__.py"))
            if inner:
                lines.append(f"  {'':15} ├ {', '.join(f'{name}/' for name in inner)}")
            if graph[room]:
                lines.append(f"  {'':15} └> imports {', '.join(sorted(graph[room] - set(ENTRANCES)))}")
    shared = sorted(path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__"))
    lines += ["─" * 108, f"ground, for all: {', '.join(shared)}"]
    return "\n".join(lines) + "\n"


def arrows(path: Path) -> set[str]:
    """Modules of ours that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.startswith("analysis.")}


def with_map(page: str) -> str:
    """A page with the map of today between its marks."""
    before, rest = page.split(BEGIN, 1)
    return before + BEGIN + picture() + END + rest.split(END, 1)[1]


if __name__ == "__main__":
    PAGE.write_text(with_map(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
