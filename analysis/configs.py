"""YAML files read into pydantic models, with errors that name file, line and key; types of fields they share."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeVar, dataclass_transform, get_args

import numpy as np
import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import ArgsKwargs

from analysis.documents import construct, parse_yaml, read_text
from analysis.errors import LONGEST_VALUE, InputError, shown, together
from analysis.vocabulary import read_as


class AlsoWritten:
    """Annotation of a field that a validator reads in other forms too: what its JSON Schema admits besides the field's own type."""

    def __init__(self, *forms: dict[str, Any]) -> None:
        self.forms = forms

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        return {"anyOf": [*self.forms, handler(core_schema)]}


class Strict(BaseModel):
    """A model that refuses unknown keys and cannot be changed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Asked(Strict):
    """A question in a file: its keys may have any name of `vocabulary.NAMES`."""

    @model_validator(mode="before")
    @classmethod
    def _by_our_names(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        meant = {key: read_as(key, cls.model_fields) for key in raw if isinstance(key, str) and key not in cls.model_fields}
        if twice := next((key for key, ours in meant.items() if ours in raw), None):
            raise ValueError(f"{twice} and {meant[twice]} are one key: give one of them")
        return {meant.get(key) or key: value for key, value in raw.items()}


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
KINDS_OF_SOURCE = ("documented", "measured", "assumed")


def _checked(source: str) -> str:
    kind, _, rest = source.partition(": ")
    if kind not in KINDS_OF_SOURCE or not rest.strip():
        raise ValueError(f"a source starts with one of {', '.join(f'{k}: ' for k in KINDS_OF_SOURCE)}and says where; got {source!r}")
    return source


Source = Annotated[str, AfterValidator(_checked)]
"""Where a per-device fact that a model reads comes from: `documented: ` (a data sheet, manual or page), `measured: ` (a dataset, whose
rows then may not be what a study leaves out) or `assumed: ` (a round figure, with its reason)."""


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
    """Read a YAML file into a pydantic model."""
    content, node = read_yaml_text(path)
    if not isinstance(content, dict):
        raise InputError("expected a mapping of keys to values", path=path, line=1)
    for location, word in _words_for_numbers(content, [model]):
        key = ".".join(map(str, location))
        said = f"expected a number, got {'yes or true' if word else 'no or false'}"
        raise InputError(said, path=path, line=_line_of(node, location), key=key)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        # A misspelt key is both unknown and missing: the unknown one is what the reader must mend.
        found = sorted(error.errors(), key=lambda one: one["type"] not in UNKNOWN_KEY)
        wrong, listed = [], set[str]()
        for line, key, message in dict.fromkeys(_told(one, node, model) for one in found):
            text = message.split(", expected one of")[0] if message in listed else message  # the keys of a place are listed once
            wrong.append(InputError(text, path=path, line=line, key=key))
            listed.add(message)
        raise together(wrong) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        raise InputError(f"a value is not of the type expected ({error})", path=path) from None


def _keys(model: Any, location: tuple[int | str, ...]) -> list[str]:
    """The keys that a mapping at this place of a file may have."""
    kinds = [model]
    for step in location[:-1]:
        # An index, a key of a free mapping or the tag of a union is no field: what may stand there is what may stand in it.
        inner = [field.annotation for kind in kinds for name, field in _fields(kind).items() if step in (name, field.alias)]
        kinds = [kind for annotation in inner for kind in _models(annotation)] if inner else kinds
    return sorted({field.alias or name for kind in kinds for name, field in _fields(kind).items()})


def _fields(kind: Any) -> dict[str, Any]:
    return dict(getattr(kind, "__pydantic_fields__", {}))


def _models(annotation: Any) -> list[Any]:
    return [annotation] if _fields(annotation) else [kind for part in get_args(annotation) for kind in _models(part)]


def told(error: ValidationError) -> tuple[str | None, str]:
    """The field that is wrong, as a validator's `InputError` names it where there is one, and what is wrong with it."""
    first = error.errors()[0]
    said = first.get("ctx", {}).get("error")
    return (said.key, said.message) if isinstance(said, InputError) else (str(first["loc"][0]), _told(first, None)[2])


def _told(one: Any, node: yaml.Node | None, model: type | None = None) -> tuple[int | None, str, str]:
    location = tuple(one["loc"])
    kind, message = one["type"], one["msg"].removeprefix("Value error, ")
    if kind in UNKNOWN_KEY:
        known = _keys(model, location) if model else []
        own = str(location[-1])
        near = [key for key in known if len(own) > 2 and key.startswith(own)] or get_close_matches(own, known, 1, 0.65)
        message = "unknown key" + (f", did you mean {near[0]}?" if near else f", expected one of {' '.join(known)}" if known else "")
    elif kind in ("model_type", "dataclass_type", "dict_type", "model_attributes_type"):
        message = f"expected a mapping of keys to values (got {shown(repr(one['input']), LONGEST_VALUE)})"
    elif kind == "missing":
        message = "required key is missing"
    elif "input" in one and not isinstance(one["input"], (dict, list)):
        message = f"{message} (got {shown(repr(one['input']), LONGEST_VALUE)})"
    key = ".".join(str(step) for step in location if not str(step).startswith("function-") and step not in ("str", "int", "float"))
    return _line_of(node, location), key, message


def _words_for_numbers(content: Any, kinds: list[Any], at: tuple[int | str, ...] = ()) -> Iterator[tuple[tuple[int | str, ...], bool]]:
    """Where a mapping has yes or no, on or off (YAML's booleans) for a number, which pydantic would take for 1 and 0."""
    for key, value in content.items():
        if not _has_words(value):  # as nearly every file: the names of its keys need not be looked up
            continue
        field = read_as(key, [name for kind in kinds for name in _fields(kind)]) if isinstance(key, str) else None
        annotations = [known[one].annotation for known in map(_fields, kinds) for one in {key, field} & set(known)]
        leaves = {leaf for annotation in annotations for leaf in _leaves(annotation)}
        for place, one in enumerate(value) if isinstance(value, list) else [("", value)]:
            here = (*at, key, place) if isinstance(value, list) else (*at, key)
            if isinstance(one, bool) and leaves & {int, float} and not leaves & {bool, Any}:
                yield here, one
            elif isinstance(one, dict):
                yield from _words_for_numbers(one, [kind for annotation in annotations for kind in _models(annotation)], here)


def _has_words(value: Any) -> bool:
    within = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, bool) or any(map(_has_words, within))


def _leaves(annotation: Any) -> list[Any]:
    return [leaf for part in get_args(annotation) for leaf in _leaves(part)] if get_args(annotation) else [annotation]
