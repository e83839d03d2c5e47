"""The Chakra execution trace format: message types of its protobuf schema, declared here.

A file `NAME.RANK.et` is one `GlobalMetadata` and then one `Node` after another, each preceded by its length as a varint.
Source: MLCommons Chakra, schema/protobuf/et_def.proto (field names, numbers and types).
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "ChakraProtoMsg"
NODE_TYPES = (
    "INVALID_NODE",
    "METADATA_NODE",
    "MEM_LOAD_NODE",
    "MEM_STORE_NODE",
    "COMP_NODE",
    "COMM_SEND_NODE",
    "COMM_RECV_NODE",
    "COMM_COLL_NODE",
)
COLLECTIVE_TYPES = (
    "ALL_REDUCE",
    "REDUCE",
    "ALL_GATHER",
    "GATHER",
    "SCATTER",
    "BROADCAST",
    "ALL_TO_ALL",
    "REDUCE_SCATTER",
    "REDUCE_SCATTER_BLOCK",
    "BARRIER",
)
# an attribute holds one value: scalars at odd field numbers from 3, the list of the same type at the number after
ATTRIBUTE_TYPES = (
    "double",
    "float",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "bool",
    "string",
    "bytes",
)
_FIELD = descriptor_pb2.FieldDescriptorProto


def _add(
    message: Any, name: str, number: int, kind: int, *, repeated: bool = False, type_name: str = "", one_of: int | None = None
) -> None:
    field = message.field.add(name=name, number=number, type=kind)
    field.label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
    if type_name:
        field.type_name = f".{PACKAGE}.{type_name}"
    if one_of is not None:
        field.oneof_index = one_of


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="chakra_et_def.proto", package=PACKAGE, syntax="proto3")
    for enum, names in (("NodeType", NODE_TYPES), ("CollectiveCommType", COLLECTIVE_TYPES)):
        declared = file.enum_type.add(name=enum)
        for number, name in enumerate(names):
            declared.value.add(name=name, number=number)
    kinds = {name: getattr(_FIELD, f"TYPE_{name.upper()}") for name in ATTRIBUTE_TYPES}
    for name, kind in kinds.items():
        _add(file.message_type.add(name=f"{name.capitalize()}List"), "values", 1, kind, repeated=True)
    attribute = file.message_type.add(name="AttributeProto")
    attribute.oneof_decl.add(name="value")
    _add(attribute, "name", 1, _FIELD.TYPE_STRING)
    _add(attribute, "doc_string", 2, _FIELD.TYPE_STRING)
    for place, (name, kind) in enumerate(kinds.items()):
        _add(attribute, f"{name}_val", 3 + 2 * place, kind, one_of=0)
        _add(attribute, f"{name}_list", 4 + 2 * place, _FIELD.TYPE_MESSAGE, type_name=f"{name.capitalize()}List", one_of=0)
    metadata = file.message_type.add(name="GlobalMetadata")
    _add(metadata, "version", 1, _FIELD.TYPE_STRING)
    _add(metadata, "attr", 2, _FIELD.TYPE_MESSAGE, repeated=True, type_name="AttributeProto")
    node = file.message_type.add(name="Node")
    _add(node, "id", 1, _FIELD.TYPE_UINT64)
    _add(node, "name", 2, _FIELD.TYPE_STRING)
    _add(node, "type", 3, _FIELD.TYPE_ENUM, type_name="NodeType")
    _add(node, "ctrl_deps", 4, _FIELD.TYPE_UINT64, repeated=True)
    _add(node, "data_deps", 5, _FIELD.TYPE_UINT64, repeated=True)
    _add(node, "start_time_micros", 6, _FIELD.TYPE_UINT64)
    _add(node, "duration_micros", 7, _FIELD.TYPE_UINT64)
    _add(node, "inputs", 8, _FIELD.TYPE_MESSAGE, repeated=True, type_name="AttributeProto")
    _add(node, "outputs", 9, _FIELD.TYPE_MESSAGE, repeated=True, type_name="AttributeProto")
    _add(node, "attr", 10, _FIELD.TYPE_MESSAGE, repeated=True, type_name="AttributeProto")
    return file


def _classes() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file()) if hasattr(pool, "Add") else pool.AddSerializedFile(_file().SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in ("GlobalMetadata", "Node", "AttributeProto")
    }


CLASSES = _classes()
GlobalMetadata, NodeMessage, AttributeMessage = CLASSES["GlobalMetadata"], CLASSES["Node"], CLASSES["AttributeProto"]
