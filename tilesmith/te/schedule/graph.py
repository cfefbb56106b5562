"""The graph of operations: what reads what, in which order, what lies between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tilesmith.te.tensor import Operation, Tensor

__all__ = ["create_read_graph", "operations_between", "post_dfs_order"]

ReadGraph = dict[Operation, list[Tensor]]


def create_read_graph(roots: Iterable[Operation]) -> ReadGraph:
    """Return the tensors that each operation reads, for all that some operations need."""
    graph: ReadGraph = {}
    waiting = list(roots)
    while waiting:
        op = waiting.pop()
        if op not in graph:
            graph[op] = op.input_tensors
            waiting += [tensor.op for tensor in graph[op]]
    return graph


def post_dfs_order(
    roots: Iterable[Operation], graph: Mapping[Operation, Sequence[Tensor]]
) -> list[Operation]:
    """Return the operations of a graph, each after those that it reads."""
    order: dict[Operation, None] = {}
    entered: set[Operation] = set()
    waiting = list(roots)[::-1]
    while waiting:
        op = waiting[-1]
        if op in order:
            waiting.pop()
        elif op in entered:
            order[waiting.pop()] = None
        else:
            entered.add(op)
            inputs = [tensor.op for tensor in graph.get(op, ())]
            waiting += [one for one in reversed(inputs) if one not in entered]
    return list(order)


def operations_between(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], include_inputs: bool
) -> list[Operation]:
    """Return the operations on the ways from some tensors to others, each after those that it
    reads; those that make the inputs count only if they are included.
    """
    borders = {tensor.op for tensor in inputs}
    graph: ReadGraph = {}
    waiting = [tensor.op for tensor in outputs]
    while waiting:
        op = waiting.pop()
        if op in graph or (op in borders and not include_inputs):
            continue
        graph[op] = [] if op in borders else op.input_tensors
        waiting += [tensor.op for tensor in graph[op]]
    found: dict[Operation, None] = {}
    roots = [tensor.op for tensor in outputs]
    for op in post_dfs_order(roots, graph):
        used = [tensor.op for tensor in graph.get(op, ())]
        leads_there = any(one in borders or one in found for one in used)
        if op in graph and (op in borders or op in roots or leads_there):
            found[op] = None
    return list(found)
