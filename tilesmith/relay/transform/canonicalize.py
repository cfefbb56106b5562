"""Writes operators in terms of simpler ones, and programs in the form that other passes expect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import GlobalVar, IRModule, Op, TypeCall
from tilesmith.ir.adt import Constructor
from tilesmith.relax.analysis.op_pattern import FusionKind
from tilesmith.relay.expr import Call, Constant, const, var
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.op.patterns import pattern_of
from tilesmith.relay.parser import parse
from tilesmith.relay.rewriting import rewrite, rewrite_typed
from tilesmith.relay.transform.calls import dtype_of, is_call
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of, is_closed, with_parts

__all__ = ["AnnotateSpans", "CanonicalizeCast", "CanonicalizeOps", "DivToMul", "EtaExpand"]


@relay_pass("CanonicalizeOps", 3, ["InferType"])
def CanonicalizeOps(mod: IRModule) -> IRModule:
    """Write bias_add as an addition of a vector in a shape that is broadcast."""
    mod = infer_module(mod)
    bias_add, add = Op.get("nn.bias_add"), Op.get("add")

    def changed(node: Any) -> Any:
        if not isinstance(node, Call) or node.op is not bias_add:
            return node
        data, bias = node.args
        rank = len(data.checked_type.shape)
        attrs: Any = node.attrs
        after = rank - 1 - attrs.axis % rank
        if after:
            bias = Call(Op.get("expand_dims"), (bias,), {"axis": 1, "num_newaxis": after})
        return Call(add, (data, bias), span=node.span)

    for variable, function in functions_of(mod):
        mod[variable] = rewrite(function, changed)
    return mod


@relay_pass("DivToMul", 0)
def DivToMul(mod: IRModule) -> IRModule:
    """Write divisions of floats by constants as multiplications."""
    divide, multiply = Op.get("divide"), Op.get("multiply")

    def changed(node: Any) -> Any:
        divisor = node.args[1] if isinstance(node, Call) and node.op is divide else None
        if isinstance(divisor, Constant):
            data = node.args[0]
            dtype = divisor.data.dtype
            if dtype.is_float:
                with numpy.errstate(divide="ignore"):
                    factor = const(1 / divisor.data.numpy(), str(dtype))
                return Call(multiply, (data, factor), span=node.span)
        return node

    for variable, function in functions_of(mod):
        mod[variable] = rewrite(function, changed)
    return mod


@relay_pass("EtaExpand", 1)
def EtaExpand(
    mod: IRModule, expand_constructor: bool = False, expand_global_var: bool = False
) -> IRModule:
    """Write constructors, and variables of functions, that are values rather than called, as
    functions that call them.
    """

    def expanded(callee: Any) -> Any:
        if isinstance(callee, Constructor):
            definition: Any = mod[callee.belong_to]
            types, params = definition.type_vars, callee.inputs
            result: Any = TypeCall(callee.belong_to, types) if types else callee.belong_to
        else:
            written: Any = mod[callee]
            declared = written.declared_type()
            types, params, result = declared.type_params, declared.arg_types, written.ret_type
        names = [var(f"eta{number}", type_) for number, type_ in enumerate(params)]
        return Function(names, Call(callee, names), result, types)

    for variable, function in functions_of(mod):
        made: dict[int, Any] = {}

        def changed(node: Any, made: dict[int, Any] = made) -> Any:
            if isinstance(node, Call) and id(node.op) in made:
                return node.with_fields(op=made[id(node.op)])
            is_wanted = (expand_constructor and isinstance(node, Constructor)) or (
                expand_global_var
                and isinstance(node, GlobalVar)
                and node in mod
                and isinstance(mod[node], Function)
            )
            if not is_wanted:
                return node
            new = expanded(node)
            made[id(new)] = node
            return new

        mod[variable] = rewrite(function, changed)
    return mod


@relay_pass("AnnotateSpans", 0)
def AnnotateSpans(mod: IRModule) -> IRModule:
    """Print the program and parse it again: then each expression knows its place in that text."""
    return parse(mod.astext(), "program")


@relay_pass("CanonicalizeCast", 3, ["InferType"])
def CanonicalizeCast(mod: IRModule) -> IRModule:
    """Give each user of a conversion to a wider dtype a conversion of its own, which then fuses
    with it: what is shared, and stored, is the narrow value.
    """
    mod = infer_module(mod)
    for variable, function in functions_of(mod):
        taken: set[int] = set()

        def own(operand: Any, taken: set[int] = taken) -> Any:
            if not _widens(operand):
                return operand
            if id(operand) in taken:
                return operand.with_fields(span=operand.span)  # another node
            taken.add(id(operand))
            return operand

        def changed(node: Any, own: Callable[[Any], Any] = own) -> Any:
            if not is_call(node) or pattern_of(node.op) > FusionKind.INJECTIVE:
                return node
            return with_parts(node, [node.op, *[own(arg) for arg in node.args]])

        if not is_closed(function):
            mod[variable] = rewrite_typed(function, changed)
    return mod


def _widens(node: Any) -> bool:
    """Return whether an expression converts a tensor to a dtype of more bits."""
    if not is_call(node, "cast"):
        return False
    narrow, wide = dtype_of(node.args[0]), dtype_of(node)
    return narrow is not None and wide is not None and bool(narrow.bits < wide.bits)
