"""YAML files read into pydantic models, with errors that name file, line and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from analysis.documents import construct, parse_yaml, read_text
from analysis.errors import InputError


class Strict(BaseModel):
    """A model that refuses unknown keys and cannot be changed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Model = TypeVar("Model", bound=BaseModel)


def read_yaml_text(path: str | Path) -> tuple[Any, yaml.Node | None]:
    """Parse a YAML file into plain objects and its node tree (which knows the line of every key).

    Args:
        path: the file.
    Raises:
        InputError: the file is missing, is not YAML, gives a key twice, or is beyond a limit of `analysis.documents`.
    """
    node = parse_yaml(read_text(path), path)
    return construct(node, path), node


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
