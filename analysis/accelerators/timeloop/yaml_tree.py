"""Timeloop's YAML as a tree that remembers lines and tags, with checks that name file and key."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from analysis.configs import Strict, read_yaml
from analysis.documents import construct, parse_yaml, read_bytes, read_text
from analysis.errors import InputError
from analysis.paths import DATA


class Names(Strict):
    """`data/hardware/timeloop.yaml`, which says what each list means."""

    sections: frozenset[str]
    native: frozenset[str]
    word: tuple[str, ...]
    depth: tuple[str, ...]
    width: tuple[str, ...]
    used: frozenset[str]
    estimation: frozenset[str]
    neutral: dict[str, tuple[bool | int | None, ...]]
    actions: dict[str, tuple[str, ...]]
    empty: frozenset[str]


@cache
def known_names() -> Names:
    """Names of Timeloop's input."""
    return read_yaml(DATA / "hardware" / "timeloop.yaml", Names)


OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}


class Tree(dict[str, Any]):
    """A YAML mapping whose keys are written with underscores; knows its tag and the lines of its keys."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.tag, self.lines = 0, "", dict[str, int]()


class File:
    """One input file: its tree, and errors that name it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        text = read_text(self.path)
        for number, line in enumerate(text.splitlines(), 1):
            if "{{" in line.split("#")[0] or "{%" in line.split("#")[0]:
                raise InputError("a template: expand it first (Timeloop's front end writes the expanded file)", path=self.path, line=number)
        self.root = self._build(parse_yaml(text, self.path))

    def _build(self, node: yaml.Node | None) -> Any:
        if isinstance(node, yaml.MappingNode):
            tree = Tree()
            tree.line = node.start_mark.line + 1
            tree.tag = node.tag.removeprefix("!") if node.tag.startswith("!") else ""
            own: set[str] = set()
            for key_node, value_node in node.value:
                line = key_node.start_mark.line + 1
                if key_node.tag == "tag:yaml.org,2002:merge":
                    for part in value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]:
                        merged = self._build(part)
                        if not isinstance(merged, Tree):
                            raise InputError("expected a mapping to merge", path=self.path, line=line, key="<<")
                        for key, value in merged.items():
                            if key not in tree:
                                tree[key], tree.lines[key] = value, line
                    continue
                key = str(key_node.value).replace("-", "_")
                if key in own:
                    raise InputError("given twice", path=self.path, line=line, key=key)
                own.add(key)
                tree[key], tree.lines[key] = self._build(value_node), line
            return tree
        if isinstance(node, yaml.SequenceNode):
            return [self._build(item) for item in node.value]
        return construct(node, self.path)

    def error(self, message: str, key: str, within: Any = None, name: str | None = None) -> InputError:
        """An error at `key`; its line is that of `name` (or of the last part of the key) in `within`."""
        line = None
        if isinstance(within, Tree):
            line = within.lines.get(name or key.rsplit(".", 1)[-1], within.line)
        return InputError(message, path=self.path, line=line, key=key)

    def tree(self, value: Any, key: str, within: Any = None) -> Tree:
        """The value, which must be a mapping of keys."""
        if not isinstance(value, Tree):
            raise self.error("expected a mapping of keys to values", key, within)
        return value

    def entries(self, value: Any, key: str, within: Any = None) -> list[Tree]:
        """The value, which must be a list of mappings."""
        if not isinstance(value, list) or not all(isinstance(item, Tree) for item in value):
            raise self.error("expected a list of mappings", key, within)
        return value

    def words(self, value: Any, key: str, within: Any = None) -> tuple[str, ...]:
        """The value, which must be a list of names (null and an empty list are none)."""
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(f"expected a list of names (got {value!r})", key, within)
        return tuple(value)

    def only(self, tree: Tree, allowed: Iterable[str], key: str) -> None:
        """Refuse keys that are not among `allowed`."""
        for name in tree:
            if name not in set(allowed):
                raise self.error("not supported, or unknown", f"{key}.{name}" if key else name, tree)

    def number(self, value: Any, key: str, within: Any = None, symbols: Mapping[str, Any] | None = None) -> float:
        """A number, or arithmetic over numbers and named attributes."""
        found = self._reckon(value, symbols or {}, 0)
        if found is None or not math.isfinite(found):
            raise self.error(f"expected a number (got {value!r})", key, within)
        return found

    def whole(self, value: Any, key: str, within: Any = None, symbols: Mapping[str, Any] | None = None, least: int = 1) -> int:
        """A whole number of at least `least`."""
        found = self.number(value, key, within, symbols)
        if found != int(found) or found < least:
            raise self.error(f"expected a whole number of at least {least} (got {value!r})", key, within)
        return int(found)

    def _reckon(self, value: Any, symbols: Mapping[str, Any], depth: int) -> float | None:
        if isinstance(value, bool) or value is None or depth > 20:
            return None
        if isinstance(value, (int, float)):
            return value
        if not isinstance(value, str) or len(value) > 1000:
            return None

        def walk(node: ast.AST) -> float:
            if isinstance(node, ast.Expression):
                return walk(node.body)
            if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
                return node.value
            if isinstance(node, ast.Name) and (named := self._reckon(symbols.get(node.id), symbols, depth + 1)) is not None:
                return named
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
                return -walk(node.operand)
            if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
                left, right = walk(node.left), walk(node.right)
                if isinstance(node.op, ast.Pow) and abs(right) > 64:
                    raise ValueError
                return float(OPERATORS[type(node.op)](left, right))
            raise ValueError

        try:
            return walk(ast.parse(value.strip(), mode="eval"))
        except (ArithmeticError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
            return None


def sections(file: File) -> Tree:
    """The file's sections."""
    root = file.tree(file.root, "top level")
    for name in root:
        if name == "sparse_optimizations" and not root[name]:
            continue
        if name not in known_names().sections:
            raise file.error("not a section of Timeloop's input that is modelled here", name, root)
    return root


def is_native(path: str | Path) -> bool:
    """Whether a file is Timeloop's own: one of its section names stands at the top."""
    try:
        root = File(path).root
    except InputError:
        # Not readable as Timeloop's; the reader of our own format tells what is wrong, unless a template hides a section.
        try:
            text = read_bytes(path).decode("utf-8", errors="replace")
        except InputError:
            return False
        return bool(re.search(rf"^(?:{'|'.join(sorted(known_names().native))})\s*:", text, re.MULTILINE))
    return isinstance(root, Tree) and bool(known_names().native & set(root))


LONGEST_NAME = 1000  # characters of one with a range: the expression takes the square of its length


def split_name(name: str) -> tuple[str, int]:
    """A component's name and how many a range makes of it: `PE[0..167]` is 168 of PE."""
    found = re.fullmatch(r"(.*?)\s*\[\s*(\d{1,9})\s*\.\.\s*(\d{1,9})\s*\]", name) if len(name) <= LONGEST_NAME else None
    return (name, 1) if found is None else (found[1], int(found[3]) - int(found[2]) + 1)
