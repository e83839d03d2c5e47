"""Reads plain numbers, texts, lists and tensors out of a PyTorch file, without PyTorch and without running anything in it.

A `.pt` file is a zip with a pickle, `data.pkl`, and the raw values of each tensor. A pickle is a little program that may call
any function; here its instructions are read one by one (`pickletools.genops`), a few of them are carried out on Python's own
lists, tuples and dicts, and the only call known is the one that puts a tensor together from its raw values. Anything else is
refused by name.
"""

from __future__ import annotations

import pickletools
import zipfile
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.documents import read_bytes
from analysis.errors import InputError

STORAGES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
REBUILD = "torch._utils _rebuild_tensor_v2"
ORDERED_DICT = "collections OrderedDict"
PUSHED = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
LITERALS = {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "INT", "FLOAT", "LONG"}
SHORT_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
NOTHING_TO_DO = {"PROTO", "FRAME"}
MAX_BYTES = 1 << 30
MAX_PICKLE_BYTES = 64 << 20


class Refused(ValueError):
    """The file holds an instruction that is not on the list."""


@dataclass(frozen=True)
class _Known:
    """A name that the pickle asked for and that is on the list."""

    name: str


@dataclass(frozen=True)
class _Storage:
    """The raw values of a tensor."""

    values: NDArray[Any]


class _Mark:
    """The opening bracket of the instructions that collect."""


def _known(name: str) -> _Known:
    """The named object, if it is one of those that are understood."""
    module, _, attribute = name.partition(" ")
    if name in (REBUILD, ORDERED_DICT) or (module == "torch" and attribute in STORAGES):
        return _Known(name)
    raise Refused(f"names {name.replace(' ', '.')}")


def _tensor(arguments: Any) -> NDArray[Any]:
    """A tensor from storage, offset, size and stride (elements), with every bound checked."""
    if not isinstance(arguments, tuple) or len(arguments) < 4 or not isinstance(arguments[0], _Storage):
        raise Refused("puts a tensor together from something else than a storage")
    storage, offset, size, stride = arguments[:4]
    whole = (
        isinstance(size, tuple)
        and isinstance(stride, tuple)
        and len(size) == len(stride)
        and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in (offset, *size, *stride))
    )
    if not whole:
        raise Refused("gives a tensor a shape that is none")
    values = storage.values
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if all(size) else offset
    if last >= len(values) and all(size):
        raise Refused(f"gives a tensor element {last} of {len(values)}")
    if int(np.prod(size, dtype=object)) * values.itemsize > MAX_BYTES:
        raise Refused("gives a tensor more than 1 GiB")
    view = np.lib.stride_tricks.as_strided(values[offset:], size, tuple(step * values.itemsize for step in stride))
    return view.copy()


def _storage(archive: zipfile.ZipFile | None, folder: str, named: Any) -> _Storage:
    """Raw values by the identity that the pickle gives: ("storage", type, file, device, number of elements)."""
    if archive is None:
        raise Refused("holds a tensor in the format before 1.6")
    if not (isinstance(named, tuple) and len(named) == 5 and named[0] == "storage" and isinstance(named[1], _Known)):
        raise Refused("asks for an object that is no storage")
    kind = STORAGES.get(named[1].name.partition(" ")[2])
    if kind is None or not isinstance(named[2], str) or not isinstance(named[4], int):
        raise Refused("asks for a storage of no known kind")
    try:
        info = archive.getinfo(f"{folder}data/{named[2]}")
    except KeyError:
        raise Refused(f"lacks the values data/{named[2]}") from None
    if info.file_size > MAX_BYTES or info.file_size != named[4] * np.dtype(kind).itemsize:
        raise Refused(f"has {info.file_size} bytes in data/{named[2]}; expected {named[4]} elements")
    return _Storage(np.frombuffer(archive.read(info), dtype=kind))


