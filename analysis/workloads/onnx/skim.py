"""An ONNX file without its weights, so that a model of gigabytes is read in megabytes: large tensors keep name, type and shape alone."""

from __future__ import annotations

from os import SEEK_END
from typing import BinaryIO

KEPT_BYTES = 2048  # sizes and axes are tensors too, and their values are needed
MOST_BYTES = 128 << 20  # of what is left
DEEPEST = 64

# Field numbers of onnx.proto: which fields hold which message, and those of a tensor that hold its elements.
_INSIDE = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
_ELEMENTS = {4, 5, 6, 7, 9, 10, 11}
_DOC = {"model": 6, "graph": 10, "function": 8, "node": 6, "attribute": 13, "tensor": 12}


class NotOnnx(ValueError):
    """The bytes are not a serialised ONNX model."""


def _varint(stream: BinaryIO) -> tuple[int, bytes]:
    value, read = 0, b""
    for place in range(10):
        byte = stream.read(1)
        if not byte:
            raise NotOnnx("ends in the middle of a field")
        read += byte
        value |= (byte[0] & 0x7F) << 7 * place
        if byte[0] < 0x80:
            return value, read
    raise NotOnnx("holds a number of more than 64 bits")


def _length(size: int) -> bytes:
    out = b""
    while size >= 0x80:
        out, size = out + bytes([size & 0x7F | 0x80]), size >> 7
    return out + bytes([size])


def skim(stream: BinaryIO) -> bytes:
    """The model with tensors of more than `KEPT_BYTES` emptied, and without texts of documentation."""
    end = stream.seek(0, SEEK_END)
    stream.seek(0)
    return _message(stream, end, "model", 0, [MOST_BYTES])


def _message(stream: BinaryIO, end: int, kind: str, depth: int, left: list[int]) -> bytes:
    if depth > DEEPEST:
        raise NotOnnx("nests its graphs too deep")
    parts = []
    while stream.tell() < end:
        key, written = _varint(stream)
        field, wire = key >> 3, key & 7
        if wire == 0:
            parts.append(written + _varint(stream)[1])
        elif wire in (1, 5):
            parts.append(written + stream.read(8 if wire == 1 else 4))
        elif wire == 2:
            size, prefix = _varint(stream)
            after = stream.tell() + size
            if after > end:
                raise NotOnnx("is cut off: a field is longer than what is left")
            inner = _INSIDE[kind].get(field)
            if inner is not None:
                content = _message(stream, after, inner, depth + 1, left)
                parts.append(written + _length(len(content)) + content)
            elif (kind == "tensor" and field in _ELEMENTS and size > KEPT_BYTES) or _DOC.get(kind) == field:
                stream.seek(after)
            else:
                left[0] -= size
                if left[0] < 0:
                    raise NotOnnx(f"holds more than {MOST_BYTES:,} bytes besides its weights")
                parts.append(written + prefix + stream.read(size))
        else:
            raise NotOnnx("has a field of a kind that protobuf does not write")
    return b"".join(parts)
