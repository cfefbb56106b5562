"""The messages of a GraphDef, built from a table: TensorFlow itself is not needed to read one."""

from __future__ import annotations

import functools
from typing import Any

from tilesmith.support.errors import MissingDependencyError

__all__ = ["graph_class"]

_FIELDS: dict[str, tuple[tuple[str, int, str], ...]] = {
    "Dim": (("size", 1, "int64"), ("name", 2, "string")),
    "TensorShape": (("dim", 2, "*Dim"), ("unknown_rank", 3, "bool")),
    "Tensor": (
        ("dtype", 1, "int32"), ("tensor_shape", 2, "TensorShape"), ("tensor_content", 4, "bytes"),
        ("float_val", 5, "*float"), ("double_val", 6, "*double"), ("int_val", 7, "*int32"),
        ("string_val", 8, "*bytes"), ("int64_val", 10, "*int64"), ("bool_val", 11, "*bool"),
        ("half_val", 13, "*int32"), ("uint32_val", 16, "*uint32"), ("uint64_val", 17, "*uint64"),
    ),
    "Function": (("name", 1, "string"),),
    "List": (
        ("s", 2, "*bytes"), ("i", 3, "*int64"), ("f", 4, "*float"), ("b", 5, "*bool"),
        ("type", 6, "*int32"), ("shape", 7, "*TensorShape"), ("tensor", 8, "*Tensor"),
        ("func", 9, "*Function"),
    ),
    "Value": (
        ("list", 1, "?List"), ("s", 2, "?bytes"), ("i", 3, "?int64"), ("f", 4, "?float"),
        ("b", 5, "?bool"), ("type", 6, "?int32"), ("shape", 7, "?TensorShape"),
        ("tensor", 8, "?Tensor"), ("placeholder", 9, "?string"), ("func", 10, "?Function"),
    ),
    "Attribute": (("key", 1, "string"), ("value", 2, "Value")),
    "Node": (
        ("name", 1, "string"), ("op", 2, "string"), ("input", 3, "*string"),
        ("device", 4, "string"), ("attr", 5, "*Attribute"),
    ),
    "Graph": (("node", 1, "*Node"),),
}  # fmt: skip
"""Message → (field, number, type): ``*`` is before what may come several times, ``?`` before those
of which one is there. Fields that are not needed are left out; a reader passes over them."""


@functools.cache
def graph_class() -> Any:
    """Return the class of a GraphDef's message."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise MissingDependencyError(
            "protobuf", extra="onnx", purpose="reading graphs of TensorFlow"
        ) from None
    kinds = descriptor_pb2.FieldDescriptorProto
    package = "tilesmith.graphdef"
    file = descriptor_pb2.FileDescriptorProto(
        name="tilesmith_graphdef.proto", package=package, syntax="proto3"
    )
    for message, fields in _FIELDS.items():
        described = file.message_type.add(name=message)
        for name, number, kind in fields:
            field = described.field.add(name=name, number=number, label=kinds.LABEL_OPTIONAL)
            if kind[0] == "*":
                field.label = kinds.LABEL_REPEATED
            if kind[0] == "?":
                if not described.oneof_decl:
                    described.oneof_decl.add(name="value")
                field.oneof_index = 0
            plain = kind.lstrip("*?")
            if plain in _FIELDS:
                field.type = kinds.TYPE_MESSAGE
                field.type_name = f".{package}.{plain}"
            else:
                field.type = getattr(kinds, f"TYPE_{plain.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.Graph"))
