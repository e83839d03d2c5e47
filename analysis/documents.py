"""Text, YAML and JSON that somebody else wrote: one reader each, with limits, and every fault as one line with file and line number.

Nothing in a file is run or imported, however deep it nests, however large its numbers and however often it refers to itself.
"""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any, NoReturn

import yaml

from analysis.errors import InputError

LARGEST_BYTES = 8 << 20  # of a configuration; tables and traces have limits of their own
LARGEST_JSON_BYTES = 256 << 20
DEEPEST = 100
MOST_BY_ALIASES = 100_000  # nodes that a file's aliases stand for
LARGEST_INTEGER = 2**63 - 1
LONGEST_NUMBER = 400  # characters

_NUMBER = re.compile(r"[-+]?[0-9][0-9_.:eExXa-fA-F+-]*")
_Fast: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_bytes(path: str | Path, largest: int = LARGEST_BYTES) -> bytes:
    """The content of a regular file."""
    path = Path(path)
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise InputError("cannot be read: Is a directory" if stat.S_ISDIR(found.st_mode) else "is not a regular file", path=path)
        if found.st_size > largest:
            raise InputError(f"has {found.st_size:,} bytes; at most {largest:,} are read", path=path)
        with path.open("rb") as stream:
            content = stream.read(largest + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from None
    except ValueError as error:  # a zero byte in the path
        raise InputError(f"cannot be read: {error}", path=path) from None
    if len(content) > largest:
        raise InputError(f"has more than {largest:,} bytes", path=path)
    return content


def is_file(path: str | Path) -> bool:
    """Whether there is a file of that name; `False`, not an error, for a name that no file can have (too long, with a zero byte)."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def whole_number(text: str, longest: int = 18) -> int | None:
    """The whole number that a cell holds: ASCII digits with or without a sign, at most `longest` of them; `None` for anything else."""
    found = re.fullmatch(r"\s*([-+]?)0*([0-9]+)\s*", text) if len(text) <= 200 else None
    return int(found[1] + found[2]) if found is not None and len(found[2]) <= longest else None


def read_text(path: str | Path, largest: int = LARGEST_BYTES) -> str:
    """The text of a UTF-8 file (see `read_bytes`); a byte-order mark is left out."""
    content = read_bytes(path, largest)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8 text", path=path, line=content.count(b"\n", 0, error.start) + 1) from None


class _Constructor(yaml.constructor.SafeConstructor):
    """Plain objects from nodes; refuses a key given twice, and says the line of a value that is none of its kind."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            kind = str(node.tag).rpartition(":")[2]
            raise InputError(f"is not a {kind}: {error}", path=self.path, line=node.start_mark.line + 1) from None


def _mapping(constructor: _Constructor, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key = constructor.construct_object(key_node, deep=True)
        line = key_node.start_mark.line + 1
        if key in seen:
            raise InputError(f"given twice (first on line {seen[key]})", path=constructor.path, line=line, key=str(key))
        seen[key] = line
    constructor.flatten_mapping(node)
    return {constructor.construct_object(k, deep=True): constructor.construct_object(v, deep=True) for k, v in node.value}


def _integer(constructor: _Constructor, node: yaml.ScalarNode) -> int:
    value = constructor.construct_yaml_int(node)
    if abs(value) > LARGEST_INTEGER:
        raise InputError("a whole number beyond 64 bits", path=constructor.path, line=node.start_mark.line + 1)
    return int(value)


_Constructor.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)  # type: ignore[type-var]
_Constructor.add_constructor("tag:yaml.org,2002:int", _integer)  # type: ignore[type-var]


def _refuse(path: Path, event: Any, message: str) -> NoReturn:
    raise InputError(message, path=path, line=event.start_mark.line + 1)


def _check(text: str, path: Path) -> None:
    """Refuse what would take unbounded time or memory to build, event by event, before anything is built."""
    sizes: dict[str, int] = {}  # of what an anchor names, aliases inside written out (nodes)
    open_: list[list[Any]] = []  # [whether a mapping, parts so far, size, anchor]
    by_aliases = documents = 0

    def part(event: Any, size: int) -> None:
        if open_:
            frame = open_[-1]
            if frame[0] and frame[1] % 2 == 0 and not isinstance(event, yaml.ScalarEvent):
                _refuse(path, event, "a key is a name or a number, not a list, a mapping or an alias")
            frame[1] += 1
            frame[2] += size

    for event in yaml.parse(text, Loader=_Fast):
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                _refuse(path, event, "holds more than one document")
        elif isinstance(event, yaml.AliasEvent):
            if any(frame[3] == event.anchor for frame in open_):
                _refuse(path, event, f"*{event.anchor} refers to what it stands in")
            size = sizes.get(str(event.anchor), 1)
            by_aliases += size
            if by_aliases > MOST_BY_ALIASES:
                _refuse(path, event, f"its aliases stand for more than {MOST_BY_ALIASES:,} values")
            part(event, size)
        elif isinstance(event, yaml.ScalarEvent):
            if event.implicit[0] and len(event.value) > LONGEST_NUMBER and _NUMBER.fullmatch(event.value):
                _refuse(path, event, f"a number of more than {LONGEST_NUMBER} characters")
            part(event, 1)
            if event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            part(event, 0)
            if len(open_) >= DEEPEST:
                _refuse(path, event, f"nests more than {DEEPEST} deep")
            open_.append([isinstance(event, yaml.MappingStartEvent), 0, 1, event.anchor])
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            _, _, size, anchor = open_.pop()
            if anchor:
                sizes[anchor] = size
            if open_:
                open_[-1][2] += size


def parse_yaml(text: str, path: str | Path) -> yaml.Node | None:
    """The node tree of a YAML document, `None` for an empty one."""
    path = Path(path)
    try:
        _check(text, path)
        return yaml.compose(text, Loader=_Fast)  # type: ignore[no-any-return]
    except yaml.YAMLError as error:
        raise _yaml_error(error, path) from None


def _yaml_error(error: yaml.YAMLError, path: Path) -> InputError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be parsed"
    return InputError(f"not valid YAML: {problem}", path=path, line=mark.line + 1 if mark else None)


def construct(node: yaml.Node | None, path: str | Path) -> Any:
    """Plain objects (None, bool, int, float, str, date, list, dict) from a node of `parse_yaml`."""
    if node is None:
        return None
    try:
        return _Constructor(Path(path)).construct_document(node)
    except yaml.YAMLError as error:
        raise _yaml_error(error, Path(path)) from None


def parse_json(text: str | bytes, path: str | Path, python: bool = False) -> Any:
    """Plain objects from JSON.

    Args:
        python: written by Python, whose NaN and infinities are no JSON: each is read as null.
    """

    def whole(digits: str) -> int:
        if len(digits) > 20 or abs(int(digits)) > LARGEST_INTEGER:
            raise InputError("holds a whole number beyond 64 bits", path=path)
        return int(digits)

    def constant(name: str) -> None:
        if python:
            return
        raise InputError(f"is not JSON: {name} is not a number of JSON", path=path)

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise InputError("given twice", path=path, key=twice)
        return found

    try:
        plain = text if isinstance(text, str) else text.decode("utf-8-sig")
        found = json.loads(plain, parse_int=whole, parse_constant=constant, object_pairs_hook=mapping)
        if "\\ud" in plain or "\\uD" in plain:
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except RecursionError:
        raise InputError("nests too deep", path=path) from None
    except json.JSONDecodeError as error:
        raise InputError(f"is not JSON: {error.msg}", path=path, line=error.lineno) from None
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", path=path) from None
    except UnicodeEncodeError:
        raise InputError("is not text: half of a surrogate pair", path=path) from None


def read_json(path: str | Path, largest: int = LARGEST_JSON_BYTES, python: bool = False) -> Any:
    """Plain objects from a JSON file (see `read_text` and `parse_json`)."""
    return parse_json(read_text(path, largest), path, python)
