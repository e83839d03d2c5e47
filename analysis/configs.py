"""YAML files read into pydantic models, with errors that name file, line and key."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Any, TypeVar, dataclass_transform

import numpy as np
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import ArgsKwargs

from analysis.documents import construct, parse_yaml, read_text
from analysis.errors import LONGEST_VALUE, InputError, shown, together


class AlsoWritten:
    """Annotation of a field that a validator reads in other forms too: what its JSON Schema admits besides the field's own type."""

    def __init__(self, *forms: dict[str, Any]) -> None:
        self.forms = forms

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        return {"anyOf": [*self.forms, handler(core_schema)]}


class Strict(BaseModel):
    """A model that refuses unknown keys and cannot be changed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Model = TypeVar("Model", bound=BaseModel)
Made = TypeVar("Made")
UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")
"""How pydantic calls a key that a model or a dataclass does not have."""


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


MOST_COUNT = 1_000_000_000
"""What a file may ask for: beyond it lies nothing that could be answered."""
Count = Annotated[int, BeforeValidator(_plain), Field(ge=1, le=MOST_COUNT)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass_transform(frozen_default=True)
def configuration(cls: type[Made]) -> type[Made]:
    """A frozen dataclass that is its own configuration: a YAML file may hold it, code may call it, one set of rules checks both.

    What is refused in code is an InputError that names the key; in a YAML file `read_yaml` adds file and line.
    """
    made: Any = dataclass(frozen=True, config=ConfigDict(extra="forbid"))(cls)
    check = made.__init__

    @functools.wraps(check)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            check(self, *args, **kwargs)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(step) for step in first["loc"]) or None
            got = "" if isinstance(first["input"], (dict, list, ArgsKwargs)) else f" (got {first['input']!r})"
            raise InputError(first["msg"].removeprefix("Value error, ") + got, key=key) from None

    made.__init__ = __init__
    return made


def read_yaml_text(path: str | Path) -> tuple[Any, yaml.Node | None]:
    """Parse a YAML file into plain objects and its node tree (which knows the line of every key)."""
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

    Raises:
        InputError: everything wrong, in one line: the first with file, line and key, then the others (at most `MOST_TOLD`).
    """
    content, node = read_yaml_text(path)
    if not isinstance(content, dict):
        raise InputError("expected a mapping of keys to values", path=path, line=1)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        # A misspelt key is both unknown and missing: the unknown one is what the reader must mend.
        found = sorted(error.errors(), key=lambda one: one["type"] not in UNKNOWN_KEY)
        told = dict.fromkeys(_told(one, node) for one in found)
        raise together([InputError(message, path=path, line=line, key=key) for line, key, message in told]) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        raise InputError(f"a value is not of the type expected ({error})", path=path) from None


def _told(one: Any, node: yaml.Node | None) -> tuple[int | None, str, str]:
    location = tuple(one["loc"])
    kind, message = one["type"], one["msg"].removeprefix("Value error, ")
    if kind in UNKNOWN_KEY:
        message = "unknown key"
    elif kind == "missing":
        message = "required key is missing"
    elif "input" in one and not isinstance(one["input"], (dict, list)):
        message = f"{message} (got {shown(repr(one['input']), LONGEST_VALUE)})"
    return _line_of(node, location), ".".join(str(step) for step in location), message
