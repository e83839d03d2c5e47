"""Chakra execution traces (`NAME.RANK.et`): reading those of other tools, and writing ours so that other tools can run them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from analysis.errors import InputError
from analysis.tables import write_atomic
from analysis.workloads.chakra.node import Node
from analysis.workloads.chakra.schema import COLLECTIVE_TYPES, NODE_TYPES, AttributeMessage, GlobalMetadata, NodeMessage

VERSION = "0.0.4"


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _messages(content: bytes, path: Path) -> Iterator[bytes]:
    place = 0
    while place < len(content):
        length, shift = 0, 0
        while True:
            if place >= len(content) or shift > 63:
                raise InputError(f"is cut off at byte {place}: expected the length of a message", path=path)
            byte = content[place]
            place += 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if place + length > len(content):
            raise InputError(f"is cut off: a message of {length} bytes starts at byte {place} of {len(content)}", path=path)
        yield content[place : place + length]
        place += length


def _value(attribute: Any) -> Any:
    which = attribute.WhichOneof("value")
    return None if which is None else getattr(attribute, which)


def read_rank(path: str | Path, rank: int) -> list[Node]:
    """Read the trace of one rank."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from None
    nodes = []
    try:
        for number, message in enumerate(_messages(content, path)):
            if number == 0:
                GlobalMetadata.FromString(message)
                continue
            read = NodeMessage.FromString(message)
            values = {attribute.name: _value(attribute) for attribute in read.attr}
            kind = NODE_TYPES[read.type] if 0 <= read.type < len(NODE_TYPES) else f"type {read.type}"
            collective = int(values.get("comm_type") or 0)
            named = COLLECTIVE_TYPES[collective] if 0 <= collective < len(COLLECTIVE_TYPES) else f"type {collective}"
            nodes.append(
                Node(
                    rank=rank,
                    node_id=read.id,
                    name=read.name,
                    type=kind,
                    duration_us=read.duration_micros,
                    waits_for=tuple(dict.fromkeys([*read.data_deps, *read.ctrl_deps])),
                    operations=int(values.get("num_ops") or 0),
                    tensor_bytes=int(values.get("tensor_size") or 0),
                    comm_type=named if kind == "COMM_COLL_NODE" else "",
                    comm_bytes=int(values.get("comm_size") or 0),
                    source=int(values.get("comm_src") or 0),
                    destination=int(values.get("comm_dst") or 0),
                    tag=int(values.get("comm_tag") or 0),
                    group=str(values.get("pg_name") or ""),
                    on_host=bool(values.get("is_cpu_op") or False),
                    line=number,
                )
            )
    except (DecodeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"is not a Chakra trace: {error}", path=path) from None
    return nodes


def rank_files(path: str | Path) -> list[tuple[int, Path]]:
    """All ranks of the trace that a file belongs to: `NAME.0.et` finds `NAME.1.et` and so on beside it."""
    path = Path(path)
    match = re.fullmatch(r"(.*)\.(\d+)\.et", path.name)
    if not match:
        raise InputError("expected a name like NAME.0.et", path=path)
    found = []
    for other in path.parent.glob("*.et"):
        same = re.fullmatch(re.escape(match[1]) + r"\.(\d+)\.et", other.name)
        if same:
            found.append((int(same[1]), other))
    if not found:
        raise InputError("no such file", path=path)
    return sorted(found)


def read_trace(path: str | Path) -> list[Node]:
    """Read a trace of all ranks, given the file of any of them."""
    return [node for rank, file in rank_files(path) for node in read_rank(file, rank)]


def _attribute(message: Any, name: str, field: str, value: Any) -> None:
    added = AttributeMessage(name=name)
    setattr(added, field, value)
    message.attr.append(added)


def rank_bytes(nodes: Iterable[Node]) -> bytes:
    """The trace of one rank as the bytes of a `.et` file."""
    messages = [GlobalMetadata(version=VERSION)]
    for node in nodes:
        message = NodeMessage(id=node.node_id, name=node.name, type=NODE_TYPES.index(node.type), duration_micros=node.duration_us)
        message.data_deps.extend(node.waits_for)
        _attribute(message, "is_cpu_op", "bool_val", node.on_host)
        if node.type == "COMP_NODE":
            _attribute(message, "num_ops", "int64_val", node.operations)
            _attribute(message, "tensor_size", "uint64_val", node.tensor_bytes)
        elif node.type == "COMM_COLL_NODE":
            _attribute(message, "comm_type", "int64_val", COLLECTIVE_TYPES.index(node.comm_type))
            _attribute(message, "comm_size", "int64_val", node.comm_bytes)
            if node.group:
                _attribute(message, "pg_name", "string_val", node.group)
        elif node.type in ("COMM_SEND_NODE", "COMM_RECV_NODE"):
            for name, value in (("comm_src", node.source), ("comm_dst", node.destination), ("comm_tag", node.tag)):
                _attribute(message, name, "int32_val", value)
            _attribute(message, "comm_size", "int64_val", node.comm_bytes)
        messages.append(message)
    return b"".join(_varint(len(data)) + data for data in (message.SerializeToString(deterministic=True) for message in messages))


def write_trace(nodes: Sequence[Node], folder: str | Path, name: str) -> list[Path]:
    """Write a trace as one `.et` file a rank.

    Args:
        name: files are `NAME.RANK.et`.
    """
    ranks = sorted({node.rank for node in nodes})
    return [write_atomic(Path(folder) / f"{name}.{rank}.et", rank_bytes(n for n in nodes if n.rank == rank)) for rank in ranks]
