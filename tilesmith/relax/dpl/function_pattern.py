"""Makes patterns of functions, and replaces several values of a block at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.ir import GlobalVar, IntImm, Op
from tilesmith.relax.analysis import used_vars
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.dpl.matcher import match_expr
from tilesmith.relax.dpl.pattern import (
    AttrPattern,
    CallPattern,
    DFPattern,
    ExprPattern,
    ExternFuncPattern,
    GlobalVarPattern,
    PrimArrPattern,
    StructInfoPattern,
    TupleGetItemPattern,
    TuplePattern,
    WildcardPattern,
)
from tilesmith.relax.expr import (
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataTypeImm,
    ExternFunc,
    Function,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    as_expr,
    known_struct_info,
)
from tilesmith.relax.relations import is_base_of, symbolic_vars
from tilesmith.relax.struct_info import StructInfo, TensorStructInfo
from tilesmith.support.errors import TypeMismatchError, UnsupportedError

__all__ = ["pattern_of_function", "replace_tuples"]

Rewriter = Callable[[Any, dict[Any, Any]], Any]


def pattern_of_function(function: Any) -> tuple[list[DFPattern], list[DFPattern], bool]:
    """Return the patterns of a function's parameters and results, and whether it gives a tuple.

    A parameter matches whatever has its struct info, in any symbolic sizes.
    """
    if not isinstance(function, Function) or function.body is None:
        raise TypeMismatchError("the function 'pattern' is one of the graph, with a body")
    known: dict[Any, DFPattern] = {}
    params: list[DFPattern] = []
    for param in function.params:
        params.append(StructInfoPattern(WildcardPattern(), _any_sizes(known_struct_info(param))))
        known[param] = params[-1]
    for block in function.body.blocks:
        for binding in block.bindings:
            known[binding.var] = _pattern(binding.value, known)
    result = known.get(function.body.body) or _pattern(function.body.body, known)
    is_tuple = isinstance(result, TuplePattern)
    return params, list(result.fields) if is_tuple else [result], is_tuple  # type: ignore[attr-defined]


def _any_sizes(info: StructInfo) -> StructInfo:
    """Return a struct info without its shape if that is symbolic."""
    if isinstance(info, TensorStructInfo) and symbolic_vars(info):
        return TensorStructInfo(None, info.dtype, info.vdevice, info.ndim)
    return info


def _pattern(value: Any, known: dict[Any, DFPattern]) -> DFPattern:
    """Return the pattern of a value in normal form."""
    if isinstance(value, Var) and value in known:
        return known[value]
    if isinstance(value, Call):
        callee = _callee(value.op, known)
        made: DFPattern = CallPattern(callee, [_pattern(one, known) for one in value.args])
        attrs = {} if value.attrs is None else dict(value.attrs.items())
        return AttrPattern(made, attrs) if attrs else made
    if isinstance(value, Tuple):
        return TuplePattern([_pattern(one, known) for one in value.fields])
    if isinstance(value, TupleGetItem):
        return TupleGetItemPattern(_pattern(value.tuple_value, known), value.index)
    if isinstance(value, ShapeExpr):
        if all(isinstance(size, IntImm) for size in value.values):
            return PrimArrPattern(list(value.values))
        return WildcardPattern()
    if isinstance(value, (Constant, PrimValue, StringImm, DataTypeImm)):
        return ExprPattern(value)
    raise UnsupportedError(
        f"the function 'pattern' has a value of kind {type(value).__name__}",
        notes=("patterns are made of calls, tuples and constants",),
    )


def _callee(op: Any, known: dict[Any, DFPattern]) -> DFPattern:
    if isinstance(op, Op):
        return ExprPattern(op)
    if isinstance(op, GlobalVar):
        return GlobalVarPattern(op.name_hint)
    if isinstance(op, ExternFunc):
        return ExternFuncPattern(op.global_symbol)
    return _pattern(op, known)


# Several values at once


def replace_tuples(function: Function, patterns: Sequence[DFPattern], rewrite: Rewriter) -> Any:
    """Replace values of a block that match patterns together by the fields of what ``rewrite``
    gives for the tuple of them.
    """
    if function.body is None:
        return function
    values: dict[Var, Any] = {}
    blocks: list[BindingBlock] = []
    for block in function.body.blocks:
        values.update({binding.var: binding.value for binding in block.bindings})
        blocks.append(_replaced(block, values, list(patterns), rewrite))
    if all(a is b for a, b in zip(blocks, function.body.blocks)):
        return function
    body = SeqExpr(blocks, function.body.body, function.body.span)
    return function.with_fields(body=body)


def _replaced(
    block: BindingBlock, values: dict[Var, Any], patterns: list[DFPattern], rewrite: Rewriter
) -> BindingBlock:
    """Replace what matches in the block as it is given; new values are not looked at again."""
    rows = [
        [one.var for one in block.bindings if match_expr(pattern, one.value, values) is not None]
        for pattern in patterns
    ]
    done: set[Var] = set()
    for chosen in itertools.product(*rows):
        if len(set(chosen)) != len(chosen) or not done.isdisjoint(chosen):
            continue
        whole = Tuple(chosen)
        matched = match_expr(TuplePattern(patterns), whole, values)
        made = whole if matched is None else rewrite(whole, matched)
        changed = None if made is whole or made is None else _with_fields(block, chosen, made)
        if changed is not None:
            done.update(chosen)
            block = changed
            values.update({binding.var: binding.value for binding in block.bindings})
    return block


def _with_fields(
    block: BindingBlock, chosen: tuple[Var, ...], replacement: Any
) -> BindingBlock | None:
    """Return a block in which variables are bound to the fields of a value; None if there is no
    place for it: behind what it needs, before the first use of the variables.
    """
    made = as_expr(replacement)
    needed = set(_free(made))
    place = 0
    for number, binding in enumerate(block.bindings):
        if binding.var in needed:
            place = number + 1
    for number, binding in enumerate(block.bindings):
        used = set(used_vars(binding.value))
        if number < place and used & set(chosen) and binding.var not in chosen:
            return None
    if needed & set(chosen):
        return None
    builder = BlockBuilder()
    is_dataflow = isinstance(block, DataflowBlock)
    (builder.begin_dataflow_block if is_dataflow else builder.begin_binding_block)()
    for number, binding in enumerate(block.bindings):
        if number == place:
            _bind_fields(builder, chosen, builder.normalize(made))
        if binding.var not in chosen:
            builder.emit_normalized(binding)
    if place == len(block.bindings):
        _bind_fields(builder, chosen, builder.normalize(made))
    return builder.end_block()


def _free(made: Any) -> list[Var]:
    """Return the variables that a value needs, without those that it binds itself."""
    if not isinstance(made, SeqExpr):
        return list(used_vars(made))
    bindings = [one for block in made.blocks for one in block.bindings]
    bound = {one.var for one in bindings}
    used = [var for one in bindings for var in used_vars(one.value)]
    return [var for var in (*used, *used_vars(made.body)) if var not in bound]


def _bind_fields(builder: BlockBuilder, chosen: tuple[Var, ...], value: Any) -> None:
    written = builder.lookup_binding(value) if isinstance(value, Var) else value
    if not isinstance(written, Tuple):
        whole = value if isinstance(value, Var) else builder.emit(value)
        written = Tuple([TupleGetItem(whole, number) for number in range(len(chosen))])
    for var, field in zip(chosen, written.fields):
        if not is_base_of(known_struct_info(var), known_struct_info(field)):
            raise TypeMismatchError(
                f"the replacement of '{var.name_hint}' has another type than the value"
            )
        builder.emit_normalized(VarBinding(var, field))
