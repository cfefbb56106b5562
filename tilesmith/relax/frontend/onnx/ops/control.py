"""Branches and loops: chosen or unrolled at import where that is known, else kept as they are."""

from __future__ import annotations

from typing import Any

from tilesmith.relax import op
from tilesmith.relax.expr import Constant, If, SeqExpr, ShapeExpr, Tuple, TupleGetItem
from tilesmith.relax.frontend.onnx.loops import counted_loop, run_time_loop
from tilesmith.relax.frontend.onnx.node import OnnxNode, normal_axis
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.onnx.values import as_array, rank_of, scalar, shape_of
from tilesmith.support.errors import FrontendError, OpAttributeInvalid

MOST_ITERATIONS = 1000
"""Loops that may have more iterations than this are not unrolled."""


@converter("If")
def _if(node: OnnxNode) -> Any:
    known = node.known(0)
    branches = node.required("then_branch"), node.required("else_branch")
    if len(branches[0].output) != len(branches[1].output):
        counts = " and ".join([str(len(graph.output)) for graph in branches])
        raise FrontendError(f"its branches have {counts} outputs")
    if known is not None and known.dtype != object:
        graph = branches[0] if node.number(0, "cond") else branches[1]
        return tuple(node.importer.import_subgraph(graph, node.scope, []))
    condition = op.reshape(node[0], []) if rank_of(node[0]) else node[0]
    condition = node.emit(condition)
    then_branch, else_branch = [_branch(node, graph) for graph in branches]
    found = node.emit(If(condition, then_branch, else_branch))
    count = len(branches[0].output)
    return (found,) if count == 1 else tuple([TupleGetItem(found, i) for i in range(count)])


def _branch(node: OnnxNode, graph: Any) -> SeqExpr:
    """Return a subgraph as a sequence of bindings with its outputs as value."""
    with node.importer.separate_block() as block:
        outputs = node.importer.import_subgraph(graph, node.scope, [])
        if any(isinstance(value, list) or value is None for value in outputs):
            raise node.unsupported(
                "a branch that is chosen at run time and gives a sequence or nothing",
                "let both branches give tensors, or make the condition a constant",
            )
        tensors = [node.importer.tensor(value) for value in outputs]
    value = tensors[0] if len(tensors) == 1 else Tuple(tensors)
    return SeqExpr([block()], value)


@converter("Loop")
def _loop(node: OnnxNode) -> Any:
    """Unroll a loop if the number of iterations and the conditions are known at import; else keep
    it as a function that calls itself.
    """
    body = node.required("body")
    if not node.has(0) and not node.has(1):
        raise FrontendError("the loop has neither a number of iterations nor a condition")
    if not _is_known(node, 0) or not _is_known(node, 1):
        return run_time_loop(node, body)
    limit = node.number(0, "M") if node.has(0) else None
    if limit is not None and limit > MOST_ITERATIONS:
        return run_time_loop(node, body)
    keep_going = bool(node.number(1, "cond", True))
    carried = list(node.inputs[2:])
    count = len(carried)
    if len(body.output) <= count:
        raise FrontendError(
            f"its body has {len(body.output)} outputs; a condition and {count} values are needed"
        )
    scanned: list[list[Any]] = [[] for _ in range(len(body.output) - 1 - count)]
    iteration = 0
    while keep_going and (limit is None or iteration < limit):
        if iteration >= MOST_ITERATIONS:
            return run_time_loop(node, body)
        inputs = [scalar(iteration, "int64"), scalar(True, "bool"), *carried]
        condition, *outputs = node.importer.import_subgraph(body, node.scope, inputs)
        if not isinstance(condition, Constant):
            return run_time_loop(node, body)
        array = as_array(condition)
        if array.size != 1:
            raise FrontendError(f"the condition of its body has the shape {array.shape}")
        keep_going = bool(array.reshape(()))
        carried = outputs[:count]
        for values, value in zip(scanned, outputs[count:]):
            values.append(value)
        iteration += 1
    if scanned and not iteration:
        return run_time_loop(node, body)  # it knows the sizes of what would be collected
    return (*carried, *[_stacked(node, values, 0) for values in scanned])


def _is_known(node: OnnxNode, index: int) -> bool:
    """Return whether an optional input is absent or a constant."""
    known = node.known(index)
    return not node.has(index) or (known is not None and known.dtype != object)


def _stacked(node: OnnxNode, values: list[Any], axis: int) -> Any:
    if not values:
        raise node.unsupported("a loop without iterations whose results are collected")
    tensors = [op.expand_dims(node.importer.tensor(value), axis) for value in values]
    return op.concat(tensors, axis) if len(tensors) > 1 else tensors[0]


@converter("Scan", since=9)
def _scan(node: OnnxNode) -> Any:
    return _unrolled_scan(node, list(node.inputs))


