"""Annotate: puts a simulated quantisation at each operand of a product that becomes integers.

A rule of an operator, ``rule(ref_call, new_args, ctx)``, gives the new call; a `QAnnotateExpr` says
that its value is quantised, or is a sum of quantised products, and None that it stays in floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import IRModule, Op, register_op_attr
from tilesmith.relay.expr import Call, Constant, Tuple, const
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.op.annotation import annotation
from tilesmith.relay.op.view import make_call
from tilesmith.relay.quantize.config import QAnnotateKind, QuantizeContext, operator_name
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of, parts, post_order, with_parts

__all__ = [
    "ANNOTATE", "QAnnotateExpr", "annotate", "attach_simulated_quantize", "is_simulated",
    "register_annotate_function", "sites",
]  # fmt: skip

ANNOTATE = "FQAnnotateRewrite"
"""The attribute of operators that holds their rule."""
INPUT, WEIGHT, ACTIVATION = QAnnotateKind.INPUT, QAnnotateKind.WEIGHT, QAnnotateKind.ACTIVATION


class QAnnotateExpr:
    """An expression while annotate runs, and what its value is."""

    def __init__(self, expr: Any, kind: int) -> None:
        self.expr = expr
        self.kind = kind

    def realize(self) -> Any:
        """Return the expression."""
        return self.expr


def register_annotate_function(op_name: str, frewrite: Any = None, level: int = 10) -> Any:
    """Register the rule of an operator, ``frewrite(ref_call, new_args, ctx)``; a decorator without
    ``frewrite``. Arguments are expressions or `QAnnotateExpr`.
    """
    return register_op_attr(op_name, ANNOTATE, frewrite, level)


def attach_simulated_quantize(
    data: Any, kind: int, sign: bool = True, rounding: str = "round"
) -> Any:
    """Return the simulated quantisation of an expression; the same for each of its users."""
    context = QuantizeContext.Current
    known = context.qnode_map if context is not None else {}
    key = (id(data), kind, sign, rounding)
    if key in known:
        return known[key][0]
    one = const(numpy.float32(1.0))
    operands = [data, one, const(numpy.float32(-127.0)), const(numpy.float32(127.0))]
    attributes = {"kind": kind, "sign": sign, "rounding": rounding}
    made = make_call(annotation.SIMULATED_QUANTIZE, operands, attributes)
    known[key] = made, data
    return made


def _plain(arg: Any) -> Any:
    return arg.expr if isinstance(arg, QAnnotateExpr) else arg


def _again(call: Call, args: Any) -> Any:
    return with_parts(call, [call.op, *[_plain(arg) for arg in args]])


def _operand(arg: Any, kind: int = INPUT) -> Any:
    """Return an operand of a product: quantised, if it is not that already."""
    if isinstance(arg, QAnnotateExpr) and arg.kind in (INPUT, WEIGHT):
        return arg.expr
    return attach_simulated_quantize(_plain(arg), kind)


def _product(call: Call, args: Any, ctx: QuantizeContext) -> Any:
    if ctx.check_to_skip(call):
        return None
    kind = WEIGHT if isinstance(_plain(args[1]), Constant) else INPUT
    return QAnnotateExpr(_again(call, [_operand(args[0]), _operand(args[1], kind)]), ACTIVATION)


def _bias(call: Call, args: Any, ctx: QuantizeContext) -> Any:
    """A sum of products plus a constant, or times one, stays a sum of products."""
    known = [isinstance(arg, QAnnotateExpr) for arg in args]
    fixed = [isinstance(_plain(arg), Constant) for arg in args]
    if not any(known) or not any(fixed):
        return None
    return QAnnotateExpr(_again(call, args), ACTIVATION)


def _sum(call: Call, args: Any, ctx: QuantizeContext) -> Any:
    """A sum of two values: all but one sum of products are quantised before they are added."""
    known = [isinstance(arg, QAnnotateExpr) for arg in args]
    fixed = [isinstance(_plain(arg), Constant) for arg in args]
    if not any(known) or not all(one or other for one, other in zip(known, fixed)):
        return None
    if any(fixed):
        return QAnnotateExpr(_again(call, args), ACTIVATION)
    kept = 1 if args[0].kind != ACTIVATION and args[1].kind == ACTIVATION else 0
    if not _is_fresh(args[kept].expr):
        kept = 1 - kept if _is_fresh(args[1 - kept].expr) else kept
    args = [arg if place == kept else _operand(arg) for place, arg in enumerate(args)]
    return QAnnotateExpr(_again(call, args), ACTIVATION)


def _is_fresh(expr: Any) -> bool:
    """Return whether a value is a product, maybe with a bias: then nothing else uses its floats."""
    while operator_name(expr) in ("add", "nn.bias_add"):
        expr = expr.args[0]
    return operator_name(expr) in ("nn.conv2d", "nn.dense")


def _same(call: Call, args: Any, ctx: QuantizeContext) -> Any:
    """What moves or limits elements gives what it gets."""
    if not isinstance(args[0], QAnnotateExpr):
        return None
    return QAnnotateExpr(_again(call, args), args[0].kind)


def _rounded(call: Call, args: Any, ctx: QuantizeContext) -> Any:
    """A mean is one of quantised elements."""
    if not isinstance(args[0], QAnnotateExpr):
        return None
    return QAnnotateExpr(_again(call, [_operand(args[0]), *args[1:]]), ACTIVATION)


def _joined(call: Call, args: Any, ctx: QuantizeContext) -> Any:
    data = _plain(args[0])
    kinds = [ctx.qnode_map.get(("kind", id(one))) for one in getattr(data, "fields", ())]
    if not isinstance(data, Tuple) or not kinds or None in kinds:
        return None
    fields = Tuple(
        [
            attach_simulated_quantize(one, INPUT) if kind == ACTIVATION else one
            for one, kind in zip(data.fields, kinds)
        ]
    )
    return QAnnotateExpr(_again(call, [fields]), INPUT)


for _name in ("nn.conv2d", "nn.conv2d_transpose", "nn.dense", "nn.batch_matmul"):
    register_annotate_function(_name, _product)
register_annotate_function("nn.bias_add", _bias)
register_annotate_function("multiply", _bias)
register_annotate_function("add", _sum)
for _name in (
    "nn.relu", "clip", "nn.max_pool2d", "nn.batch_flatten", "reshape", "squeeze", "transpose",
    "strided_slice", "expand_dims", "nn.pad", "annotation.stop_fusion",
):  # fmt: skip
    register_annotate_function(_name, _same)
for _name in ("nn.avg_pool2d", "nn.global_avg_pool2d", "mean"):
    register_annotate_function(_name, _rounded)
register_annotate_function("concatenate", _joined)


def _hinted(call: Any, args: Any, ctx: QuantizeContext) -> Any:
    """A value that partition marked is quantised here; the mark has done its work."""
    if str(call.attrs.dtype) not in ("int8", "uint8"):
        return QAnnotateExpr(_plain(args[0]), ACTIVATION)
    return QAnnotateExpr(_operand(args[0]), INPUT)


register_annotate_function("annotation.cast_hint", _hinted)


def _annotated(function: Function, ctx: QuantizeContext) -> Function:
    done: dict[int, Any] = {}
    kept: list[Any] = []
    for node in post_order(function):
        found = [done[id(part)] for part in parts(node)]
        made: Any = None
        if isinstance(node, Call) and isinstance(node.op, Op):
            rule: Callable[..., Any] | None = node.op.get_attr(ANNOTATE)
            made = None if rule is None else rule(node, found[1:], ctx)
        if made is None:
            made = with_parts(node, [_plain(one) for one in found])
        if isinstance(made, QAnnotateExpr):
            ctx.qnode_map["kind", id(made.expr)] = made.kind
            kept.append(made.expr)
        done[id(node)] = made
    result: Function = _plain(done[id(function)])
    return result


@relay_pass("QuantizeAnnotate", 1, ["InferType"])
def annotate(mod: IRModule) -> IRModule:
    """Put simulated quantisations at the operands of what becomes products of integers."""
    mod = infer_module(mod)
    for variable, function in functions_of(mod):
        with QuantizeContext() as context:
            mod[variable] = _annotated(function, context)
    return infer_module(mod)


def is_simulated(node: Any) -> bool:
    """Return whether an expression is a simulated quantisation."""
    name = annotation.SIMULATED_QUANTIZE
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == name


def sites(function: Function) -> list[Call]:
    """Return the simulated quantisations of a function, in the order of computation."""
    return [node for node in post_order(function) if is_simulated(node)]
