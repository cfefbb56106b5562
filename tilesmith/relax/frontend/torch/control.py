"""Control flow that depends on data: `torch.cond` and `torch.while_loop`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tilesmith.ir import GlobalVar, PrimExpr
from tilesmith.relax import op
from tilesmith.relax.analysis import bindings_of, free_vars
from tilesmith.relax.binding import copy_with_new_vars
from tilesmith.relax.expr import (
    BindingBlock,
    Call,
    Function,
    If,
    RelaxExpr,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    known_struct_info,
)
from tilesmith.relax.frontend.onnx.values import rank_of, scalar
from tilesmith.relax.relations import definable_symbolic_vars, symbolic_vars
from tilesmith.relax.struct_info import FuncStructInfo, ShapeStructInfo, TupleStructInfo
from tilesmith.support.errors import UnsupportedError

__all__ = ["HIGHER_ORDER"]


def _block(importer: Any, make: Callable[[], list[Any]]) -> tuple[BindingBlock, list[Any]]:
    """Collect what ``make`` emits in a block of its own; return it with the values it gives."""
    importer.block_builder.begin_binding_block()
    try:
        values = make()
    finally:
        block = importer.block_builder.end_block()
    return block, values


def _tensors(importer: Any, values: list[Any]) -> list[Any]:
    """Return what a branch or a body gives as tensors of the graph."""
    found = []
    for value in values:
        if value is None:
            raise UnsupportedError("a branch or a loop whose result is None is not supported")
        if isinstance(value, RelaxExpr):
            found.append(importer.emit(value))
        elif isinstance(value, PrimExpr):
            found.append(importer.emit(importer.tensor_of_scalar(value)))
        else:
            dtype = {bool: "bool", int: "int64"}.get(type(value), "float32")
            found.append(scalar(value, dtype))
    return found


def _condition(importer: Any, value: Any) -> Any:
    if isinstance(value, PrimExpr):
        value = importer.tensor_of_scalar(value)
    if rank_of(value):
        value = op.reshape(value, ShapeExpr([]))
    return importer.emit(value)


def _cond(importer: Any, node: Any) -> list[Any]:
    """Convert a choice of one of two graphs; a condition that is known chooses at import."""
    values = importer.retrieve_args(node)
    condition, branches, operands = values[0], values[1:3], list(values[3])
    if isinstance(condition, bool):
        return list(importer.import_graph(branches[0 if condition else 1], operands))
    parts = []
    for graph in branches:
        convert = functools.partial(importer.import_graph, graph, operands)
        block, results = _block(importer, lambda: _tensors(importer, convert()))  # noqa: B023
        parts.append(SeqExpr([block], Tuple(results)))
    found = importer.block_builder.emit(If(_condition(importer, condition), parts[0], parts[1]))
    described = node.meta.get("val")
    fields = [TupleGetItem(found, index) for index in range(len(described))]
    return list(importer.bind(fields, described))


def _while_loop(importer: Any, node: Any) -> list[Any]:
    """Convert a loop to a function that calls itself while the condition holds."""
    test_graph, body_graph, states, others = [*importer.retrieve_args(node), []][:4]
    first = _tensors(importer, list(states))
    given = [importer.emit(value) if isinstance(value, RelaxExpr) else value for value in others]
    variables = [Var(f"state_{i}", known_struct_info(value)) for i, value in enumerate(first)]
    test, values = _block(importer, lambda: importer.import_graph(test_graph, [*variables, *given]))
    body, results = _block(
        importer,
        lambda: _tensors(importer, importer.import_graph(body_graph, [*variables, *given])),
    )
    condition = values[0]
    inner = free_vars(SeqExpr([test, body], Tuple([condition, *results])))
    captured = [var for var in inner if var not in variables]
    params = [*variables, *captured]
    arguments = [*first, *captured]
    sizes = _free_sizes(SeqExpr([test, body], Tuple([condition, *results])), params)
    if sizes:
        params.append(Var("sizes", ShapeStructInfo(sizes)))
        arguments.append(ShapeExpr(sizes))
    infos = [known_struct_info(var) for var in variables]
    info = TupleStructInfo(infos)
    name = GlobalVar(importer.block_builder.get_unique_name("loop"))
    name.describe(FuncStructInfo([known_struct_info(param) for param in params], info))

    def whole() -> list[Any]:
        again = [*results, *captured, *([ShapeExpr(sizes)] if sizes else [])]
        step, value = _block(
            importer,
            lambda: [importer.block_builder.emit(Call(name, again, None, (), None))],
        )
        goes_on = _condition(importer, condition)
        return [
            importer.block_builder.emit(
                If(goes_on, SeqExpr([body, step], value[0]), SeqExpr([], Tuple(variables)))
            )
        ]

    block, result = _block(importer, whole)
    function = Function(params, SeqExpr([test, block], result[0]), info, True, {})
    function = copy_with_new_vars(function)
    importer.block_builder.update_func(name, function)
    name.describe(function.struct_info)
    found = importer.block_builder.emit(Call(name, arguments))
    fields = [TupleGetItem(found, index) for index in range(len(variables))]
    return list(importer.bind(fields, node.meta.get("val")))


def _free_sizes(whole: SeqExpr, params: list[Var]) -> list[Any]:
    """Return the sizes that are used inside and that no parameter tells."""
    known = {size for var in params for size in definable_symbolic_vars(known_struct_info(var))}
    nodes: list[Any] = [known_struct_info(param) for param in params]
    for binding in bindings_of(whole):
        nodes += [known_struct_info(binding.var), binding.value]
    used = dict.fromkeys([size for node in nodes for size in symbolic_vars(node)])
    return [size for size in used if size not in known]


HIGHER_ORDER: dict[str, Callable[[Any, Any], Any]] = {"cond": _cond, "while_loop": _while_loop}
"""Operators of torch that take graphs."""