@converter("Scan", since=8)
def _batched_scan(node: OnnxNode) -> Any:
    """Convert Scan as before opset 9: a leading batch axis, lengths in the first input."""
    if node.has(0):
        raise node.unsupported("a scan over sequences of different lengths")
    inputs = [node[index] for index in range(1, len(node))]
    batch = shape_of(inputs[0])[0]
    if not isinstance(batch, int):
        raise node.unsupported("a scan with a batch of symbolic size")
    results = []
    for item in range(batch):
        parts = [node.emit(op.take(value, scalar(item, "int64"), 0)) for value in inputs]
        results.append(_unrolled_scan(node, parts))
    return tuple([_stacked(node, [node.emit(r) for r in column], 0) for column in zip(*results)])


def _directions(node: OnnxNode, name: str, count: int) -> list[int]:
    found = node.attribute(name) or [0] * count
    if len(found) != count:
        raise OpAttributeInvalid(f"its attribute '{name}' has {len(found)} items, {count} needed")
    return [int(value) for value in found]


def _unrolled_scan(node: OnnxNode, inputs: list[Any]) -> tuple[Any, ...]:
    body, count = node.required("body"), int(node.required("num_scan_inputs"))
    if not 1 <= count <= len(inputs) or len(body.output) < len(inputs) - count:
        raise OpAttributeInvalid(
            f"its attribute 'num_scan_inputs' is {count}, which does not fit {len(inputs)} inputs "
            f"and a body with {len(body.output)} outputs"
        )
    states = inputs[: len(inputs) - count]
    sequences = [node.importer.tensor(value) for value in inputs[len(states) :]]
    axes = [
        normal_axis(axis, rank_of(value))
        for axis, value in zip(_directions(node, "scan_input_axes", count), sequences)
    ]
    name = "directions" if node.version < 9 else "scan_input_directions"
    reverse = _directions(node, name, count)
    length = shape_of(sequences[0])[axes[0]]
    turned = _directions(node, "scan_output_directions", len(body.output) - len(states))
    out_axes = _directions(node, "scan_output_axes", len(body.output) - len(states))
    if not isinstance(length, int) or length > MOST_ITERATIONS:
        places = list(zip(sequences, axes, reverse))
        states, stacked = _looped_scan(node, body, length, states, places)
        ordered = [
            node.emit(op.flip(value, 0)) if is_reversed else value
            for value, is_reversed in zip(stacked, turned)
        ]
        return (*states, *[_first_to(node, one, axis) for one, axis in zip(ordered, out_axes)])
    collected: list[list[Any]] = [[] for _ in range(len(body.output) - len(states))]
    for step in range(length):
        parts = []
        for value, axis, is_reversed in zip(sequences, axes, reverse):
            place = length - 1 - step if is_reversed else step
            parts.append(node.emit(op.take(value, scalar(place, "int64"), axis)))
        outputs = node.importer.import_subgraph(body, node.scope, [*states, *parts])
        states = outputs[: len(states)]
        for values, value in zip(collected, outputs[len(states) :]):
            values.append(value)
    if length == 0:
        raise node.unsupported("a scan over an axis of size 0")
    results = []
    for values, is_reversed, axis in zip(collected, turned, out_axes):
        rank = rank_of(node.importer.tensor(values[0])) + 1
        ordered = values[::-1] if is_reversed else values
        results.append(_stacked(node, ordered, normal_axis(axis, rank)))
    return (*states, *results)


def _looped_scan(
    node: OnnxNode, body: Any, length: Any, states: list[Any], sequences: list[tuple[Any, int, int]]
) -> tuple[list[Any], list[Any]]:
    """Emit a scan as a loop over sequences, each with its axis and whether it is read backwards;
    return the last states, and what is collected along a first axis.
    """
    count = node.emit(op.reshape(op.shape_to_tensor(ShapeExpr([length])), []))
    first = [node.importer.tensor(value) for value in states]

    def step(i: Any, states: list[Any]) -> tuple[list[Any], list[Any]]:
        parts = []
        for value, axis, is_reversed in sequences:
            place = i
            if is_reversed:
                place = node.emit(op.subtract(op.subtract(count, scalar(1, "int64")), i))
            parts.append(node.emit(op.take(value, place, axis)))
        outputs = node.importer.import_subgraph(body, node.scope, [*states, *parts])
        tensors = [node.importer.tensor(value) for value in outputs]
        return tensors[: len(states)], tensors[len(states) :]

    return counted_loop(node, length, first, step)


def _first_to(node: OnnxNode, value: Any, axis: int) -> Any:
    """Return a value whose first axis becomes another one."""
    rank = rank_of(value)
    place = normal_axis(axis, rank)
    order = list(range(1, rank))
    order.insert(place, 0)
    return node.emit(op.permute_dims(value, order)) if place else value
