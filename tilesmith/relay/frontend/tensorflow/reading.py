"""Reads a GraphDef: its nodes, their attributes as Python's values, tensors as arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy

from tilesmith.relay.frontend.tensorflow.messages import graph_class
from tilesmith.support.errors import (
    FileError,
    FrontendError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)

__all__ = ["GraphNode", "nodes_of", "ordered"]

_DTYPES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 9: "int64",
    10: "bool", 14: "bfloat16", 17: "uint16", 19: "float16", 22: "uint32", 23: "uint64",
}  # fmt: skip
"""DataType of TensorFlow → dtype. References to variables have 100 more."""

_FIELDS = {
    "bool": "bool_val", "float32": "float_val", "float64": "double_val", "int64": "int64_val",
    "uint32": "uint32_val", "uint64": "uint64_val", "float16": "half_val", "bfloat16": "half_val",
}  # fmt: skip


class GraphNode:
    """A node: its name, operator, operands as (node, number of the result), and attributes."""

    def __init__(self, proto: Any) -> None:
        self.name: str = proto.name
        self.op: str = proto.op
        self.inputs = [split_name(one) for one in proto.input if not one.startswith("^")]
        self._attrs = {one.key: one.value for one in proto.attr}

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute as a value of Python, or the default."""
        if name not in self._attrs:
            return default
        return _attribute(self._attrs[name])


def split_name(text: str) -> tuple[str, int]:
    """Return the node and the number of the result that a name of a tensor is about."""
    name, _, number = text.partition(":")
    return name, int(number) if number else 0


def dtype_of_number(kind: int) -> str:
    """Return the dtype of a DataType; raises UnsupportedError for what is no number."""
    if kind % 100 not in _DTYPES:
        raise UnsupportedError(f"tensors of TensorFlow's type {kind} are not imported")
    return _DTYPES[kind % 100]


def _attribute(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    held = getattr(value, kind)
    if kind == "list":
        for name in ("s", "i", "f", "b", "type", "shape"):
            found = list(getattr(held, name))
            if found:
                return [_single(name, one) for one in found]
        return []
    return _single(kind, held)


def _single(kind: str, held: Any) -> Any:
    if kind == "s":
        return held.decode("utf-8", "replace")
    if kind == "type":
        return dtype_of_number(held)
    if kind == "shape":
        return None if held.unknown_rank else tuple([int(dim.size) for dim in held.dim])
    if kind == "tensor":
        return _tensor(held)
    return held.name if kind == "func" else held


def _tensor(proto: Any) -> numpy.ndarray:
    """Return the values of a tensor; the last one that is given stands for all that follow."""
    dtype = dtype_of_number(proto.dtype)
    shape = tuple([int(dim.size) for dim in proto.tensor_shape.dim])
    kind = "uint16" if dtype == "bfloat16" else dtype
    count = int(numpy.prod(shape))
    if proto.tensor_content:
        found = numpy.frombuffer(proto.tensor_content, numpy.dtype(kind).newbyteorder("<"))
    else:
        given = getattr(proto, _FIELDS.get(dtype, "int_val"))
        stored = "uint16" if dtype in ("float16", "bfloat16") else kind
        found = numpy.array(list(given) or [0], stored)
        if dtype == "float16":
            found = found.view("float16")
        rest = numpy.repeat(found[-1:], max(count - found.size, 0))
        found = numpy.concatenate([found, rest])[:count]
    if found.size != count:
        raise FrontendError(f"a tensor of the shape {shape} has {found.size} values")
    if dtype == "bfloat16":
        found = (found.astype("uint32") << 16).view("float32")
        kind = "float32"
    return found.reshape(shape).astype(kind)


def nodes_of(graph: Any) -> list[GraphNode]:
    """Return the nodes of a GraphDef: its bytes, the path of a file, or the object."""
    if isinstance(graph, (str, os.PathLike)):
        try:
            graph = Path(graph).read_bytes()
        except OSError as error:
            reason = error.strerror or str(error)
            raise FileError(f"the graph cannot be read from '{graph}': {reason}") from None
    elif hasattr(graph, "SerializeToString"):
        graph = graph.SerializeToString()
    if not isinstance(graph, (bytes, bytearray, memoryview)):
        raise TypeMismatchError(
            f"from_tensorflow takes a GraphDef, its bytes or a path, got {type(graph).__name__}",
            notes=("freeze a function of TensorFlow 2 before: "
                   "convert_variables_to_constants_v2(function).graph.as_graph_def()",),
        )  # fmt: skip
    message = graph_class()()
    try:
        message.ParseFromString(bytes(graph))
    except Exception as error:  # DecodeError, of a module that is only there with protobuf
        raise FrontendError(f"this is no GraphDef: {error}") from None
    if not message.node or not all(node.op and node.name for node in message.node):
        raise FrontendError(
            "this is no frozen GraphDef: it has no nodes",
            notes=("a SavedModel has to be frozen before: its saved_model.pb is another format",),
        )
    return [GraphNode(node) for node in message.node]


def ordered(nodes: Mapping[str, GraphNode], outputs: Sequence[str]) -> list[GraphNode]:
    """Return the nodes that results depend on, operands first. In a graph with cycles a node comes
    before some of its operands.
    """
    seen: set[str] = set()
    found = []
    stack = [(name, False) for name in reversed(outputs)]
    while stack:
        name, is_done = stack.pop()
        if is_done:
            found.append(nodes[name])
            continue
        if name in seen:
            continue
        if name not in nodes:
            raise UnknownNameError(f"the graph has no node '{name}'")
        seen.add(name)
        stack.append((name, True))
        stack += [(one, False) for one, _ in reversed(nodes[name].inputs)]
    return found
