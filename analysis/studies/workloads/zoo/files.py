"""Workloads of the zoo as files."""

from __future__ import annotations

import importlib
import math
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import jax
import jax.numpy as jnp

from analysis.errors import InputError
from analysis.studies.workloads.partition import partitioner as partition
from analysis.studies.workloads.zoo import catalogue as zoo
from analysis.studies.workloads.zoo.catalogue import Form, Program
from analysis.tables import write_atomic

SUFFIXES: dict[str, Form] = {".mlir": "text", ".mlirbc": "bytecode", ".vhlo": "portable", ".stablehlo": "portable"}


def options(pairs: Sequence[str]) -> dict[str, str]:
    """Options given as ``key=value``."""
    found = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise InputError(f"expected key=value, got {pair!r}", key="set")
        found[key] = value
    return found


def form_of(path: Path, form: str = "") -> Form:
    """The form asked for, or that of the file's ending: .mlir text, .mlirbc bytecode, .vhlo or .stablehlo portable artifact."""
    if form:
        if form not in get_args(Form):
            raise InputError(f"expected one of {', '.join(get_args(Form))}, got {form!r}", key="form")
        return form  # type: ignore[return-value]
    if path.suffix not in SUFFIXES:
        raise InputError(f"expected a name that ends in one of {', '.join(SUFFIXES)}, or --form", path=path, key="out")
    return SUFFIXES[path.suffix]


def write(name: str, given: dict[str, str], path: Path, form: str = "", partitioned: bool = False) -> int:
    """Write a workload to a file, whole or not at all.

    Args:
        form: see `form_of`.
        partitioned: one device's module in place of the whole program.
    """
    return save(zoo.program(name, **given), path, form, partitioned)


def save(program: Program, path: Path, form: str = "", partitioned: bool = False) -> int:
    """Lower a program and write it; as for `write`."""
    chosen = form_of(path, form)
    if partitioned and not program.mesh:
        raise InputError("runs on one device with these options; expected a split over several", key="partitioned")
    if partitioned and chosen != "text":
        raise InputError("one device's module is written as text", key="form")
    if not path.parent.is_dir():
        raise InputError("no such folder", path=path.parent, key="out")
    lowered = zoo.lower_program(program)
    if partitioned:
        content = partition.partition(zoo.serialise(lowered, "text"), math.prod(program.mesh.values())).encode()
    else:
        content = zoo.serialise(lowered, chosen)
    write_atomic(path, content)
    return len(content)


_SHAPE = re.compile(r"(?P<type>[a-z]\w*)\[(?P<sizes>[\d,\s]*)\]")
TYPES = {
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "pred": "bool",
    "s8": "int8",
    "s16": "int16",
    "s32": "int32",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
}
"""Element types as XLA prints them, and as JAX calls them; of 64 bits there are none, as JAX has none unless told."""


def shape(text: str) -> Any:
    """`f32[64,128]` as an array without values."""
    found = _SHAPE.fullmatch(text.strip())
    if found is None or found["type"] not in TYPES:
        raise InputError(f"expected TYPE[SIZE,...], such as f32[64,128], with a type of {', '.join(TYPES)}, got {text!r}", key="--arg")
    sizes = [part.strip() for part in found["sizes"].split(",")] if found["sizes"].strip() else []
    if not all(part.isdigit() for part in sizes):
        raise InputError(f"expected whole numbers between commas, got {text!r}", key="--arg")
    return jax.ShapeDtypeStruct(tuple(int(part) for part in sizes), jnp.dtype(TYPES[found["type"]]))


def own(named: str, shapes: Sequence[str]) -> Program:
    """A JAX function of the user's as a program: its module is imported, which runs the code in it.

    Args:
        named: MODULE:FUNCTION, looked for from the current folder on.
        shapes: of its arguments, such as f32[64,128].
    """
    module_name, _, name = named.partition(":")
    if not module_name or not name:
        raise InputError(f"expected MODULE:FUNCTION, got {named!r}", key="--jax")
    arguments = tuple(shape(text) for text in shapes)
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name.removesuffix(".py"))
    except Exception as error:
        raise InputError(f"cannot import {module_name}: {type(error).__name__}: {error}", key="--jax") from None
    finally:
        sys.path.pop(0)
    function = getattr(module, name, None)
    if not callable(function):
        raise InputError(f"{module_name} has no function {name!r}", key="--jax")
    try:
        jax.eval_shape(function, *arguments)
    except Exception as error:
        told = (str(error).splitlines() or [""])[0]
        raise InputError(f"{name} cannot be traced with these shapes: {type(error).__name__}: {told}", key="--arg") from None
    return Program(function, arguments)
