"""Partition: marks the operands of products that will be quantised; splits conversions off.

A rule of an operator, ``rule(ref_call, new_args, ctx)``, gives a `QPartitionExpr` for a value that
is to be quantised wherever it is used.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, IRModule, Op, register_op_attr
from tilesmith.relay.expr import Call, Tuple, TupleGetItem, Var
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.op.view import make_call
from tilesmith.relay.quantize.config import QuantizeContext, current_qconfig
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of, parts, post_order, with_parts
from tilesmith.support.errors import UnsupportedError

__all__ = [
    "QPartitionExpr", "partition", "register_partition_function", "split_conversions",
]  # fmt: skip

PARTITION = "FQPartitionRewrite"


class QPartitionExpr:
    """An expression whose value is to be quantised."""

    def __init__(self, expr: Any) -> None:
        self.expr = expr

    def realize(self) -> Any:
        """Return the expression with the mark that annotate looks for."""
        dtype = current_qconfig().dtype_input
        return make_call("annotation.cast_hint", [self.expr], {"dtype": dtype})


def register_partition_function(op_name: str, frewrite: Any = None, level: int = 10) -> Any:
    """Register the rule of an operator, ``frewrite(ref_call, new_args, ctx)``; a decorator without
    ``frewrite``.
    """
    return register_op_attr(op_name, PARTITION, frewrite, level)


def _partitioned(function: Function, ctx: QuantizeContext) -> Any:
    done: dict[int, Any] = {}
    for node in post_order(function):
        found = [done[id(part)] for part in parts(node)]
        made: Any = None
        if isinstance(node, Call) and isinstance(node.op, Op):
            rule = node.op.get_attr(PARTITION)
            made = None if rule is None else rule(node, found[1:], ctx)
        if made is None:
            made = with_parts(node, found)
        done[id(node)] = made.realize() if isinstance(made, QPartitionExpr) else made
    return done[id(function)]


@relay_pass("QuantizePartition", 1, ["InferType"])
def partition(mod: IRModule) -> IRModule:
    """Mark values that are to be quantised, by the rules that programs registered; `annotate` finds
    the operands of products by itself.
    """
    mod = infer_module(mod)
    for variable, function in functions_of(mod):
        with QuantizeContext() as context:
            mod[variable] = _partitioned(function, context)
    return infer_module(mod)


def _is(node: Any, name: str) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == name


def split_conversions(mod: IRModule, is_integral: bool) -> IRModule:
    """Return a module whose ``main`` calls three functions: ``quantize_inputs``,
    ``quantized_main``, ``dequantize_outputs``.

    Raises UnsupportedError if ``is_integral`` and floats are left in the middle.
    """
    main: Any = infer_module(mod)["main"]
    params = {id(param) for param in main.params}
    firsts: list[Any] = [
        node for node in post_order(main.body)
        if _is(node, "qnn.quantize") and id(node.args[0]) in params
    ]  # fmt: skip
    inner = {
        id(one): Var(f"q{place}", one.struct_info, dialect="relay")
        for place, one in enumerate(firsts)
    }
    outs: Any = main.body.fields if isinstance(main.body, Tuple) else (main.body,)
    lasts: list[Any] = [one.args[0] if _is(one, "qnn.dequantize") else one for one in outs]
    middle = _replaced(Tuple(lasts), inner)
    used = {id(node) for node in post_order(middle)}
    passed = [param for param in main.params if id(param) in used]
    middle_function = Function([*inner.values(), *passed], middle)
    _check_integral(middle_function, is_integral)
    results = [
        Var(f"r{place}", one.struct_info, dialect="relay") for place, one in enumerate(lasts)
    ]
    ends = [
        make_call("qnn.dequantize", [result, *one.args[1:]], one.attrs)
        if one is not last
        else result
        for one, last, result in zip(outs, lasts, results)
    ]
    made = IRModule({}, attrs=mod.attrs)
    names = [
        GlobalVar(name) for name in ("quantize_inputs", "quantized_main", "dequantize_outputs")
    ]
    made[names[0]] = Function(list(main.params), Tuple(firsts))
    made[names[1]] = middle_function
    made[names[2]] = Function(results, ends[0] if len(ends) == 1 else Tuple(ends))
    quantized = Call(names[0], list(main.params))
    fields = [TupleGetItem(quantized, place) for place in range(len(firsts))]
    computed = Call(names[1], [*fields, *passed])
    body = Call(names[2], [TupleGetItem(computed, place) for place in range(len(lasts))])
    made["main"] = Function(list(main.params), body)
    return infer_module(made)


def _replaced(expr: Any, values: dict[int, Any]) -> Any:
    """Return an expression in which some nodes, by identity, are others."""
    done: dict[int, Any] = {}
    for node in post_order(expr, lambda node: id(node) not in values):
        if id(node) in values:
            done[id(node)] = values[id(node)]
        else:
            done[id(node)] = with_parts(node, [done[id(part)] for part in parts(node)])
    return done[id(expr)]


def _check_integral(function: Function, is_integral: bool) -> None:
    if not is_integral:
        return
    for node in post_order(function.body):
        if isinstance(node, Call) and isinstance(node.op, Op):
            dtype = getattr(node.struct_info, "dtype", None)
            if dtype is not None and dtype.is_float:
                raise UnsupportedError(
                    f"partition_conversions='fully_integral': {node.op.name} computes floats",
                    notes=("skip_conv_layers=[] and skip_dense_layer=False quantise all layers",),
                )
