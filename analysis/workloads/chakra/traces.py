"""Chakra execution traces (`NAME.RANK.et`): reading those of other tools, and writing ours so that other tools can run them.

A file is one `GlobalMetadata` and then one `Node` after another, each preceded by its length as a varint; or the same messages as JSON, one
object after another, as Chakra's own jsonizer writes them.
Source: MLCommons Chakra, schema/protobuf/et_def.proto (data/workloads/chakra_et_def.json has its field names, numbers and types).
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, proto
from google.protobuf.message import DecodeError

from analysis.errors import InputError
from analysis.paths import DATA
from analysis.tables import write_atomic
from analysis.workloads.chakra.node import COUNTS, Node

SCHEMA = json_format.Parse((DATA / "workloads" / "chakra_et_def.json").read_text(), descriptor_pb2.FileDescriptorProto())
"""Chakra's messages, as a descriptor that protobuf makes classes of."""
NODE_TYPES, COLLECTIVE_TYPES = (tuple(value.name for value in enum.value) for enum in SCHEMA.enum_type)
_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(SCHEMA) if hasattr(_POOL, "Add") else _POOL.AddSerializedFile(SCHEMA.SerializeToString())
GlobalMetadata, NodeMessage, AttributeMessage = (
    message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{SCHEMA.package}.{name}"))
    for name in ("GlobalMetadata", "Node", "AttributeProto")
)
VERSION = "0.0.4"
_MESSAGE = {"comm_src": "int32_val", "comm_dst": "int32_val", "comm_tag": "int32_val", "comm_size": "int64_val"}
ATTRIBUTES = {
    "COMP_NODE": {"num_ops": "int64_val", "tensor_size": "uint64_val"},
    "COMM_COLL_NODE": {"comm_type": "int64_val", "comm_size": "int64_val"},
    **dict.fromkeys(("COMM_SEND_NODE", "COMM_RECV_NODE"), _MESSAGE),
}
"""What a node of a kind is written with, and as which type."""


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


def _json_messages(content: bytes, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a text, one after another or in a list, each with the line where it begins."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", path=path) from None
    decoder, place = json.JSONDecoder(), 0
    while (place := len(text) - len(text[place:].lstrip(" \t\r\n,"))) < len(text):
        line = text.count("\n", 0, place) + 1
        try:
            found, place = decoder.raw_decode(text, place)
        except (json.JSONDecodeError, RecursionError, ValueError) as error:
            raise InputError(f"is not JSON: {getattr(error, 'msg', error)}", path=path, line=getattr(error, "lineno", line)) from None
        for each in found if isinstance(found, list) else [found]:
            if not isinstance(each, dict):
                raise InputError("expected an object a node", path=path, line=line)
            yield line, each


def _read_messages(content: bytes, path: Path) -> Iterator[tuple[int, Any]]:
    """The nodes of a file, each with its number (of a JSON file: its line)."""
    if re.match(rb"(\xef\xbb\xbf)?\s*(\[\s*)?\{\s*[\"}]", content):
        for number, (line, found) in enumerate(_json_messages(content, path)):
            kind = GlobalMetadata if number == 0 and "id" not in found else NodeMessage
            try:
                message = json_format.ParseDict(found, kind())
            except (json_format.ParseError, RecursionError) as error:
                raise InputError(f"is not a node of Chakra: {str(error).splitlines()[0]}", path=path, line=line) from None
            if kind is NodeMessage:
                yield line, message
        return
    for number, binary in enumerate(_messages(content, path)):
        if number:
            yield number, NodeMessage.FromString(binary)
        else:
            GlobalMetadata.FromString(binary)


def _collective(value: Any) -> str:
    """A `comm_type`, by its number or its name (ALL_REDUCE, all_reduce, AllReduce)."""
    text = str(value or 0)
    plain = "".join(letter for letter in text.upper() if letter.isalnum())
    number = int(plain) if plain.isdecimal() else next((k for k, name in enumerate(COLLECTIVE_TYPES) if name.replace("_", "") == plain), -1)
    return COLLECTIVE_TYPES[number] if 0 <= number < len(COLLECTIVE_TYPES) else f"type {text}"


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
        for number, read in _read_messages(content, path):
            values = {attribute.name: _value(attribute) for attribute in read.attr}
            kind = NODE_TYPES[read.type] if 0 <= read.type < len(NODE_TYPES) else f"type {read.type}"
            nodes.append(
                Node(
                    rank=rank,
                    node_id=read.id,
                    name=read.name,
                    type=kind,
                    duration_us=read.duration_micros,
                    waits_for=tuple(dict.fromkeys([*read.data_deps, *read.ctrl_deps])),
                    comm_type=_collective(values.get("comm_type")) if kind == "COMM_COLL_NODE" else "",
                    group=str(values.get("pg_name") or ""),
                    on_host=bool(values.get("is_cpu_op") or False),
                    line=number,
                    **{ours: int(values.get(theirs) or 0) for theirs, ours in COUNTS.items()},
                )
            )
    except (DecodeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"is not a Chakra trace: {error}", path=path) from None
    return nodes


def rank_files(path: str | Path) -> list[tuple[int, Path]]:
    """All ranks of the trace that a file belongs to: `NAME.0.et` (or .json) finds `NAME.1.et` and so on beside it."""
    path = Path(path)
    match = re.fullmatch(r"(.*)\.(\d+)(\.et|\.json)", path.name)
    if not match:
        raise InputError("expected a name like NAME.0.et", path=path)
    found = []
    for other in path.parent.glob(f"*{match[3]}"):
        same = re.fullmatch(re.escape(match[1]) + r"\.(\d+)" + re.escape(match[3]), other.name)
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
    stream = io.BytesIO()
    proto.serialize_length_prefixed(GlobalMetadata(version=VERSION), stream)
    for node in nodes:
        message = NodeMessage(id=node.node_id, name=node.name, type=NODE_TYPES.index(node.type), duration_micros=node.duration_us)
        message.data_deps.extend(node.waits_for)
        _attribute(message, "is_cpu_op", "bool_val", node.on_host)
        for name, field in ATTRIBUTES.get(node.type, {}).items():
            value = COLLECTIVE_TYPES.index(node.comm_type) if name == "comm_type" else getattr(node, COUNTS[name])
            _attribute(message, name, field, value)
        if node.type == "COMM_COLL_NODE" and node.group:
            _attribute(message, "pg_name", "string_val", node.group)
        proto.serialize_length_prefixed(message, stream)
    return stream.getvalue()


def write_trace(nodes: Sequence[Node], folder: str | Path, name: str, groups: Mapping[str, Sequence[int]]) -> list[Path]:
    """Write a trace as one `.et` file a rank, and `NAME.groups.json`, the groups as ASTRA-sim reads them."""
    ours, there = {f"{name}.{node.rank}.et" for node in nodes}, sorted(Path(folder).glob("*.et"))
    stray = next((old.name for old in there if re.fullmatch(re.escape(name) + r"\.\d+\.et", old.name) and old.name not in ours), None)
    if stray is not None:  # a reader would take both for one trace
        raise InputError(f"holds {stray}, of a trace with more ranks: name another folder", path=folder)
    written = [write_atomic(Path(folder) / f"{name}.{rank}.et", rank_bytes(own)) for rank, own in groupby(nodes, lambda node: node.rank)]
    text = json.dumps({number: list(group) for number, group in groups.items()}, indent=1)
    return [*written, write_atomic(Path(folder) / f"{name}.groups.json", text.encode())]
