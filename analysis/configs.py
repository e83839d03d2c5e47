"""YAML files read into pydantic models, with errors that name file, line and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from analysis.errors import InputError


class Strict(BaseModel):
    """A model that refuses unknown keys and cannot be changed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Model = TypeVar("Model", bound=BaseModel)


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice in one mapping."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key = loader.construct_object(key_node, deep=True)
        line = key_node.start_mark.line + 1
        if key in seen:
            raise InputError(f"given twice (first on line {seen[key]})", line=line, key=str(key))
        seen[key] = line
    loader.flatten_mapping(node)
    return {loader.construct_object(k, deep=True): loader.construct_object(v, deep=True) for k, v in node.value}


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_yaml_text(path: str | Path) -> tuple[Any, yaml.Node | None]:
    """Parse a YAML file into plain objects and its node tree (which knows the line of every key).

    Args:
        path: the file.
    Raises:
        InputError: the file is missing, is not YAML, or gives a key twice.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8 text", path=path) from error
    try:
        return yaml.load(text, Loader=_Loader), yaml.compose(text, Loader=yaml.SafeLoader)
    except InputError as error:
        raise InputError(error.message, path=path, line=error.line, key=error.key) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "cannot be parsed"
        raise InputError(f"not valid YAML: {problem}", path=path, line=mark.line + 1 if mark else None) from None


def _line_of(node: yaml.Node | None, location: tuple[int | str, ...]) -> int | None:
    line = node.start_mark.line + 1 if node is not None else None
    for step in location:
        if isinstance(node, yaml.MappingNode):
            for key_node, value_node in node.value:
                if key_node.value == str(step):
                    line, node = key_node.start_mark.line + 1, value_node
                    break
            else:
                return line
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line + 1
        else:
            return line
    return line


def read_yaml(path: str | Path, model: type[Model]) -> Model:
    """Read a YAML file into a pydantic model.

    Args:
        path: the file.
        model: a pydantic model class, best derived from `Strict`.
    Raises:
        InputError: the first thing wrong, with file, line and key.
    """
    content, node = read_yaml_text(path)
    if not isinstance(content, dict):
        raise InputError("expected a mapping of keys to values", path=path, line=1)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        # A misspelt key is both unknown and missing: the unknown one is what the reader must mend.
        first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
        location = tuple(step for step in first["loc"])
        kind, message = first["type"], first["msg"].removeprefix("Value error, ")
        if kind == "extra_forbidden":
            message = "unknown key"
        elif kind == "missing":
            message = "required key is missing"
        elif "input" in first and not isinstance(first["input"], (dict, list)):
            message = f"{message} (got {first['input']!r})"
        raise InputError(message, path=path, line=_line_of(node, location), key=".".join(str(s) for s in location)) from None
