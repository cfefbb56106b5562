"""Sequences of tensors, which are lists at import, and optional values."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax import op
from tilesmith.relax.expr import Constant
from tilesmith.relax.frontend.onnx.node import OnnxNode, normal_axis
from tilesmith.relax.frontend.onnx.ops.manipulation import parts_of
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.values import rank_of, scalar, shape_of
from tilesmith.support.errors import FrontendError


def _sequence(node: OnnxNode, index: int = 0) -> list[Any]:
    value = node.value(index)
    if not isinstance(value, list):
        raise FrontendError(f"input {index} has to be a sequence")
    return value


def _place(node: OnnxNode, index: int, size: int) -> int:
    place = int(node.number(index, "position"))
    if not -size <= place < max(size, 1):
        raise FrontendError(f"position {place} is outside of a sequence of {size}")
    return place + size if place < 0 else place


@converter("SequenceConstruct")
def _construct(node: OnnxNode) -> Any:
    return list(node.inputs)


@converter("SequenceEmpty")
def _empty(node: OnnxNode) -> Any:
    return []


@converter("SequenceAt")
def _at(node: OnnxNode) -> Any:
    values = _sequence(node)
    return values[_place(node, 1, len(values))]


@converter("SequenceInsert")
def _insert(node: OnnxNode) -> Any:
    values = list(_sequence(node))
    place = int(node.number(2, "position")) if node.has(2) else len(values)
    values.insert(place + len(values) if place < 0 else place, node.value(1))
    return values


@converter("SequenceErase")
def _erase(node: OnnxNode) -> Any:
    values = list(_sequence(node))
    del values[_place(node, 1, len(values)) if node.has(1) else -1]
    return values


@converter("SequenceLength")
def _length(node: OnnxNode) -> Any:
    return scalar(len(_sequence(node)), "int64")


@converter("ConcatFromSequence")
def _concat(node: OnnxNode) -> Any:
    tensors = [node.importer.tensor(value) for value in _sequence(node)]
    if not tensors:
        raise node.unsupported("joining an empty sequence")
    axis = int(node.required("axis"))
    if node.flag("new_axis"):
        axis = normal_axis(axis, rank_of(tensors[0]) + 1)
        tensors = [op.expand_dims(tensor, axis) for tensor in tensors]
    axis = normal_axis(axis, rank_of(tensors[0]))
    return op.concat(tensors, axis) if len(tensors) > 1 else tensors[0]


@converter("SplitToSequence")
def _split(node: OnnxNode) -> Any:
    x = node[0]
    axis = node.axis(0, rank_of(x))
    size = shape_of(x)[axis]
    if not isinstance(size, int):
        raise node.unsupported("splitting an axis of symbolic size into a sequence")
    if not node.has(1):
        parts = [1] * size
    else:
        given = node.constant(1, "split")
        parts = [int(value) for value in given.ravel()]
        if given.ndim == 0:
            step = node.count(1, "split")
            parts = [min(step, size - begin) for begin in range(0, size, step)]
    pieces = [node.emit(part) for part in parts_of(node, x, axis, parts, size)]
    if node.has(1) or node.flag("keepdims", True):
        return pieces
    return [op.squeeze(piece, [axis]) for piece in pieces]


@converter("SequenceMap")
def _map(node: OnnxNode) -> Any:
    """Apply the body to each element; inputs that are not sequences are the same each time."""
    body, values = node.required("body"), _sequence(node)
    outputs: list[list[Any]] = [[] for _ in body.output]
    for place in range(len(values)):
        inputs = [item[place] if isinstance(item, list) else item for item in node.inputs]
        results = node.importer.import_subgraph(body, node.scope, inputs)
        for found, result in zip(outputs, results):
            found.append(result)
    return tuple(outputs)


# Optional values


@converter("Optional")
def _optional(node: OnnxNode) -> Any:
    return node.value(0) if node.has(0) else None


@converter("OptionalGetElement")
def _get_element(node: OnnxNode) -> Any:
    return node.value(0)


@converter("OptionalHasElement")
def _has_element(node: OnnxNode) -> Any:
    return Constant(numpy.asarray(node.has(0)))