def read_pickle(stream: BytesIO, archive: zipfile.ZipFile | None = None, folder: str = "") -> Any:
    """Carry out one pickle, as far as it only builds numbers, texts, containers and tensors.

    Args:
        stream: stands at the start of the pickle; stands behind it afterwards.
        archive: the zip with the raw values of tensors, if there is one.
        folder: their folder in it, with a slash at the end.
    """
    # More than 100 lines: the list of the instructions that are carried out, each with what it does; what is not here is refused.
    stack: list[Any] = []
    marks: list[int] = []  # where in the stack brackets are open
    tensor_bytes = 0
    memo: dict[int, Any] = {}

    def since_mark() -> list[Any]:
        if not marks:
            raise Refused("closes a bracket that was not opened")
        at = marks.pop()
        items = stack[at + 1 :]
        del stack[at:]
        return items

    def popped(count: int) -> list[Any]:
        items = stack[-count:]
        if len(items) < count or any(isinstance(item, _Mark) for item in items):
            raise Refused("takes more than there is")
        del stack[-count:]
        return items

    def top(kind: type) -> Any:
        if not stack or not isinstance(stack[-1], kind) or isinstance(stack[-1], _Mark):
            raise Refused(f"uses something that is no {kind.__name__}")
        return stack[-1]

    def fill(items: list[Any]) -> None:
        target = top(dict)
        if len(items) % 2 or any(isinstance(key, (list, dict, np.ndarray)) for key in items[::2]):
            raise Refused("fills a dict with something else than pairs")
        target.update(zip(items[::2], items[1::2], strict=True))

    try:
        argument: Any
        for operation, argument, position in pickletools.genops(stream):
            name = operation.name
            if name in LITERALS:
                stack.append(argument)
            elif name in PUSHED:
                stack.append(PUSHED[name])
            elif name == "EMPTY_LIST":
                stack.append([])
            elif name == "EMPTY_DICT":
                stack.append({})
            elif name == "MARK":
                marks.append(len(stack))
                stack.append(_Mark())
            elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
                memo[len(memo) if name == "MEMOIZE" else argument] = top(object)
            elif name in ("BINGET", "LONG_BINGET"):
                stack.append(memo[argument])
            elif name == "APPEND":
                (value,) = popped(1)
                top(list).append(value)
            elif name == "APPENDS":
                values = since_mark()
                top(list).extend(values)
            elif name == "SETITEM":
                fill(popped(2))
            elif name == "SETITEMS":
                fill(since_mark())
            elif name == "TUPLE":
                stack.append(tuple(since_mark()))
            elif name in SHORT_TUPLES:
                stack.append(tuple(popped(SHORT_TUPLES[name])))
            elif name == "GLOBAL":
                stack.append(_known(argument))
            elif name == "BINPERSID":
                stack.append(_storage(archive, folder, *popped(1)))
            elif name == "REDUCE":
                function, arguments = popped(2)
                if function == _Known(REBUILD):
                    tensor = _tensor(arguments)
                    tensor_bytes += tensor.nbytes
                    if tensor_bytes > MAX_BYTES:
                        raise Refused("holds more than 1 GiB of tensors")
                    stack.append(tensor)
                elif function == _Known(ORDERED_DICT) and arguments == ():
                    stack.append(OrderedDict())
                else:
                    raise Refused("calls something")
            elif name == "STOP":
                (result,) = popped(1)
                if isinstance(result, (_Known, _Storage)) or stack:
                    raise Refused("ends with something left over")
                return result
            elif name not in NOTHING_TO_DO:
                raise Refused(f"has the instruction {name} at byte {position}")
    except (AttributeError, EOFError, IndexError, KeyError, MemoryError, OverflowError, RecursionError, TypeError, ValueError) as error:
        if isinstance(error, Refused):
            raise
        raise Refused(f"is broken ({error})") from None
    raise Refused("ends early")


def read_torch(path: Path) -> Any:
    """What a PyTorch file holds: numbers, texts, lists, dicts, and tensors as NumPy arrays.

    Args:
        path: a file written by torch.save, as a zip (since version 1.6) or, without tensors, in the format before.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                found = [info for info in archive.infolist() if info.filename.endswith("data.pkl")]
                if len(found) != 1 or found[0].file_size > MAX_PICKLE_BYTES:
                    raise Refused("has no single data.pkl of at most 64 MiB")
                folder = found[0].filename.removesuffix("data.pkl")
                return read_pickle(BytesIO(archive.read(found[0])), archive, folder)
        stream = BytesIO(read_bytes(path, MAX_PICKLE_BYTES))
        for _ in range(3):  # the old format: magic number, protocol version and machine facts come first
            read_pickle(stream)
        return read_pickle(stream)
    except Refused as error:
        raise InputError(f"{error}; only numbers, texts, containers and tensors are read", path=path) from None
    except InputError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, RuntimeError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", path=path) from None
