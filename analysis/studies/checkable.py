"""Which functions may a checks file name? Those marked `@checkable` in the modules listed here, with arguments of the declared types."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, ValidationError, validate_call

from analysis.errors import InputError

# The names a file gives are compared with this list and never imported by themselves: data does not choose what code runs.
MODULES = (
    "analysis.artifact.claims.arithmetic",
    "analysis.artifact.claims.arithmetic_neuroscalar",
    "analysis.artifact.claims.arithmetic_survey",
    "analysis.artifact.claims.equations",
    "analysis.studies.composition.errors",
    "analysis.artifact.mtap.arithmetic",
)
LARGEST_LIST = 10_000
LARGEST_NUMBER = 1e30

Scalar = bool | int | float | str
Where = Mapping[str, Scalar | Sequence[Scalar]]
# A file under a folder of ours, without its ending: no absolute path, no way up.
TableName = Annotated[str, Field(pattern=r"^\w[\w-]*(\.[\w-]+)*(/\w[\w-]*(\.[\w-]+)*)*$", max_length=200)]
SmallCount = Annotated[int, Field(ge=0, le=1_000)]

Function = TypeVar("Function", bound=Callable[..., Any])
_REGISTERED: dict[str, Callable[..., Any]] = {}


def checkable(function: Function) -> Function:
    """Let checks files name this function; its annotations say which arguments are taken."""
    _REGISTERED[f"{function.__module__}:{function.__name__}"] = function
    return function


def call(name: str, arguments: dict[str, Any]) -> Any:
    """Call the checkable function `analysis.module:name` with keyword arguments of the types that it declares."""
    if name.partition(":")[0] in MODULES:
        importlib.import_module(name.partition(":")[0])
    function = _REGISTERED.get(name)
    if function is None:
        raise InputError(f"no function {name} for checks (one marked @checkable in {', '.join(MODULES)})")
    _bounded(arguments, name)
    try:
        return validate_call(config=ConfigDict(strict=True))(function)(**arguments)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise InputError(f"{name}: {where}: {first['msg']}") from None
    except InputError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"{name}: {type(error).__name__}: {error}") from None


def _bounded(value: Any, name: str) -> None:
    if isinstance(value, (dict, list)):
        if len(value) > LARGEST_LIST:
            raise InputError(f"{name}: an argument with more than {LARGEST_LIST} items")
        for item in value.values() if isinstance(value, dict) else value:
            _bounded(item, name)
    elif isinstance(value, (int, float)) and not (abs(value) <= LARGEST_NUMBER or math.isinf(value) or math.isnan(value)):
        raise InputError(f"{name}: a number beyond {LARGEST_NUMBER:g}")
