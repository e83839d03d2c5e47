"""Workloads of the zoo as files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from analysis.errors import InputError
from analysis.workloads.partition import partitioner as partition
from analysis.workloads.zoo import catalogue as zoo
from analysis.workloads.zoo.catalogue import Form

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
        name: of the zoo; given: options in place of its defaults.
        form: see `form_of`.
        partitioned: one device's module in place of the whole program.
    Returns:
        Bytes written.
    Raises:
        InputError: an unknown workload, option or form, a folder that does not exist, or a program that is not split.
    """
    chosen = form_of(path, form)
    program = zoo.program(name, **given)
    if partitioned and not program.mesh:
        raise InputError(f"{name} runs on one device with these options; expected a split over several", key="partitioned")
    if partitioned and chosen != "text":
        raise InputError("one device's module is written as text", key="form")
    if not path.parent.is_dir():
        raise InputError("no such folder", path=path.parent, key="out")
    lowered = zoo.lower_program(program)
    if partitioned:
        devices = 1
        for size in program.mesh.values():
            devices *= size
        content = partition.partition(zoo.serialise(lowered, "text"), devices).encode()
    else:
        content = zoo.serialise(lowered, chosen)
    partial = path.with_name(f".{path.name}.part")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=path, key="out") from None
    finally:
        partial.unlink(missing_ok=True)
    return len(content)
